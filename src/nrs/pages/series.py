"""What a figure shows: panels of series of reported and measured points."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from nrs.pages.tables import Cell, Table

# Okabe and Ito's colours, told apart with any colour vision; black and yellow are left out
# because one of them is lost on a dark or a light page.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8F98"]
# From this ratio of largest to smallest x, the small ones would crowd on a linear axis.
_CROWDED = 20
# Groups this much further apart than they are wide would each be a flat line on one scale.
_APART = 3
_MAX_PANELS = 12


@dataclass(frozen=True)
class Value:
    x: float | str
    mean: float
    std: float | None
    cell: Cell


@dataclass(frozen=True)
class Series:
    name: str
    index: int
    """Its place among the figure's series, which gives its colour and marker."""
    reported: list[Value]
    measured: list[Value]

    @property
    def values(self) -> list[Value]:
        return [*self.reported, *self.measured]


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `ticks` are the x values and their names, in order."""

    title: str
    series: list[Series]
    ticks: list[tuple[float | str, str]]
    x_label: str

    @property
    def is_categorical(self) -> bool:
        return any(isinstance(x, str) for x, _ in self.ticks)

    @property
    def is_logarithmic(self) -> bool:
        xs = [x for x, _ in self.ticks if not isinstance(x, str)]
        return bool(xs) and min(xs) > 0 and max(xs) / min(xs) >= _CROWDED

    @property
    def y_range(self) -> tuple[float, float]:
        """From the lowest error bar to the highest, with a little room."""
        values = [value for one in self.series for value in one.values]
        low = min((v.mean - (v.std or 0) for v in values), default=0.0)
        high = max((v.mean + (v.std or 0) for v in values), default=1.0)
        room = 0.08 * (high - low) or 0.01 * abs(high) or 0.5
        return low - room, high + room


def panels_of(table: Table) -> list[Panel]:
    """The panels of a figure: one, or one a data set where a common scale would hide everything.

    Data sets are the rows where these are names, and the series where the rows are numbers.
    """
    xs = _numbers(table.rows)
    rows = table.rows if xs is None else sorted(table.rows, key=lambda row: xs[row])
    ticks: list[tuple[float | str, str]] = [
        (str(row) if xs is None else xs[row], str(row)) for row in rows
    ]
    places = dict(zip(rows, (x for x, _ in ticks), strict=True))
    series = [_series(table, i, places) for i in range(len(table.columns))]
    series = [one for one in series if one.values]
    if xs is not None:
        if _are_apart([[value.mean for value in one.values] for one in series]):
            return [Panel(one.name, [one], ticks, table.x_label) for one in series]
        return [Panel("", series, ticks, table.x_label)]
    values = [value for one in series for value in one.values]
    if _are_apart([[value.mean for value in values if value.cell.row == row] for row in rows]):
        return [_row_panel(row, series) for row in rows]
    return [Panel("", series, ticks, table.x_label)]


def _series(table: Table, index: int, places: dict[Any, float | str]) -> Series:
    column = table.columns[index]
    reported, measured = [], []
    for row, x in places.items():
        cell = table.grid.get((row, column))
        if cell is not None and isinstance(cell.reported, float):
            reported.append(Value(x, cell.reported, cell.reported_std, cell))
        if cell is not None and cell.measured is not None:
            measured.append(Value(x, cell.measured, cell.measured_std, cell))
    return Series(column, index, reported, measured)


def _row_panel(row: Any, series: list[Series]) -> Panel:
    """One row of the figure with the names of the series on its x axis."""

    def here(values: Iterable[Value], name: str) -> list[Value]:
        return [replace(v, x=name) for v in values if v.cell.row == row]

    kept = [
        Series(s.name, s.index, here(s.reported, s.name), here(s.measured, s.name)) for s in series
    ]
    return Panel(str(row), kept, [(one.name, one.name) for one in series], "")


def wrap_name(name: str) -> list[str]:
    """The lines of a name below an axis.

    Examples
    --------
    >>> wrap_name("MLP-D, 80 % kept")
    ['MLP-D, 80', '% kept']
    """
    return textwrap.wrap(name, 10, break_long_words=False, break_on_hyphens=False) or [""]


def _numbers(rows: Iterable[Any]) -> dict[Any, float] | None:
    """Each row as a number; None if one of them is a name.

    Text that reads as a number is one, for rows that went through a JSON key.
    """
    try:
        numbers = {row: float(row) for row in rows}
    except (TypeError, ValueError):
        return None
    return numbers if all(map(math.isfinite, numbers.values())) else None


def _are_apart(groups: list[list[float]]) -> bool:
    groups = [group for group in groups if group]
    if not 1 < len(groups) <= _MAX_PANELS:
        return False
    widest = max(max(group) - min(group) for group in groups)
    whole = max(map(max, groups)) - min(map(min, groups))
    return widest > 0 and whole > _APART * widest
