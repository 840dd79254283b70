"""What is learned of a table's columns before they are encoded: one add in memory, many in a stream.

Statistics of parts of a table merge into those of the whole, so that files larger than memory and
several processes learn the encoder that one pass over all rows would. They hold plain numbers and
texts, so that another process can send its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, cast

import numpy as np

from nrs.tabular.encode.column_encoders import (
    CategoryEncoder,
    DateEncoder,
    Moments,
    moments,
    row_chunks,
    turns,
)
from nrs.tabular.encode.columns import Column, Kind
from nrs.tabular.encode.table import Table, infinite_value

# A column of more levels than this identifies rows; nor would it fit a model.
MAX_LEVELS = 1_000_000
PARTS = ("month", "weekday", "hour")


class NumberStatistics:
    """Moments and range of the numbers, booleans and durations of a table, all of shape (k,).

    Parameters
    ----------
    columns : the places of the columns in the table.
    """

    def __init__(self, columns: Sequence[int]) -> None:
        self.columns = list(columns)
        self.moments = Moments.none(len(self.columns))
        self.low, self.high = np.full(len(self.columns), np.inf), np.full(len(self.columns), -np.inf)

    def add(self, blocks: Sequence[tuple[Moments, np.ndarray, np.ndarray]]) -> None:
        """Add moments, least and greatest values of consecutive columns."""
        joined = Moments(*map(np.concatenate, zip(*(astuple(b[0]) for b in blocks), strict=True)))
        self.moments = self.moments.merge(joined)
        self.low = np.fmin(self.low, np.concatenate([block[1] for block in blocks]))
        self.high = np.fmax(self.high, np.concatenate([block[2] for block in blocks]))

    def merge(self, other: NumberStatistics) -> NumberStatistics:
        """Those of the rows of both; neither changes."""
        merged = NumberStatistics(self.columns)
        merged.moments = self.moments.merge(other.moments)
        merged.low, merged.high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)
        return merged

    def entry(self, place: int) -> tuple[float, float, float, float]:
        """Missing cells, other cells, mean and standard deviation of one of the columns."""
        missing, seen, mean, std = (float(part[place]) for part in astuple(self.moments))
        return missing, seen, mean, std


class DateStatistics:
    """Moments of times in microseconds, and the range of the angles in year, week and day."""

    def __init__(self) -> None:
        self.numbers = NumberStatistics([0])
        self.angles = np.tile([np.inf, -np.inf], (len(PARTS), 1))

    def add(self, column: Column) -> None:
        ticks = column.values.astype(np.int64).astype(np.float64)
        ticks[column.missing()] = np.nan
        self.numbers.add([number_block(ticks[:, None])])
        dates = column.values[~column.missing()]
        for place, (_, angles) in enumerate(turns(dates) if len(dates) else []):
            low, high = self.angles[place]
            self.angles[place] = min(low, angles.min()), max(high, angles.max())

    def merge(self, other: DateStatistics) -> DateStatistics:
        """Those of the rows of both; neither changes."""
        merged = DateStatistics()
        merged.numbers = self.numbers.merge(other.numbers)
        both = np.stack([self.angles, other.angles])
        merged.angles = np.stack([both[..., 0].min(0), both[..., 1].max(0)], axis=1)
        return merged

    def encoder(self) -> DateEncoder:
        missing, seen, mean, std = self.numbers.entry(0)
        varying = [part for part, (low, high) in zip(PARTS, self.angles, strict=True) if high > low]
        return DateEncoder(mean, std, varying, missing > 0 and seen > 0)


class CategoryStatistics:
    """Rows of each text of a category column, and rows without one."""

    def __init__(self, counts: Counter[str] | None = None, missing: int = 0) -> None:
        self.counts: Counter[str] = Counter() if counts is None else counts
        self.missing = missing

    def add(self, column: Column) -> None:
        rows = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
        self.missing += int(rows[0])
        for text, count in zip(column.levels, rows[1:].tolist(), strict=True):
            if count:
                self.counts[text] += count

    def merge(self, other: CategoryStatistics) -> CategoryStatistics:
        """Those of the rows of both; neither changes."""
        return CategoryStatistics(self.counts + other.counts, self.missing + other.missing)

    def ordered(self) -> tuple[list[str], np.ndarray]:
        """The texts in order, and the rows of each."""
        texts = sorted(self.counts)
        return texts, np.array([self.counts[text] for text in texts], dtype=np.int64)

    def encoder(self, max_levels: int) -> CategoryEncoder:
        return CategoryEncoder.of_counts(*self.ordered(), self.missing, max_levels)


class TableStatistics:
    """Statistics of every column of a table.

    Parameters
    ----------
    names : list of str or None
    kinds : list of str
        Of each column.

    Examples
    --------
    >>> from nrs.tabular.encode.table import read_table
    >>> parts = [read_table([[1.0, "a"]]), read_table([[3.0, "b"]])]
    >>> statistics = [TableStatistics.of(part) for part in parts]
    >>> merged = statistics[0].merge(statistics[1])
    >>> merged.n_rows, merged.numbers.entry(0), sorted(merged.categories[1].counts)
    (2, (0.0, 2.0, 2.0, 1.0), ['a', 'b'])
    """

    def __init__(self, names: list[str] | None, kinds: Sequence[Kind]) -> None:
        self.names, self.kinds, self.n_rows = names, list(kinds), 0
        self.numbers = NumberStatistics(
            [k for k, kind in enumerate(kinds) if kind not in ("category", "date")]
        )
        self.dates = {k: DateStatistics() for k, kind in enumerate(kinds) if kind == "date"}
        self.categories = {
            k: CategoryStatistics() for k, kind in enumerate(kinds) if kind == "category"
        }

    @classmethod
    def of(
        cls, table: Table, rows: np.ndarray | None = None, declared: frozenset[int] = frozenset()
    ) -> TableStatistics:
        """Those of a table in memory, or of some of its rows; kinds are found on the way.

        Parameters
        ----------
        declared : columns that are categories whatever they hold.
        """
        if table.matrix is not None:
            plain: Kind = "boolean" if table.matrix.dtype.kind == "b" else "number"
            kinds: list[Kind] = [
                "category" if k in declared else plain for k in range(table.n_columns)
            ]
            statistics = cls(table.names, kinds)
            statistics.add(table, rows)
            return statistics
        columns = [
            table.column(k, "category" if k in declared else None) for k in range(table.n_columns)
        ]
        statistics = cls(table.names, [column.kind for column in columns])
        statistics._add_columns(columns, rows)
        return statistics

    def add(self, table: Table, rows: np.ndarray | None = None) -> None:
        """Add the rows of a table in memory.

        Raises
        ------
        ValueError
            If a number is infinite, or a category has too many levels.
        """
        if table.matrix is None:
            self._add_columns([table.column(k, kind) for k, kind in enumerate(self.kinds)], rows)
            return
        self._add_others(
            {k: table.column(k, "category") for k in self.categories}, rows, table.n_rows
        )
        if self.numbers.columns:
            self.numbers.add([_matrix_block(table, rows, self.numbers.columns)])

    def _add_columns(self, columns: Sequence[Column], rows: np.ndarray | None) -> None:
        self._add_others(dict(enumerate(columns)), rows, len(columns[0].values))
        blocks = []
        for k in self.numbers.columns:
            values = columns[k].values if rows is None else columns[k].values[rows]
            blocks.append(number_block(values[:, None]))
        if blocks:
            self.numbers.add(blocks)

    def _add_others(
        self, columns: dict[int, Column], rows: np.ndarray | None, n_rows: int
    ) -> None:
        """Add rows of the columns that are no numbers."""
        self.n_rows += n_rows if rows is None else len(rows)
        for k, statistics in (self.dates | self.categories).items():
            column = columns[k]
            if rows is not None:
                column = Column(column.kind, column.values[rows], column.levels)
            statistics.add(column)
        self._check_levels()

    def _check_levels(self) -> None:
        for k, one in self.categories.items():
            if len(one.counts) > MAX_LEVELS:
                name = repr(self.names[k]) if self.names else str(k)
                raise ValueError(
                    f"column {name} has more than {MAX_LEVELS:,} different texts and looks like "
                    "an ID. Leave it out."
                )

    def merge(self, other: TableStatistics) -> TableStatistics:
        """Those of one pass over the rows of both; neither changes."""
        merged = TableStatistics(self.names, self.kinds)
        merged.n_rows = self.n_rows + other.n_rows
        merged.numbers = self.numbers.merge(other.numbers)
        merged.dates = {k: one.merge(other.dates[k]) for k, one in self.dates.items()}
        merged.categories = {k: one.merge(other.categories[k]) for k, one in self.categories.items()}
        merged._check_levels()
        return merged

    def learned(
        self, max_levels: int
    ) -> tuple[dict[int, tuple[float, ...]], dict[int, CategoryEncoder | DateEncoder]]:
        """What :meth:`.encoder.TableEncoder.fit_learned` takes."""
        numbers = {k: self.numbers.entry(place) for place, k in enumerate(self.numbers.columns)}
        encoders: dict[int, CategoryEncoder | DateEncoder] = {
            k: one.encoder() for k, one in self.dates.items()
        }
        encoders |= {k: one.encoder(max_levels) for k, one in self.categories.items()}
        return cast(Any, numbers), encoders

    def range(self, index: int) -> tuple[float, float]:
        """The least and the greatest value of a column that is no category."""
        if index in self.dates:
            return float(self.dates[index].numbers.low[0]), float(self.dates[index].numbers.high[0])
        place = self.numbers.columns.index(index)
        return float(self.numbers.low[place]), float(self.numbers.high[place])

    def counts(self, index: int) -> tuple[int, int, float]:
        """Missing cells, other cells, and the mean of a column (0 of a category)."""
        if index in self.categories:
            one = self.categories[index]
            return one.missing, one.counts.total(), 0.0
        numbers, place = self.numbers, 0
        if index in self.dates:
            numbers = self.dates[index].numbers
        else:
            place = self.numbers.columns.index(index)
        missing, seen, mean, _ = numbers.entry(place)
        return int(missing), int(seen), mean

    def state(self) -> dict[str, Any]:
        """Everything, as JSON values: what one process sends to another."""

        def numbers(one: NumberStatistics) -> list[list[float]]:
            return [part.tolist() for part in (*astuple(one.moments), one.low, one.high)]

        return {
            "names": self.names,
            "kinds": self.kinds,
            "n_rows": self.n_rows,
            "numbers": numbers(self.numbers),
            "dates": [
                [k, numbers(one.numbers), one.angles.tolist()] for k, one in self.dates.items()
            ],
            "categories": [
                [k, list(one.counts.items()), one.missing] for k, one in self.categories.items()
            ],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableStatistics:
        """Read what :meth:`state` gave.

        Examples
        --------
        >>> import json
        >>> from nrs.tabular.encode.table import read_table
        >>> state = TableStatistics.of(read_table([[1.0, "a"]])).state()
        >>> TableStatistics.from_state(json.loads(json.dumps(state))).state() == state
        True
        """
        statistics = cls(state["names"], state["kinds"])
        statistics.n_rows = state["n_rows"]

        def fill(one: NumberStatistics, parts: list[list[float]]) -> None:
            *learned, one.low, one.high = (np.array(part) for part in parts)
            one.moments = Moments(*learned)

        fill(statistics.numbers, state["numbers"])
        for k, parts, angles in state["dates"]:
            fill(statistics.dates[k].numbers, parts)
            statistics.dates[k].angles = np.array(angles)
        for k, counts, missing in state["categories"]:
            statistics.categories[k] = CategoryStatistics(Counter(dict(counts)), missing)
        return statistics


def number_block(values: np.ndarray) -> tuple[Moments, np.ndarray, np.ndarray]:
    """Moments, least and greatest values of (n, k) numbers, none of them infinite."""

    def chunks() -> Iterator[tuple[int, np.ndarray]]:
        for part in row_chunks(len(values), values.shape[1]):
            yield part.start, values[part]

    learned = moments(chunks, values.shape[1], lambda row, column: None)
    return learned, *_range(values)


def _range(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    return low.astype(np.float64), high.astype(np.float64)


def _matrix_block(
    table: Table, rows: np.ndarray | None, columns: list[int]
) -> tuple[Moments, np.ndarray, np.ndarray]:
    """:func:`number_block` of columns of a table's matrix, without a copy of it."""
    matrix = table.matrix
    assert matrix is not None
    n_rows = len(matrix) if rows is None else len(rows)
    pick: Any = slice(None) if columns == list(range(matrix.shape[1])) else columns
    low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)

    def chunks() -> Iterator[tuple[int, np.ndarray]]:
        for part in row_chunks(n_rows, len(columns)):
            chunk = matrix[part] if rows is None else matrix[rows[part]]
            yield part.start, chunk[:, pick]

    def on_infinite(row: int, place: int) -> None:
        at, column = (row if rows is None else int(rows[row])), columns[place]
        raise infinite_value(table.label(column), at, matrix[at, column])

    learned = moments(chunks, len(columns), on_infinite)
    for _, chunk in chunks():
        of_chunk = _range(chunk)
        low, high = np.fmin(low, of_chunk[0]), np.fmax(high, of_chunk[1])
    return learned, low, high
