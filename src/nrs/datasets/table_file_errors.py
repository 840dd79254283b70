"""Errors of table files that cannot be used: what is wrong with them, and what to do."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nrs._util.optional import import_optional

if TYPE_CHECKING:
    from nrs.datasets.table_layout import Ragged


class TableFileError(ValueError):
    """A file that is not a table, or not the table that was asked for; says what to do."""


def ragged_row(name: str, found: Ragged, width: int) -> TableFileError:
    """The error for a row with more or fewer cells than there are columns."""
    cells = "1 cell" if len(found.cells) == 1 else f"{len(found.cells)} cells"
    return TableFileError(
        f"{name} must have as many cells in every row as in its header, {width}: line {found.line} "
        f"has {cells}: {_short(', '.join(found.cells), 60)}. Quote cells that contain the "
        "separator, or fix that line."
    )


@contextlib.contextmanager
def clear_errors(name: str, columns: Sequence[str] = ()) -> Iterator[None]:
    """Turn what Arrow says into what a user can do about it."""
    pyarrow = import_pyarrow()
    try:
        yield
    except MemoryError:  # Arrow's own is one; the file is not to blame.
        raise
    except (UnicodeDecodeError, LookupError) as error:
        if isinstance(error, KeyError):
            raise
        raise wrong_encoding(name, str(error)) from None
    except pyarrow.ArrowException as error:
        raise _described(name, str(error), columns) from None
    except OSError as error:
        # Arrow reports damaged files as OSError without a number.
        if error.errno is not None:
            raise
        raise _described(name, str(error), []) from None


def _described(name: str, said: str, columns: Sequence[str]) -> TableFileError:
    said = " ".join(said.split())
    if "UTF8" in said or "UTF-8" in said:
        return wrong_encoding(name, said)
    if "Could not skip initial" in said:
        return no_rows(name)
    if "Expected" in said and "columns, got" in said:
        cells = said.partition("parse error: ")[2] or said
        return TableFileError(
            f"{name} must have as many cells in every row as in its header: "
            f"{_short(cells[0].lower() + cells[1:])}. Quote cells that contain the separator, "
            "or fix that row."
        )
    if "conversion error to" in said:
        # In CSV column #3: CSV conversion error to double: invalid value 'x'
        kind = said.partition("conversion error to ")[2].partition(":")[0]
        place = said.partition("column #")[2].partition(":")[0]
        known = place.isdigit() and int(place) < len(columns)
        column = repr(columns[int(place)]) if known else f"number {place}"
        cell = said.partition("invalid value ")[2]
        return _changed(name, column, _WORDS.get(kind.partition("[")[0], kind), _short(cell))
    if "changed from" in said:
        # JSON parse error: Column(/rooms) changed from number to string in row 0
        column = said.partition("Column(/")[2].partition(")")[0]
        before, _, after = said.partition("changed from ")[2].partition(" to ")
        return _changed(name, repr(column), f"a {before}", f"a {after}")
    return TableFileError(
        f"{name} cannot be read as CSV, JSON lines, Parquet or Arrow: {_short(said).rstrip('.')}. "
        "Check the file, or write it again."
    )


_WORDS = {
    "double": "numbers",
    "bool": "true or false",
    "timestamp": "dates such as 2024-01-31",
    "string": "text",
}


def _changed(name: str, column: str, expected: str, found: str) -> TableFileError:
    return TableFileError(
        f"{name} must hold {expected} in column {column}, as in the fit; it holds {found}. "
        "Fix the column, or fit again."
    )


def unread_text(name: str, column: str, kind: str, said: str) -> TableFileError:
    """The error for a cell of text that is not of its column's kind, from what Arrow said."""
    # Failed to parse string: 'x' as a scalar of type double
    cell = said.partition("Failed to parse ")[2].partition(": ")[2].rpartition(" as a scalar")
    word = _WORDS.get(kind.partition("[")[0], kind)
    return _changed(name, repr(column), word, _short(cell[0] or cell[2]))


def wrong_encoding(name: str, said: str) -> TableFileError:
    return TableFileError(
        f"{name} must be UTF-8 text: {_short(said)}. Name its encoding, such as encoding='latin-1'."
    )


def check_text(schema: Any, name: str) -> None:
    """Refuse columns that Arrow could not read as text, and cells that are tables themselves."""
    types = import_pyarrow().types
    for field in schema:
        if types.is_binary(field.type):
            raise wrong_encoding(name, f"column {field.name!r} is not UTF-8")
        if types.is_nested(field.type):
            raise TableFileError(
                f"{name} must hold plain values; {field.name!r} holds "
                f"{'lists' if types.is_list(field.type) else 'objects'}. Flatten it first."
            )


def check_names(names: Sequence[str], name: str) -> None:
    repeated = [found for found, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableFileError(
            f"{name} must have distinct column names; {_listed(repeated)} "
            f"{'is' if len(repeated) == 1 else 'are'} repeated. Rename them."
        )
    if any("\ufffd" in found for found in names):
        raise wrong_encoding(name, "the names of its columns are not UTF-8")


def check_wanted(wanted: Sequence[str], names: Sequence[str], name: str) -> None:
    missing = [found for found in wanted if found not in names]
    if missing:
        raise missing_columns(name, missing, names)


def missing_columns(name: str, missing: Sequence[str], names: Sequence[str]) -> TableFileError:
    """The error for columns that a table lacks, with a guess at what they are called instead."""
    import difflib

    close = difflib.get_close_matches(missing[0], names, n=1)
    advice = f"is it {close[0]!r}?" if close else f"its columns are {_listed(names, 6)}"
    many = len(missing) > 1
    return TableFileError(
        f"{name} must have the column{'s' if many else ''} {_listed(missing)}; {advice}"
    )


def no_rows(name: str) -> TableFileError:
    return TableFileError(f"{name} has no rows, only a header; check the file")


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def import_pyarrow() -> Any:
    """The package that reads the files; without it, say which extra installs it."""
    return import_optional("pyarrow", "reading table files", "frames")
