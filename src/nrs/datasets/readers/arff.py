"""ARFF, as Weka and KEEL write it: a header of attributes, then comma-separated rows."""

from __future__ import annotations

import csv
import io
import os
import re

from nrs.datasets.archives import open_stream
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable
from nrs.datasets.readers.table import rows_of_cells

_ATTRIBUTE = re.compile(
    r"@attribute\s+(?:'(?P<quoted>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<bare>[^\s{]+))\s*(?P<type>.*)",
    re.IGNORECASE,
)
_NUMERIC = ("real", "numeric", "integer")


def read_arff(
    path: str | os.PathLike[str],
    *,
    label: str | int = -1,
    max_bytes: int = MAX_BYTES,
) -> Rows:
    """Read an ARFF file with dense rows.

    Parameters
    ----------
    path : path
        The file; gzip, bzip2 and xz are unpacked on the way.
    label : str or int, default=-1
        The attribute of y, by name or number.

    Returns
    -------
    Rows
        X (n, d) float32, a nominal input as its position in the header's list, missing as NaN;
        y (n,) as int64, float64 or str.

    Raises
    ------
    DatasetFileError
        If the header or a row cannot be read, or the file has sparse rows or text inputs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "@attribute a real\\n@attribute b {x, y}\\n@attribute c {0,1}\\n@data\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "two.arff"
    ...     _ = path.write_text(text + "0.5,y,1\\n?,x,0\\n")
    ...     rows = read_arff(path)
    >>> rows.X.tolist(), rows.y.tolist()
    ([[0.5, 1.0], [nan, 0.0]], [1, 0])
    """
    names: list[str] = []
    values: list[dict[str, str] | None] = []
    with open_stream(path, max_bytes=max_bytes) as file:
        try:
            lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
            for line in lines:
                text = line.strip()
                if text.lower().startswith("@attribute"):
                    name, choices = _attribute(text, path)
                    names.append(name)
                    values.append(choices)
                elif text.lower().startswith("@data"):
                    break
            else:
                raise unreadable(path, "ARFF", "it has no line @data")
            body = (line for line in lines if line.strip() and not line.lstrip().startswith("%"))
            cells = [
                [cell.strip().strip("'\"") for cell in row]
                for row in csv.reader(body, skipinitialspace=True)
            ]
        except (UnicodeDecodeError, csv.Error) as error:
            raise unreadable(path, "ARFF", error) from None
    if cells and cells[0] and cells[0][0].startswith("{"):
        raise unreadable(path, "ARFF", "its rows are sparse, which this reader does not know")
    if isinstance(label, str):
        if label not in names:
            raise unreadable(path, "ARFF", f"it has no attribute {label!r} but {names}")
        label = names.index(label)
    for row in cells:
        if len(row) != len(names):
            raise unreadable(path, "ARFF", f"{len(names)} attributes have {len(row)} values")
        for column, choices in enumerate(values):
            if choices is not None and column != label % len(names):
                row[column] = _position(row[column], choices, names[column], path)
    return rows_of_cells(cells, path, label=label)


def _attribute(line: str, path: str | os.PathLike[str]) -> tuple[str, dict[str, str] | None]:
    """Give an attribute's name, and for a nominal one the position of each value as text."""
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise unreadable(path, "ARFF", f"the line {line!r} names no attribute")
    name = match["quoted"] or match["double"] or match["bare"]
    kind = match["type"].strip()
    if kind.startswith("{"):
        choices = next(csv.reader([kind.strip("{}")], skipinitialspace=True))
        return name, {value.strip().strip("'\""): str(i) for i, value in enumerate(choices)}
    # KEEL gives the range after the type: real [0.0, 1.0].
    if not kind.lower().startswith(_NUMERIC):
        raise unreadable(path, "ARFF", f"attribute {name!r} is {kind!r}, not a number or a list")
    return name, None


def _position(cell: str, choices: dict[str, str], name: str, path: str | os.PathLike[str]) -> str:
    if cell in ("?", "<null>"):
        return "?"
    if cell not in choices:
        raise unreadable(path, "ARFF", f"{cell!r} is no value of the attribute {name!r}")
    return choices[cell]
