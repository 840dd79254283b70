"""Tables in files: CSV, Parquet, Arrow, JSON, workbooks, packed or not, whole or in chunks.

Two ways in. `read_table_file` reads a whole file and decides from all of its rows what its columns
are (:mod:`nrs.datasets.convert`); `stream_table_file` reads one chunk after the other with bounded
memory; the caller, who has a fitted model, names the types of the columns.

Files come from anywhere, so what they may cost is bounded: a compressed file may expand to
`MAX_EXPANSION` times its size (`MIN_EXPANDED_BYTES` in any case), JSON values may be nested
`MAX_DEPTH` deep, and devices and named pipes are refused.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from nrs._util.inputs import check_ordinary
from nrs.datasets.convert import (
    Overrides,
    blank_to_null,
    convert_texts,
    is_total,
    with_notes,
    without_headers,
)
from nrs.datasets.large_table import Table
from nrs.datasets.parts import is_parts
from nrs.datasets.table_content import (
    MAX_DEPTH,
    OLE,
    ZIP,
    depth,
    find_encoding,
    is_flat_lines,
    json_lines,
    openings,
    unpack,
)
from nrs.datasets.table_file_errors import (
    TableFileError,
    check_names,
    check_text,
    check_wanted,
    clear_errors,
    import_pyarrow,
    no_rows,
    ragged_row,
    unread_text,
)
from nrs.datasets.table_layout import Layout, Ragged, find_layout, find_ragged, rewrite

Format = Literal["csv", "json lines", "parquet", "arrow"]

# Bytes of text that become one chunk: large enough that the work on a chunk outweighs starting it,
# small because Arrow reads about thirty chunks ahead.
CHUNK_BYTES = 2 << 20
# Rows of a chunk of a file that is stored in columns.
CHUNK_ROWS = 1 << 16
# Bounds on the expansion of a compressed file; tables rarely compress below a fiftieth.
MAX_EXPANSION = 100
MIN_EXPANDED_BYTES = 1 << 28
# What the format, the separator and the time zones are read from.
_HEAD_BYTES = 1 << 18
_HEAD_SIZES = [_HEAD_BYTES << k for k in range(8)]
_CODECS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
# The default of an encoding: found from the bytes.
AUTO = "auto"
_TEXTS: tuple[Format, ...] = ("csv", "json lines")


def read_table_file(
    source: str | os.PathLike[str],
    *,
    as_text: Sequence[str] = (),
    encoding: str = AUTO,
    sheet: str | None = None,
    overrides: Overrides | None = None,
) -> Any:
    """Read a whole table; what its columns of text are is decided from all of their cells.

    Parameters
    ----------
    source : path, or "-" for standard input
        CSV (with any separator), JSON lines or one JSON array, Parquet, Arrow, or a workbook
        (Excel, with the extra ``excel``); zip, gzip, bzip2, zstd and lz4 are unpacked on the way.
        The content decides, not the name.
    as_text : sequence of str
        Columns of a text file to read as text even where they look like numbers.
    encoding : str
        Of text files; "auto" finds UTF-8, UTF-16, and else takes Windows-1252.
    sheet : str, optional
        Of a workbook; the first by default.
    overrides : Overrides, optional
        Decimal sign, order of dates, missing values and types, where the cells do not say.

    Returns
    -------
    pyarrow.Table
        At least one row and one column. Columns without a name and without a value are left out.
        How a column was read is in the metadata of its field
        (:func:`nrs.datasets.convert.decisions`); models keep it.

    Raises
    ------
    TableFileError
        If the file is empty, has no rows, rows of different lengths, repeated names, another
        encoding, expands too much, or cannot be read at all.
    ValueError
        If it is a device or a named pipe.
    FileNotFoundError
        If there is no such file.
    ImportError
        Without pyarrow; the extra ``frames`` installs it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.csv"
    ...     _ = path.write_text("rooms,district\\n2,north\\n,south\\n")
    ...     read_table_file(path).to_pylist()
    [{'rooms': 2, 'district': 'north'}, {'rooms': None, 'district': 'south'}]
    """
    import_pyarrow()
    with (
        _opened(source, encoding, sheet) as opened,
        clear_errors(opened.name, opened.names),
    ):
        if opened.format == "csv":
            table = _read_csv(opened, overrides or Overrides(), as_text)
        elif opened.format == "json lines":
            table = _read_json(opened, overrides or Overrides(), as_text)
        else:
            _refuse_overrides(overrides, opened.name)
            batches, schema = opened.batches(None)
            check_names(schema.names, opened.name)
            table = import_pyarrow().Table.from_batches(batches, schema)
    if table.num_rows == 0:
        raise no_rows(opened.name)
    return table


def _read_csv(opened: _Opened, overrides: Overrides, as_text: Sequence[str]) -> Any:
    pyarrow = import_pyarrow()
    from pyarrow import csv

    opened.keep()
    layout = opened.lay_out()
    # As text first: what a column is shows in all of its cells.
    text = dict.fromkeys(layout.names, pyarrow.string())
    notes = list(layout.notes)
    try:
        table = csv.read_csv(opened.stream(), *opened.csv_options(column_types=text))
    except pyarrow.ArrowInvalid as error:
        found = opened.ragged(error)
        if found is None:
            raise
        if found.kept is None:
            raise ragged_row(opened.name, found, len(layout.names)) from None
        notes.append(opened.cut_below(found))
        table = csv.read_csv(opened.stream(), *opened.csv_options(column_types=text))
    check_text(table.schema, opened.name)
    n_rows = table.num_rows
    table = without_headers(table)
    if table.num_rows < n_rows:
        notes.append(f"left out rows that repeat the header: {n_rows - table.num_rows}")
    empty = [k for k in layout.unnamed if table.column(k).null_count == table.num_rows]
    table = table.select([k for k in range(len(layout.names)) if k not in empty])
    check_names(table.column_names, opened.name)
    if not table.num_rows:
        # There is nothing to decide.
        return table
    table = convert_texts(table, overrides, as_text)
    if is_total(table):
        table = table.slice(0, table.num_rows - 1)
        notes.append("left out the last row, which adds up the others")
    return with_notes(table, notes)


def _read_json(opened: _Opened, overrides: Overrides, as_text: Sequence[str]) -> Any:
    from pyarrow import json

    # A line must fit a block; without streaming, memory is not the concern.
    options = json.ReadOptions(block_size=8 * CHUNK_BYTES)
    table = json.read_json(opened.stream(), read_options=options)
    check_text(table.schema, opened.name)
    check_names(table.schema.names, opened.name)
    is_string = import_pyarrow().types.is_string
    texts = [one.name for one in table.schema if is_string(one.type)]
    if not texts or not table.num_rows:
        return table
    read = convert_texts(table.select(texts), overrides, as_text)
    for one in read.schema:
        table = table.set_column(table.column_names.index(one.name), one, read.column(one.name))
    return table


def stream_table_file(
    source: Any,
    columns: Mapping[str, str],
    *,
    also: Sequence[str] = (),
    encoding: str = AUTO,
    sheet: str | None = None,
    overrides: Overrides | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Any]:
    """Read some columns of a table, chunk after chunk, with bounded memory.

    Parameters
    ----------
    source : path, "-" for standard input, or parts
        As for `read_table_file`; or a folder, a pattern, a list of Parquet or Arrow files, or a
        `Table` of them.
    columns : mapping of name to kind
        The columns to read, in this order, each "number", "boolean", "category", "date",
        "duration", or "text" for cells that a model reads by a plan: what the cells of a text file
        are read as. A file with types of its own keeps them.
    also : sequence of str
        Further columns to read, as they are: cells of a CSV file as text.
    encoding, sheet, overrides
        As for `read_table_file`. With overrides a file is read whole.
    chunk_bytes : int
        Bytes of text in a chunk.

    Yields
    ------
    pyarrow.Table
        The columns, then the others; a column that is asked for as both is there twice. Never an
        empty table.

    Raises
    ------
    TableFileError
        If the file cannot be read, lacks a column, has no rows, or a cell is not of the kind that
        its column has.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.csv"
    ...     _ = path.write_text("rooms,district,seen\\n2,north,1\\n3,south,0\\n")
    ...     [chunk.to_pylist() for chunk in stream_table_file(path, {"rooms": "number"})]
    [[{'rooms': 2.0}, {'rooms': 3.0}]]
    """
    pyarrow = import_pyarrow()
    wanted = [*columns, *(name for name in also if name not in columns)]
    if isinstance(source, Table) or is_parts(source):
        parts = source.select(wanted) if isinstance(source, Table) else Table(source, None, wanted)
        _refuse_overrides(overrides, parts.parts[0].path)
        for chunk in parts.chunks(columns=wanted):
            yield pyarrow.Table.from_batches([chunk.batch]).select([*columns, *also])
        return
    if overrides:
        texts = [*also, *(name for name, kind in columns.items() if kind == "category")]
        table = read_table_file(
            source, as_text=texts, encoding=encoding, sheet=sheet, overrides=overrides
        )
        check_wanted(wanted, table.column_names, os.fspath(source))
        yield table.select([*columns, *also])
        return
    with (
        _opened(source, encoding, sheet) as opened,
        clear_errors(opened.name, opened.names),
    ):
        n_rows = 0
        for batch, types in _batches(opened, columns, wanted, also, chunk_bytes):
            if batch.num_rows:
                n_rows += batch.num_rows
                table = pyarrow.Table.from_batches([batch]).select([*columns, *also])
                for place, name in enumerate(columns):
                    if name in types:
                        read = _read_text(table.column(place), name, types[name], opened.name)
                        table = table.set_column(place, name, read)
                    elif opened.format == "csv" and pyarrow.types.is_string(
                        table.schema[place].type
                    ):
                        table = table.set_column(place, name, blank_to_null(table.column(place)))
                yield table
        if n_rows == 0:
            raise no_rows(opened.name)


def _refuse_overrides(overrides: Overrides | None, name: str) -> None:
    if overrides:
        raise TableFileError(
            f"{name} has types of its own: decimal, dates, na and type are for text files and "
            "workbooks. Leave them out."
        )


def column_names(source: Any, *, encoding: str = AUTO, sheet: str | None = None) -> list[str]:
    """The columns of a table, from its head; not for standard input, which would be used up.

    Raises
    ------
    TableFileError, FileNotFoundError, ImportError
        As `read_table_file`.
    """
    import_pyarrow()
    if isinstance(source, Table) or is_parts(source):
        return list((source if isinstance(source, Table) else Table(source)).columns)
    with _opened(source, encoding, sheet) as opened, clear_errors(opened.name, opened.names):
        if opened.format in _TEXTS:
            names = opened.sniff().names
        else:
            names = opened.batches(None)[1].names
        check_names(names, opened.name)
        return list(names)


def _batches(
    opened: _Opened,
    columns: Mapping[str, str],
    wanted: Sequence[str],
    also: Sequence[str],
    chunk_bytes: int,
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Batches, and the types of columns that were read as text because they are kept as well."""
    pyarrow = import_pyarrow()
    if opened.format in ("parquet", "arrow"):
        batches, schema = opened.batches(wanted)
        check_names(schema.names, opened.name)
        check_wanted(wanted, schema.names, opened.name)
        yield from ((batch, {}) for batch in batches)
        return
    found = opened.sniff(wanted)
    check_names(found.names, opened.name)
    if opened.format == "csv":
        check_wanted(wanted, found.names, opened.name)
    types = {name: _text_type(found, name, columns.get(name)) for name in wanted}
    later = {name: types[name] for name in columns if name in also}
    types |= {name: pyarrow.string() for name in also}
    if opened.format == "csv":
        from pyarrow import csv

        options = opened.csv_options(
            chunk_bytes=chunk_bytes, column_types=types, include_columns=list(wanted)
        )
        with opened.ragged_rows():
            for batch in csv.open_csv(opened.stream(), *options):
                yield batch, later
        return
    from pyarrow import json

    # A line may leave out a field that others have, so all fields are asked for by type.
    known = [(name, _json_type(found, name, types[name])) for name in wanted]
    parse = json.ParseOptions(
        explicit_schema=pyarrow.schema(known), unexpected_field_behavior="ignore"
    )
    read = json.ReadOptions(block_size=chunk_bytes)
    check_wanted(wanted, found.names, opened.name)
    if hasattr(json, "open_json"):
        batches = json.open_json(opened.stream(), read_options=read, parse_options=parse)
    else:
        whole = json.read_json(opened.stream(), read_options=read, parse_options=parse)
        batches = whole.to_batches(CHUNK_ROWS)
    for batch in batches:
        yield batch, later


