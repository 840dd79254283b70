"""From encoded rows to a forest: its shape, its batches, its losses, its out-of-bag outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.bins import PiecewiseLinear, find_edges
from nrs.tabular.forest.network import FoldedForest, ForestNetwork, combine
from nrs.tabular.forest.relevance import column_gains
from nrs.tabular.forest.subspaces import as_index, draw_subspaces
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows, ShuffledBatches, spread_rows
from nrs.tabular.targets import Target
from nrs.training.processes import ALONE, Processes

# Rows from which quantiles are read: more move the edges by less than a tenth of a bin.
BIN_ROWS = 10_000
# Wider tables are read as they are: their bins would be far more than the rows can tell apart.
MOST_BINNED_FEATURES = 512
# A number with at most so many values may as well be a category: no member reads it as a number.
FEW_VALUES = 10
# How members may read numbers: as they are, with their bins, or those of few values by levels.
PLAIN, BINNED, LEVELS = READINGS = ("plain", "binned", "levels")


def grow_forest(
    rows: Rows,
    encoder: TableEncoder,
    target: Target,
    recipe: Recipe,
    seed: int,
    folds: np.ndarray | None = None,
) -> ForestNetwork:
    """Make an untrained forest for a table.

    The members are divided among the recipe's views: a plain one reads numbers as they are, a
    binned one their bins too, one of levels reads numbers of few values as categories. A subspace
    takes whole columns, with all features that the encoder made of them.

    Parameters
    ----------
    folds : the fold of each row of the whole table, if members are not to see one each.
    """
    rng = np.random.default_rng(seed)
    of_levels = any(reading == LEVELS for reading, _ in recipe.views)
    bins, few = _find_bins(rows, recipe.bins, recipe.levels if of_levels else 0)
    n_features = encoder.n_features_out_
    sources = bins.source.numpy()
    parts = _readings(encoder.groups_, bins, few)
    members = []
    for member in range(recipe.members):
        reading, times = recipe.views[member * len(recipe.views) // recipe.members]
        columns = max(1, round(recipe.columns * times))
        members.append(draw_subspaces(parts[reading], recipe.subspaces, columns, rng))
    index = torch.from_numpy(as_index(members, blank=n_features + bins.n_bins))
    gain = torch.from_numpy(_gains(rows, encoder.groups_, sources, target, recipe, folds))
    return _network(n_features, index, bins, target, recipe, seed, gain)


def _readings(
    columns: np.ndarray, bins: PiecewiseLinear, few: np.ndarray
) -> dict[str, list[np.ndarray]]:
    """For each way to read numbers, the inputs that stand for each column.

    Parameters
    ----------
    columns : (d,) the column that each feature was made of.
    few : (d,) the features whose bins stand for them in the plain reading.
    """
    sources, n_features = bins.source.numpy(), len(columns)
    is_level = np.arange(bins.n_bins) >= bins.n_steps
    with_levels = np.isin(np.arange(n_features), sources[is_level])
    parts: dict[str, list[np.ndarray]] = {reading: [] for reading in READINGS}
    for column in np.unique(columns):
        features = np.flatnonzero(columns == column)
        own = columns[sources] == column
        steps = n_features + np.flatnonzero(own & ~is_level)
        levels = n_features + np.flatnonzero(own & is_level)
        # Bins in place of the number itself, where it has few values.
        stand_in = n_features + np.flatnonzero(few[sources] & own & ~is_level)
        of_column = {
            PLAIN: [features[~few[features]], stand_in],
            BINNED: [features, steps],
            LEVELS: [
                features[~with_levels[features]],
                steps[~with_levels[sources[steps - n_features]]],
                levels,
            ],
        }
        for reading, inputs in of_column.items():
            parts[reading].append(np.concatenate(inputs))
    return parts


def _gains(
    rows: Rows,
    columns: np.ndarray,
    sources: np.ndarray,
    target: Target,
    recipe: Recipe,
    folds: np.ndarray | None,
) -> np.ndarray:
    """How loud each member reads each input, (members, inputs)."""
    if folds is None:
        folds = np.zeros(rows.features.shape[0], dtype=np.int64)
    n_folds = int(folds.max()) + 1
    gains = column_gains(rows, columns, target, folds, n_folds, recipe.least_gain)
    blank = np.ones((n_folds, 1), dtype=np.float32)
    by_fold = np.concatenate([gains, gains[:, sources], blank], axis=1)
    return by_fold[np.arange(recipe.members) % n_folds]


def blank_forest(shape: dict[str, Any], target: Target, recipe: Recipe) -> ForestNetwork:
    """Make a forest of a saved shape, whose values a state dict will fill in."""
    index = torch.zeros(*shape["index"], dtype=torch.int64)
    bins = PiecewiseLinear.blank(shape["n_bins"], shape.get("n_levels", 0))
    return _network(shape["in_features"], index, bins, target, recipe, seed=0)


def _network(
    in_features: int,
    index: Tensor,
    bins: PiecewiseLinear,
    target: Target,
    recipe: Recipe,
    seed: int,
    gain: Tensor | None = None,
) -> ForestNetwork:
    return ForestNetwork(
        in_features,
        target.n_outputs,
        index,
        bins,
        gain=gain,
        hidden=recipe.hidden,
        dropout=recipe.dropout,
        kind=target.kind,
        seed=seed,
    )


def _find_bins(rows: Rows, n_bins: int, most_levels: int = 0) -> tuple[PiecewiseLinear, np.ndarray]:
    """The bins of all features with more than two values, and which features have few.

    Features of three to `most_levels` values have levels too.
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
        each = _all_values(values, most_levels)
        if each is not None:
            levels.append((feature, each))
    return PiecewiseLinear.between(edges, levels), few


