"""``nrs fit``: a table file in, a judged model and its report out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import (
    AsJson,
    Categorical,
    Drop,
    Encoding,
    Jobs,
    LabelledParts,
    Seed,
    Targets,
    Task,
    echo_json,
    echo_scores,
    score_line,
)

if TYPE_CHECKING:
    from nrs.files.fit import FittedFile, LabelledTable

# Those of the estimators, told before a table is read.
_PRESETS = ("default", "fast", "best", "single", "paper")
# What the name of a table file ends with, packed or not; sales.2024.csv is not sales.csv.
_SUFFIXES = re.compile(
    r"(\.(csv|tsv|txt|dat|jsonl?|ndjson|parquet|pq|arrow|feather|ipc))?(\.(gz|bz2|zst|lz4))?$", re.I
)
# Rows of the schema that fit a screen.
_MOST_SHOWN = 30

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The model file; else FILE's name with .safetensors."),
]
Report = Annotated[bool, typer.Option(help="Write a page beside the model.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]


@refusals
def fit(
    source: LabelledParts,
    target: Targets,
    task: Task = "auto",
    preset: Annotated[
        str, typer.Option(help="default, fast, best, single or paper; see the documentation.")
    ] = "default",
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds that training may take.", show_default=False)
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    report: Report = True,
    drop: Drop = None,
    categorical: Categorical = None,
    jobs: Jobs = 1,
    workers: Annotated[
        int, typer.Option(help="Processes on this machine; more machines by torchrun.", min=1)
    ] = 1,
    divide: Annotated[
        str, typer.Option(help="What processes share: rows, members of the forest, or auto.")
    ] = "auto",
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="A folder to go on from, should the fit be killed.", show_default=False),
    ] = None,
    encoding: Encoding = "utf-8",
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read a Parquet or Arrow file piece by piece."),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table, judge it by rows it did not learn from, and write both down.

    Several targets are predicted by one model: all numbers, or all of two values. A folder, a
    quoted pattern such as 'rows/*.parquet', or a Parquet file above 1 GB is streamed: it need not
    fit in memory.

    Example: nrs fit churn.csv --target churned --drop customer_id

    Several machines: torchrun --nnodes 2 … -m nrs fit churn.csv --target churned
    """
    if preset not in _PRESETS:
        raise ValueError(f"--preset must be {', '.join(_PRESETS)}, however: {preset!r}")
    model_path, page_path = output_paths(source, out)
    from nrs.files.fit import fit_table
    from nrs.training.processes import processes

    columns = {"drop": drop or [], "categorical": categorical or []}
    # Those of a launcher such as torchrun, if there is one; one of them talks and writes.
    with processes() as group:
        table = _read(source, target, task, columns, encoding, stream)
        talks = not (quiet or as_json) and group.is_writer
        if talks:
            print_schema(table)
        fitted = fit_table(
            table,
            seed=seed,
            preset=preset,
            time_limit=time_limit,
            n_jobs=jobs,
            n_workers=workers,
            divide=divide,
            checkpoint=checkpoint,
            verbose=1 if talks else 0,
        )
    if not group.is_writer:
        return
    written = write_fitted(fitted, model_path, page_path if report else None)
    if as_json:
        echo_json(fit_facts(fitted, written))
    elif talks:
        about = fitted.model.about_
        typer.echo(f"\nfitted in {fitted.seconds:.1f} s")
        if fitted.judged is None:
            typer.echo("too few rows to judge it by; try it on others with: nrs evaluate")
        else:
            mean = "" if table.several is None else f", mean of {len(table.several.names)} targets"
            typer.echo(f"{about['judged_by']}{mean}: {score_line(about['scores'])}")
            if "scores_by_target" in about:
                echo_scores(about["scores_by_target"])
        typer.echo("wrote " + " and ".join(written))


