"""What the columns of a table hold, in a few words each."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nrs.tabular.encode.columns import Column
from nrs.tabular.encode.table import read_table

if TYPE_CHECKING:
    import pyarrow

# A column of more texts than this, all different, looks like an ID.
MAX_UNIQUE = 20
MAX_LEVELS_SHOWN = 4


@dataclass(frozen=True)
class ColumnSummary:
    """One column in a few words: its range or most frequent levels, and its missing cells."""

    name: str
    kind: str
    values: str
    missing: int

    @property
    def is_identifier(self) -> bool:
        """Whether it is different in every row, so that nothing can be learned from it."""
        return self.values == "all different"


def describe_columns(
    table: pyarrow.Table, categorical: Sequence[str] | None = None
) -> list[ColumnSummary]:
    """Describe each column of a table in memory.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"rooms": [2, None, 3], "district": ["b", "a", "b"]})
    >>> [(one.name, one.kind, one.values, one.missing) for one in describe_columns(table)]
    [('rooms', 'number', '2 … 3', 1), ('district', 'category', 'b, a', 0)]
    """
    read = read_table(table, categorical_features=categorical)
    names = read.names or [f"x{place}" for place in range(read.n_columns)]
    return [_describe(name, read.column(place)) for place, name in enumerate(names)]


def _describe(name: str, column: Column) -> ColumnSummary:
    missing = column.missing()
    present, n_missing = column.values[~missing], int(missing.sum())
    if column.kind == "category":
        counts = np.bincount(present, minlength=len(column.levels)).tolist()
        rows = {level: n for level, n in zip(column.levels, counts, strict=True) if n}
        return summarize(name, column.kind, n_missing, levels=rows)
    if len(present) == 0:
        return summarize(name, column.kind, n_missing)
    share = float(present.mean()) if column.kind == "boolean" else 0.0
    limits = present.min(), present.max()
    return summarize(name, column.kind, n_missing, limits=limits, share=share)


def summarize(
    name: str,
    kind: str,
    missing: int,
    *,
    levels: Mapping[str, int] | None = None,
    limits: tuple[float, float] | None = None,
    share: float = 0.0,
) -> ColumnSummary:
    """Put what is known of a column into words.

    Parameters
    ----------
    levels : rows of each level of a category.
    limits : least and greatest value otherwise; dates may be microseconds since 1970.
    share : share of a boolean's rows that are true.

    Examples
    --------
    >>> summarize("plan", "category", 0, levels={"basic": 1, "plus": 5}).values
    'plus, basic'
    """
    if levels:
        values = _most_frequent(levels)
    elif limits is None:
        values = "nothing"
    elif kind == "boolean":
        values = f"{100 * share:.0f} % true"
    elif kind == "date":
        days = np.array(limits).astype("datetime64[us]")
        values = " … ".join(np.datetime_as_string(days, "D").tolist())
    else:
        values = f"{limits[0]:.6g} … {limits[1]:.6g}"
    return ColumnSummary(name, kind, values, missing)


def _most_frequent(levels: Mapping[str, int]) -> str:
    if len(levels) == sum(levels.values()) > MAX_UNIQUE:
        return "all different"
    shown = ", ".join(heapq.nlargest(MAX_LEVELS_SHOWN, levels, key=levels.__getitem__))
    more = len(levels) - MAX_LEVELS_SHOWN
    return shown + (f" and {more} more" if more > 0 else "")