def _text_type(found: Any, name: str, kind: str | None) -> Any:
    """The type that the cells of a text column are read as."""
    pyarrow = import_pyarrow()
    if kind == "number" or kind == "duration":
        return pyarrow.float64()
    if kind == "boolean":
        return pyarrow.bool_()
    if kind == "date":
        # The head shows whether there are time zones; fractions of a second may come later.
        seen = found.field(name).type if name in found.names else None
        zone = seen.tz if seen is not None and pyarrow.types.is_timestamp(seen) else None
        return pyarrow.timestamp("us", tz=zone)
    return pyarrow.string()


def _read_text(column: Any, name: str, kind: Any, source: str) -> Any:
    """Cells that were read as text, as what a CSV file's cells would have been read as."""
    pyarrow = import_pyarrow()
    from pyarrow import compute

    if not pyarrow.types.is_string(column.type):
        return column
    try:
        return compute.cast(compute.utf8_trim_whitespace(column), kind)
    except pyarrow.ArrowInvalid as error:
        raise unread_text(source, name, str(kind), str(error)) from None


def _json_type(found: Any, name: str, asked: Any) -> Any:
    """The type of a JSON field: what is asked for as text may be numbers or truth values there."""
    types = import_pyarrow().types
    seen = found.field(name).type if name in found.names else None
    plain = seen is not None and (types.is_primitive(seen) and not types.is_temporal(seen))
    return seen if types.is_string(asked) and plain else asked


