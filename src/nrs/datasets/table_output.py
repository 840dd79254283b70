"""Tables written chunk after chunk: CSV, Parquet, Arrow or JSON lines, by the file's name."""

from __future__ import annotations

import contextlib
import csv as csv_module
import io
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from nrs._util.atomic import atomic_write
from nrs.datasets.large_table import plain_type

SUFFIXES = (".csv", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson", ".json")
_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
# What makes a spreadsheet run a cell as a formula, or begins a new cell; numbers are harmless.
_FORMULA = r"^[=+\-@\t\r\n]"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def output_format(path: str | os.PathLike[str]) -> str:
    """The suffix that decides how a table is written.

    Raises
    ------
    ValueError
        If the name ends otherwise.

    Examples
    --------
    >>> output_format("out.csv.gz"), output_format("out.parquet")
    ('.csv', '.parquet')
    """
    suffixes = Path(path).suffixes
    suffixes = suffixes[:-1] if suffixes and suffixes[-1] in _CODECS else suffixes
    if not suffixes or suffixes[-1].lower() not in SUFFIXES:
        raise ValueError(f"The output must end with {', '.join(SUFFIXES)}; got {os.fspath(path)}")
    return suffixes[-1].lower()


@contextlib.contextmanager
def write_table_file(
    path: str | os.PathLike[str], *, safe_csv: bool = False
) -> Iterator[TableWriter]:
    """Open a table for writing, which is there whole or not at all.

    Parameters
    ----------
    path : path
        Its suffix decides the format, see `output_format`.
    safe_csv : bool
        As in `TableWriter`.

    Yields
    ------
    TableWriter

    Raises
    ------
    ValueError
        For a name that `output_format` does not know, or `safe_csv` with another format.
    OSError
        If it cannot be written, or is an input of a surrounding `nrs._util.inputs.reading`.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "out.csv"
    ...     with write_table_file(path) as writer:
    ...         writer.write(pyarrow.table({"a": [1, 2]}))
    ...     path.read_text()
    'a\\n1\\n2\\n'
    """
    form = output_format(path)
    if safe_csv and form != ".csv":
        raise ValueError(f"safe_csv needs a .csv output; got {os.fspath(path)}")
    codec = _CODECS.get(Path(path).suffix)
    with atomic_write(path) as file:
        if codec is None:
            with TableWriter(file, form, safe_csv=safe_csv) as writer:
                yield writer
            return
        import pyarrow

        with (
            pyarrow.CompressedOutputStream(_Lent(file), codec) as compressed,
            TableWriter(compressed, form, safe_csv=safe_csv) as writer,
        ):
            yield writer


class _Lent(io.RawIOBase):
    """A file for a writer that closes what it writes to; whoever opened the file closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return self._file.write(content)


class TableWriter:
    """Write chunks of one schema to a binary file.

    Parameters
    ----------
    file : binary file
    form : one of `SUFFIXES`; ``.json`` is one array, ``.jsonl`` one object per line.
    safe_csv : bool
        Whether texts of a CSV file that a spreadsheet would run as formulas get a quote before
        them; see `quote_formula`.
    """

    def __init__(self, file: BinaryIO | Any, form: str, *, safe_csv: bool = False) -> None:
        self._file, self._form, self._safe_csv = file, form, safe_csv
        self._writer: Any = None
        self._n_rows = 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._form == ".json" and kind is None:
            self._file.write(b"\n]\n" if self._n_rows else b"[]\n")

    def write(self, table: Any) -> None:
        """Add the rows of a ``pyarrow.Table``."""
        if self._form in (".json", ".jsonl", ".ndjson"):
            self._write_lines(table)
        elif self._form == ".csv":
            table = _quote_formulas(table) if self._safe_csv else table
            _write_csv(self._file, table, header=self._n_rows == 0)
        else:
            if self._writer is None:
                self._writer = self._open(table.schema)
            self._writer.write_table(table)
        self._n_rows += table.num_rows

    def _open(self, schema: Any) -> Any:
        import pyarrow

        if self._form == ".parquet":
            from pyarrow import parquet

            return parquet.ParquetWriter(self._file, schema)
        return pyarrow.ipc.new_file(self._file, schema)

    def _write_lines(self, table: Any) -> None:
        lines = [
            json.dumps(
                {name: _json_value(cell) for name, cell in row.items()},
                ensure_ascii=False,
                default=str,
            )
            for row in table.to_pylist()
        ]
        if self._form == ".json":
            start = "[\n" if self._n_rows == 0 else ",\n"
            self._file.write((start + ",\n".join(lines)).encode())
        else:
            self._file.write(("\n".join(lines) + "\n").encode())


def _json_value(cell: Any) -> Any:
    """The cell, or None for NaN and infinity, which JSON does not know."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def quote_formula(text: str) -> str:
    """A text with a quote before it if a spreadsheet would run it as a formula.

    That is a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end and is not a
    number.

    Examples
    --------
    >>> [quote_formula(text) for text in ("=1+1", "-2.5e3", "a=b", "@SUM(A1)")]
    ["'=1+1", '-2.5e3', 'a=b', "'@SUM(A1)"]
    """
    runs = re.search(_FORMULA, text) and not re.fullmatch(_NUMBER, text)
    return f"'{text}" if runs else text


def _quote_formulas(table: Any) -> Any:
    """`quote_formula` of the names of columns and of all texts."""
    import pyarrow
    from pyarrow import compute

    table = table.rename_columns([quote_formula(name) for name in table.column_names])
    for place, column in enumerate(table.columns):
        kind = plain_type(column.type)
        if not _is_text(kind):
            continue
        texts = column.cast(kind)
        runs = compute.and_not(
            compute.match_substring_regex(texts, _FORMULA),
            compute.match_substring_regex(texts, _NUMBER),
        )
        if compute.any(runs).as_py():
            start, between = pyarrow.scalar("'", kind), pyarrow.scalar("", kind)
            quoted = compute.binary_join_element_wise(start, texts, between)
            column = compute.if_else(runs, quoted, texts)
            table = table.set_column(place, table.column_names[place], column)
    return table


def _write_csv(file: Any, table: Any, *, header: bool) -> None:
    """Write rows with quotes where a cell needs them: Arrow alone would quote every text."""
    from pyarrow import csv

    if header:
        names, line = table.column_names, io.StringIO()
        # Readers guess the separator from the names, and skip what is quoted.
        misleading = any(set(name) & set(";\t|") for name in names)
        quoted: Literal[0, 1] = csv_module.QUOTE_ALL if misleading else csv_module.QUOTE_MINIMAL
        csv_module.writer(line, lineterminator="\n", quoting=quoted).writerow(names)
        file.write(line.getvalue().encode())
    quoting = "needed" if any(map(_needs_quotes, table.columns)) else "none"
    options = csv.WriteOptions(include_header=False, quoting_style=quoting)
    csv.write_csv(table, file, options)


def _needs_quotes(column: Any) -> bool:
    from pyarrow import compute

    kind = plain_type(column.type)
    if not _is_text(kind):
        return False
    # A column of classes has few different values, whatever its length.
    found = compute.match_substring_regex(column.unique().cast(kind), pattern='[",\r\n]')
    return bool(compute.any(found).as_py())


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(is_text(kind) for is_text in texts)
