"""Numbers, booleans and durations: ``(x - center) / scale``, and 0/1 for missing cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nrs.tabular.encode.column_encoder import ColumnEncoder
from nrs.tabular.encode.columns import Column, Kind, Summary
from nrs.tabular.encode.table import Table

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph

# Far beyond any standardised value of training data, and small enough that a product of two such
# values is still a float32: a wild cell at prediction must not end as NaN inside a network.
LIMIT = 1e18
CHUNK_CELLS = 2**16

Chunks = Callable[[], Iterator[tuple[int, np.ndarray]]]
OnInfinite = Callable[[int, int], None]


@dataclass
class Moments:
    """Missing and other cells, mean, standard deviation and range of each column, of shape (d,).

    A column without any value has ``seen == 0`` and mean 0; a constant one has ``std == 0``.
    """

    missing: np.ndarray
    seen: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def none(cls, d: int) -> Moments:
        """Moments of no rows."""
        return cls(*np.zeros((2, d), np.int64), *np.zeros((4, d)))

    def merge(self, other: Moments) -> Moments:
        """Moments of the rows of both (Chan, Golub & LeVeque, 1983), whatever their magnitude."""
        seen = self.seen + other.seen
        a, b = (one.seen / np.maximum(seen, 1) for one in (self, other))
        # Halves, because the difference of two values may be beyond float64.
        apart = other.mean / 2 - self.mean / 2
        largest = np.maximum(np.maximum(self.std, other.std) / 2, np.abs(apart))
        unit = np.where(largest > 0, largest, 1.0)
        squares = a * (self.std / 2 / unit) ** 2 + b * (other.std / 2 / unit) ** 2
        std = 2 * unit * np.sqrt(squares + a * b * (apart / unit) ** 2)
        mean = self.mean + 2 * b * apart
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        # Where one side has no values, the other is taken as it is.
        for empty, known in ((self.seen == 0, other), (other.seen == 0, self)):
            mean, std = np.where(empty, known.mean, mean), np.where(empty, known.std, std)
            low, high = np.where(empty, known.low, low), np.where(empty, known.high, high)
        return Moments(self.missing + other.missing, seen, mean, std, low, high)


def row_chunks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows whose float64 copy stays in the processor's cache."""
    step = max(1, CHUNK_CELLS // max(1, n_columns))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def moments(chunks: Chunks, d: int, on_infinite: OnInfinite | None = None) -> Moments:
    """Moments in two passes over chunks of rows, exact for any float64 column.

    With values moved to [-1, 1] by their range, neither 1e300 nor 1e-300 can overflow when
    squared, and since variance ≥ range² / 2n, the subtraction of squares loses at most a factor n
    of float64's precision: 1e-10 for a million rows.

    Parameters
    ----------
    chunks : returns an iterator over (first row, array of shape (m, d)) each time it is called.
    d : number of columns.
    on_infinite : raises for the (row, column) of an infinite value; None if there can be none.
    """
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    missing, n_rows = np.zeros(d, dtype=np.int64), 0
    for start, chunk in chunks():
        n_rows += len(chunk)
        lowest, highest = chunk.min(axis=0), chunk.max(axis=0)
        if not (np.isfinite(lowest).all() and np.isfinite(highest).all()):
            if on_infinite is not None and len(cells := np.argwhere(np.isinf(chunk))):
                on_infinite(start + int(cells[0, 0]), int(cells[0, 1]))
            absent = np.isnan(chunk)
            missing += absent.sum(axis=0)
            lowest = np.where(absent, np.inf, chunk).min(axis=0)
            highest = np.where(absent, -np.inf, chunk).max(axis=0)
        low, high = np.minimum(low, lowest), np.maximum(high, highest)
    seen = n_rows - missing
    low, high = np.where(seen, low, 0.0), np.where(seen, high, 0.0)
    # Halves before the sum: high - low may be beyond float64.
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    divisor = np.where(half > 0, half, 1.0)
    has_missing = bool(missing.any())
    total, squares = np.zeros(d), np.zeros(d)
    for _, chunk in chunks():
        z = np.subtract(chunk, middle, dtype=np.float64)
        z /= divisor
        if has_missing:
            np.nan_to_num(z, copy=False)
        total += z.sum(axis=0)
        squares += np.einsum("ij,ij->j", z, z)
    count = np.maximum(seen, 1)
    shift = total / count
    std = half * np.sqrt(np.maximum(squares / count - shift**2, 0.0))
    mean = np.where(half > 0, middle + half * shift, low)
    return Moments(missing, seen, mean, np.where(half > 0, std, 0.0), low, high)


@dataclass
class NumberStatistics:
    """Moments of a column whose cells are finite or missing."""

    kind: Kind
    moments: Moments = field(default_factory=lambda: Moments.none(1))

    def add(self, column: Column) -> Self:
        values = column.values[:, None]
        parts = list(row_chunks(len(values), 1))
        found = moments(lambda: ((part.start, values[part]) for part in parts), 1)
        self.moments = self.moments.merge(found)
        return self

    def merge(self, other: Self) -> None:
        self.moments = self.moments.merge(other.moments)

    def encoder(self, scale: str, max_levels: int) -> ColumnEncoder:
        return NumberEncoder.of_moments(self.kind, self.moments, scale)[0]

    def summary(self) -> Summary:
        missing, seen, mean, _, low, high = (array[0] for array in vars(self.moments).values())
        shown = f"{100 * mean:.0f} % true" if self.kind == "boolean" else f"{low:.6g} … {high:.6g}"
        return Summary(int(missing), int(seen), shown)

    def state(self) -> list[Any]:
        return [array.tolist() for array in vars(self.moments).values()]

    def restore(self, state: list[Any]) -> None:
        self.moments = Moments(*map(np.array, state))


@dataclass
class NumberEncoder(ColumnEncoder):
    """A column of numbers, booleans or durations: a value's feature is ``(x - center) / scale``.

    That of a missing cell is ``fill``; ``shown`` says whether values have a feature, and
    ``missing`` whether there is one more, 1 where a cell is missing.
    """

    center: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    shown: bool = False
    missing: bool = False

    @classmethod
    def fit_matrix(
        cls, table: Table, columns: list[int], rows: np.ndarray | None, scale: str
    ) -> list[NumberEncoder]:
        """The encoders of some columns of a table that is a matrix."""
        matrix: Any = table.matrix
        pick = _index(columns, table.n_columns)
        n_rows = table.n_rows if rows is None else len(rows)

        def chunks() -> Iterator[tuple[int, np.ndarray]]:
            for part in row_chunks(n_rows, len(columns)):
                yield part.start, matrix[part if rows is None else rows[part]][:, pick]

        def on_infinite(row: int, place: int) -> None:
            at, index = row if rows is None else int(rows[row]), columns[place]
            raise table.infinite_value(at, index, matrix[at, index])

        found = moments(chunks, len(columns), on_infinite)
        return cls.of_moments("boolean" if matrix.dtype == bool else "number", found, scale)

    @classmethod
    def of_moments(cls, kind: Kind, found: Moments, scale: str) -> list[NumberEncoder]:
        """The encoder of each column."""
        scaled = scale == "standard" and kind != "boolean"
        arrays = (found.missing, found.seen, found.mean, found.std)
        return [
            cls(
                center=mean if scaled else 0.0,
                scale=std if scaled and std > 0 else 1.0,
                fill=0.5 if kind == "boolean" else 0.0 if scaled else mean,
                # The paper's network reads every column, so unscaled constants stay.
                shown=seen > 0 and (std > 0 or scale == "none"),
                missing=seen > 0 and missing > 0,
            )
            for missing, seen, mean, std in zip(*(a.tolist() for a in arrays), strict=True)
        ]

    @cached_property
    def features(self) -> list[str]:
        return [""] * self.shown + [" (missing)"] * self.missing

    @property
    def neutral(self) -> list[float]:
        return [self.fill] * self.shown + [0.0] * self.missing

    def write(self, column: Column, out: np.ndarray) -> None:
        NumberBlock.of({0: self}, {0: 0}).write(column.values[:, None], out)

    def original(self, place: int, value: float) -> str:
        if place or not self.shown:
            return f"{value:.3g}"
        number = float(value * self.scale + self.center)
        # Scaled and back, 0 is a little off.
        return short(0.0 if abs(number) < 1e-6 * self.scale else number)

    def to_onnx(self, graph: Graph, value: str) -> str:
        pieces = NumberBlock.of({0: self}, {0: 0}).to_onnx(graph, value)
        return graph.concat([piece for _, piece in pieces])


@dataclass
class NumberBlock:
    """Number encoders as arrays of an entry each, to write the features of a table together."""

    source: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    fill: np.ndarray
    # Columns of the output, -1 for none.
    value_at: np.ndarray
    missing_at: np.ndarray

    @classmethod
    def of(cls, encoders: Mapping[int, NumberEncoder], first: Mapping[int, int]) -> NumberBlock:
        """Block of the encoders of some source columns, given their first output columns."""
        places = [
            (i, first[i] if one.shown else -1, first[i] + one.shown if one.missing else -1)
            for i, one in encoders.items()
        ]
        learned = [(one.center, one.scale, one.fill) for one in encoders.values()]
        source, value_at, missing_at = np.array(places, dtype=np.int64).reshape(-1, 3).T.copy()
        center, scale, fill = np.array(learned).reshape(-1, 3).T.copy()
        return cls(source, center, scale, fill, value_at, missing_at)

    def write_matrix(self, table: Table, columns: list[int], out: np.ndarray) -> None:
        """Write the features of `columns` of a table that is a matrix, sparse or not."""
        whole: Any = table.matrix if table.sparse is None else table.sparse
        pick = _index(columns, table.n_columns)
        for rows in row_chunks(table.n_rows, len(columns)):
            chunk = (whole[rows] if table.sparse is None else whole[rows].toarray())[:, pick]
            if not self.write(chunk, out[rows]) and np.isinf(chunk).any():
                row, place = np.argwhere(np.isinf(chunk))[0]
                raise table.infinite_value(rows.start + row, columns[place], chunk[row, place])

    def write_columns(self, group: slice, columns: list[np.ndarray], out: np.ndarray) -> None:
        """Write the features of `columns`, which are a group of the block's."""
        block = NumberBlock(*(array[group] for array in vars(self).values()))
        for rows in row_chunks(len(out), len(columns)):
            block.write(np.column_stack([values[rows] for values in columns]), out[rows])

    def write(self, chunk: np.ndarray, out: np.ndarray) -> bool:
        """Write the features of a chunk of rows; returns whether all its cells are finite."""
        # A far outlier may be beyond float64 after the division; it is clipped below.
        with np.errstate(over="ignore"):
            values = np.subtract(chunk, self.center, dtype=np.float64)
            values /= self.scale
        finite = bool(np.isfinite(values).all())
        if not finite:
            missing, flagged = np.isnan(values), self.missing_at >= 0
            np.copyto(values, self.fill, where=missing)
            out[:, self.missing_at[flagged]] = missing[:, flagged]
        np.clip(values, -LIMIT, LIMIT, out=values)
        at = self.value_at
        if len(at) and at[0] >= 0 and (np.diff(at) == 1).all():
            out[:, at[0] : at[-1] + 1] = values
        else:
            out[:, at[at >= 0]] = values[:, at >= 0]
        return finite

    def to_onnx(self, graph: Graph, raw: str) -> list[tuple[np.ndarray, str]]:
        """Add the encoding of (rows, k) cells; returns output columns and the value they take.

        Numbers are subtracted and divided in double precision, as by :meth:`write`: years, prices
        and times keep their digits.
        """
        values = graph.op("Sub", raw, graph.constant(self.center))
        values = graph.op("Div", values, graph.constant(self.scale))
        missing = graph.op("IsNaN", values)
        values = graph.op("Where", missing, graph.constant(self.fill), values)
        values = graph.op("Clip", values, graph.constant(-LIMIT), graph.constant(LIMIT))
        pieces = []
        for at, value in ((self.value_at, values), (self.missing_at, missing)):
            kept = np.flatnonzero(at >= 0)
            if len(kept):
                if len(kept) < len(at):
                    value = graph.columns(value, kept)
                pieces.append((at[kept], graph.cast(value, np.float32)))
        return pieces

    def state(self) -> dict[str, list[Any]]:
        return {name: array.tolist() for name, array in vars(self).items()}

    @staticmethod
    def encoders(state: Mapping[str, list[Any]]) -> dict[int, NumberEncoder]:
        """The encoder of each source column of the block that had this :meth:`state`."""
        columns = zip(*(state[one.name] for one in fields(NumberBlock)), strict=True)
        return {
            source: NumberEncoder(center, scale, fill, value_at >= 0, missing_at >= 0)
            for source, center, scale, fill, value_at, missing_at in columns
        }


def short(number: float) -> str:
    """Four digits, or all of a whole number up to a million: a price is no power of ten."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e6 else f"{number:.4g}"


def _index(columns: list[int], n_columns: int) -> slice | list[int]:
    """An index for `columns` that does not copy when they are all of them, in order."""
    return slice(None) if columns == list(range(n_columns)) else columns
