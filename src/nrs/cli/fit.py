"""``nrs fit``: a table file in, a scored model and its report out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrs._util.atomic import atomic_write, check_output
from nrs.cli.check import FLAGS
from nrs.cli.errors import refusals
from nrs.cli.options import (
    AsJson,
    Categorical,
    ClassWeight,
    Drop,
    Force,
    Groups,
    Holdout,
    Jobs,
    LabelledParts,
    Loss,
    Metric,
    Monotone,
    Offset,
    Quantiles,
    QueryColumn,
    Seed,
    Targets,
    Task,
    Threshold,
    Time,
    Weight,
    check_jobs,
    class_settings,
    echo_scores,
    loss_of,
    score_line,
    signs_of,
)
from nrs.cli.reading import reads_files
from nrs.cli.report import in_flags
from nrs.cli.terminal import Grid, echo, echo_json

if TYPE_CHECKING:
    from nrs.files.fit import FittedFile
    from nrs.files.read import LabelledTable

# Those of the estimators, checked before a table is read.
_PRESETS = ("default", "fast", "best", "single", "paper")
# What the name of a table file ends with, compressed or not; sales.2024.csv is not sales.csv.
_SUFFIXES = re.compile(
    r"(\.(csv|tsv|txt|dat|jsonl?|ndjson|parquet|pq|arrow|feather|ipc))?(\.(gz|bz2|zst|lz4))?$", re.I
)
# Rows of the schema that fit a screen.
_MAX_SHOWN = 30

Out = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Model file; default: FILE's name with .safetensors."),
]
Report = Annotated[bool, typer.Option(help="Write an HTML report next to the model.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]


@refusals
@reads_files
def fit(
    source: LabelledParts,
    target: Targets,
    task: Task = "auto",
    preset: Annotated[
        str, typer.Option(help="default, fast, best, single or paper; see the documentation.")
    ] = "default",
    time_limit: Annotated[
        float | None, typer.Option(help="Time limit for training, in seconds.", show_default=False)
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    force: Force = False,
    report: Report = True,
    drop: Drop = None,
    categorical: Categorical = None,
    monotone: Monotone = None,
    loss: Loss = "squared",
    quantiles: Quantiles = None,
    offset: Offset = None,
    metric: Metric = None,
    class_weight: ClassWeight = None,
    threshold: Threshold = None,
    groups: Groups = None,
    time: Time = None,
    sample_weight: Weight = None,
    qid: QueryColumn = None,
    holdout: Holdout = None,
    jobs: Jobs = 1,
    workers: Annotated[
        int,
        typer.Option(
            help="Processes on this machine; several machines: torchrun.",
            min=1,
            callback=check_jobs,
        ),
    ] = 1,
    divide: Annotated[
        str, typer.Option(help="What the processes divide: rows, members, or auto.")
    ] = "auto",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Checkpoint folder; an interrupted fit resumes from it.", show_default=False
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read a Parquet or Arrow file in chunks."),
    ] = False,
    *,
    reading: dict[str, Any],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table; evaluate on held-out rows; save the model and a report.

    One model can predict several targets, if all are numeric or all have two values; with --loss
    aft the lower and the upper bound of times, of which the upper one may be empty. A folder, a
    quoted pattern such as 'rows/*.parquet', or a Parquet file above 1 GB is streamed: it need not
    fit in memory.

    Example: nrs fit churn.csv --target churned --drop customer_id

    Several machines: torchrun --nnodes 2 … -m nrs fit churn.csv --target churned
    """
    if preset not in _PRESETS:
        raise ValueError(f"preset must be one of {', '.join(_PRESETS)}; got {preset!r}")
    if qid is not None:
        _refuse_of_rankers(
            {
                "--task": task != "auto", "--quantiles": quantiles, "--offset": offset,
                "--monotone": monotone, "--class-weight": class_weight, "--threshold": threshold,
                "--groups": groups, "--time": time, "--divide": divide != "auto",
                "--stream": stream,
            }
        )  # fmt: skip
        wanted: dict[str, Any] = {} if loss == "squared" else {"loss": loss}
    else:
        wanted = loss_of(loss, quantiles)
    signs = signs_of(monotone)
    of_classes = class_settings(class_weight, threshold)
    # Counts are numbers, however few.
    task = "regression" if wanted and qid is None and task == "auto" else task
    if wanted and qid is None and task != "regression":
        raise ValueError("--loss and --quantiles are for a numeric target; leave --task out")
    model_path, page_path = output_paths(source, out, force=force, report=report)
    from nrs.files.check import check_labelled
    from nrs.files.fit import check_holdout, fit_table
    from nrs.files.read import is_streamed
    from nrs.files.scores import ScoredTargets
    from nrs.training.processes import processes

    columns: dict[str, Any] = {"drop": drop or [], "categorical": categorical or []}
    columns |= {"offset": offset, "groups": groups, "time": time, "sample_weight": sample_weight}
    columns |= {} if qid is None else {"qid": qid}
    columns |= {"bounds": True} if wanted.get("loss") == "aft" else {}
    # A ranker reads all rows: those of a query may be anywhere.
    stream = stream or (qid is None and is_streamed(source))
    check_holdout(holdout)
    parts = {} if holdout is None else {"holdout": holdout, "seed": seed}
    # The processes of a launcher such as torchrun, if there is one; one of them prints and writes.
    with processes() as group:
        table = _read(source, target, task, columns, reading, parts if stream else None)
        prints = not (quiet or as_json) and group.is_writer
        findings = check_labelled(table) if group.is_writer else []
        if prints:
            print_schema(table)
            for one in findings:
                echo(in_flags(one.text, FLAGS))
        fitted = fit_table(
            table,
            seed=seed,
            preset=preset,
            time_limit=time_limit,
            n_jobs=jobs,
            n_workers=workers,
            divide=divide,
            checkpoint=checkpoint,
            monotone=signs,
            metric=metric,
            holdout=holdout,
            **wanted,
            **of_classes,
            verbose=2 if prints else 0,
        )
    if not group.is_writer:
        return
    fitted = replace(fitted, findings=findings)
    written = write_fitted(fitted, model_path, page_path if report else None, int(prints))
    if as_json:
        echo_json(fit_facts(fitted, written))
    elif prints:
        about = fitted.about
        echo("", f"fitted in {fitted.seconds:.1f} s")
        if fitted.scored is None:
            echo("too few rows to score the model; use nrs evaluate on others")
        else:
            mean = "" if table.targets is None else f", mean of {len(table.targets.names)} targets"
            if not isinstance(fitted.scored, ScoredTargets):
                echo(f"{table.target}: {fitted.scored.headline()}")
            echo(f"{about['scored_on']}{mean}: {score_line(about['scores'])}")
            if "scores_by_target" in about:
                echo_scores(about["scores_by_target"])
        echo("wrote " + " and ".join(written))


