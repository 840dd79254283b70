"""Numbers as thermometers: a piecewise-linear encoding with bins between quantiles.

A linear map of the bins of a feature is any function of it that is linear between the edges, so a
one-level oblique tree on them can put its thresholds where the data has them. A number with few
values has an edge at each: then it is any function of these at all, as a category would be.

A linear map of its levels, one for each value, is any such function too, but another one is
learned first: thermometers begin with what grows with the number, levels with what is alike.

Quantiles put few edges where few rows are, and there a target may change most: an illness shows in
the lowest twentieth of a blood value. Where other edges tell the target better, also of rows that
they were not chosen by, they take the place of quantiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Wider tables are read as they are: their bins would be far more than the rows can tell apart.
MAX_BINNED_FEATURES = 512
# A number with at most so many values may as well be a category: no member reads it as a number.
FEW_VALUES = 10
# Edges that follow the target make so many times the bins, lie at some of so many quantiles, leave
# at least so many rows and such a share of all between them, and must explain so much more of the
# target than as many quantiles do.
MORE_BINS, FINE_CELLS, MIN_CELL_ROWS, MIN_CELL_SHARE, MIN_EXPLAINED = 2, 128, 5, 0.005, 0.01

# Targets (n, outputs), weights (n,) and folds (n,) of some rows.
Known = tuple[np.ndarray, np.ndarray, np.ndarray]


class PiecewiseLinear(nn.Module):
    """Encode features by how far they have passed through each of their bins.

    Bin t of a feature x between the edges a < b is ``(x - a) / (b - a)``, at least 0 and at most 1
    (Gorishniy et al., 2022). After all bins come levels: 1 at a value of the feature, and 0 from
    the next value on.

    **Shape** input ``(B, d)``, output ``(B, n_bins)``.

    Parameters
    ----------
    source : the feature of each bin or level, (n_bins,).
    low, high : the edges of each bin; the value of a level, and a point as far as the next value.
    n_levels : how many of the last ones are levels.

    Examples
    --------
    >>> bins = PiecewiseLinear.between([(0, [0.0, 1.0, 3.0])])
    >>> bins(torch.tensor([[-1.0], [0.5], [2.0], [9.0]])).tolist()
    [[0.0, 0.0], [0.5, 0.0], [1.0, 0.5], [1.0, 1.0]]
    >>> codes = PiecewiseLinear.between([], levels=[(0, [1.0, 2.0, 4.0])])
    >>> codes(torch.tensor([[1.0], [2.0], [4.0]])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    source: Tensor
    low: Tensor
    rate: Tensor
    n_levels = 0

    def __init__(self, source: Tensor, low: Tensor, rate: Tensor, n_levels: int = 0) -> None:
        super().__init__()
        self.n_levels = n_levels
        # Outputs in all, and those before the levels.
        self.n_bins = len(low)
        self.n_steps = self.n_bins - n_levels
        self.register_buffer("source", source)
        self.register_buffer("low", low)
        self.register_buffer("rate", rate)

    @classmethod
    def between(
        cls,
        edges: Sequence[tuple[int, Iterable[float]]],
        levels: Iterable[tuple[int, Any]] = (),
    ) -> PiecewiseLinear:
        """Make the bins between the ascending edges of features, given as (feature, edges).

        Parameters
        ----------
        levels : features and their ascending values, at least two.
        """
        bins = [
            (feature, low, high)
            for feature, values in edges
            for low, high in itertools.pairwise(values)
        ]
        n_levels = 0
        for feature, values in levels:
            gaps = np.diff(values)
            nearest = np.minimum(np.append(gaps, gaps[-1]), np.insert(gaps, 0, gaps[0]))
            bins += [(feature, *pair) for pair in zip(values, np.add(values, nearest), strict=True)]
            n_levels += len(nearest)
        source, *ends = zip(*bins, strict=True) if bins else ((), (), ())
        low, high = torch.tensor(ends, dtype=torch.float32)
        return cls(torch.tensor(source, dtype=torch.int64), low, 1 / (high - low), n_levels)

    @classmethod
    def blank(cls, n_bins: int, n_levels: int = 0) -> PiecewiseLinear:
        """Make one of that size whose values a state dict will fill in."""
        source = torch.zeros(n_bins, dtype=torch.int64)
        low, rate = torch.zeros(2, n_bins, dtype=torch.float32)
        return cls(source, low, rate, n_levels)

    def forward(self, x: Tensor) -> Tensor:
        passed = (x.index_select(1, self.source) - self.low) * self.rate
        if self.n_levels:
            steps, levels = passed[:, : self.n_steps], passed[:, self.n_steps :]
            passed = torch.cat([steps, 1 - levels.abs()], 1)
        return passed.clamp(0, 1)

    def extra_repr(self) -> str:
        return f"n_bins={self.n_bins}, n_levels={self.n_levels}"


def find_bins(
    features: np.ndarray,
    n_bins: int,
    max_levels: int = 0,
    binned: np.ndarray | None = None,
    known: Known | None = None,
    codes: np.ndarray | None = None,
) -> tuple[PiecewiseLinear, np.ndarray]:
    """The bins of all features with more than two values, and which features have few.

    Features of three to `max_levels` values have levels too.

    Parameters
    ----------
    features : (n, d) a sample of the rows; of a wide table nothing is binned.
    binned : (d,) bool, the features that may have bins; all by default.
    known : targets, weights and folds of these rows, for edges that follow the target.
    codes : (d,) bool, the features that may have levels; all by default.
    """
    few = np.zeros(features.shape[1], dtype=bool)
    edges, levels = [], []
    n_features = features.shape[1] if binned is None else binned.sum()
    if n_bins and n_features <= MAX_BINNED_FEATURES:
        for feature, values in enumerate(features.T):
            if binned is not None and not binned[feature]:
                continue
            found = all_values(values, FEW_VALUES)
            few[feature] = found is not None
            if found is None:
                found = find_edges(values, n_bins)
                if known is not None and len(found) > n_bins:
                    better = target_edges(values, *known, MORE_BINS * n_bins)
                    found = found if better is None else better
            if len(found) > 2:
                edges.append((feature, found))
            each = all_values(values, max_levels if codes is None or codes[feature] else 0)
            if each is not None:
                levels.append((feature, each))
    return PiecewiseLinear.between(edges, levels), few


def all_values(values: np.ndarray, most: int) -> np.ndarray | None:
    """The values of a feature if they are three at least, so many at most, and well apart."""
    if most < 3:
        return None
    distinct = np.unique(values)
    if not 2 < len(distinct) <= most:
        return None
    edges = find_edges(distinct, most)
    return edges if len(edges) == len(distinct) else None


def find_edges(values: np.ndarray, n_bins: int) -> np.ndarray:
    """Edges of at most `n_bins` bins: every value if there are few, else quantiles.

    Examples
    --------
    >>> find_edges(np.array([3.0, 1.0, 3.0, 2.0]), 8).tolist()
    [1.0, 2.0, 3.0]
    >>> find_edges(np.arange(101.0), 4).tolist()
    [0.0, 25.0, 50.0, 75.0, 100.0]
    >>> find_edges(np.array([0.0, 1e-16, 1.0]), 8).tolist()
    [0.0, 1.0]
    """
    distinct = np.unique(values)
    if len(distinct) > n_bins + 1:
        distinct = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)))
    return well_apart(distinct)


