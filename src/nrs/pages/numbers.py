"""How a number is written: as many decimals as the paper prints in its column."""

from __future__ import annotations

import math
from collections.abc import Iterable

from nrs.pages.tables import Table

_DEFAULT, _MOST = 2, 4


def decimals_of(values: Iterable[float | str | None]) -> int:
    """Decimals that show every value as it was printed, at most 4; 2 where there are none.

    Examples
    --------
    >>> decimals_of([91.5, 0.31, None]), decimals_of([35.0]), decimals_of([])
    (2, 0, 2)
    """
    found = [
        len(f"{value:.{_MOST}f}".rstrip("0").partition(".")[2])
        for value in values
        if isinstance(value, (int, float))
    ]
    return max(found, default=_DEFAULT)


def column_decimals(table: Table) -> dict[str, int]:
    """The decimals of each column of a table, from the values the paper prints in it."""
    return {
        column: decimals_of(
            value
            for row in table.rows
            if (cell := table.grid.get((row, column))) is not None
            for value in (cell.reported, cell.reported_std)
        )
        for column in table.columns
    }


def number(value: float, decimals: int) -> str:
    """A number with this many decimals, and more where two significant digits need them.

    Examples
    --------
    >>> number(91.3, 2), number(0.004, 2), number(-1.5, 1), number(0.0, 2)
    ('91.30', '0.0040', '−1.5', '0.00')
    """
    if value:
        decimals = max(decimals, min(1 - math.floor(math.log10(abs(value))), 6))
    text = f"{value:.{decimals}f}"
    return f"−{text[1:]}" if text.startswith("-") else text


def mean_and_std(mean: float | str, std: float | None, decimals: int) -> str:
    """A mean with its standard deviation where there is one; a text as it is.

    Examples
    --------
    >>> mean_and_std(91.3, 0.2, 2), mean_and_std(91.3, None, 2)
    ('91.30 ± 0.20', '91.30')
    """
    text = mean if isinstance(mean, str) else number(mean, decimals)
    return text if std is None else f"{text} ± {std:.{decimals}f}"


def p_value(p: float) -> str:
    """A p-value as it is usually written.

    Examples
    --------
    >>> p_value(0.0314), p_value(1e-6)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