def _refuse_of_rankers(given: dict[str, Any]) -> None:
    """Refuse options that are not for rankers."""
    for flag, value in given.items():
        if value:
            raise ValueError(f"{flag} is not for a ranker, which --qid asks for")


def _read(
    source: str,
    target: list[str],
    task: str,
    columns: dict[str, Any],
    reading: dict[str, Any],
    streamed: dict[str, Any] | None,
) -> LabelledTable:
    from nrs.files.read import read_labelled, scan_labelled

    if streamed is not None:
        if reading["overrides"]:
            raise ValueError(
                "--decimal, --dates, --na and --type are for text files and workbooks; a streamed "
                "table has types of its own. Leave them out."
            )
        return scan_labelled(source, target, task=task, **columns, **streamed)
    options: dict[str, Any] = {**reading, **columns}
    return read_labelled(source, target, task=task, **options)


def write_fitted(
    fitted: FittedFile, model_path: Path, page_path: Path | None, verbose: int = 0
) -> list[str]:
    """Write a model and, if it has a path, its report; return the paths."""
    page = None
    if page_path is not None:
        from nrs._util.progress import Bar
        from nrs.files.explained import explain_fitted
        from nrs.pages.fit_report import draw_fit_report

        with Bar("the report", verbose=verbose) as bar:
            explained = explain_fitted(
                fitted, lambda done, words: bar.update(completed=done, description=words)
            )
        # Drawn before anything is written, so that both files exist or neither.
        page = draw_fit_report(fitted, explained)
    fitted.model.save(model_path)
    if page_path is None or page is None:
        return [str(model_path)]
    with atomic_write(page_path) as file:
        file.write(page.encode())
    return [str(model_path), str(page_path)]