class _Opened:
    """A table file or pipe whose head was read and its format found."""

    def __init__(
        self,
        name: str,
        path: Path | None,
        pipe: Any = None,
        encoding: str = AUTO,
        sheet: str | None = None,
    ) -> None:
        self.name, self._path, self._pipe = name, path, None
        self._content: bytes | None = None
        self._encoding = "utf-8"
        if path is None:
            start = pipe.read(8)
            if _codec_of(start) is not None or start.startswith((ZIP, OLE)):
                # Kept packed, since it is read twice; only plain bytes stream from a pipe.
                self._content = start + pipe.read()
            else:
                self._pipe = _Joined(start, pipe)
        self._head = self._read_head()
        if self._head.startswith((ZIP, OLE)):
            content = self._all()
            limit = max(MIN_EXPANDED_BYTES, MAX_EXPANSION * len(content))
            self._content = unpack(content, name, sheet, limit)
            self._head = self._read_head()
        elif sheet is not None:
            raise TableFileError(f"{name} must be a workbook to have a sheet; leave sheet out")
        if not self._head.strip():
            raise TableFileError(f"{name} is empty; check the file")
        self.format = _format_of(self._head, name)
        if self.format in _TEXTS:
            self._decode(encoding)
        if self.format == "json lines":
            if not is_flat_lines(self._head.lstrip(b"\xef\xbb\xbf")):
                self._replace(json_lines(self._all().lstrip(b"\xef\xbb\xbf"), name).decode())
            _Shallow(io.BytesIO(self._head), name).read()
        self.names: list[str] = []
        self._layout: Layout | None = None

    def _read_head(self) -> bytes:
        stream = self._plain() if self._pipe is None else self._pipe
        head = bytes(stream.read(_HEAD_BYTES))
        # A header of many columns is long.
        while len(head) in _HEAD_SIZES and head.count(b"\n") < 2:
            head += stream.read(len(head))
        return head

    def _all(self) -> bytes:
        """All plain bytes, in UTF-8 where they are text; a pipe is taken into memory."""
        self.keep()
        return bytes(self._decoded(self._plain()).read())

    def _decode(self, encoding: str) -> None:
        """Find the encoding of a text file, if it is not given, and read its head in UTF-8."""
        if encoding == AUTO:
            rest = iter(()) if self._pipe is not None else self._blocks()
            # A character may be cut at the end of the head of a pipe.
            head = self._head[: self._head.rfind(b"\n") + 1] or self._head
            encoding = find_encoding(self._head, [head] if self._pipe is not None else rest)
        codecs.lookup(encoding)
        if codecs.lookup(encoding).name != "utf-8":
            self._encoding = encoding
            decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
            self._head = decoder.decode(self._head).encode()

    def _blocks(self) -> Iterator[bytes]:
        stream = self._plain()
        while block := stream.read(CHUNK_BYTES):
            yield bytes(block)

    def _decoded(self, stream: Any) -> Any:
        """A stream of text in UTF-8."""
        if self._encoding == "utf-8":
            return stream
        return import_pyarrow().transcoding_input_stream(stream, self._encoding, "utf-8")

    def _plain(self) -> Any:
        """The bytes from the start, decompressed."""
        pyarrow = import_pyarrow()
        if self._content is not None:
            file = pyarrow.BufferReader(self._content)
        else:
            file = pyarrow.OSFile(str(self._path))
        codec = _codec_of(file.read(8))
        file.seek(0)
        if codec is None:
            return file
        limit = max(MIN_EXPANDED_BYTES, MAX_EXPANSION * file.size())
        stream = pyarrow.CompressedInputStream(file, codec)
        return pyarrow.PythonFile(_Bounded(stream, limit, self.name), "r")

    def keep(self) -> None:
        """Take all of a pipe into memory, so that it can be read more than once."""
        if self._pipe is not None:
            self._content, self._pipe = self._head + self._pipe.read(), None

    def stream(self) -> Any:
        """The plain bytes from the start, text in UTF-8; of a pipe only once."""
        pyarrow = import_pyarrow()
        if self._pipe is None:
            found = self._decoded(self._plain())
        else:
            found = pyarrow.PythonFile(_Joined(self._head, self._decoded_pipe()), "r")
        if self.format == "json lines":
            return pyarrow.PythonFile(_Shallow(found, self.name), "r")
        return found

    def _decoded_pipe(self) -> Any:
        """What follows the head of a pipe, in UTF-8."""
        if self._encoding == "utf-8":
            return self._pipe
        return self._decoded(import_pyarrow().PythonFile(self._pipe, "r"))

    def seekable(self) -> Any:
        """The plain bytes, read in any order."""
        pyarrow = import_pyarrow()
        if self._pipe is not None:
            return pyarrow.BufferReader(self._head + self._pipe.read())
        file = self._plain()
        return file if isinstance(file, pyarrow.OSFile) else pyarrow.BufferReader(file.read())

    def sniff(self, wanted: Sequence[str] = ()) -> Any:
        """The schema that the head of a text file suggests; it should have the columns `wanted`."""
        pyarrow = import_pyarrow()
        if self.format == "json lines":
            from pyarrow import json

            head = self._whole_lines()
            read = json.ReadOptions(block_size=max(len(head), 1 << 10))
            found = json.read_json(pyarrow.BufferReader(head), read_options=read).schema
            self.names[:] = found.names
            return found
        from pyarrow import csv

        self.lay_out(wanted)
        head = pyarrow.BufferReader(self._whole_lines())
        with self.ragged_rows():
            return csv.open_csv(head, *self.csv_options()).schema

    def _whole_lines(self) -> bytes:
        """The head without half a line, which would look like a ragged one."""
        head = self._head
        cut = len(head) >= _HEAD_BYTES
        return (head[: head.rfind(b"\n") + 1] or head) if cut else head

    def lay_out(self, wanted: Sequence[str] = ()) -> Layout:
        """How the rows of a CSV file are cut; where Arrow would err, they are written again."""
        if self._layout is None:
            self._layout = layout = find_layout(self._text(self._whole_lines()), wanted)
            self.names[:] = layout.names
            if layout.loose:
                text = self._text(self._all())
                found = find_ragged(text, layout)
                if found is not None and found.kept is None:
                    raise ragged_row(self.name, found, len(layout.names))
                self._replace(rewrite(text, layout))
                self._layout = replace(layout, skip=0)
        return self._layout

    @staticmethod
    def _text(content: bytes) -> str:
        return content.decode("utf-8", "replace").lstrip("\ufeff")

    def _replace(self, text: str) -> None:
        """Take another text in place of the file's."""
        self._content, self._encoding = text.encode(), "utf-8"
        self._head = self._content[:_HEAD_BYTES]

    def ragged(self, error: Exception) -> Ragged | None:
        """The row that Arrow stumbled over, if it did and the file can be read again."""
        if "columns, got" not in str(error) or self._pipe is not None:
            return None
        lines = io.TextIOWrapper(self._decoded(self._plain()), "utf-8-sig", newline="")
        return find_ragged(lines, self.lay_out())

    @contextlib.contextmanager
    def ragged_rows(self) -> Iterator[None]:
        """Name the line of a row with more or fewer cells than there are columns."""
        try:
            yield
        except import_pyarrow().ArrowInvalid as error:
            found = self.ragged(error)
            if found is None:
                raise
            raise ragged_row(self.name, found, len(self.lay_out().names)) from None

    def cut_below(self, found: Ragged) -> str:
        """Leave out the lines below the last row; returns what to say of it."""
        lines = io.StringIO(self._text(self._all()), newline="")
        self._replace("".join(itertools.islice(lines, found.kept)))
        return f"left out what is below the last row: {found.cells[0][:40]!r}"

    def csv_options(
        self, *, chunk_bytes: int = CHUNK_BYTES, **convert: Any
    ) -> tuple[Any, Any, Any]:
        """How a comma-separated file is read: in blocks, parsed, and converted."""
        from pyarrow import csv

        layout = self.lay_out()
        return (
            csv.ReadOptions(
                block_size=chunk_bytes, skip_rows=layout.skip, column_names=layout.names
            ),
            csv.ParseOptions(
                delimiter=layout.separator, quote_char=layout.quote, newlines_in_values=True
            ),
            csv.ConvertOptions(strings_can_be_null=True, **convert),
        )

    def batches(self, wanted: Sequence[str] | None) -> tuple[Iterator[Any], Any]:
        """Batches of a file stored in columns, and its schema."""
        pyarrow = import_pyarrow()
        file = self.seekable()
        if self.format == "parquet":
            from pyarrow import parquet

            table = parquet.ParquetFile(file)
            schema = table.schema_arrow
            picked = None if wanted is None else [n for n in wanted if n in schema.names]
            return table.iter_batches(CHUNK_ROWS, columns=picked), schema
        if self._head.startswith(b"ARROW1"):
            reader = pyarrow.ipc.open_file(file)
            whole = (reader.get_batch(place) for place in range(reader.num_record_batches))
        else:
            reader = pyarrow.ipc.open_stream(file)
            whole = iter(reader)
        pieces = (
            batch.slice(start, CHUNK_ROWS)
            for batch in whole
            for start in range(0, max(batch.num_rows, 1), CHUNK_ROWS)
        )
        return pieces, reader.schema