def _read(
    source: str, target: Any, task: str, columns: dict[str, Any], encoding: str, stream: bool
) -> LabelledTable:
    from nrs.files.fit import read_labelled
    from nrs.files.fit_stream import is_streamed, survey_parts

    if stream or is_streamed(source):
        return survey_parts(source, target, task=task, **columns)
    return read_labelled(source, target, task=task, encoding=encoding, **columns)


def write_fitted(fitted: FittedFile, model_path: Path, page_path: Path | None) -> list[str]:
    """Write a model and, if it has a path, its page; gives the paths."""
    page = None
    if page_path is not None:
        from nrs.pages.fit_report import draw_fit_report

        # Drawn before anything is written: both files are there, or neither.
        page = draw_fit_report(fitted)
    fitted.model.save(model_path)
    if page_path is None or page is None:
        return [str(model_path)]
    from nrs._util.atomic import atomic_write

    with atomic_write(page_path) as file:
        file.write(page.encode())
    return [str(model_path), str(page_path)]


def output_paths(source: str, out: Path | None) -> tuple[Path, Path]:
    """Where the model and its page go."""
    if out is None:
        if source == "-":
            raise ValueError("a model of standard input must be given a name; add --out NAME")
        # churn.csv.gz becomes churn.safetensors, beside where one is; rows/*.parquet becomes rows.
        steps = [_SUFFIXES.sub("", step) for step in Path(source).parts]
        named = [step for step in steps if step.strip(".") and not set(step) & set("*?[:/\\")]
        out = Path(named[-1] if named else "model")
    path = out if out.suffix == ".safetensors" else out.with_name(out.name + ".safetensors")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"the folder of the model must exist, however: {path.parent} does not; create it first"
        )
    return path, path.with_suffix(".html")


def fit_facts(fitted: FittedFile, written: list[str]) -> dict[str, Any]:
    """What a fit found, for programs."""
    table = fitted.table
    return {
        **fitted.model.about_,
        "why": table.why,
        "unlabelled": table.unlabelled,
        "classes": _classes(fitted),
        "columns": [
            {"name": one.name, "kind": one.kind, "values": one.values, "missing": one.missing}
            for one in table.columns
        ],
        "wrote": written,
    }


def _classes(fitted: Any) -> Any:
    several = fitted.table.several
    if several is not None and several.labels is not None:
        return dict(zip(several.names, several.labels, strict=True))
    return fitted.model.classes_.tolist() if fitted.table.task == "classification" else None


def print_schema(table: LabelledTable) -> None:
    """Tell how each column was understood."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from nrs.files.fit import describe_target

    console = Console()
    n_columns = len(table.columns)
    n_targets = 1 if table.several is None else len(table.several.names)
    beside = "the target" if n_targets == 1 else f"{n_targets} targets"
    typer.echo(f"{table.source}: {table.n_rows:,} rows, {n_columns} columns and {beside}")
    grid = Table("column", "kind", "values", box=None, header_style="bold", pad_edge=False)
    grid.add_column("missing", justify="right")
    for one in table.columns[:_MOST_SHOWN]:
        missing = f"{one.missing:,}" if one.missing else ""
        grid.add_row(*(Text(text) for text in (one.name, one.kind, one.values, missing)))
    console.print(grid)
    if n_columns > _MOST_SHOWN:
        typer.echo(f"… and {n_columns - _MOST_SHOWN} more columns")
    if table.several is None:
        described = table.target_values()
        typer.echo(f"target {table.target}: {table.task}, {described} ({table.why})")
    else:
        typer.echo(f"{n_targets} targets: {table.task} ({table.why})")
        for place, name in enumerate(table.several.names):
            truth = table.several.decode(place, table.truth[:, place])
            typer.echo(f"  {name}: {describe_target(truth, table.task)}")
    if table.unlabelled:
        typer.echo(f"left out {table.unlabelled:,} rows without a value of {table.target}")
    alike = [one.name for one in table.columns if one.is_identifier]
    if alike:
        quoted = shlex.quote(alike[0])
        typer.echo(f"every row has another {alike[0]}: leave it out with --drop {quoted}")
