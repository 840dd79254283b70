"""``nrs predict``: a model file and something it can read in, predictions out."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals

# The kind that a model file's header tells -> the module whose predict_file(model, input) reads
# such a model and such an input, and gives a row a prediction.
PREDICTORS = {
    "table": "nrs.tabular.predict",
    "image": "nrs.vision.predict",
    "points": "nrs.points.predict",
}


@refusals
def predict(
    model: Annotated[Path, typer.Argument(help="A model file that nrs saved.")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", help="A table, a picture or folder of them, a mesh or cloud."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write here instead: .csv, or .json."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Predict with a saved model; its header says what it reads.

    Pictures and point clouds are given their five most probable classes, the rows of a table
    their class or number.
    """
    rows = predictions(model, source)
    as_json = as_json or (output is not None and output.suffix == ".json")
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n" if as_json else ""
    if not as_json:
        text = _csv(rows) if output is not None or "top" not in rows[0] else _listed(rows)
    if output is None:
        typer.echo(text, nl=False)
        return
    from nrs.core.atomic import atomic_write

    with atomic_write(output) as file:
        file.write(text.encode())
    typer.echo(f"{len(rows)} predictions in {output}")


def predictions(model: Path, source: Path) -> list[dict[str, Any]]:
    """Rows of predictions for an input: ``input`` and ``top``, or the columns of a table.

    Raises
    ------
    ValueError
        If the model or the input cannot be read, or nothing predicts with such a model.
    FileNotFoundError
        If one of them is not there.
    """
    from nrs.training import read_kind

    for path in (model, source):
        if not path.exists():
            raise FileNotFoundError(f"{path} must exist, however: it does not")
    kind = read_kind(model)
    if kind not in PREDICTORS:
        raise ValueError(
            f"{model} must hold a model of kind {', '.join(PREDICTORS)}, however: its kind is "
            f"{kind!r}"
        )
    rows: list[dict[str, Any]] = importlib.import_module(PREDICTORS[kind]).predict_file(
        model, source
    )
    return rows


def _listed(rows: list[dict[str, Any]]) -> str:
    """Each input with its classes below."""
    lines = []
    for row in rows:
        lines.append(str(row["input"]))
        lines += [
            f"  {100 * entry['probability']:6.2f} %  {entry['label']}" for entry in row["top"]
        ]
        if "picture" in row:
            lines.append(f"  critical points in {row['picture']}")
    return "\n".join(lines) + "\n"


def _csv(rows: list[dict[str, Any]]) -> str:
    import csv
    import io

    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return file.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    if "top" not in row:
        return row
    flat = {name: value for name, value in row.items() if name != "top"}
    for place, entry in enumerate(row["top"], start=1):
        flat |= {f"label_{place}": entry["label"], f"probability_{place}": entry["probability"]}
    return flat
