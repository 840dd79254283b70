"""``nrs fit``: a table file in, a judged model and its report out."""

from __future__ import annotations

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
    Target,
    Task,
    echo_json,
    score_line,
)

if TYPE_CHECKING:
    from nrs.tabular.fit_file import LabelledTable

# Those of the estimators, told before a table is read.
_PRESETS = ("default", "fast", "best", "single", "paper")
# Rows of the schema that fit a screen.
_MOST_SHOWN = 30


@refusals
def fit(
    source: LabelledParts,
    target: Target,
    task: Task = "auto",
    preset: Annotated[
        str, typer.Option(help="default, fast, best, single or paper; see the documentation.")
    ] = "default",
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds that training may take.", show_default=False)
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The model file; else FILE's name with .safetensors."),
    ] = None,
    report: Annotated[bool, typer.Option(help="Write a page beside the model.")] = True,
    drop: Drop = None,
    categorical: Categorical = None,
    jobs: Jobs = 1,
    workers: Annotated[
        int, typer.Option(help="Processes on this machine; more machines by torchrun.", min=1)
    ] = 1,
    divide: Annotated[
        str, typer.Option(help="What processes share: rows, or members of the forest.")
    ] = "rows",
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="A folder to go on from, should the fit be killed.", show_default=False),
    ] = None,
    encoding: Encoding = "utf-8",
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read a Parquet or Arrow file piece by piece."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table, judge it by rows it did not learn from, and write both down.

    A folder, a quoted pattern such as 'rows/*.parquet', or a Parquet file above 1 GB is streamed:
    it need not fit in memory.

    Example: nrs fit churn.csv --target churned --drop customer_id

    Several machines: torchrun --nnodes 2 … -m nrs fit churn.csv --target churned
    """
    if preset not in _PRESETS:
        raise ValueError(f"--preset must be {', '.join(_PRESETS)}, however: {preset!r}")
    model_path, page_path = _outputs(source, out)
    from nrs.tabular.fit_file import fit_table
    from nrs.training.processes import processes

    columns = {"drop": drop or [], "categorical": categorical or []}
    # Those of a launcher such as torchrun, if there is one; one of them talks and writes.
    with processes() as group:
        table = _read(source, target, task, columns, encoding, stream)
        talks = not (quiet or as_json) and group.is_writer
        if talks:
            _print_schema(table)
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
    page = None
    if report:
        from nrs.pages.fit_report import draw_fit_report

        # Drawn before anything is written: both files are there, or neither.
        page = draw_fit_report(fitted)
    fitted.model.save(model_path)
    if page is not None:
        from nrs.core.atomic import atomic_write

        with atomic_write(page_path) as file:
            file.write(page.encode())
    written = [str(model_path), *([str(page_path)] if page is not None else [])]
    if as_json:
        echo_json(_facts(fitted, written))
    elif talks:
        about = fitted.model._about
        typer.echo(f"\nfitted in {fitted.seconds:.1f} s")
        if fitted.judged is None:
            typer.echo("too few rows to judge it by; try it on others with: nrs evaluate")
        else:
            typer.echo(f"{about['judged_by']}: {score_line(about['scores'])}")
        typer.echo("wrote " + " and ".join(written))


def _read(
    source: str, target: str, task: str, columns: dict[str, Any], encoding: str, stream: bool
) -> LabelledTable:
    from nrs.tabular.fit_file import read_labelled
    from nrs.tabular.fit_parts import is_streamed, survey_parts

    if stream or is_streamed(source):
        return survey_parts(source, target, task=task, **columns)
    return read_labelled(source, target, task=task, encoding=encoding, **columns)


def _outputs(source: str, out: Path | None) -> tuple[Path, Path]:
    if out is None:
        if source == "-":
            raise ValueError("a model of standard input must be given a name; add --out NAME")
        # churn.csv.gz becomes churn.safetensors, beside where one is; rows/*.parquet becomes rows.
        steps = [step.split(".")[0] for step in Path(source).parts]
        named = [step for step in steps if step and not set(step) & set("*?[:/\\")]
        out = Path(named[-1] if named else "model")
    path = out if out.suffix == ".safetensors" else out.with_name(out.name + ".safetensors")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"the folder of the model must exist, however: {path.parent} does not; create it first"
        )
    return path, path.with_suffix(".html")


def _facts(fitted: Any, written: list[str]) -> dict[str, Any]:
    table = fitted.table
    return {
        **fitted.model._about,
        "why": table.why,
        "unlabelled": table.unlabelled,
        "classes": fitted.model.classes_.tolist() if table.task == "classification" else None,
        "columns": [
            {"name": one.name, "kind": one.kind, "values": one.values, "missing": one.missing}
            for one in table.columns
        ],
        "wrote": written,
    }


def _print_schema(table: LabelledTable) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    n_columns = len(table.columns)
    typer.echo(f"{table.source}: {table.n_rows:,} rows, {n_columns} columns and the target")
    grid = Table("column", "kind", "values", box=None, header_style="bold", pad_edge=False)
    grid.add_column("missing", justify="right")
    for one in table.columns[:_MOST_SHOWN]:
        missing = f"{one.missing:,}" if one.missing else ""
        grid.add_row(*(Text(text) for text in (one.name, one.kind, one.values, missing)))
    console.print(grid)
    if n_columns > _MOST_SHOWN:
        typer.echo(f"… and {n_columns - _MOST_SHOWN} more columns")
    typer.echo(f"target {table.target}: {table.task}, {table.target_values()} ({table.why})")
    if table.unlabelled:
        typer.echo(f"left out {table.unlabelled:,} rows without a value of {table.target}")
    alike = [one.name for one in table.columns if one.is_identifier]
    if alike:
        typer.echo(f"every row has another {alike[0]}: leave it out with --drop {alike[0]}")
