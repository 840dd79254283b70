"""Numbers as thermometers: a piecewise-linear encoding with bins between quantiles.

A linear map of the bins of a feature is any function of it that is linear between the edges, so a
one-level oblique tree on them can put its thresholds where the data has them. A number with few
values has an edge at each: then it is any function of these at all, as a category would be.

A linear map of its levels, one for each value, is any such function too, but another one is
learned first: thermometers begin with what grows with the number, levels with what is alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Wider tables are read as they are: their bins would be far more than the rows can tell apart.
MAX_BINNED_FEATURES = 512
# A number with at most so many values may as well be a category: no member reads it as a number.
FEW_VALUES = 10


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
    features: np.ndarray, n_bins: int, max_levels: int = 0, binned: np.ndarray | None = None
) -> tuple[PiecewiseLinear, np.ndarray]:
    """The bins of all features with more than two values, and which features have few.

    Features of three to `max_levels` values have levels too.

    Parameters
    ----------
    features : (n, d) a sample of the rows; of a wide table nothing is binned.
    binned : (d,) bool, the features that may have bins; all by default.
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
            if len(found) > 2:
                edges.append((feature, found))
            each = all_values(values, max_levels)
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
    edges = distinct.astype(np.float32)
    # Edges that differ by rounding alone, such as the sines of two months, would make a step whose
    # slope drowns all others.
    least = 1e-5 * (edges[-1] - edges[0])
    return edges[np.append(True, np.diff(edges) > least)]
