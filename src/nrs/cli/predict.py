"""``nrs predict``: a model file and something it can read in, predictions out."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import AsJson, Encoding, Jobs, Model, echo_json

# The kind that a model file's header tells -> the module whose predict_file(model, input) reads
# such a model and such an input, and gives a row a prediction. Tables are streamed instead.
PREDICTORS = {
    "image": "nrs.vision.predict",
    "points": "nrs.points.predict",
}
# Written without pyarrow, which only those who work with tables need.
PLAIN = (".csv", ".json")


@refusals
def predict(
    model: Model,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A table (- for standard input; a folder or a quoted pattern for parts), a "
            "picture or folder of them, a mesh or cloud.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write here: .csv, .parquet, .arrow, .jsonl, .json."),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", "-p", help="The probability of each class too.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(help="Of a number, the interval that holds it this often, such as 0.9."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="A column of the table to hand through; may be repeated."),
    ] = None,
    jobs: Jobs = 1,
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Predict with a saved model; its header says what it reads.

    The rows of a table are read, predicted and written chunk by chunk, so that a file may be
    larger than memory. Pictures and point clouds are given their five most probable classes, always
    with their probabilities.

    Example: nrs predict churn.safetensors new.csv -o out.csv --keep customer_id
    """
    from nrs.training import read_kind

    check_files(model, source)
    kind = read_kind(model)
    if kind == "table":
        options = {"probabilities": probabilities, "interval": interval, "keep": keep or []}
        _predict_table(model, source, output, jobs, as_json, encoding=encoding, **options)
        return
    if kind not in PREDICTORS:
        raise ValueError(
            f"{model} must hold a model of kind table, {', '.join(PREDICTORS)}, however: its kind "
            f"is {kind!r}; nrs info {model} tells more"
        )
    if keep or interval is not None:
        raise ValueError(
            f"--keep and --interval must stand with a model of tables, however: {model} is of kind "
            f"{kind!r}; leave them out"
        )
    if output is not None:
        _check_listed_output(output)
    rows = importlib.import_module(PREDICTORS[kind]).predict_file(model, Path(source))
    _write_listed(rows, output, as_json)


def check_files(*paths: str | Path) -> None:
    """Refuse what is not there before anything heavy is imported.

    Raises
    ------
    FileNotFoundError
    """
    for path in paths:
        named = str(path) == "-" or any(sign in str(path) for sign in ("*", "?", "[", "://"))
        if not named and not Path(path).exists():
            raise FileNotFoundError(f"{path} must exist, however: it does not; check the name")


def _predict_table(
    model: Path, source: str, output: Path | None, jobs: int, as_json: bool, **options: Any
) -> None:
    from nrs.datasets.table_output import TableWriter, output_format
    from nrs.files.predict import load_model, predict_chunks, write_predictions

    if output is not None:
        output_format(output)
    fitted = load_model(model)
    fitted.n_jobs = jobs
    if output is None:
        chunks = predict_chunks(fitted, source, **options)
        # The first chunk is read before anything is printed.
        first = next(chunks)
        stdout = typer.get_binary_stream("stdout")
        with TableWriter(stdout, ".json" if as_json else ".csv") as writer:
            writer.write(first)
            for chunk in chunks:
                writer.write(chunk)
        return
    n_rows = write_predictions(fitted, source, output, **options)
    if as_json:
        echo_json({"rows": n_rows, "wrote": str(output)})
    else:
        typer.echo(f"{n_rows:,} predictions in {output}")


def _check_listed_output(output: Path) -> None:
    from nrs._util.optional import import_optional
    from nrs.datasets.table_output import output_format

    output_format(output)
    if output.suffix.lower() not in PLAIN:
        import_optional("pyarrow", f"writing {output.name}", "frames")


def _write_listed(rows: list[dict[str, Any]], output: Path | None, as_json: bool) -> None:
    if output is None:
        shown = _listed(rows) if "top" in rows[0] else _csv(rows)
        typer.echo(_json(rows) if as_json else shown, nl=False)
        return
    if output.suffix.lower() in PLAIN:
        from nrs._util.atomic import atomic_write

        text = _json(rows) if output.suffix.lower() == ".json" else _csv(rows)
        with atomic_write(output) as file:
            file.write(text.encode())
    else:
        _write_table(rows, output)
    if as_json:
        echo_json({"rows": len(rows), "wrote": str(output)})
    else:
        typer.echo(f"{len(rows)} predictions in {output}")


def _write_table(rows: list[dict[str, Any]], output: Path) -> None:
    import pyarrow

    from nrs.datasets.table_output import output_format, write_table_file

    # A JSON file has its classes in a list, packed or not; tables are flat.
    nested = output_format(output) == ".json"
    table = pyarrow.Table.from_pylist(rows if nested else [_flat(row) for row in rows])
    with write_table_file(output) as writer:
        writer.write(table)


def _json(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


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
