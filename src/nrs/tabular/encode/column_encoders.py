"""What is learned about the columns of each kind, and how their cells become float32 features.

Each encoder has ``fit``, ``write`` (cells in, features written into a slice of the output),
``to_state`` and ``from_state`` (plain JSON: Python writes a float so that it reads back to the
same bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from nrs.tabular.encode.columns import Column

# Far beyond any standardised value of training data, and small enough that a product of two such
# values is still a float32: a wild cell at prediction must not end as NaN inside a network.
LIMIT = 1e18
CHUNK_CELLS = 2**16

Chunks = Callable[[], Iterator[tuple[int, np.ndarray]]]
OnInfinite = Callable[[int, int], None]


@dataclass
class Moments:
    """Count of missing cells, mean and standard deviation of each column, all of shape (d,).

    A column without any value has ``seen == 0`` and mean 0; a constant one has ``std == 0``.
    """

    missing: np.ndarray
    seen: np.ndarray
    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def none(cls, d: int) -> Moments:
        """Those of no rows."""
        return cls(np.zeros(d, np.int64), np.zeros(d, np.int64), np.zeros(d), np.zeros(d))

    def merge(self, other: Moments) -> Moments:
        """Those of the rows of both (Chan, Golub & LeVeque, 1983), whatever their magnitude.

        Examples
        --------
        >>> two, three = (moments(lambda v=v: iter([(0, np.array(v)[:, None])]), 1, lambda *_: None)
        ...               for v in ([1.0, 3.0], [1.0, 3.0, 7.0]))
        >>> both = two.merge(three)
        >>> both.seen.tolist(), both.mean.tolist(), both.std.round(6).tolist()
        ([5], [3.0], [2.19089])
        """
        seen = self.seen + other.seen
        a, b = (one.seen / np.maximum(seen, 1) for one in (self, other))
        # Halves, because the difference of two values may be beyond float64.
        apart = other.mean / 2 - self.mean / 2
        largest = np.maximum(np.maximum(self.std, other.std) / 2, np.abs(apart))
        unit = np.where(largest > 0, largest, 1.0)
        squares = a * (self.std / 2 / unit) ** 2 + b * (other.std / 2 / unit) ** 2
        std = 2 * unit * np.sqrt(squares + a * b * (apart / unit) ** 2)
        mean = self.mean + 2 * b * apart
        # Where one side has no values, the other is taken as it is.
        for empty, known in ((self.seen == 0, other), (other.seen == 0, self)):
            mean, std = np.where(empty, known.mean, mean), np.where(empty, known.std, std)
        return Moments(self.missing + other.missing, seen, mean, std)


def row_chunks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows whose float64 copy stays in the processor's cache."""
    step = max(1, CHUNK_CELLS // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def moments(chunks: Chunks, d: int, on_infinite: OnInfinite) -> Moments:
    """Mean and standard deviation in two passes over row chunks, exact for any float64 column.

    With values moved to [-1, 1] by their range, neither 1e300 nor 1e-300 can overflow when
    squared, and since variance ≥ range² / 2n, the subtraction of squares loses at most a factor n
    of float64's precision: 1e-10 for a million rows.

    Parameters
    ----------
    chunks : callable
        Gives, each time it is called, an iterator over (first row, array of shape (m, d)).
    d : int
        Number of columns.
    on_infinite : callable
        Raises for the (row, column) of an infinite value.
    """
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    missing, n_rows = np.zeros(d, dtype=np.int64), 0
    for start, chunk in chunks():
        n_rows += len(chunk)
        least, most = chunk.min(axis=0), chunk.max(axis=0)
        if not (np.isfinite(least).all() and np.isfinite(most).all()):
            absent = np.isnan(chunk)
            refuse_infinite(chunk, start, on_infinite)
            missing += absent.sum(axis=0)
            least = np.where(absent, np.inf, chunk).min(axis=0)
            most = np.where(absent, -np.inf, chunk).max(axis=0)
        low, high = np.minimum(low, least), np.maximum(high, most)
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
    return Moments(missing, seen, mean, np.where(half > 0, std, 0.0))


def refuse_infinite(chunk: np.ndarray, start: int, on_infinite: OnInfinite) -> None:
    """Call `on_infinite` with the row and column of the first infinite cell, if there is one."""
    infinite = np.isinf(chunk)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        on_infinite(start + int(row), int(column))


@dataclass
class NumberBlock:
    """The numbers, booleans and durations of a table: ``(x - center) / scale``, 0/1 for missing.

    All arrays have one entry a source column that leads to any output. ``value_at`` and
    ``missing_at`` are output columns, -1 where there is none; ``fill`` is the output for a
    missing cell.
    """

    source: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    fill: np.ndarray
    value_at: np.ndarray
    missing_at: np.ndarray

    def write(
        self, chunk: np.ndarray, out: np.ndarray, part: slice, on_infinite: OnInfinite
    ) -> None:
        """Write the features of `chunk`, shape (m, k), into `out`, shape (m, d_out).

        `part` selects the k entries of this block that the chunk's columns stand for.
        """
        value_at, missing_at = self.value_at[part], self.missing_at[part]
        # A far outlier may be beyond float64 after the division; it is clipped below.
        with np.errstate(over="ignore"):
            values = np.subtract(chunk, self.center[part], dtype=np.float64)
            values /= self.scale[part]
        if not np.isfinite(values).all():
            refuse_infinite(chunk, 0, on_infinite)
            missing = np.isnan(values)
            np.copyto(values, self.fill[part], where=missing)
            shown = missing_at >= 0
            out[:, missing_at[shown]] = missing[:, shown]
        np.clip(values, -LIMIT, LIMIT, out=values)
        if len(value_at) and value_at[0] >= 0 and (np.diff(value_at) == 1).all():
            out[:, value_at[0] : value_at[-1] + 1] = values
        else:
            kept = value_at >= 0
            out[:, value_at[kept]] = values[:, kept]

    @classmethod
    def of(cls, entries: list[tuple[int, float, float, float, int, int]]) -> NumberBlock:
        """Block of (source, center, scale, fill, value_at, missing_at) for each column."""
        names = [field.name for field in fields(cls)]
        return cls.from_state(
            {name: [entry[place] for entry in entries] for place, name in enumerate(names)}
        )

    def to_state(self) -> dict[str, list[Any]]:
        return {name: array.tolist() for name, array in vars(self).items()}

    @classmethod
    def from_state(cls, state: dict[str, list[Any]]) -> NumberBlock:
        whole = ("source", "value_at", "missing_at")
        return cls(
            **{
                name: np.array(values, dtype=np.int64 if name in whole else np.float64)
                for name, values in state.items()
            }
        )


@dataclass
class CategoryEncoder:
    """One-hot features of a category column, left at 0 and 1.

    Attributes
    ----------
    levels : list of str
        Levels seen in training, those with a feature of their own first.
    n_own : int
        How many levels have a feature of their own.
    missing : bool
        Whether missing cells were seen in training: then they are a level, with its own feature.
    other : bool
        Whether the levels after the first ``n_own`` share a feature.
    binary : bool
        Two levels in all, told apart by one feature; a cell of neither is 0.5.
    counts : list of int
        Rows of each level where their frequency is a feature, else empty.
    frequency_mean, frequency_std : float
        Of log(1 + count) over the training rows; a ``frequency_std`` of 0 means no such feature.
    """

    levels: list[str]
    n_own: int
    missing: bool
    other: bool
    binary: bool
    counts: list[int]
    frequency_mean: float
    frequency_std: float

    @classmethod
    def fit(cls, column: Column, max_levels: int) -> CategoryEncoder:
        rows = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
        return cls.of_counts(column.levels, rows[1:], int(rows[0]), max_levels)

    @classmethod
    def of_counts(
        cls, levels: Sequence[str], counts: np.ndarray, n_missing: int, max_levels: int
    ) -> CategoryEncoder:
        """Learn from the rows of each of the sorted levels, and of missing cells."""
        seen = np.flatnonzero(counts)
        # The levels are sorted, so a stable sort by count breaks ties by text.
        order = seen[np.argsort(-counts[seen], kind="stable")]
        many = len(seen) > max_levels
        # A level of one row teaches nothing but that row, so it gets no feature among many.
        own = np.sort(order[:max_levels][counts[order[:max_levels]] > 1]) if many else seen
        rest = np.setdiff1d(seen, own)
        mean = std = 0.0
        if many:
            each = np.log1p(counts[seen])
            share = counts[seen] / counts[seen].sum()
            mean = float(share @ each)
            # Over equal counts rounding would leave a few units in the last place.
            if np.ptp(counts[seen]) > 0:
                std = float(np.sqrt(share @ (each - mean) ** 2))
        places = [*own, *rest]
        return cls(
            levels=[levels[place] for place in places],
            n_own=len(own),
            missing=n_missing > 0,
            other=len(rest) > 0 and len(own) > 0,
            binary=not many and len(own) + (n_missing > 0) == 2,
            counts=[int(counts[place]) for place in places] if std > 0 else [],
            frequency_mean=mean,
            frequency_std=std,
        )

    def __post_init__(self) -> None:
        self._place = {level: place for place, level in enumerate(self.levels)}

    @property
    def features(self) -> list[str]:
        """What each feature says, after the column's name."""
        own = [f"={level}" for level in self.levels[: self.n_own]]
        own += ["=(other)"] * self.other + ["=(missing)"] * self.missing
        if self.binary:
            own = own[1:]
        elif len(self.levels) + self.missing == 1:
            own = []
        return own + [" (log frequency)"] * bool(self.counts)

    def write(self, column: Column, out: np.ndarray) -> None:
        """Write the features of a category column into `out`, zeros of shape (n, width)."""
        n_levels = len(self.levels)
        width = self.n_own + self.other + self.missing
        # Places: 0 ... n_levels - 1 a level, n_levels missing, n_levels + 1 unseen.
        of_level = [self._place.get(level, n_levels + 1) for level in column.levels]
        of_missing = n_levels if self.missing else n_levels + 1
        place = np.array([*of_level, of_missing], dtype=np.int64)[column.values]
        hot = np.full(n_levels + 2, -1, dtype=np.int64)
        hot[: self.n_own] = np.arange(self.n_own)
        if self.other:
            hot[self.n_own : n_levels] = self.n_own
        if self.missing:
            hot[n_levels] = width - 1
        if self.binary:
            out[:, 0] = np.where(hot < 0, 0.5, hot)[place]
            return
        n_hot = len(self.features) - bool(self.counts)
        if n_hot:
            feature = hot[place]
            rows = np.flatnonzero(feature >= 0)
            out[rows, feature[rows]] = 1.0
        if self.counts:
            # A missing cell has no frequency, so it takes the mean: 0.
            logs = np.append(np.log1p(self.counts), [self.frequency_mean, 0.0])
            out[:, n_hot] = ((logs - self.frequency_mean) / self.frequency_std)[place]

    def to_state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> CategoryEncoder:
        return cls(**state)


@dataclass
class DateEncoder:
    """A date column: standardised time, and the parts of the year, week and day as sine and cosine.

    ``center`` and ``scale`` are in microseconds; a ``scale`` of 0 means that no time varies.
    ``parts`` are those that vary in training. A missing cell is 0 everywhere but in the last
    feature, which is there if training had missing cells.
    """

    center: float
    scale: float
    parts: list[str]
    missing: bool

    @classmethod
    def fit(cls, column: Column) -> DateEncoder:
        present = column.values[~column.missing()]
        if len(present) == 0:
            return cls(center=0.0, scale=0.0, parts=[], missing=False)
        ticks = present.astype(np.int64).astype(np.float64)[:, None]
        learned = moments(lambda: iter([(0, ticks)]), 1, lambda row, column: None)
        return cls(
            center=float(learned.mean[0]),
            scale=float(learned.std[0]),
            parts=[name for name, turn in turns(present) if np.ptp(turn) > 0],
            missing=len(present) < len(column.values),
        )

    @property
    def features(self) -> list[str]:
        """What each feature says, after the column's name."""
        waves = [f" ({part} {wave})" for part in self.parts for wave in ("sin", "cos")]
        return [""] * (self.scale > 0) + waves + [" (missing)"] * self.missing

    def write(self, column: Column, out: np.ndarray) -> None:
        """Write the features of a date column into `out`, zeros of shape (n, width)."""
        absent = column.missing()
        rows = np.flatnonzero(~absent)
        present = column.values[rows]
        at = 0
        if self.scale > 0:
            out[rows, 0] = (present.astype(np.int64).astype(np.float64) - self.center) / self.scale
            at = 1
        for name, turn in turns(present):
            if name in self.parts:
                out[rows, at], out[rows, at + 1] = np.sin(turn), np.cos(turn)
                at += 2
        if self.missing:
            out[:, at] = absent

    def to_state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> DateEncoder:
        return cls(**state)


def turns(dates: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Angle in the year (by month), the week (by day) and the day of each date, none missing."""
    months = dates.astype("datetime64[M]").astype(np.int64) % 12
    days = dates.astype("datetime64[D]")
    hours = (dates - days) / np.timedelta64(1, "D")
    # 1 January 1970 was a Thursday.
    weekdays = (days.astype(np.int64) + 3) % 7
    return [
        ("month", months * (2 * np.pi / 12)),
        ("weekday", weekdays * (2 * np.pi / 7)),
        ("hour", hours * (2 * np.pi)),
    ]
