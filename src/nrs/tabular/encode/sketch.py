"""Quantiles of a stream in bounded memory, with a bound on their error that cannot be exceeded.

Sorted blocks are thinned to every sixteenth value, and two thinned blocks of equal weight to every
second value of both (Manku, Rajagopalan & Lindsay, 1998; mergeable by Agarwal et al., 2013). Which
of the two is kept takes turns instead of being drawn, so that the result is the same every time
and the error is a sum that the sketch keeps, not a probability.
"""

from __future__ import annotations

import math

import numpy as np

# Values of a thinned block, and of a block before it is thinned.
SIZE, BLOCK = 2048, 32768
STRIDE = BLOCK // SIZE
# Up to so many different values are kept exactly.
MOST_DISTINCT = 64


class QuantileSketch:
    """Approximate quantiles of all values that were added, in about 16 kB times log2(n / 32768).

    Until 32,768 values were added the quantiles are exact. After that the rank of a value is off by
    at most ``n · (1 + log2(n / 32768)) / 4096``: 0.23 % of n for 10⁷ values, 0.39 % for 10⁹,
    0.55 % for 10¹¹, and in practice by a small part of that.

    Attributes
    ----------
    n : int
        Values added.
    low, high : float
        The least and the greatest.
    error : int
        The rank of any value is known to within this many of the n values.
    distinct : ndarray or None
        All different values, ascending, while there are at most 64.

    Examples
    --------
    >>> sketch = QuantileSketch()
    >>> sketch.add(np.arange(1_000_000.0))
    >>> abs(sketch.quantiles([0.25])[0] / 1e6 - 0.25) <= sketch.error / sketch.n < 0.002
    True
    """

    def __init__(self) -> None:
        self.n, self.error = 0, 0
        self.low, self.high = math.inf, -math.inf
        self.distinct: np.ndarray | None = np.empty(0)
        # levels[k] holds SIZE ascending values, each for STRIDE · 2^k, or nothing.
        self._levels: list[np.ndarray | None] = []
        self._kept: list[int] = []
        self._waiting: list[np.ndarray] = []
        self._n_waiting = 0

    def add(self, values: np.ndarray) -> None:
        """Add values, (m,) without NaN."""
        if len(values) == 0:
            return
        values = np.asarray(values, dtype=np.float64)
        self.n += len(values)
        self.low, self.high = min(self.low, values.min()), max(self.high, values.max())
        self._note(values)
        self._waiting.append(values.copy())
        self._n_waiting += len(values)
        if self._n_waiting >= BLOCK:
            joined = np.concatenate(self._waiting)
            whole = self._n_waiting // BLOCK * BLOCK
            for start in range(0, whole, BLOCK):
                block = np.sort(joined[start : start + BLOCK])
                self._carry(0, block[STRIDE // 2 :: STRIDE])
                self.error += STRIDE // 2
            self._waiting, self._n_waiting = [joined[whole:].copy()], self._n_waiting - whole

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """The sketch of the values of both; neither changes."""
        merged = QuantileSketch()
        for one in (self, other):
            merged.error += one.error
            for level, values in enumerate(one._levels):
                if values is not None:
                    merged._carry(level, values)
                    merged.n += SIZE * STRIDE << level
            for values in one._waiting:
                merged.add(values)
            merged.low, merged.high = min(merged.low, one.low), max(merged.high, one.high)
        merged.distinct = None
        if self.distinct is not None and other.distinct is not None:
            together = np.union1d(self.distinct, other.distinct)
            merged.distinct = together if len(together) <= MOST_DISTINCT else None
        return merged

    def rank(self, value: float) -> int:
        """About how many values are at most `value`, to within :attr:`error`."""
        items, weights = self._items()
        return int(weights[: np.searchsorted(items, value, "right")].sum())

    def quantiles(self, levels: np.ndarray | list[float]) -> np.ndarray:
        """The values that reach these shares of all values, each to within :attr:`error` ranks.

        Raises
        ------
        ValueError
            If no value was added.
        """
        if self.n == 0:
            raise ValueError("quantiles need values, however: none was added")
        items, weights = self._items()
        reached = np.cumsum(weights)
        wanted = np.clip(np.asarray(levels, dtype=np.float64), 0, 1)
        places = np.searchsorted(reached, wanted * self.n, "left")
        found = items[np.minimum(places, len(items) - 1)]
        found = np.where(wanted <= 0, self.low, found)
        result: np.ndarray = np.where(wanted >= 1, self.high, found)
        return result

    def _note(self, values: np.ndarray) -> None:
        """Keep the different values while there are few."""
        # Most columns have many, which few of their values show.
        for part in (values[: MOST_DISTINCT * 4], values):
            if self.distinct is not None:
                together = np.union1d(self.distinct, part)
                self.distinct = together if len(together) <= MOST_DISTINCT else None

    def _carry(self, level: int, values: np.ndarray) -> None:
        """Put a thinned block into its level, as a carry moves through a binary number."""
        while True:
            while level >= len(self._levels):
                self._levels.append(None)
                self._kept.append(0)
            there = self._levels[level]
            if there is None:
                self._levels[level] = values
                return
            both = np.sort(np.concatenate([there, values]))
            values = both[self._kept[level] :: 2]
            self._kept[level] = 1 - self._kept[level]
            self.error += STRIDE << level
            self._levels[level] = None
            level += 1

    def _items(self) -> tuple[np.ndarray, np.ndarray]:
        """All kept values, ascending, and how many values each stands for."""
        parts = [(values, 1) for values in self._waiting]
        parts += [
            (values, STRIDE << level)
            for level, values in enumerate(self._levels)
            if values is not None
        ]
        if not parts:
            return np.empty(0), np.empty(0, dtype=np.int64)
        items = np.concatenate([values for values, _ in parts])
        weights = np.concatenate([np.full(len(values), weight) for values, weight in parts])
        order = np.argsort(items, kind="stable")
        return items[order], weights[order]
