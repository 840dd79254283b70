"""Where the table in a text file is: what is written above its header, and how its rows are cut.

`find_layout` looks at the head of a file and decides once: separator and quotes, the lines before
the first row, the names of the columns. Rows that Arrow's parser would not cut as people mean them
(blanks around separators or aligning columns, empty cells beyond the last column) are written again
by `rewrite`.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nrs.datasets.reading import NOTHING, read_numbers

_SEPARATORS = ",\t;|:^~ "
# Records of the head that are looked at, and lines above a header at most.
_TRIED, _MAX_ABOVE = 500, 50
_SAID = re.compile(r'"?sep=(.)"?\s*')
# Share of the rows that must have one width, so that it is that of the table.
_MIN_SHARE = 0.8
_MIN_ROWS = 5
# Lines below the last row, such as a source or a total, that are no rows.
_MAX_BELOW = 3


@dataclass(frozen=True)
class Layout:
    """How the text of a table is cut into rows and cells.

    Attributes
    ----------
    separator, quote : str
    skip : int
        Lines before the first row, the header among them.
    names : list of str
        Of all columns, distinct.
    unnamed : list of int
        Columns without a name in the file.
    loose : bool
        Whether rows must be written again before Arrow reads them.
    notes : list of str
        What a user should know.
    """

    separator: str
    quote: str
    skip: int
    names: list[str]
    unnamed: list[int]
    loose: bool
    notes: list[str]


@dataclass(frozen=True)
class _Record:
    cells: list[str]
    end: int  # lines up to its end

    @property
    def filled(self) -> int:
        return sum(bool(cell.strip()) for cell in self.cells)


def find_layout(head: str, wanted: Sequence[str] = ()) -> Layout:
    """How the rows of a text file are cut; `wanted` are columns that it should have.

    Examples
    --------
    >>> found = find_layout("Report 2024\\n\\na;b;a;\\n1,5;2;3;x\\n2,5;2;4;y\\n")
    >>> found.separator, found.skip, found.names
    (';', 3, ['a', 'b', 'a.1', 'column 4'])
    """
    said = _SAID.fullmatch(head.partition("\n")[0])
    separator = said[1] if said else find_separator(head)
    if separator == "\t" and _is_aligned(head):
        separator = " "
    quote = _quote(head, separator)
    records, loose = _records(head, separator, quote)
    if said:
        records = records[1:]
    if not records:
        return Layout(separator, quote, 0, [], [], False, [])
    place = _named_header(records, wanted)
    if place is None:
        place = _header_place(records)
    notes = []
    header, body = records[place], [one.cells for one in records[place + 1 :]]
    above = [one for one in records[:place] if one.filled]
    if above:
        lines = "1 line" if len(above) == 1 else f"{len(above)} lines"
        notes.append(f"left out {lines} above the header: {_short(above[0])!r}")
    cells = header.cells
    skip = header.end
    positional = bool(wanted) and all(re.fullmatch(r"column \d+", name) for name in wanted)
    if (positional and not set(wanted) <= set(names_of(cells)[0])) or _is_row(cells, body):
        # The first row is one of the body.
        skip = records[place - 1].end if place else 0
        cells = [""] * len(cells)
        notes.append(f"no header found; the columns are called column 1 … column {len(cells)}")
    elif _has_row_names(cells, body):
        cells = ["", *cells]
    names, renamed = names_of(cells)
    if renamed:
        notes.append(f"repeated names are numbered: {', '.join(renamed[:4])}")
    longer = any(len(row) > len(cells) and _blank(row[len(cells) :]) for row in body)
    unnamed = [k for k, cell in enumerate(cells) if not clean_name(cell)]
    return Layout(separator, quote, skip, names, unnamed, loose or longer, notes)


def find_separator(head: str) -> str:
    """The separator of a text table: the one by which the rows have as many cells as the header.

    Examples
    --------
    >>> find_separator("a;b\\n1,5;2,5\\n"), find_separator('"x, y"\\tz\\n1\\t2\\n')
    (';', '\\t')
    """
    best, found = (False, 0.0, False, 0, 0), ","
    for place, separator in enumerate(_SEPARATORS):
        records, fits = _widths(head, separator)
        # The last row may be cut.
        body = records[1:-1] if len(records) > 2 else records[1:]
        if not records:
            continue
        width, usual = records[0], Counter(body).most_common(1)[0][0] if body else 0
        if body.count(width) < 0.5 * len(body) and (place < 4 or usual == width + 1 > 2):
            # Lines above the header, or no header of the names of rows.
            width = usual
        if width < 2:
            continue
        share = body.count(width) / len(body) if body else 1.0
        rating = (fits, round(share, 1), width == records[0], -(place >= 4), width)
        if rating > best:
            best, found = rating, separator
    return found


def _widths(head: str, separator: str) -> tuple[list[int], bool]:
    """How many cells the first rows have, and whether quotes end where cells do."""
    for strict in (True, False):
        try:
            return [len(row) for row, _ in _rows(head, separator, strict=strict) if row], strict
        except csv.Error:
            continue
    return [], False


def _rows(
    text: str | Iterable[str],
    separator: str,
    *,
    strict: bool = False,
    blanks: bool = False,
    quote: str = '"',
    most: int = _TRIED,
) -> Iterator[tuple[list[str], int]]:
    """Rows of a text or its lines, and how many lines end with each; at most so many rows."""
    lines = io.StringIO(text, newline="") if isinstance(text, str) else text
    # Blanks that align columns may be tabs, and may stand at both ends of a line.
    plain = (f"{line.strip()}\n".replace("\t", " ") for line in lines)
    reader = csv.reader(
        plain if separator == " " and blanks else lines,
        delimiter=separator,
        quotechar=quote,
        skipinitialspace=blanks,
        strict=strict,
    )
    found = 0
    try:
        for row in reader:
            yield row, reader.line_num
            found += bool(row)
            if found == most:
                return
    except csv.Error as error:
        # A quoted cell may be cut with the head.
        if strict and "end of data" not in str(error):
            raise


def _records(head: str, separator: str, quote: str) -> tuple[list[_Record], bool]:
    """The first rows that hold something, and whether blanks around cells are not part of them."""
    found = [_Record(row, end) for row, end in _rows(head, separator, quote=quote) if row]
    widths = [len(one.cells) for one in found]
    if separator == " " or len(found) < 2:
        aligned = [
            _Record(row, end) for row, end in _rows(head, " ", blanks=True) if separator == " "
        ]
        aligned = [one for one in aligned if one.filled]
        body = [len(one.cells) for one in aligned[1:]]
        if body and "  " in head and _share(body) >= _share(widths[1:]):
            return aligned, True
        return found, False
    inner = [cell for one in found for cell in one.cells[1:] if cell.strip()]
    # "39, State-gov, 77516": blanks belong to the separator where they always follow it.
    if inner and separator != "\t" and all(cell[0] == " " for cell in inner):
        spaced = _rows(head, separator, blanks=True, quote=quote)
        return [_Record([cell.strip() for cell in row], end) for row, end in spaced if row], True
    return found, False


def _is_aligned(head: str) -> bool:
    """Whether blanks align the columns of a file with tabs, too."""
    by_blanks = [len(row) for row, _ in _rows(head, " ", blanks=True) if row]
    by_tabs = [len(row) for row, _ in _rows(head, "\t") if row]
    runs = sum("  " in line.strip() for line in head.splitlines())
    return _share(by_blanks) == 1.0 and by_blanks[0] > by_tabs[0] and runs > len(by_blanks) / 2


def _share(widths: Sequence[int]) -> float:
    return Counter(widths).most_common(1)[0][1] / len(widths) if widths else 0.0


def _quote(head: str, separator: str) -> str:
    """The sign around cells that hold the separator."""
    shares = []
    for quote in "\"'":
        rows = [row for row, _ in _rows(head, separator, quote=quote) if row]
        shares.append(_share([len(row) for row in rows[1:]]))
    inner = f"{separator}'" in head or f"'{separator}" in head
    return "'" if inner and shares[1] >= _MIN_SHARE > shares[0] else '"'


def _has_row_names(cells: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether rows begin with their names, which have no header, as R writes them."""
    width = len(cells) + 1
    if not body or any(len(row) != width for row in body) or len(cells) < 2:
        return False
    if all(_blank(row[-1:]) for row in body):
        return False
    # The first row is one, not the header below a title.
    first, last = body[0], body[-1]
    return any(_number(first[k]) is not None and _number(last[k]) is not None for k in range(width))


