"""The options of every command that reads a table: how its cells are written."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer


def read_types(given: list[str] | None) -> dict[str, str]:
    """Types of columns from COLUMN=TYPE; a name may hold an equals sign.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> read_types(["zip=category", "a=b=date"])
    {'zip': 'category', 'a=b': 'date'}
    """
    found = {}
    for text in given or []:
        name, sign, kind = text.rpartition("=")
        if not sign or not name:
            raise ValueError(f"type must be COLUMN=TYPE, such as zip=category; got {text!r}")
        found[name] = kind
    return found


def _options(
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="Encoding of a text file; auto finds it.")
    ] = "auto",
    sheet: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Sheet of a workbook; default: the first.", show_default=False
        ),
    ] = None,
    decimal: Annotated[
        str,
        typer.Option(
            metavar="SIGN", help="Decimal sign of all numbers: . or ,", show_default=False
        ),
    ] = "",
    dates: Annotated[
        str,
        typer.Option(
            metavar="ORDER", help="Order of all dates: dmy, mdy or ymd.", show_default=False
        ),
    ] = "",
    na: Annotated[
        list[str] | None,
        typer.Option(
            "--na",
            metavar="CELL",
            help="Cell that means missing, such as -200; may be repeated.",
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=TYPE",
            help="What a column is: number, date, time, category or text; may be repeated.",
        ),
    ] = None,
) -> dict[str, Any]:
    """How a file is read, as arguments of :mod:`nrs.datasets.table_files`."""
    from nrs.datasets.convert import Overrides

    overrides = Overrides(decimal, dates, tuple(na or ()), read_types(types))
    return {"encoding": encoding, "sheet": sheet, "overrides": overrides}


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of reading in place of its argument `reading`.

    The command gets the keyword arguments that all readers of :mod:`nrs.files` and
    :mod:`nrs.tabular.predict_file` take.
    """
    ours = inspect.signature(_options).parameters
    own = [one for name, one in inspect.signature(command).parameters.items() if name != "reading"]
    # Options of output stay last.
    last = [one for one in own if one.name in ("quiet", "as_json")]
    ordered = [*(one for one in own if one not in last), *ours.values(), *last]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        reading = _options(**{name: given.pop(name) for name in ours})
        command(**given, reading=reading)

    hints = {
        name: hint for function in (command, _options) for name, hint in _hints(function).items()
    }
    as_keywords = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name])
        for one in ordered
    ]
    wrapped.__signature__ = inspect.Signature(as_keywords)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: hints[one.name] for one in ordered}
    return wrapped


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    return get_type_hints(function, include_extras=True)
