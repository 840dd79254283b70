"""Text tables: comma-separated values, or columns apart by blanks."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence

import numpy as np

from nrs.datasets.archives import open_stream
from nrs.datasets.dataset import Array
from nrs.datasets.readers.libsvm import whole_numbers
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = ",",
    header: bool = False,
    label: int | Sequence[int] = -1,
    drop: Sequence[int] = (),
    max_bytes: int = MAX_BYTES,
) -> Rows:
    """Read a text table of numbers whose label column may hold words.

    Parameters
    ----------
    path : path
        The file; gzip, bzip2 and xz are unpacked on the way.
    delimiter : str or None, default=","
        What stands between columns; None for any run of blanks.
    header : bool, default=False
        Whether the first line names the columns.
    label : int or sequence of int, default=-1
        The column of y, or several for several targets; negative counts from the end.
    drop : sequence of int
        Columns that are neither input nor label, such as row numbers.

    Returns
    -------
    Rows
        X (n, d) float32; y (n,) as int64, float64 or str; empty cells and ``?`` of X are NaN.

    Raises
    ------
    DatasetFileError
        If a row has another number of columns, or an input is not a number.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "two.csv"
    ...     _ = path.write_text("a,0.5,1,yes\\nb,0.25,2,no\\n")
    ...     rows = read_table(path, drop=[0])
    >>> rows.X.tolist(), rows.y.tolist()
    ([[0.5, 1.0], [0.25, 2.0]], ['yes', 'no'])
    """
    with open_stream(path, max_bytes=max_bytes) as file:
        try:
            lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            if delimiter is None:
                cells = [line.split() for line in lines]
            else:
                cells = [row for row in csv.reader(lines, delimiter=delimiter)]
        except (UnicodeDecodeError, csv.Error) as error:
            raise unreadable(path, "text table", error) from None
    cells = [row for row in cells if any(cell.strip() for cell in row)][int(header) :]
    return rows_of_cells(cells, path, label=label, drop=drop)


def rows_of_cells(
    cells: Sequence[Sequence[str]],
    path: str | os.PathLike[str],
    *,
    label: int | Sequence[int] = -1,
    drop: Sequence[int] = (),
) -> Rows:
    """Turn cells of text into inputs and labels; see `read_table`."""
    if not cells:
        raise unreadable(path, "text table", "it has no rows")
    width = len(cells[0])
    for number, row in enumerate(cells):
        if len(row) != width:
            raise unreadable(
                path, "text table", f"row {number} has {len(row)} columns, the first has {width}"
            )
    labels = [label] if isinstance(label, int) else list(label)
    for column in (*labels, *drop):
        if not -width <= column < width:
            raise unreadable(path, "text table", f"it has no column {column} but {width} columns")
    labels = [column % width for column in labels]
    apart = {*labels, *(column % width for column in drop)}
    inputs = [column for column in range(width) if column not in apart]
    X = np.empty((len(cells), len(inputs)), np.float32)
    for position, column in enumerate(inputs):
        for number, row in enumerate(cells):
            cell = row[column].strip()
            try:
                X[number, position] = float(cell) if cell not in ("", "?") else np.nan
            except ValueError:
                raise unreadable(
                    path, "text table", f"row {number} column {column} is {cell!r}, not a number"
                ) from None
    outputs = [_labels([row[column].strip() for row in cells]) for column in labels]
    return Rows(X, outputs[0] if isinstance(label, int) else np.stack(outputs, axis=1))


def _labels(cells: list[str]) -> Array:
    try:
        return whole_numbers(np.array([float(cell) for cell in cells]))
    except ValueError:
        return np.array(cells)