def _named_header(records: Sequence[_Record], wanted: Sequence[str]) -> int | None:
    """The first row with all names that are wanted."""
    if not wanted:
        return None
    for place, one in enumerate(records[:_MAX_ABOVE]):
        if set(wanted) <= set(names_of(one.cells)[0]):
            return place
    return None


def _header_place(records: Sequence[_Record]) -> int:
    """The first row that is as wide as the table, and as full."""
    body = records[1:]
    if len(body) < 2:
        return 0
    width = Counter(len(one.cells) for one in body).most_common(1)[0][0]
    full = sorted(one.filled for one in body if len(one.cells) == width)
    usual = full[len(full) // 2]
    if width < 2 or _has_row_names(records[0].cells, [one.cells for one in body]):
        return 0
    for place, one in enumerate(records[:_MAX_ABOVE]):
        said = len(one.cells) != width and one.cells[0].startswith("#")
        # A header may lack the separators of columns that are empty.
        if len(one.cells) >= min(width, usual) and 2 * one.filled >= usual and not said:
            return place
    return 0


def _is_row(cells: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a row like the others rather than names.

    Its numbers stand over columns of numbers, and its texts occur again below them. Years, and
    0, 1, 2, … are names.
    """
    columns = [[row[k] for row in body if len(row) > k] for k in range(len(cells))]
    if len(body) < _MIN_ROWS:
        return False
    numbers: list[tuple[str, list[str]]] = []
    texts: list[tuple[str, list[str]]] = []
    for cell, column in zip(cells, columns, strict=True):
        text = cell.strip()
        if text.lower() in NOTHING:
            continue
        (texts if _number(text) is None else numbers).append((text, column))
    if any(text not in {one.strip() for one in column} for text, column in texts):
        return False
    values = [_number(text) for text, _ in numbers]
    if any(sum(_number(one) is not None for one in column) < 0.5 * len(column)
           for _, column in numbers):  # fmt: skip
        return False
    steps = {b - a for a, b in itertools.pairwise(values) if a is not None and b}
    counted = len(values) > 1 and steps == {1.0}
    if list(cells) in [list(row) for row in body] and not numbers:
        # A header that is repeated within the table.
        return False
    return bool(numbers or texts) and not counted


def _number(text: str) -> float | None:
    values = read_numbers([text], ".", "").values
    return None if values[0] != values[0] else float(values[0])


def _blank(cells: Sequence[str]) -> bool:
    return not any(cell.strip() for cell in cells)


def _short(record: _Record) -> str:
    text = " ".join(cell for cell in record.cells if cell.strip())
    return text if len(text) <= 40 else text[:39] + "…"


def names_of(cells: Sequence[str]) -> tuple[list[str], list[str]]:
    """Distinct names of columns, and those that were given a number for it.

    Examples
    --------
    >>> names_of(["weight,\\nkg ", "", "a", "a"])
    (['weight, kg', 'column 2', 'a', 'a.1'], ['a.1'])
    """
    names = [clean_name(cell) or f"column {place}" for place, cell in enumerate(cells, 1)]
    taken, renamed = set(names), []
    seen: set[str] = set()
    for place, name in enumerate(names):
        number = 1
        while name in seen and f"{name}.{number}" in taken:
            number += 1
        if name in seen:
            names[place] = f"{name}.{number}"
            renamed.append(names[place])
            taken.add(names[place])
        seen.add(name)
    return names, renamed


def clean_name(name: str) -> str:
    """A name without line breaks and repeated blanks; empty if it is nothing else.

    Tabs stay: in a file of another separator they are part of a name.
    """
    return " ".join(filter(None, re.split("[ \r\n\xa0]+", name)))


def rewrite(text: str, layout: Layout) -> str:
    """The rows of a table without blanks around cells and empty cells beyond the last column."""
    width, out = len(layout.names), io.StringIO()
    writer = csv.writer(
        out, delimiter=layout.separator, quotechar=layout.quote, lineterminator="\n"
    )
    for row, end in _rows(text, layout.separator, blanks=True, quote=layout.quote, most=-1):
        if row and end > layout.skip:
            cells = [cell.strip() for cell in row]
            writer.writerow(cells[:width] if _blank(cells[width:]) else cells)
    return out.getvalue()


@dataclass(frozen=True)
class Ragged:
    """A row that is not as wide as its table.

    Attributes
    ----------
    line : int
        In the file, from 1, on which the row ends.
    cells : list of str
    kept : int or None
        Lines up to the last row of the table, if this and what follows it are no rows: a source,
        a number of rows.
    """

    line: int
    cells: list[str]
    kept: int | None


def find_ragged(text: str | Iterable[str], layout: Layout) -> Ragged | None:
    """The first row with more or fewer cells than there are columns.

    Examples
    --------
    >>> text = "a,b,c\\n1,2,3\\n4,5,6\\nSource: me\\n"
    >>> find_ragged(text, find_layout(text))
    Ragged(line=4, cells=['Source: me'], kept=3)
    """
    width, found, last = len(layout.names), [], layout.skip
    rows = _rows(text, layout.separator, blanks=layout.loose, quote=layout.quote, most=-1)
    for row, end in rows:
        if not row or end <= layout.skip:
            continue
        if len(row) == width or (layout.loose and _blank(row[width:])):
            last = end
        else:
            found.append((end, row, last))
    if not found:
        return None
    line, cells, kept = found[0]
    below = last == kept and len(found) <= _MAX_BELOW
    short = all(len(row) <= max(1, width // 2) for _, row, _ in found)
    return Ragged(line, cells, kept if below and short and kept > layout.skip else None)
