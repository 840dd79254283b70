"""How the features of training rows are spread, and which are spread otherwise in new rows.

Of a feature up to nine quantiles are kept, with the share of the training rows at or below each.
The largest difference to the shares of new rows is the statistic of Kolmogorov and Smirnov, on that
grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

# Rows of training, and of a part of new rows, that are enough to know shares.
TRAINING_ROWS, PART_ROWS = 10_000, 1_000
# Fewer new rows may differ by chance in any way.
MIN_ROWS = 30
# Shares that differ by more are worth a word, beyond what chance allows one feature in a thousand.
WORTH, CHANCE = 0.15, 1.95
MAX_FEATURES = 2_000
_LEVELS = np.arange(0.1, 0.95, 0.1)


@dataclass(frozen=True)
class Moved:
    """A feature, and a value such that the share of rows at or below it has changed."""

    feature: int
    value: float
    before: float
    now: float


@dataclass(frozen=True)
class Profile:
    """Points of some features, and the shares of `n_rows` training rows at or below them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> profile = Profile.of(rng.normal(size=(1000, 2)), [0, 1])
    >>> counts = profile.count(rng.normal([0, 1], size=(500, 2)))
    >>> [(one.feature, one.now < one.before) for one in profile.moved(counts, 500)]
    [(1, True)]
    """

    features: list[int]
    points: list[list[float]]
    below: list[list[float]]
    n_rows: int

    @classmethod
    def of(cls, x: np.ndarray, features: Sequence[int]) -> Self:
        """That of the rows of an encoded table, (n_rows, n_features)."""
        x = x[:: -(-len(x) // TRAINING_ROWS)]
        points, below = [], []
        for feature in features:
            values = np.sort(x[:, feature])
            found = np.unique(np.quantile(values, _LEVELS, method="inverted_cdf"))
            if values[-1] > values[0] and len(np.unique(values)) == 2:
                # A flag, which may be set in fewer rows than any quantile shows.
                found = values[:1]
            # Written as short numbers, and read as the same.
            found = np.unique([float(f"{value:.5g}") for value in found])
            points.append(found.tolist())
            shares = values.searchsorted(found + 1e-6, "right") / len(values)
            below.append(shares.round(4).tolist())
        return cls(list(features), points, below, len(x))

    def count(self, x: np.ndarray) -> np.ndarray:
        """How many rows of an encoded table are at or below each point, feature by feature."""
        at = np.repeat(self.features, [len(one) for one in self.points])
        return (x[:, at] <= np.concatenate(self.points) + 1e-6).sum(axis=0)

    def moved(self, counts: np.ndarray, n_rows: int) -> list[Moved]:
        """The features that are spread otherwise in so many rows, by how much, most first."""
        if n_rows < MIN_ROWS:
            return []
        least = WORTH + CHANCE * (1 / n_rows + 1 / self.n_rows) ** 0.5
        found, start = [], 0
        for feature, points, below in zip(self.features, self.points, self.below, strict=True):
            now = counts[start : start + len(points)] / n_rows
            start += len(points)
            place = int(np.abs(now - below).argmax())
            if abs(now[place] - below[place]) > least:
                found.append(Moved(feature, points[place], below[place], float(now[place])))
        return sorted(found, key=lambda one: -abs(one.now - one.before))

    def state(self) -> dict[str, object]:
        """As JSON values; the arguments of an equal one."""
        return dict(vars(self))


@dataclass
class DriftCount:
    """Rows at or below the points of a :class:`Profile`, counted in parts."""

    counts: np.ndarray | None = None
    n_rows: int = 0

    def add(self, profile: Profile, x: np.ndarray) -> None:
        """Count rows of an encoded table; of many, some that are spread evenly."""
        x = x[:: -(-len(x) // PART_ROWS) or 1]
        found = profile.count(x)
        self.counts = found if self.counts is None else self.counts + found
        self.n_rows += len(x)
