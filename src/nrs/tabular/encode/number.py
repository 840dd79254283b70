"""Numbers, booleans and durations: ``(x - center) / scale``, and 0/1 for missing cells.

Scaled numbers are bounded. Between the fences of a column (Tukey, 1977: so many interquartile
ranges beyond the quartiles, and not beyond the training range) a feature is linear in the number;
outside it grows with the logarithm, and by half the width between the fences at the most. A wild
cell can therefore neither squeeze the others together nor be answered with confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nrs.tabular.encode.column_encoder import ColumnEncoder, Summary, Watch
from nrs.tabular.encode.columns import Column, Kind
from nrs.tabular.encode.table import Table

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph

# Far beyond any standardised value of training data, and small enough that a product of two such
# values is still a float32: a wild cell at prediction must not end as NaN inside a network.
LIMIT = 1e18
CHUNK_CELLS = 2**16
# Where fences stand, in interquartile ranges beyond the quartiles (3.4 standard deviations from the
# mean of a normal distribution), or beyond the first wider quantiles for which so many cells are
# inside.
FENCE, FENCE_LEVELS, MIN_INSIDE = 2.0, (0.25, 0.1, 0.05, 0.025, 0.01), 0.9
MAX_FLOAT = float(np.finfo(np.float64).max)
# Quartiles of more cells are no better.
FENCE_CELLS = 10_000
# Beyond a fence the logarithm begins with slope 1 at this share of the width, and ends at so many.
STEP, MAX_STEPS = 0.25, 2.0

# First row and cells of chunks of rows, anew at each call.
Chunks = Callable[[], Iterator[tuple[int, np.ndarray]]]


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


def moments(
    chunks: Chunks, d: int, on_infinite: Callable[[int, int], None] | None = None
) -> Moments:
    """Moments of `d` columns in two passes over chunks of rows, exact for any float64 column.

    With values moved to [-1, 1] by their range, neither 1e300 nor 1e-300 can overflow when
    squared, and since variance ≥ range² / 2n, the subtraction of squares loses at most a factor n
    of float64's precision: 1e-10 for a million rows. `on_infinite` raises for the (row, column) of
    an infinite value.
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


