"""What a sample of the training rows says of each column: its bins, its levels, its relevance.

A subspace is normalised as a whole, so its informative columns compete with the others in it: on
a small table noise wins too often. Each member therefore weights columns by the share of the
target's variance that each explains alone, on the rows that the member is trained on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import Target

# Rows from which quantiles are read: more move the edges by less than a tenth of a bin.
BIN_ROWS = 10_000
# Wider tables are read as they are: their bins would be far more than the rows can tell apart.
MAX_BINNED_FEATURES = 512
# A number with at most so many values may as well be a category: no member reads it as a number.
FEW_VALUES = 10
# Fewer rows cannot tell numbers from codes, nor is there time for it in fewer seconds. Cutting the
# pilot short instead would let a run that is started again come to another choice.
MIN_PILOT_ROWS, MIN_PILOT_SECONDS = 2_000, 60.0
# A column is cut into so many cells at quantiles.
CELLS = 16
# Rows that relevance is read from; more change its second digit.
MAX_ROWS = 10_000
# Wider tables are read evenly: with so many columns the largest relevances are chance.
MAX_COLUMNS = 2_000


def find_bins(rows: Rows, n_bins: int, max_levels: int = 0) -> tuple[PiecewiseLinear, np.ndarray]:
    """The bins of all features with more than two values, and which features have few.

    Features of three to `max_levels` values have levels too.
    """
    few = np.zeros(rows.features.shape[1], dtype=bool)
    edges, levels = [], []
    for feature, values in _binned_values(rows, n_bins):
        found = _all_values(values, FEW_VALUES)
        few[feature] = found is not None
        if found is None:
            found = find_edges(values, n_bins)
        if len(found) > 2:
            edges.append((feature, found))
        each = _all_values(values, max_levels)
        if each is not None:
            levels.append((feature, each))
    return PiecewiseLinear.between(edges, levels), few


def may_be_levels(rows: Rows, recipe: Recipe, n_folds: int, time_limit: float | None) -> bool:
    """Whether there is a choice: columns of few values, rows enough to tell, and time for it."""
    in_time = time_limit is None or time_limit >= MIN_PILOT_SECONDS
    return (
        in_time and len(rows.index) >= MIN_PILOT_ROWS and n_folds > 1 and has_levels(rows, recipe)
    )


def has_levels(rows: Rows, recipe: Recipe) -> bool:
    """Whether a feature has so few values that it may be a category; two make no difference."""
    return recipe.levels > 0 and any(
        _all_values(values, recipe.levels) is not None
        for _, values in _binned_values(rows, recipe.bins)
    )


def _binned_values(rows: Rows, n_bins: int) -> Iterator[tuple[int, np.ndarray]]:
    """Features that may be cut into bins, and values that tell where."""
    n_features = rows.features.shape[1]
    if rows.sparse or n_bins == 0 or n_features > MAX_BINNED_FEATURES:
        return
    sample = rows.sample(BIN_ROWS)[0]
    for feature in range(n_features):
        yield feature, sample[:, feature]


def _all_values(values: np.ndarray, most: int) -> np.ndarray | None:
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


def column_gains(
    rows: Rows,
    columns: np.ndarray,
    target: Target,
    n_folds: int,
    least: float,
) -> np.ndarray:
    """Factor of each feature for members that do not see each fold.

    The factor is the square root of the column's relevance (:func:`relevance`) relative to the
    most relevant column's, and at least `least`. What chance alone may explain is added to both,
    so that columns which tell nothing alone (as in parity) are read evenly. Features of one
    column share it.

    Parameters
    ----------
    columns : (d,) the column that each feature was made of.
    least : 1 reads all columns evenly.

    Returns
    -------
    ndarray (n_folds, d) of float32, at most 1.

    Examples
    --------
    >>> from nrs.tabular.targets import ClassTarget
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2)).astype(np.float32)
    >>> y = (x[:, 1] > 0).astype(np.int64)
    >>> rows = Rows(x, y, folds=np.arange(400) % 2)
    >>> gains = column_gains(rows, np.arange(2), ClassTarget(np.arange(2)), 2, 0.1)
    >>> gains.shape, gains[:, 1].tolist(), bool((gains[:, 0] < 0.4).all())
    ((2, 2), [1.0, 1.0], True)
    """
    d = len(columns)
    names, number = np.unique(columns, return_inverse=True)
    if rows.sparse or least >= 1 or len(names) > MAX_COLUMNS or len(names) == 1:
        return np.ones((n_folds, d), dtype=np.float32)
    features, targets, weights, folds = rows.sample(MAX_ROWS)
    truth, weights = target.indicators(targets), weights.astype(np.float64)
    found = np.zeros((n_folds, len(names)))
    for place in range(len(names)):
        own = features[:, number == place]
        for cells in _cells(own):
            explained = relevance(cells, truth, weights, folds, n_folds)
            found[:, place] = np.maximum(found[:, place], explained)
    found += np.sqrt(2 * CELLS) / len(features)
    gains = np.sqrt(found / found.max(1, keepdims=True))
    return np.maximum(gains, least)[:, number].astype(np.float32)


def relevance(
    cells: np.ndarray, truth: np.ndarray, weights: np.ndarray, folds: np.ndarray, n_folds: int
) -> np.ndarray:
    """Share of the target's variance that cells of a column explain, without each fold.

    The adjusted R² of the means of the cells, not below 0; for classes it is that of their
    indicators taken together, which is Goodman and Kruskal's tau.

    Parameters
    ----------
    cells : (n,) the cell of each row, from 0.
    truth : (n, outputs) numbers or indicators.
    weights : (n,) how much each row counts.
    folds : (n,) the fold of each row; with `n_folds` 1 all rows count.

    Returns
    -------
    ndarray (n_folds,)

    Examples
    --------
    >>> cells = np.array([0, 0, 1, 1] * 5)
    >>> relevance(cells, cells[:, None] * 1.0, np.ones(20), np.zeros(20, dtype=int), 1)
    array([1.])
    """
    n_cells = int(cells.max()) + 1
    place = folds * n_cells + cells
    size = n_folds * n_cells

    def totals(values: np.ndarray) -> np.ndarray:
        """Sums by cell without each fold, (n_folds, n_cells)."""
        by_fold = np.bincount(place, values, size).reshape(n_folds, n_cells)
        return by_fold.sum(0) - by_fold if n_folds > 1 else by_fold

    count = totals(weights)
    rows = count.sum(1)
    used = (count > 0).sum(1)
    between, overall = np.zeros(n_folds), np.zeros(n_folds)
    for output in truth.T:
        sums, squares = totals(weights * output), totals(weights * output**2).sum(1)
        centre = sums.sum(1) ** 2 / np.maximum(rows, 1e-12)
        between += (sums**2 / np.where(count > 0, count, 1)).sum(1) - centre
        overall += squares - centre
    explained = np.divide(between, overall, out=np.zeros(n_folds), where=overall > 1e-9 * rows)
    # Cells explain something of anything: of noise as much as their number over that of the rows.
    by_chance = (rows - 1) / np.maximum(rows - used, 1)
    return np.clip(1 - (1 - explained) * by_chance, 0, 1)


def _cells(features: np.ndarray) -> list[np.ndarray]:
    """The cells that rows fall into: the level of a category, or quantiles of each feature."""
    if features.shape[1] > 1 and np.isin(features, (0, 1)).all():
        return [np.where(features.any(1), features.argmax(1) + 1, 0)]
    cut = []
    for values in features.T:
        edges = find_edges(values, CELLS)
        # Few values are cells of their own.
        inner = edges[1:-1] if len(edges) > CELLS else (edges[1:] + edges[:-1]) / 2
        cut.append(np.searchsorted(inner, values, side="right"))
    return cut
