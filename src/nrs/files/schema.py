"""What the columns of a table hold, in a few words each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from nrs.tabular.encode.column_encoder import Statistics
from nrs.tabular.encode.statistics import count
from nrs.tabular.encode.table import read_table

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class ColumnSummary:
    """One column in a few words: its range or most frequent levels, and its missing cells."""

    name: str
    kind: str
    values: str
    missing: int

    @classmethod
    def of(cls, name: str, kind: str, statistics: Statistics) -> Self:
        """What was counted of a column."""
        found = statistics.summary()
        return cls(name, kind, found.values if found.seen else "nothing", found.missing)

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
    found = []
    for place, name in enumerate(read.names or [f"x{place}" for place in range(read.n_columns)]):
        column = read.column(place)
        found.append(ColumnSummary.of(name, column.kind, count(column)))
    return found