@contextlib.contextmanager
def _opened(
    source: str | os.PathLike[str], encoding: str = AUTO, sheet: str | None = None
) -> Iterator[_Opened]:
    if os.fspath(source) == "-":
        if sys.stdin is None:
            raise TableFileError("Standard input is closed; pipe a table to it, or name a file.")
        with clear_errors("standard input"):
            opened = _Opened("standard input", None, sys.stdin.buffer, encoding, sheet)
        yield opened
        return
    path = Path(source)
    if path.is_dir():
        raise TableFileError(f"{path} is a folder; name a file in it")
    if not path.exists():
        raise FileNotFoundError(f"File not found: {path}")
    check_ordinary(path)
    if path.is_file():
        with clear_errors(str(path)):
            opened = _Opened(str(path), path, None, encoding, sheet)
        yield opened
        return
    # A pipe that the shell opened, such as its process substitution.
    with open(path, "rb") as pipe:
        with clear_errors(str(path)):
            opened = _Opened(str(path), None, pipe, encoding, sheet)
        yield opened


def _codec_of(start: bytes) -> str | None:
    return next((codec for magic, codec in _CODECS.items() if start.startswith(magic)), None)


class _Joined(io.RawIOBase):
    """Bytes that were read already, then the rest of what they came from."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            found, self._start = self._start, b""
            return found + self._rest.read()
        found, self._start = self._start[:size], self._start[size:]
        return found + self._rest.read(size - len(found)) if len(found) < size else found


class _Bounded(io.RawIOBase):
    """A stream that gives at most so many bytes, and fails where there are more."""

    def __init__(self, stream: Any, limit: int, name: str) -> None:
        self._stream, self._limit, self._left, self._name = stream, limit, limit, name

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        whole = size is None or size < 0
        block = self._stream.read(self._left + 1 if whole else size)
        self._left -= len(block)
        if self._left < 0:
            raise TableFileError(
                f"{self._name} expands to more than {self._limit:,} bytes, {MAX_EXPANSION} times "
                "its size; if you trust it, decompress it first"
            )
        return bytes(block)


class _Shallow(io.RawIOBase):
    """JSON lines that are refused where a value is nested deeper than `MAX_DEPTH`."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name
        self._line = b""  # what was read of the present line

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        block = bytes(self._stream.read() if size is None or size < 0 else self._stream.read(size))
        text = self._line + block
        # Few brackets in all cannot be deep in any line: lines are only looked at one by one where
        # there are many.
        if openings(text) > text.count(b"\n") + MAX_DEPTH:
            for line in text.split(b"\n"):
                if openings(line) > MAX_DEPTH and depth(line) > MAX_DEPTH:
                    raise TableFileError(
                        f"{self._name} has values nested more than {MAX_DEPTH} deep; flatten them"
                    )
        self._line = text[text.rfind(b"\n") + 1 :]
        return block


def _format_of(head: bytes, name: str) -> Format:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"{", b"[{")) or (
        start.startswith(b"[") and start[1:].lstrip()[:1] in b"{[]"
    ):
        return "json lines"
    if b"\x00" in head and not find_encoding(head, ()).startswith("utf-16"):
        raise TableFileError(
            f"{name} is a binary file of another kind; pass CSV, JSON, Parquet, Arrow or Excel"
        )
    return "csv"
