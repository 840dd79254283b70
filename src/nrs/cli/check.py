"""``nrs check``: what a user should know of a table before fitting a model to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import AsJson, Drop, Labelled
from nrs.cli.reading import reads_files
from nrs.cli.report import in_flags
from nrs.cli.terminal import echo, echo_json

# Arguments of the library that findings speak of, as options.
FLAGS = {name: f"--{name}" for name in ("dates", "decimal", "drop", "task")}


@refusals
@reads_files
def check(
    source: Labelled,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="COLUMN", help="Column to predict; adds checks of it."
        ),
    ] = None,
    drop: Drop = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", help="Model of nrs fit: compare the rows with those it was fitted to."
        ),
    ] = None,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Show how a table is read, and what in it makes a model or its scores worse than they look.

    IDs, constants, repeated rows, columns that give the target away, rare classes, mixed units.
    With --model: the columns that are spread otherwise than in training.

    Example: nrs check churn.csv --target churned

    Example: nrs check new.csv --model churn.safetensors
    """
    from nrs.cli.predict import check_files
    from nrs.datasets.convert import notes_of
    from nrs.datasets.table_files import read_table_file
    from nrs.files.check import check_labelled, check_new_rows, check_table
    from nrs.files.load import load_model
    from nrs.files.read import describe_readings, find_readings, read_labelled
    from nrs.files.targets import split_names

    if model is not None:
        if target is not None or drop:
            raise ValueError("--model names the columns by itself; leave --target and --drop out")
        check_files(model)
        notes, said, findings = [], [], check_new_rows(load_model(model), source, **reading)
    elif target is None:
        table = read_table_file(source, **reading)
        notes = notes_of(table)
        dropped = split_names(drop or [], table.column_names)
        table = table.drop_columns(list(dict.fromkeys(dropped)))
        findings, said = check_table(table), describe_readings(find_readings(table))
    else:
        labelled = read_labelled(source, target, drop=drop or [], **reading)
        findings, said = check_labelled(labelled), describe_readings(labelled.readings)
        notes = labelled.notes
    said = [*notes, *said]
    if as_json:
        found = [one.to_dict() for one in findings]
        echo_json({"file": source, "read": said, "findings": found})
        return
    for line in [*said, *(one.text for one in findings)]:
        echo(in_flags(line, FLAGS))
    if not findings:
        echo("nothing to object to")
