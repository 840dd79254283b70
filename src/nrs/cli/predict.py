"""``nrs predict``: a model file and an input in, predictions out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.kinds import PACKAGES, end_skipped, work_of
from nrs.cli.options import AsJson, Jobs, Model
from nrs.cli.reading import reads_files
from nrs.cli.terminal import echo, echo_json, table_output

# Written without pyarrow, which only those who work with tables need.
PLAIN = (".csv", ".json")


@refusals
@reads_files
def predict(
    model: Model,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A table (- for standard input; a folder or a quoted pattern for parts), an "
            "image or a folder of images, a mesh or a point cloud.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file: .csv, .parquet, .arrow, .jsonl, .json."),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", "-p", help="Add the probability of each class.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Add the interval that contains the number with this probability, such as 0.9."
        ),
    ] = None,
    sets: Annotated[
        float | None,
        typer.Option(
            help="Add which classes make up the set that holds the label with this probability."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="COLUMN", help="Input column to copy to the output; may be repeated."
        ),
    ] = None,
    safe_csv: Annotated[
        bool,
        typer.Option(
            "--safe-csv",
            help="Put a quote before texts of a CSV output that a spreadsheet would run.",
        ),
    ] = False,
    jobs: Jobs = 1,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Predict with a saved model; the model file says what it reads.

    The rows of a table are read, predicted and written in chunks, so a file may be larger than
    memory. Images and point clouds get their five most probable classes with probabilities; files
    that cannot be read are named and skipped, and the exit code is then 3.

    Example: nrs predict churn.safetensors new.csv -o out.csv --keep customer_id
    """
    from nrs.training.files import read_kind

    check_files(model, source)
    if safe_csv:
        _check_csv(output, as_json)
    kind = read_kind(model)
    if kind in ("table", "ranker"):
        levels = {"interval": interval, "sets": sets}
        options = {"probabilities": probabilities, "keep": keep or [], **levels}
        _predict_table(
            model,
            source,
            output,
            jobs,
            as_json,
            safe_csv,
            **options,
            **reading,
        )
        return
    if kind not in PACKAGES:
        raise ValueError(
            f"{model} must hold a model of kind table, ranker, {', '.join(PACKAGES)}; its kind "
            f"is {kind!r}. See: nrs info {model}"
        )
    if keep or interval is not None or sets is not None:
        raise ValueError(
            f"--keep, --interval and --sets need a model of tables; {model} is of kind {kind!r}. "
            "Remove them."
        )
    if output is not None:
        _check_listed_output(output)
    predict_file = work_of(kind, "predict").predict_file
    skipped: list[str] = []

    def readable() -> list[dict[str, Any]]:
        rows = predict_file(model, Path(source))
        skipped.extend(row["error"] for row in rows if "error" in row)
        return [row for row in rows if "error" not in row]

    _write_listed(readable, output, as_json, safe_csv)
    end_skipped(skipped)


def good_parts(source: str, wanted: Sequence[str]) -> tuple[str | list[str], list[str]]:
    """The parts of a folder or a pattern that have these columns, and what the others lack."""
    from nrs.datasets.parts import is_parts, whole_parts

    if "://" in source or not is_parts(source):
        return source, []
    return whole_parts(source, wanted)


def check_files(*paths: str | Path) -> None:
    """Refuse files that do not exist, before anything heavy is imported.

    Raises
    ------
    FileNotFoundError
    """
    for path in paths:
        named = str(path) == "-" or any(sign in str(path) for sign in ("*", "?", "[", "://"))
        if not named and not Path(path).exists():
            raise FileNotFoundError(f"File not found: {path}")


def _check_csv(output: Path | None, as_json: bool) -> None:
    from nrs.datasets.table_output import output_format

    form = output_format(output) if output is not None else ".json" if as_json else ".csv"
    if form != ".csv":
        raise ValueError(f"safe_csv needs CSV output; got {form}. Other formats run no formulas.")