def output_paths(
    source: str, out: Path | None, *, force: bool = False, report: bool = True
) -> tuple[Path, Path]:
    """Where the model and its report go; neither may exist unless it is forced."""
    if out is None:
        if source == "-":
            raise ValueError("A model of rows from standard input needs a name; add --output NAME")
        # sub/churn.csv.gz becomes churn.safetensors, in this folder; rows/*.parquet becomes rows.
        steps = [_SUFFIXES.sub("", step) for step in Path(source).parts]
        named = [step for step in steps if step.strip(".") and not set(step) & set("*?[:/\\")]
        out = Path(named[-1] if named else "model")
    path = out if out.suffix == ".safetensors" else out.with_name(out.name + ".safetensors")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"Folder not found: {path.parent}; create it before a model is saved there"
        )
    page = path.with_suffix(".html")
    for output in (path, page):
        check_output(output)
        if output.exists() and not force and (report or output == path):
            raise FileExistsError(
                f"{output} exists already; --force replaces it, --output NAME writes another"
            )
    return path, page


def fit_facts(fitted: FittedFile, written: list[str]) -> dict[str, Any]:
    """The result of a fit, for programs."""
    table = fitted.table
    return {
        **fitted.about,
        "why": table.why,
        "unlabelled": table.unlabelled,
        "classes": _classes(fitted),
        "columns": [
            {"name": one.name, "kind": one.kind, "values": one.values, "missing": one.missing}
            for one in table.columns
        ],
        "findings": [one.to_dict() for one in fitted.findings],
        "wrote": written,
    }


def _classes(fitted: FittedFile) -> list[Any] | dict[str, list[Any]] | None:
    targets = fitted.table.targets
    if targets is not None:
        labels = targets.labels
        return None if labels is None else dict(zip(targets.names, labels, strict=True))
    classes = getattr(fitted.model, "classes_", None)
    return None if classes is None else list(classes.tolist())


def print_schema(table: LabelledTable) -> None:
    """Print how each column was read."""
    n_columns = len(table.columns)
    n_targets = len(table.summaries)
    and_targets = "the target" if n_targets == 1 else f"{n_targets} targets"
    echo(f"{table.source}: {table.n_rows:,} rows, {n_columns} columns and {and_targets}")
    grid = Grid()
    for name in ("column", "kind", "values", "missing"):
        grid.add_column(name, right=name == "missing")
    for one in table.columns[:_MAX_SHOWN]:
        missing = f"{one.missing:,}" if one.missing else ""
        grid.add_row(one.name, one.kind, one.values, missing)
    grid.print()
    if n_columns > _MAX_SHOWN:
        echo(f"… and {n_columns - _MAX_SHOWN} more columns")
    described = [one.describe(table.task) for one in table.summaries]
    if n_targets == 1:
        echo(f"target {table.target}: {table.task}, {described[0]} ({table.why})")
    else:
        echo(f"{n_targets} targets: {table.task} ({table.why})")
        for target, values in zip(table.summaries, described, strict=True):
            echo(f"  {target.name}: {values}")
    if table.unlabelled:
        echo(f"left out {table.unlabelled:,} rows without a value of {table.target}")
    from nrs.files.read import describe_readings

    for line in [*table.notes, *describe_readings(table.readings)]:
        echo(in_flags(line, FLAGS))