def has_levels(rows: Rows, recipe: Recipe) -> bool:
    """Whether a feature has so few values that it may be a category; two make no difference."""
    return recipe.levels > 0 and any(
        _all_values(values, recipe.levels) is not None
        for _, values in _binned_values(rows, recipe.bins)
    )


def _binned_values(rows: Rows, n_bins: int) -> Iterator[tuple[int, np.ndarray]]:
    """Features that may be cut into bins, and values that tell where."""
    n_features = rows.features.shape[1]
    if rows.sparse or n_bins == 0 or n_features > MOST_BINNED_FEATURES:
        return
    spread = spread_rows(len(rows), min(BIN_ROWS, len(rows)))
    sample = rows.features[rows.index[spread]].numpy()
    for feature in range(n_features):
        # Quantiles of all rows, where a pass over them has found them.
        yield feature, rows.quantiles.get(feature, sample[:, feature])


def _all_values(values: np.ndarray, most: int) -> np.ndarray | None:
    """The values of a feature if they are three at least, so many at most, and well apart."""
    if most < 3:
        return None
    distinct = np.unique(values)
    if not 2 < len(distinct) <= most:
        return None
    edges = find_edges(distinct, most)
    return edges if len(edges) == len(distinct) else None


class ForestBatches(ShuffledBatches):
    """Batches with the fold of every row; a round is several passes over all rows.

    Out-of-bag rows are judged after every round: passes over a small table are too short for it.
    Processes that share rows draw the same batches and each takes its share of them.

    Examples
    --------
    >>> rows = Rows(np.zeros((4, 2), np.float32), np.zeros(4))
    >>> batches = ForestBatches(rows, 4, np.array([0, 1, 0, 1]), passes=3)
    >>> len(batches), len(list(batches(0, torch.Generator())))
    (3, 3)
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        folds: np.ndarray,
        passes: int = 1,
        group: Processes = ALONE,
    ) -> None:
        super().__init__(rows, batch_size)
        self.folds = torch.from_numpy(folds)
        self.passes = passes
        self.group = group

    def __len__(self) -> int:
        return self.passes * super().__len__()

    def __call__(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        for _ in range(self.passes):
            for batch in self.orders(generator):
                rows = self.group.share(batch)
                yield (*self.rows.take(rows), self.folds[rows].to(self.rows.device))


def forest_loss(network: ForestNetwork, batch: Any, target: Target, n_folds: int) -> Tensor:
    """Mean over the members of each one's loss on the rows that it may see.

    Where processes share the rows, the mean of their losses is the loss of all rows.
    """
    x, y, weights, folds = batch
    outputs = network.members(x)
    losses = target.member_losses(outputs, y)
    if n_folds == 1:
        seen = torch.ones_like(losses)
    else:
        seen = (folds != fold_of(network, n_folds, x.device)).to(losses.dtype)
    if weights is not None:
        seen = seen * weights
    total = seen.sum(1)
    if network.group.divides_rows:
        total = network.group.total(total) / network.group.size
    total = total.clamp_min(torch.finfo(seen.dtype).tiny)
    # A part of a forest weighs as much as in the whole.
    return ((losses * seen).sum(1) / total).sum() / network.all_members


def out_of_bag(
    network: ForestNetwork | FoldedForest,
    rows: Rows,
    folds: Tensor,
    n_folds: int,
    n_views: int = 1,
) -> Tensor:
    """Outputs of the members that did not see each row, joint within views, (V, C, n_rows)."""
    parts = []
    own = fold_of(network, n_folds, rows.device)
    with torch.no_grad():
        for numbers in rows.parts():
            x, _, _ = rows.take(numbers)
            unseen = (folds[numbers].to(rows.device) == own).to(x.dtype)
            views = zip(network.members(x).chunk(n_views), unseen.chunk(n_views), strict=True)
            joint = [combine(outputs, network.kind, weights).t() for outputs, weights in views]
            parts.append(torch.stack(joint))
    return torch.cat(parts, 2)


def fold_of(network: Any, n_folds: int, device: torch.device) -> Tensor:
    """The fold that each member does not see, (K, 1)."""
    numbers = network.first_member + torch.arange(network.n_members, device=device)
    return (numbers % n_folds).unsqueeze(1)


def find_temperature(
    outputs: Tensor, y: Tensor, target: Target, weights: Tensor | None = None
) -> float:
    """The number that divides out-of-bag outputs so that their loss is least.

    Examples
    --------
    >>> from nrs.tabular.targets import ClassTarget
    >>> sure = torch.tensor([[4.0, 0.0]] * 4)
    >>> find_temperature(sure, torch.tensor([0, 0, 0, 1]), ClassTarget(np.array([0, 1]))) > 1.5
    True
    """
    choices = torch.logspace(-1, 1, 81, base=2.0)
    losses = [float(target.loss(outputs / choice, y, weights)) for choice in choices]
    return float(choices[int(np.argmin(losses))])
