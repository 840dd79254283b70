"""From encoded rows to an untrained forest: what each of its members reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.forest.profile import column_gains, find_bins
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import Target

if TYPE_CHECKING:
    from nrs.tabular.types import Json

# How members may read numbers: as they are, with their bins, or those of few values by levels.
PLAIN, BINNED, LEVELS = READINGS = ("plain", "binned", "levels")


def grow_forest(
    rows: Rows,
    encoder: TableEncoder,
    target: Target,
    recipe: Recipe,
    folds: Folds,
    seed: int,
) -> ForestNetwork:
    """Make an untrained forest for a table.

    The members are divided among the recipe's views: a plain one reads numbers as they are, a
    binned one their bins too, one of levels reads numbers of few values as categories. A subspace
    takes whole columns, with all features that the encoder made of them.
    """
    rng = np.random.default_rng(seed)
    of_levels = any(reading == LEVELS for reading, _ in recipe.views)
    bins, few = find_bins(rows, recipe.bins, recipe.levels if of_levels else 0)
    n_features = encoder.n_features_out_
    sources = bins.source.numpy()
    parts = _readings(encoder.groups_, bins, few)
    members = []
    for member in range(recipe.members):
        reading, times = recipe.views[member * len(recipe.views) // recipe.members]
        columns = max(1, round(recipe.columns * times))
        members.append(draw_subspaces(parts[reading], recipe.subspaces, columns, rng))
    index = torch.from_numpy(as_index(members, blank=n_features + bins.n_bins))
    gains = column_gains(rows, encoder.groups_, target, folds.n_folds, recipe.least_gain)
    blank = np.ones((folds.n_folds, 1), dtype=np.float32)
    by_fold = np.concatenate([gains, gains[:, sources], blank], axis=1)
    gain = torch.from_numpy(by_fold[folds.own(recipe.members)])
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


def blank_forest(shape: Json, target: Target, recipe: Recipe) -> ForestNetwork:
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
        combine=target.combine,
        seed=seed,
    )


def draw_subspaces(
    parts: Sequence[np.ndarray],
    n_subspaces: int,
    n_columns: int,
    rng: np.random.Generator,
    *,
    most_inputs: int = 128,
) -> list[np.ndarray]:
    """Draw the subspaces of one member.

    Random permutations of the columns are laid end to end and cut into pieces, as in the paper's
    layer, so that every column is read about equally often.

    Parameters
    ----------
    parts : for each column, the inputs that stand for it.
    n_subspaces : how many to draw.
    n_columns : columns of a subspace; more where the subspaces would not cover all columns.
    most_inputs : a subspace that would read more inputs reads that many of them, drawn at random;
        more only where some would otherwise be read by no subspace.

    Returns
    -------
    list of `n_subspaces` arrays of inputs, at least one each.

    Examples
    --------
    >>> parts = [np.array([0]), np.array([1, 2]), np.array([3])]
    >>> drawn = draw_subspaces(parts, 4, 2, np.random.default_rng(0))
    >>> sorted(set(np.concatenate(drawn).tolist()))
    [0, 1, 2, 3]
    """
    size = min(max(n_columns, math.ceil(len(parts) / n_subspaces)), len(parts))
    needed = n_subspaces * size
    order = np.concatenate(
        [rng.permutation(len(parts)) for _ in range(math.ceil(needed / len(parts)))]
    )[:needed]
    # Where columns outnumber what the subspaces may read, covering them all goes first.
    most_inputs = max(most_inputs, size)
    whole, drawn = [], []
    for columns in order.reshape(n_subspaces, size):
        inputs = np.unique(np.concatenate([parts[column] for column in columns]))
        whole.append(inputs)
        if len(inputs) > most_inputs:
            inputs = np.sort(rng.choice(inputs, most_inputs, replace=False))
        drawn.append(inputs)
    return _cover(whole, drawn)


def _cover(whole: list[np.ndarray], drawn: list[np.ndarray]) -> list[np.ndarray]:
    """Let subspaces read every input of their columns between them.

    Inputs that none reads take the places of those that others read too; what finds no place in
    this way makes subspaces larger.

    Parameters
    ----------
    whole : all inputs of the columns of each subspace.
    drawn : those that it reads.
    """
    times = np.bincount(np.concatenate(drawn), minlength=1 + max(map(np.max, whole)))
    for larger in (False, True):
        for number, inputs in enumerate(whole):
            unread = inputs[times[inputs] == 0]
            if len(unread) == 0:
                continue
            read = drawn[number]
            # Those that are read most often first.
            often = read[np.argsort(-times[read], kind="stable")]
            spare = often[times[often] > 1][: len(unread)]
            if not larger:
                unread = unread[: len(spare)]
            times[spare] -= 1
            times[unread] += 1
            drawn[number] = np.union1d(np.setdiff1d(read, spare), unread)
    return drawn


def as_index(members: Sequence[Sequence[np.ndarray]], blank: int) -> np.ndarray:
    """Give subspaces of members as one (K, G, F) array, filled up with the input `blank`.

    Examples
    --------
    >>> as_index([[np.array([0, 2]), np.array([1])]], blank=3).tolist()
    [[[0, 2], [1, 3]]]
    """
    longest = max(len(inputs) for member in members for inputs in member)
    index = np.full((len(members), len(members[0]), longest), blank, dtype=np.int64)
    for k, member in enumerate(members):
        for g, inputs in enumerate(member):
            index[k, g, : len(inputs)] = inputs
    return index