def well_apart(edges: np.ndarray) -> np.ndarray:
    """Ascending edges, without those that differ by rounding alone.

    Between edges such as the sines of two months would be a step whose slope drowns all others.
    """
    ascending = np.unique(edges).astype(np.float32)
    least = 1e-5 * (ascending[-1] - ascending[0])
    return ascending[np.append(True, np.diff(ascending) > least)]


def target_edges(
    values: np.ndarray, truth: np.ndarray, weights: np.ndarray, folds: np.ndarray, n_bins: int
) -> np.ndarray | None:
    """Edges that tell a target better than quantiles do; None where quantiles are as good.

    Of all ways to cut a feature into `n_bins` cells, those that explain most of the target's
    variance. Cuts of the rows of one half of the folds are tried on the other half, and the other
    way round: both times they must explain more than quantiles.

    **Shape** values, weights and folds ``(n,)``, truth ``(n, outputs)``.

    Examples
    --------
    >>> values = np.arange(1000.0)
    >>> truth = (values > 980)[:, None] * 1.0
    >>> found = target_edges(values, truth, np.ones(1000), np.arange(1000) % 8, 8)
    >>> bool(np.abs(found - 980).min() < 8)
    True
    >>> target_edges(values, values[:, None], np.ones(1000), np.arange(1000) % 8, 8) is None
    True
    """
    grid = np.unique(np.quantile(values, np.linspace(0, 1, FINE_CELLS + 1)))
    halves = [
        _CellSums.of(values[half], truth[half], weights[half], grid)
        for half in (folds % 2 == 0, folds % 2 == 1)
    ]
    if min(half.count.sum() for half in halves) <= 0:
        return None
    # The first cells of bins between quantiles, which may be equal to each other and to the ends.
    even = np.searchsorted(grid, np.quantile(values, np.linspace(0, 1, n_bins + 1)))
    even = np.unique(even[(even > 0) & (even < len(grid) - 1)])
    gained = [
        other.explained(half, half.best_cuts(n_bins)) - other.explained(half, even)
        for half, other in (halves, halves[::-1])
    ]
    if not (min(gained) > 0 and np.mean(gained) > MIN_EXPLAINED):
        return None
    cuts = (halves[0] + halves[1]).best_cuts(n_bins)
    return well_apart(np.concatenate([grid[:1], grid[cuts], grid[-1:]]))