def _predict_table(
    model: Path,
    source: str,
    output: Path | None,
    jobs: int,
    as_json: bool,
    safe_csv: bool,
    **options: Any,
) -> None:
    from nrs.datasets.table_output import TableWriter, output_format, write_table_file
    from nrs.files.load import load_model
    from nrs.tabular.predict_file import predict_chunks

    if output is not None:
        output_format(output)
    fitted = load_model(model)
    fitted.n_jobs = jobs
    wanted = [*getattr(fitted, "feature_names_in_", []), *options["keep"]]
    parts, skipped = good_parts(source, wanted)
    chunks = predict_chunks(fitted, parts, **options)
    if output is None:
        # The first chunk is read before anything is printed.
        first = next(chunks)
        form = ".json" if as_json else ".csv"
        with TableWriter(table_output(), form, safe_csv=safe_csv) as writer:
            writer.write(first)
            for chunk in chunks:
                writer.write(chunk)
        end_skipped(skipped)
        return
    n_rows = 0
    with write_table_file(output, safe_csv=safe_csv) as writer:
        for chunk in chunks:
            writer.write(chunk)
            n_rows += chunk.num_rows
    if as_json:
        echo_json({"rows": n_rows, "wrote": str(output)})
    else:
        echo(f"{n_rows:,} predictions in {output}")
    end_skipped(skipped)


def _check_listed_output(output: Path) -> None:
    from nrs._util.optional import import_optional
    from nrs.datasets.table_output import output_format

    output_format(output)
    if output.suffix.lower() not in PLAIN:
        import_optional("pyarrow", f"writing {output.name}", "frames")


def _write_listed(
    predicted: Callable[[], list[dict[str, Any]]],
    output: Path | None,
    as_json: bool,
    safe_csv: bool,
) -> None:
    """Write predictions; the output is opened before they are made, and pictures with them."""
    if output is None:
        rows = predicted()
        if as_json:
            echo_json(rows)
        elif "top" in rows[0] and not safe_csv:
            echo(*_listed(rows))
        else:
            table_output().write(_csv(rows, safe_csv).encode())
        return
    if output.suffix.lower() in PLAIN:
        from nrs._util.atomic import atomic_write

        with atomic_write(output) as file:
            rows = predicted()
            text = _json(rows) if output.suffix.lower() == ".json" else _csv(rows, safe_csv)
            file.write(text.encode())
    else:
        rows = _write_table(predicted, output, safe_csv)
    if as_json:
        echo_json({"rows": len(rows), "wrote": str(output)})
    else:
        echo(f"{len(rows)} predictions in {output}")


def _write_table(
    predicted: Callable[[], list[dict[str, Any]]], output: Path, safe_csv: bool
) -> list[dict[str, Any]]:
    import pyarrow

    from nrs.datasets.table_output import output_format, write_table_file

    # A JSON file has its classes in a list, compressed or not; tables are flat.
    nested = output_format(output) == ".json"
    with write_table_file(output, safe_csv=safe_csv) as writer:
        rows = predicted()
        writer.write(pyarrow.Table.from_pylist(rows if nested else [_flat(row) for row in rows]))
    return rows


def _json(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _listed(rows: list[dict[str, Any]]) -> list[str]:
    """Each input, with its classes below."""
    lines = []
    for row in rows:
        lines.append(str(row["input"]))
        lines += [
            f"  {100 * entry['probability']:6.2f} %  {entry['label']}" for entry in row["top"]
        ]
        if "picture" in row:
            lines.append(f"  critical points in {row['picture']}")
    return lines


def _csv(rows: list[dict[str, Any]], safe_csv: bool) -> str:
    import csv
    import io

    from nrs.datasets.table_output import quote_formula

    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    if safe_csv:
        for row in flat:
            texts = {name: cell for name, cell in row.items() if isinstance(cell, str)}
            row |= {name: quote_formula(text) for name, text in texts.items()}
    writer.writerows(flat)
    return file.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    if "top" not in row:
        return dict(row)
    flat = {name: value for name, value in row.items() if name != "top"}
    for place, entry in enumerate(row["top"], start=1):
        flat |= {f"label_{place}": entry["label"], f"probability_{place}": entry["probability"]}
    return flat
