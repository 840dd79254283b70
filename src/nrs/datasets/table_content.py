"""What is within a table file: the sheet of a workbook, the table of a zip, the rows of an array.

Each is turned into plain CSV or JSON lines, which the readers of :mod:`nrs.datasets.table_files`
take. Encodings are found here, too.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import zipfile
from collections.abc import Iterable
from typing import Any

from nrs._util.optional import import_optional
from nrs.datasets.table_file_errors import TableFileError

ZIP, OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Arrow overflows the stack on JSON that is nested tens of thousands deep; a table is flat.
MAX_DEPTH = 100
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# A text of JSON, whole or cut at the end of what was read.
_JSON_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def unpack(content: bytes, name: str, sheet: str | None, limit: int) -> bytes:
    """The bytes of the one table in a zip, or of a sheet of a workbook as CSV.

    Raises
    ------
    TableFileError
        If there are several tables, no such sheet, it is damaged, or expands to more than `limit`.
    ImportError
        For a workbook without python-calamine, which the extra ``excel`` installs.
    """
    if content.startswith(OLE):
        return _read_sheet(content, name, sheet)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            names = [one.filename for one in members]
            if "xl/workbook.xml" in names or "content.xml" in names or "xl/workbook.bin" in names:
                _check_size(sum(one.file_size for one in members), limit, name)
                return _read_sheet(content, name, sheet)
            tables = [
                one
                for one in members
                if not one.filename.startswith("__MACOSX/")
                and not one.filename.rpartition("/")[2].startswith(".")
            ]
            if len(tables) > 1:
                named = [one for one in tables if _is_table(one.filename)]
                tables = named if len(named) == 1 else tables
            if len(tables) != 1:
                found = ", ".join(one.filename for one in tables[:5]) or "nothing"
                raise TableFileError(
                    f"{name} must hold one table; it holds {found}. Unpack it, and name the table."
                )
            with archive.open(tables[0]) as member:
                plain = member.read(limit + 1)
            _check_size(len(plain), limit, name)
            return plain
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise TableFileError(f"{name} cannot be unpacked: {error}. Check the file.") from None


def _is_table(name: str) -> bool:
    ends = (".csv", ".tsv", ".txt", ".dat", ".data", ".json", ".jsonl", ".parquet", ".arrow")
    return name.lower().endswith(ends) and "readme" not in name.lower()


def _check_size(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise TableFileError(
            f"{name} expands to more than {limit:,} bytes; if you trust it, unpack it first"
        )


def _read_sheet(content: bytes, name: str, sheet: str | None) -> bytes:
    """A sheet as CSV: Excel's types are found again by the rules of a text file."""
    calamine: Any = import_optional("python_calamine", "reading workbooks", "excel")
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            raise TableFileError(
                f"{name} has no sheet {sheet!r}; its sheets are {', '.join(names)}"
            )
        rows = book.get_sheet_by_name(sheet or names[0]).to_python(skip_empty_area=True)
    except TableFileError:
        raise
    except Exception as error:
        # The package has one error per kind of workbook.
        raise TableFileError(f"{name} cannot be read as a workbook: {error}") from None
    text = io.StringIO()
    csv.writer(text).writerows([_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _cell(cell: object) -> object:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1 << 53:
        return int(cell)
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    return cell


def is_flat_lines(head: bytes) -> bool:
    """Whether JSON is one object per line, and no value of the first is an object or a list."""
    first, _, rest = head.lstrip().partition(b"\n")
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        # A long line may be cut with the head; a document has line breaks, or much within it.
        return openings(first) == 1 and len(first.strip()) > 1
    flat = isinstance(row, dict) and not any(isinstance(one, dict | list) for one in row.values())
    return flat and openings(rest) <= rest.count(b"\n") + 1


def json_lines(content: bytes, name: str) -> bytes:
    """The rows of a JSON document, one object per line; a column of several types holds texts.

    A document is an array of objects or of rows below their names, columns by name, or an object
    that holds one of these. Objects within a row become columns, lists texts.

    Examples
    --------
    >>> json_lines(b'[{"a": 1}, {"a": "x", "b": {"c": [1, 2]}}]', "rows.json")
    b'{"a": "1"}\\n{"a": "x", "b.c": "1, 2"}'
    >>> json_lines(b'{"n": 2, "rows": [{"a": 1}]}', "a.json"), json_lines(b'{"a": [3]}', "b.json")
    (b'{"a": 1}', b'{"a": 3}')
    """
    if depth(content) > MAX_DEPTH:
        raise TableFileError(f"{name} has values nested more than {MAX_DEPTH} deep; flatten them")
    try:
        found = json.loads(content)
    except ValueError as error:
        lines = [line for line in content.split(b"\n") if line.strip()]
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            raise TableFileError(
                f"{name} cannot be read as JSON: {error}. Check the file."
            ) from None
    rows = [_flat(row, name) for row in _json_rows(found)]
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for key, value in row.items():
            if value is not None:
                kinds.setdefault(key, set()).add(float if type(value) is int else type(value))
    mixed = {key for key, found in kinds.items() if len(found) > 1 and str in found}
    for row in rows:
        for key in mixed & row.keys():
            if isinstance(row[key], (bool, int, float)):
                row[key] = json.dumps(row[key])
    return "\n".join(map(json.dumps, rows)).encode()


def _json_rows(found: Any) -> list[Any]:
    """The rows of a document, whichever way they are written."""
    if isinstance(found, list):
        rows = found
        if rows and all(isinstance(row, list) for row in rows):
            rows = _below(rows[0], rows[1:])
        return rows
    columns, data = found.get("columns"), found.get("data")
    if isinstance(columns, list) and isinstance(data, list):
        return _below(columns, data)
    tables = [one for one in found.values() if isinstance(one, list) and one]
    of_rows = [one for one in tables if all(isinstance(row, dict) for row in one)]
    if len(of_rows) == 1:
        return of_rows[0]
    if tables and len(tables) == len(found) and len({len(one) for one in tables}) == 1:
        return _below(list(found), [list(row) for row in zip(*tables, strict=True)])
    parts = [one for one in found.values() if isinstance(one, dict)]
    if parts and len(parts) == len(found):
        if all(key.isdigit() for key in found):
            return parts
        if all(key.isdigit() for one in parts for key in one):
            # As pandas writes a frame: cells by row, by column.
            places = dict.fromkeys(key for one in parts for key in one)
            return [{name: one.get(place) for name, one in found.items()} for place in places]
    return [found]


def _below(names: list[Any], rows: list[Any]) -> list[Any]:
    """Rows as objects, if all are as wide as their names."""
    wide = all(isinstance(row, list) and len(row) == len(names) for row in rows)
    return [dict(zip(map(str, names), row, strict=True)) for row in rows] if wide else [*rows]


def _flat(row: Any, name: str) -> dict[str, Any]:
    """A row without objects and lists of plain values."""
    if not isinstance(row, dict):
        raise TableFileError(
            f"{name} must be an array of objects, one per row; it holds {str(row)[:80]}"
        )
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            inner = _flat(value, name)
            found |= {f"{key}.{one}": cell for one, cell in inner.items()}
        elif isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
            found[key] = ", ".join(map(str, value)) or None
        else:
            found[key] = value
    return found


def openings(text: bytes) -> int:
    """How many brackets open in a text."""
    return text.count(b"{") + text.count(b"[")


def depth(line: bytes) -> int:
    """How deep the values of a text of JSON are nested.

    Examples
    --------
    >>> depth(b'{"a": [1, "]]["]}')
    2
    """
    now = deepest = 0
    for bracket in re.findall(rb"[\[\]{}]", _JSON_TEXT.sub(b"", line)):
        now += 1 if bracket in b"[{" else -1
        deepest = max(deepest, now)
    return deepest


def find_encoding(head: bytes, blocks: Iterable[bytes]) -> str:
    """The encoding of a text file: UTF-8 or UTF-16 where it is that, else Windows-1252 or Latin-1.

    `blocks` are all of its bytes, which are only read where the head may be UTF-8.

    Examples
    --------
    >>> [find_encoding(text, [text]) for text in ("é".encode(), "é".encode("latin-1"))]
    ['utf-8', 'cp1252']
    """
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    pairs = len(head) // 2
    if pairs and (head[1 : 2 * pairs : 2].count(0) > pairs / 2 > head[: 2 * pairs : 2].count(0)):
        return "utf-16-le"
    if pairs and (head[: 2 * pairs : 2].count(0) > pairs / 2):
        return "utf-16-be"
    utf8, windows = (codecs.getincrementaldecoder(name)() for name in ("utf-8", "cp1252"))
    possible = {"utf-8": utf8, "cp1252": windows}
    for block in blocks:
        for encoding, decoder in list(possible.items()):
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                del possible[encoding]
    try:
        utf8.decode(b"", final=True)
    except UnicodeDecodeError:
        possible.pop("utf-8", None)
    return next(iter(possible), "latin-1")