def find_fences(values: np.ndarray) -> tuple[float, float]:
    """Between which values a column's cells are ordinary; infinitely far apart if none varies.

    Examples
    --------
    >>> find_fences(np.array([1.0, 2.0, 3.0, 4.0, 5.0] * 9 + [99999.0]))
    (-2.0, 8.0)
    >>> find_fences(np.array([0.0] * 990 + [1.0] * 9 + [99999.0]))  # mostly one value
    (-2.0, 3.0)
    """
    present = values[~np.isnan(values)].astype(np.float64)
    # Halves: a width may be beyond float64.
    present = np.sort(present[:: math.ceil(len(present) / FENCE_CELLS) or 1] / 2)
    if len(present) == 0:
        return -np.inf, np.inf
    usual = (present[(len(present) - 1) // 2] + present[len(present) // 2]) / 2
    # A column may be spread widely around a spike, which quartiles take for all of it.
    with np.errstate(over="ignore"):
        found = _fences_around(usual, present)
        return found or _fences_around(usual, present[present != usual]) or (-np.inf, np.inf)


def _fences_around(usual: float, cells: np.ndarray) -> tuple[float, float] | None:
    """Fences of ascending halves of cells; None if too many are beyond any."""
    n_cells = len(cells)
    for level in FENCE_LEVELS if n_cells else ():
        # Quantiles that are cells.
        first, last = (max(0, math.ceil(n_cells * one) - 1) for one in (level, 1 - level))
        low, high = min(cells[first], usual), max(cells[last], usual)
        reach = FENCE * (high - low)
        low, high = low - reach, high + reach
        inside = cells.searchsorted(high, "right") - cells.searchsorted(low)
        if reach > 0 and inside / n_cells >= MIN_INSIDE:
            return float(2 * low), float(2 * high)
    return None


def squash(values: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """Numbers drawn near the bounds they are beyond.

    Examples
    --------
    >>> squash(np.array([-1.0, 0.5, 1.1, 1e9, np.inf]), 0.0, 1.0).round(2).tolist()
    [-0.4, 0.5, 1.08, 1.5, 1.5]
    """
    near = np.clip(values, low, high)
    with np.errstate(over="ignore"):
        beyond = values - near
        if beyond.any():
            step = step_beyond(low, high)
            near += np.sign(beyond) * step * np.minimum(np.log1p(np.abs(beyond) / step), MAX_STEPS)
    return near


def far_from(low: float, high: float) -> list[float]:
    """Beyond which numbers a cell is farther from the training range than that is wide."""
    with np.errstate(over="ignore"):
        ends = [2 * low - high, 2 * high - low]
    return np.clip(ends, -MAX_FLOAT, MAX_FLOAT).tolist()


def step_beyond(low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """The unit of the logarithm beyond bounds; almost none beyond ±LIMIT, which is no fence."""
    width = np.asarray(high) / 2 - np.asarray(low) / 2
    return np.where(width == LIMIT, 1.0, 2 * STEP * width)


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

    def encoder(self, scale: str, max_levels: int, sample: Column) -> ColumnEncoder:
        return NumberEncoder.of_moments(self.kind, self.moments, scale, lambda _: sample.values)[0]

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
    ``missing`` whether there is one more, 1 where a cell is missing. Values beyond ``low`` and
    ``high`` are squashed; None is no bound.
    """

    center: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    shown: bool = False
    missing: bool = False
    low: float | None = None
    high: float | None = None
    # Cells beyond these are far from all of training; of earlier files none is.
    far: list[float] | None = None

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

        def cells(place: int) -> np.ndarray:
            return matrix[:, columns[place]] if rows is None else matrix[rows, columns[place]]

        found = moments(chunks, len(columns), on_infinite)
        return cls.of_moments("boolean" if matrix.dtype == bool else "number", found, scale, cells)

    @classmethod
    def of_moments(
        cls, kind: Kind, found: Moments, scale: str, cells: Callable[[int], np.ndarray]
    ) -> list[NumberEncoder]:
        """The encoder of each column, of which `cells` gives all values, or a sample of them."""
        scaled = scale == "standard" and kind != "boolean"
        encoders = []
        for place in range(len(found.seen)):
            missing, seen, mean, std, low, high = (a[place] for a in vars(found).values())
            bounds: tuple[float | None, float | None] = (None, None)
            if scaled and std > 0:
                bounds, mean, std = bound(cells(place), mean, std, low, high)
            one = cls(
                center=float(mean) if scaled else 0.0,
                scale=float(std) if scaled and std > 0 else 1.0,
                fill=0.5 if kind == "boolean" else 0.0 if scaled else float(mean),
                # The paper's network reads every column, so unscaled constants stay.
                shown=bool(seen > 0 and (std > 0 or scale == "none")),
                missing=bool(seen > 0 and missing > 0),
                low=bounds[0],
                high=bounds[1],
                far=far_from(float(low), float(high)) if seen > 0 else None,
                absent=float(missing / max(1, seen + missing)),
            )
            encoders.append(one)
        return encoders

    @cached_property
    def features(self) -> list[str]:
        return [""] * self.shown + [" (missing)"] * self.missing

    @property
    def neutral(self) -> list[float]:
        return [self.fill] * self.shown + [0.0] * self.missing

    @property
    def growth(self) -> list[float]:
        return [1.0] * self.shown + [0.0] * self.missing

    def write(self, column: Column, out: np.ndarray, fold: np.ndarray | None = None) -> None:
        NumberBlock({0: self}, {0: 0}).write(column.values[:, None], out)

    def original(self, place: int, value: float) -> str:
        if place or not self.shown:
            return f"{value:.3g}"
        number = float(value * self.scale + self.center)
        # Scaled and back, 0 is a little off.
        return short(0.0 if abs(number) < 1e-6 * self.scale else number)

    def to_onnx(self, graph: Graph, value: str) -> str:
        pieces = NumberBlock({0: self}, {0: 0}).to_onnx(graph, value)
        return graph.concat([piece for _, piece in pieces])


def bound(
    cells: np.ndarray, mean: float, std: float, low: float, high: float
) -> tuple[tuple[float, float], float, float]:
    """Bounds of a column of this range, and mean and standard deviation of its squashed cells."""
    first, last = find_fences(cells)
    bounds = max(first, float(low)), min(last, float(high))
    if bounds != (low, high):
        near = squash(cells.astype(np.float64), *bounds)
        found = moments(lambda: iter([(0, near[:, None])]), 1)
        mean, std = float(found.mean[0]), float(found.std[0])
    return bounds, mean, std


class NumberBlock:
    """Encoders of some source columns as arrays, to write the features of a table together.

    `first` is the first place of each column among the features.
    """

    def __init__(self, encoders: Mapping[int, NumberEncoder], first: Mapping[int, int]) -> None:
        ones = encoders.items()
        # Places among the features, -1 for none.
        value_at = [first[i] if one.shown else -1 for i, one in ones]
        missing_at = [first[i] + one.shown if one.missing else -1 for i, one in ones]
        self.source = np.array(list(encoders), dtype=np.int64)
        self.center = np.array([one.center for _, one in ones], dtype=np.float64)
        self.scale = np.array([one.scale for _, one in ones], dtype=np.float64)
        self.fill = np.array([one.fill for _, one in ones], dtype=np.float64)
        self.absent = [one.absent for one in encoders.values()]
        far = [one.far or [-np.inf, np.inf] for one in encoders.values()]
        self.far = np.array(far, dtype=np.float64).reshape(-1, 2)
        bounds = [
            (-np.inf if one.low is None else one.low, np.inf if one.high is None else one.high)
            for one in encoders.values()
        ]
        self.bounds = np.array(bounds, dtype=np.float64).reshape(-1, 2)
        with np.errstate(over="ignore"):
            scaled = (self.bounds.T - self.center) / self.scale
        # Scaled; beyond ±LIMIT squares leave float32.
        self.low, self.high = np.clip(scaled, -LIMIT, LIMIT)
        self.value_at = np.array(value_at, dtype=np.int64)
        self.missing_at = np.array(missing_at, dtype=np.int64)

    def write_matrix(
        self, table: Table, columns: list[int], out: np.ndarray, watch: Watch | None = None
    ) -> None:
        """Write the features of `columns` of a table that is a matrix, sparse or not."""
        whole: Any = table.matrix if table.sparse is None else table.sparse
        pick = _index(columns, table.n_columns)
        for rows in row_chunks(table.n_rows, len(columns)):
            chunk = (whole[rows] if table.sparse is None else whole[rows].toarray())[:, pick]
            if not self.write(chunk, out[rows], watch=watch) and np.isinf(chunk).any():
                row, place = np.argwhere(np.isinf(chunk))[0]
                raise table.infinite_value(rows.start + row, columns[place], chunk[row, place])

    def write_columns(
        self, group: slice, columns: list[np.ndarray], out: np.ndarray, watch: Watch | None = None
    ) -> None:
        """Write the features of `columns`, which are a group of the block's."""
        for rows in row_chunks(len(out), len(columns)):
            cells = np.column_stack([values[rows] for values in columns])
            self.write(cells, out[rows], group, watch)

    def write(
        self,
        chunk: np.ndarray,
        out: np.ndarray,
        group: slice = slice(None),
        watch: Watch | None = None,
    ) -> bool:
        """Write the features of a chunk of rows; returns whether all its cells are finite."""
        value_at, missing_at = self.value_at[group], self.missing_at[group]
        # A far outlier may be beyond float64 after the division; it is clipped below.
        with np.errstate(over="ignore"):
            values = np.subtract(chunk, self.center[group], dtype=np.float64)
            values /= self.scale[group]
        finite = bool(np.isfinite(values).all())
        if not finite:
            missing, flagged = np.isnan(values), missing_at >= 0
            np.copyto(values, self.fill[group], where=missing)
            out[:, missing_at[flagged]] = missing[:, flagged]
        values = squash(values, self.low[group], self.high[group])
        if watch is not None:
            first, last = self.far[group].T
            far = (chunk < first) | (chunk > last)
            unknown = np.zeros(values.shape[1], int) if finite else missing.sum(0)
            watch.add(self.source[group].tolist(), far.sum(0).tolist(), unknown.tolist())
        if len(value_at) and value_at[0] >= 0 and (np.diff(value_at) == 1).all():
            out[:, value_at[0] : value_at[-1] + 1] = values
        else:
            out[:, value_at[value_at >= 0]] = values[:, value_at >= 0]
        return finite

    def to_onnx(self, graph: Graph, raw: str) -> list[tuple[np.ndarray, str]]:
        """Add the encoding of (rows, k) cells; returns output columns and the value they take."""
        # In double precision, as by `write`: years, prices and times keep their digits.
        values = graph.op("Sub", raw, graph.constant(self.center))
        values = graph.op("Div", values, graph.constant(self.scale))
        missing = graph.op("IsNaN", values)
        values = graph.op("Where", missing, graph.constant(self.fill), values)
        values = onnx_squash(graph, values, self.low, self.high)
        pieces = []
        for at, value in ((self.value_at, values), (self.missing_at, missing)):
            kept = np.flatnonzero(at >= 0)
            if len(kept):
                if len(kept) < len(at):
                    value = graph.columns(value, kept)
                pieces.append((at[kept], graph.cast(value, np.float32)))
        return pieces

    def state(self) -> dict[str, list[Any]]:
        names = ("source", "center", "scale", "fill", "value_at", "missing_at")
        bounds, far = (
            [[end if np.isfinite(end) else None for end in pair] for pair in ends.tolist()]
            for ends in (self.bounds, self.far)
        )
        arrays = {name: getattr(self, name).tolist() for name in names}
        return arrays | {"bounds": bounds, "far": far, "absent": self.absent}

    @staticmethod
    def encoders(state: Mapping[str, list[Any]]) -> dict[int, NumberEncoder]:
        """The encoder of each source column of the block that had this :meth:`state`."""
        names = ("source", "center", "scale", "fill", "value_at", "missing_at")
        columns = list(zip(*(state[name] for name in names), strict=True))
        none = [None] * len(columns)
        # Earlier files have no bounds, and do not say what is far and how much was missing.
        bounds = state.get("bounds", [(None, None)] * len(columns))
        later = zip(bounds, state.get("far", none), state.get("absent", none), strict=True)
        encoders = {}
        for column, ((low, high), far, absent) in zip(columns, later, strict=True):
            source, center, scale, fill, value_at, missing_at = column
            far = None if far is None or None in far else far
            encoders[source] = NumberEncoder(
                center, scale, fill, value_at >= 0, missing_at >= 0, low, high, far, absent=absent
            )
        return encoders


def onnx_squash(graph: Graph, values: str, low: np.ndarray, high: np.ndarray) -> str:
    """Add :func:`squash` of (rows, k) double values."""
    step = graph.constant(step_beyond(low, high))
    near = graph.op("Min", graph.op("Max", values, graph.constant(low)), graph.constant(high))
    beyond = graph.op("Sub", values, near)
    steps = graph.op("Div", graph.op("Abs", beyond), step)
    steps = graph.op("Log", graph.op("Add", steps, graph.constant(1.0)))
    steps = graph.op("Min", steps, graph.constant(MAX_STEPS))
    added = graph.op("Mul", graph.op("Mul", graph.op("Sign", beyond), step), steps)
    return graph.op("Add", near, added)


def short(number: float) -> str:
    """Four digits, or all of a whole number up to a million: a price is no power of ten."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e6 else f"{number:.4g}"


def _index(columns: list[int], n_columns: int) -> slice | list[int]:
    """An index for `columns` that does not copy when they are all of them, in order."""
    return slice(None) if columns == list(range(n_columns)) else columns
