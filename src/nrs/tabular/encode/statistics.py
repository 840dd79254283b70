"""Statistics of every column of a table that is read in parts, by one process or by several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nrs.tabular.encode.category import CategoryStatistics
from nrs.tabular.encode.column_encoder import Statistics
from nrs.tabular.encode.columns import Column, Kind
from nrs.tabular.encode.date import DateStatistics
from nrs.tabular.encode.number import NumberStatistics
from nrs.tabular.encode.table import Table

STATISTICS: dict[Kind, type[Statistics]] = {
    **dict.fromkeys(("number", "boolean", "duration"), NumberStatistics),
    "date": DateStatistics,
    "category": CategoryStatistics,
}


def count(column: Column) -> Statistics:
    """Statistics of a column in memory."""
    return STATISTICS[column.kind](column.kind).add(column)


class TableStatistics:
    """What is counted of the columns of a table: a kind and its statistics for each."""

    def __init__(self, names: Sequence[str], kinds: Sequence[Kind]) -> None:
        self.names, self.n_rows = list(names), 0
        self.columns = [(kind, STATISTICS[kind](kind)) for kind in kinds]

    def add(self, table: Table) -> None:
        """Count the rows of a table in memory, whose first columns these are."""
        self.n_rows += table.n_rows
        for index, (kind, column) in enumerate(self.columns):
            cells = table.column(index, kind)
            try:
                column.add(cells)
            except ValueError as error:
                raise ValueError(f"column {self.names[index]!r}: {error}") from error

    def merge(self, other: TableStatistics) -> None:
        """Count the rows of another part of the table too."""
        self.n_rows += other.n_rows
        for (_, one), (_, more) in zip(self.columns, other.columns, strict=True):
            one.merge(more)

    def state(self) -> dict[str, Any]:
        """Everything, as JSON values: what one process sends to another."""
        return {
            "names": self.names,
            "kinds": [kind for kind, _ in self.columns],
            "n_rows": self.n_rows,
            "columns": [column.state() for _, column in self.columns],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableStatistics:
        """Read what :meth:`state` gave."""
        statistics = cls(state["names"], state["kinds"])
        statistics.n_rows = state["n_rows"]
        for (_, column), counted in zip(statistics.columns, state["columns"], strict=True):
            column.restore(counted)
        return statistics
