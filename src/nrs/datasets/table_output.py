"""Tables written chunk after chunk: CSV, Parquet, Arrow or JSON lines, by the file's name."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nrs.core.atomic import atomic_write

SUFFIXES = (".csv", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson", ".json")
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


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
    suffixes = suffixes[:-1] if suffixes and suffixes[-1] in _PACKED else suffixes
    if not suffixes or suffixes[-1].lower() not in SUFFIXES:
        raise ValueError(
            f"the output must end with {', '.join(SUFFIXES)}, however: {os.fspath(path)}; "
            "name it accordingly"
        )
    return suffixes[-1].lower()


@contextlib.contextmanager
def write_table_file(path: str | os.PathLike[str]) -> Iterator[TableWriter]:
    """Open a table for writing, which is there whole or not at all.

    Yields
    ------
    TableWriter

    Raises
    ------
    ValueError
        For a name that `output_format` does not know.
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "out.csv"
    ...     with write_table_file(path) as writer:
    ...         writer.write(pyarrow.table({"a": [1, 2]}))
    ...     path.read_text()
    '"a"\\n1\\n2\\n'
    """
    form = output_format(path)
    codec = _PACKED.get(Path(path).suffix)
    with atomic_write(path) as file:
        if codec is None:
            with TableWriter(file, form) as writer:
                yield writer
            return
        import pyarrow

        # The writer of Arrow closes what it writes to; the file is closed by whoever opened it.
        with pyarrow.CompressedOutputStream(pyarrow.PythonFile(file, "w"), codec) as packed:
            with TableWriter(packed, form) as writer:
                yield writer
            packed.flush()


class TableWriter:
    """Write chunks of one schema to a binary file.

    Parameters
    ----------
    file : binary file
    form : one of `SUFFIXES`; ``.json`` is one array, ``.jsonl`` an object a line.
    """

    def __init__(self, file: BinaryIO | Any, form: str) -> None:
        self._file, self._form = file, form
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
        else:
            if self._writer is None:
                self._writer = self._open(table.schema)
            self._writer.write_table(table)
        self._n_rows += table.num_rows

    def _open(self, schema: Any) -> Any:
        import pyarrow

        if self._form == ".csv":
            from pyarrow import csv

            return csv.CSVWriter(self._file, schema)
        if self._form == ".parquet":
            from pyarrow import parquet

            return parquet.ParquetWriter(self._file, schema)
        return pyarrow.ipc.new_file(self._file, schema)

    def _write_lines(self, table: Any) -> None:
        lines = [json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist()]
        if self._form == ".json":
            start = "[\n" if self._n_rows == 0 else ",\n"
            self._file.write((start + ",\n".join(lines)).encode())
        else:
            self._file.write(("\n".join(lines) + "\n").encode())