@dataclass(frozen=True)
class _CellSums:
    """Of the rows in each cell of a feature: how many, the sums of targets and of their squares.

    **Shape** count and squares ``(cells,)``, sums ``(cells, outputs)``.
    """

    count: np.ndarray
    sums: np.ndarray
    squares: float

    @classmethod
    def of(
        cls, values: np.ndarray, truth: np.ndarray, weights: np.ndarray, grid: np.ndarray
    ) -> _CellSums:
        cells, n_cells = np.searchsorted(grid[1:-1], values, side="right"), len(grid) - 1
        weighted = truth * weights[:, None]
        sums = [np.bincount(cells, output, n_cells) for output in weighted.T]
        squares = float((weighted * truth).sum())
        return cls(np.bincount(cells, weights, n_cells), np.stack(sums, 1), squares)

    def __add__(self, other: _CellSums) -> _CellSums:
        squares = self.squares + other.squares
        return _CellSums(self.count + other.count, self.sums + other.sums, squares)

    def best_cuts(self, n_bins: int) -> np.ndarray:
        """The first cells of the second bin and those after it, by dynamic programming."""
        n_cells = len(self.count)
        counts = np.append(0.0, self.count.cumsum())
        sums = np.vstack([np.zeros(self.sums.shape[1]), self.sums.cumsum(0)])
        rows = counts - counts[:, None]
        products = sums @ sums.T
        squares = np.diag(products)
        between = (squares + squares[:, None] - 2 * products) / np.maximum(rows, 1e-12)
        least = max(MIN_CELL_ROWS, MIN_CELL_SHARE * counts[-1])
        # What a bin from one cell to another explains; impossible with too few rows.
        between = np.where(rows >= least, between, -np.inf)
        best, before = between[0], []
        for _ in range(n_bins - 1):
            tried = best[:, None] + between
            first = tried.argmax(0)
            explained = tried[first, np.arange(n_cells + 1)]
            before.append(np.where(explained > best, first, -1))
            best = np.maximum(explained, best)
        cuts, end = [], n_cells
        for first in reversed(before):
            if first[end] >= 0:
                end = int(first[end])
                cuts.append(end)
        return np.array(cuts[::-1], dtype=np.int64)

    def explained(self, means_of: _CellSums, cuts: np.ndarray) -> float:
        """Share of these rows' variance that the means of others explain, cut in this way."""
        starts = np.append(0, cuts)
        mean = means_of.sums.sum(0) / means_of.count.sum()
        theirs = np.add.reduceat(means_of.count, starts)[:, None]
        means = np.add.reduceat(means_of.sums, starts) / np.where(theirs > 0, theirs, 1)
        means = np.where(theirs > 0, means, mean)

        def error(means: np.ndarray, count: np.ndarray, sums: np.ndarray) -> float:
            return self.squares + float((means * (means * count - 2 * sums)).sum())

        count, sums = np.add.reduceat(self.count, starts), np.add.reduceat(self.sums, starts)
        overall = error(mean, self.count.sum(), self.sums.sum(0))
        return 1 - error(means, count[:, None], sums) / overall if overall > 0 else 0.0
