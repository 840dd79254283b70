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
_SEPARATORS = ",\t;|:^~ "
# Records of the head that the separator is found by.
_TRIED = 200


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


def json_lines(content: bytes, name: str) -> bytes:
    """The objects of a JSON array, one per line; a column of several types holds texts.

    Examples
    --------
    >>> json_lines(b'[{"a": 1}, {"a": "x"}]', "rows.json")
    b'{"a": "1"}\\n{"a": "x"}'
    """
    if depth(content) > MAX_DEPTH:
        raise TableFileError(f"{name} has values nested more than {MAX_DEPTH} deep; flatten them")
    try:
        rows = json.loads(content)
    except ValueError as error:
        raise TableFileError(f"{name} cannot be read as JSON: {error}. Check the file.") from None
    wrong = next((row for row in rows if not isinstance(row, dict)), None)
    if wrong is not None:
        raise TableFileError(
            f"{name} must be an array of objects, one per row; it holds {str(wrong)[:80]}"
        )
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


def find_separator(head: str) -> str:
    """The separator of a text table: the one by which the rows have as many cells as the header.

    Examples
    --------
    >>> find_separator("a;b\\n1,5;2,5\\n"), find_separator('"x, y"\\tz\\n1\\t2\\n')
    (';', '\\t')
    """
    best, found = (False, 0.0, 0, 0), ","
    for place, separator in enumerate(_SEPARATORS):
        widths, fits = _widths(head, separator)
        # The last row may be cut.
        body = widths[1:-1] if len(widths) > 2 else widths[1:]
        if not widths or widths[0] < 2:
            continue
        share = sum(width == widths[0] for width in body) / len(body) if body else 1.0
        rating = (fits, round(share, 1), -(place >= 4), widths[0])
        if rating > best:
            best, found = rating, separator
    return found


def _widths(head: str, separator: str) -> tuple[list[int], bool]:
    """How many cells the first rows have, and whether quotes end where cells do."""
    for strict in (True, False):
        widths = []
        try:
            for row in csv.reader(io.StringIO(head), delimiter=separator, strict=strict):
                if row:
                    widths.append(len(row))
                if len(widths) == _TRIED:
                    break
        except csv.Error as error:
            # A quoted cell may be cut with the head.
            if "end of data" not in str(error):
                continue
        return widths, strict
    return [], False


def clean_names(names: Iterable[str]) -> list[str]:
    """Names of columns without line breaks and blanks around them; a place for those without.

    Tabs stay: in a file of another separator they are part of a name.

    Examples
    --------
    >>> clean_names(["weight,\\nkg ", "", "a"])
    ['weight, kg', 'column 2', 'a']
    """
    return [clean_name(name) or f"column {place}" for place, name in enumerate(names, 1)]


def clean_name(name: str) -> str:
    """A name without line breaks and repeated blanks; empty if it is nothing else."""
    return " ".join(filter(None, re.split("[ \r\n\xa0]+", name)))
