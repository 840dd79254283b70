"""From encoded rows to an untrained forest: what each of its members reads, and at which scale.

A subspace is normalised as a whole, so its informative columns compete with the others in it: on
a small table noise wins too often. Each member therefore weights columns by the share of the
target's variance that each explains alone, on the rows that the member is trained on.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.forest.bins import (
    MAX_BINNED_FEATURES,
    Known,
    PiecewiseLinear,
    find_bins,
    find_edges,
)
from nrs.tabular.forest.monotone import Directions
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Sample, spread_rows
from nrs.tabular.targets import Target
from nrs.tabular.task import Task

if TYPE_CHECKING:
    from nrs.tabular.types import Json

# Members with constrained columns are bound already: they drop fewer units.
MONOTONE_DROPOUT = 1 / 3
# How members may read numbers: as they are, with their bins, or those of few values by levels.
PLAIN, BINNED, LEVELS = READINGS = ("plain", "binned", "levels")
# Rows that bins and relevance are read from: more move the edges by less than a tenth of a bin, and
# change the second digit of relevance.
MAX_ROWS = 10_000
# Columns whose relevance is timed where a fit has a time limit, and the share of the time that is
# left which all may take.
TRIED_COLUMNS, RELEVANCE_SHARE = 32, 0.5
# Wider tables are read evenly: it would take too long to find out what their columns tell.
MAX_COLUMNS = 20_000
# Of columns that a member has no room for, those that explain so many times what chance does are
# drawn more often.
MIN_DEVIATIONS = 3
# Cells that relevance is read from: of a wide table fewer rows.
MAX_CELLS = 50_000_000
# One more input of each subspace.
ONE_MORE = ((0, 0), (0, 0), (0, 1))
# A column is cut into so many cells at quantiles, whose means say how relevant it is.
CELLS = 16


def grow_forest(task: Task) -> ForestNetwork:
    """Make an untrained forest for a table.

    The members are divided among the recipe's views: a plain one reads numbers as they are, a
    binned one their bins too, one of levels reads numbers of few values as categories. A subspace
    takes whole columns, with all features that the encoder made of them.
    """
    rows, recipe, folds, columns = task.rows, task.recipe, task.folds, task.encoder.groups_
    n_features, variants = len(columns), task.encoder.variants_
    of_features = np.zeros(n_features)
    if recipe.monotone:
        of_features = task.encoder.directions(recipe.monotone)
    names, number = np.unique(columns, return_inverse=True)
    if rows.sparse or len(names) > MAX_COLUMNS:
        bins, few = PiecewiseLinear.between([]), np.zeros(n_features, dtype=bool)
        chances = np.zeros((folds.n_folds, len(names)))
        gains = np.ones((folds.n_folds, n_features), dtype=np.float32)
    else:
        features, targets, weights, fold = rows.sample(min(MAX_ROWS, MAX_CELLS // n_features))
        truth, weights = task.target.indicators(targets), weights.astype(np.float64)
        of_levels = any(reading == LEVELS for reading, _ in recipe.views)
        max_levels = recipe.levels if of_levels else 0
        known = (truth - truth.mean(0), weights, fold)
        if folds.scorers:
            known = _first_block(truth, weights, fold)
        sample = (features, truth, weights, fold)
        related = _in_time(sample, known, task)
        n_rows = max(1, len(related[0]))
        # Where time is short, bins lie between quantiles.
        shown = known if n_rows == len(features) else None
        binned = task.encoder.binned_ & (variants < 0)
        codes = of_features == 0
        bins, few = find_bins(features, recipe.bins, max_levels, binned, shown, codes)
        found = _relevance(related, columns, task)
        gains = column_gains(found, n_rows, recipe.least_gain)[:, number]
        chances = (found - MIN_DEVIATIONS * by_chance(n_rows)).clip(0)
    parts, rng = _readings(columns, bins, few), np.random.default_rng(task.run.seed)
    variant = np.concatenate([variants, variants[bins.source.numpy()]])
    of_inputs = np.concatenate([of_features, of_features[bins.source.numpy()], [0]])
    members, owned, n_views = [], folds.members(recipe.members), len(recipe.views)
    first = len(owned) - recipe.members
    for member, own in enumerate(owned):
        # Members that only score come first, the earliest block's before those that saw more.
        place = member % n_views if member < first else (member - first) * n_views // recipe.members
        reading, times = recipe.views[place]
        size = max(1, round(recipe.columns * times))
        is_read = np.isin(variant, (-1, own)) & ~np.isnan(of_inputs[:-1])
        seen = [part[is_read[part]] for part in parts[reading]]
        members.append(draw_subspaces(seen, recipe.subspaces, size, rng, chances[own]))
    index = torch.from_numpy(as_index(members, blank=n_features + bins.n_bins))
    blank = np.ones((folds.n_folds, 1), dtype=np.float32)
    by_fold = np.concatenate([gains, gains[:, bins.source.numpy()], blank], axis=1)
    gain = torch.from_numpy(by_fold[owned])
    directions = None
    if recipe.monotone:
        outputs = torch.tensor(task.target.directions, dtype=torch.float32)
        toward = torch.from_numpy(np.nan_to_num(of_inputs)).float()
        directions = Directions.draw(index, toward, recipe.hidden, outputs)
    network = _network(
        n_features, index, bins, task.target, recipe, task.run.seed, gain, directions
    )
    if folds.scorers:
        network.shares.copy_(torch.from_numpy(owned == 0))
        network.units = _units(rows.sample(MAX_ROWS), task.target, folds.sees(len(owned)))
    elif task.target.start is not None:
        start = torch.as_tensor(task.target.start[:, None], dtype=torch.float32)
        network.out_bias.data += start
    return network


def widen(
    network: ForestNetwork, places: np.ndarray, columns: np.ndarray, n_columns: int, seed: int
) -> None:
    """Let a forest read more features, with weights of 0: its answers stay what they are.

    A subspace reads a new feature where it reads another of its column. Of a column that none
    reads, as many subspaces as would read it of `n_columns` each, drawn at random.

    Parameters
    ----------
    places : (d,) where the features that it reads so far have moved to.
    columns : (more,) the column of each feature.
    """
    device, bins, d = network.index.device, copy.deepcopy(network.bins), len(columns)
    sources = places[bins.source.cpu().numpy()]
    bins.source = torch.from_numpy(sources).to(device)
    blank = d + bins.n_bins
    moved = np.concatenate([places, np.arange(d, blank + 1)])
    column_of = np.concatenate([columns, columns[sources], [-1]])
    index = moved[network.index.cpu().numpy()]
    weight, gain = network.weight.detach().cpu().numpy(), network.gain.cpu().numpy()
    n_subspaces = index.shape[1]
    usual = min(n_subspaces, math.ceil(n_subspaces * n_columns / len(np.unique(columns))))
    rng = np.random.default_rng(seed)
    for feature in np.setdiff1d(np.arange(d), places):
        own = column_of[index] == columns[feature]
        reads, scale = own.any(2), np.where(own, gain, 0.0).max(2)
        if not reads.any():
            reads[:, :usual] = True
            reads, scale = rng.permuted(reads, axis=1), np.ones_like(scale)
        free = index == blank
        if not free.any(2)[reads].all():
            index = np.pad(index, ONE_MORE, constant_values=blank)
            weight, gain = np.pad(weight, ((0, 0), *ONE_MORE)), np.pad(gain, ONE_MORE)
            free = np.pad(free, ONE_MORE, constant_values=True)
        member, subspace = reads.nonzero()
        place = free.argmax(2)[reads]
        index[member, subspace, place] = feature
        weight[member, subspace, 0, place] = 0.0
        gain[member, subspace, place] = scale[reads]
    network.reindex(d, bins, *(torch.from_numpy(one).to(device) for one in (index, weight, gain)))


def _first_block(truth: np.ndarray, weights: np.ndarray, fold: np.ndarray) -> Known:
    """What bins, which all members share, may know of the target: the rows that all see."""
    first = fold == 0
    # Two halves of them, by number.
    return truth - truth[first].mean(0), weights * first, np.arange(len(fold))


def _relevance(sample: Sample, columns: np.ndarray, task: Task) -> np.ndarray:
    """What columns explain of the target on rows that members see; none without rows."""
    folds, variants = task.folds, task.encoder.variants_[: len(columns)]
    if not len(sample[0]):
        return np.zeros((folds.n_folds, len(np.unique(columns))))
    in_order = folds.scorers > 0
    return column_relevance(sample, columns, folds.n_folds, variants, in_order=in_order)


def _in_time(sample: Sample, known: Known, task: Task) -> Sample:
    """The rows that relevance is read from: all, or where time is short a quarter, or none.

    All only if there is time for bins that follow the target too.
    """
    run, columns = task.run, task.encoder.groups_
    if run.time_limit is None or len(columns) <= TRIED_COLUMNS:
        return sample
    features, y, weights, folds = sample
    most, end = RELEVANCE_SHARE * TRIED_COLUMNS / len(columns), run.begin + run.time_limit
    tried = columns[:TRIED_COLUMNS]

    def fits(n: int) -> bool:
        begin = time.monotonic()
        few = features[:n, :TRIED_COLUMNS]
        _relevance((few, y[:n], weights[:n], folds[:n]), tried, task)
        if n == len(features) and len(columns) <= MAX_BINNED_FEATURES:
            find_bins(few, task.recipe.bins, known=known)
        now = time.monotonic()
        return now - begin < most * (end - now)

    n_rows = next((n for n in (len(features), len(features) // 4) if fits(n)), 0)
    # Processes must not grow different forests.
    n_rows = run.group.of_writer(n_rows)
    chosen = spread_rows(len(features), n_rows).numpy()
    return features[chosen], y[chosen], weights[chosen], folds[chosen]


def _units(sample: Sample, target: Target, sees: Tensor) -> Tensor | None:
    """Scale and level of the targets that each member sees, (2, K, outputs, 1), if they have any.

    Targets are standardised by rows that all members see, which may be far from later ones.
    """
    _, y, weights, folds = sample
    found = [target.units(y[seen[folds]], weights[seen[folds]]) for seen in sees.numpy()]
    if found[0] is None:
        return None
    return torch.tensor(np.array(found), dtype=torch.float32).transpose(0, 1).unsqueeze(-1)


def _readings(
    columns: np.ndarray, bins: PiecewiseLinear, few: np.ndarray
) -> dict[str, list[np.ndarray]]:
    """For each way to read numbers, the inputs that stand for each column.

    Bins stand for the features that are `few` in the plain reading too.
    """
    sources, n_features = bins.source.numpy(), len(columns)
    is_level = np.arange(bins.n_bins) >= bins.n_steps
    with_levels = np.isin(np.arange(n_features), sources[is_level])
    parts: dict[str, list[np.ndarray]] = {reading: [] for reading in READINGS}
    names = np.unique(columns)
    for features, own in zip(
        _places(columns, names), _places(columns[sources], names), strict=True
    ):
        steps, levels = n_features + own[~is_level[own]], n_features + own[is_level[own]]
        # Bins in place of the number itself, where it has few values.
        stand_in = steps[few[sources[steps - n_features]]]
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


def _places(values: np.ndarray, names: np.ndarray) -> list[np.ndarray]:
    """Where each of the ascending names is among values that are all names."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.searchsorted(values[order], names[1:]))


def blank_forest(shape: Json, target: Target, recipe: Recipe) -> ForestNetwork:
    """Make a forest of a saved shape, whose values a state dict will fill in."""
    index = torch.zeros(*shape["index"], dtype=torch.int64)
    bins = PiecewiseLinear.blank(shape["n_bins"], shape.get("n_levels", 0))
    directions = None
    if recipe.monotone:
        directions = Directions.blank(index, recipe.hidden, target.n_outputs)
    return _network(
        shape["in_features"], index, bins, target, recipe, seed=0, directions=directions
    )


def _network(
    in_features: int,
    index: Tensor,
    bins: PiecewiseLinear,
    target: Target,
    recipe: Recipe,
    seed: int,
    gain: Tensor | None = None,
    directions: Directions | None = None,
) -> ForestNetwork:
    return ForestNetwork(
        in_features,
        target.n_outputs,
        index,
        bins,
        gain=gain,
        hidden=recipe.hidden,
        dropout=recipe.dropout * (1 if directions is None else MONOTONE_DROPOUT),
        combine=target.combine,
        seed=seed,
        directions=directions,
    )


def draw_subspaces(
    parts: Sequence[np.ndarray],
    n_subspaces: int,
    n_columns: int,
    rng: np.random.Generator,
    chances: np.ndarray | None = None,
    *,
    most_inputs: int = 128,
) -> list[np.ndarray]:
    """Draw the subspaces of one member.

    Random permutations of the columns are laid end to end and cut into pieces, as in the paper's
    layer, so that every column is read about equally often.

    Where the subspaces cannot cover all columns, most of these are noise to a member. Then half of
    each subspace is drawn by the `chances` of the columns; the other half evenly, for columns that
    tell nothing alone.

    Parameters
    ----------
    parts : for each column, the inputs that stand for it.
    n_columns : columns of a subspace; without `chances` more where the subspaces would not cover
        all columns.
    chances : (columns,) how often each column is drawn, relative to the others.
    most_inputs : a subspace that would read more inputs reads that many of them, drawn at random;
        more only where some would otherwise be read by no subspace.

    Examples
    --------
    >>> parts = [np.array([0]), np.array([1, 2]), np.array([3])]
    >>> drawn = draw_subspaces(parts, 4, 2, np.random.default_rng(0))
    >>> sorted(set(np.concatenate(drawn).tolist()))
    [0, 1, 2, 3]
    """
    chances = np.zeros(len(parts)) if chances is None else chances
    wide = n_subspaces * n_columns < len(parts) and chances.any()
    size = n_columns if wide else math.ceil(len(parts) / n_subspaces)
    size = min(max(n_columns, size), len(parts))
    needed = n_subspaces * size
    order = np.concatenate(
        [rng.permutation(len(parts)) for _ in range(math.ceil(needed / len(parts)))]
    )[:needed].reshape(n_subspaces, size)
    if wide:
        order[:, : size // 2] = rng.choice(
            len(parts), (n_subspaces, size // 2), p=chances / chances.sum()
        )
    # Where columns outnumber what the subspaces may read, covering them all goes first.
    most_inputs = max(most_inputs, size)
    whole, drawn = _together(parts, order), []
    for inputs in whole:
        if len(inputs) > most_inputs:
            inputs = np.sort(rng.choice(inputs, most_inputs, replace=False))
        drawn.append(inputs)
    return _cover(whole, drawn)


def _together(parts: Sequence[np.ndarray], order: np.ndarray) -> list[np.ndarray]:
    """The inputs of each row of columns in `order`, ascending, each once."""
    inputs, sizes = np.concatenate(parts), np.array([len(part) for part in parts])
    counts, starts = sizes[order].ravel(), (np.cumsum(sizes) - sizes)[order].ravel()
    # Where each column's inputs begin, then those that follow.
    before = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    n_inputs, of_row = inputs.max() + 1, counts.reshape(order.shape).sum(1)
    rows = np.repeat(np.arange(len(order)), of_row)
    keys = np.unique(rows * n_inputs + inputs[places])
    ends = np.searchsorted(keys, np.arange(1, len(order)) * n_inputs)
    return np.split(keys % n_inputs, ends)


def _cover(whole: list[np.ndarray], drawn: list[np.ndarray]) -> list[np.ndarray]:
    """Let subspaces, `drawn` of the `whole` of their columns, read every input between them.

    Inputs that none reads take the places of those that others read too; what finds no place in
    this way makes subspaces larger.
    """
    every = np.concatenate(whole)
    times = np.bincount(np.concatenate(drawn), minlength=1 + every.max())
    if times[every].all():
        return drawn
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


def column_gains(found: np.ndarray, n_rows: int, least: float) -> np.ndarray:
    """Factor of each column for members that do not see each fold: (n_folds, columns), at most 1.

    The factor is the square root of the column's relevance (:func:`column_relevance`, of so many
    rows) relative to the most relevant column's, and at least `least`. What chance alone may
    explain is added to both, so that columns which tell nothing alone (as in parity) are read
    evenly.

    Examples
    --------
    >>> column_gains(np.array([[0.0, 1.0]]), n_rows=10**6, least=0.1)
    array([[0.1, 1. ]], dtype=float32)
    """
    if least >= 1 or found.shape[1] == 1:
        return np.ones(found.shape, dtype=np.float32)
    more = found + by_chance(n_rows)
    gains = np.sqrt(more / more.max(1, keepdims=True))
    return np.maximum(gains, least).astype(np.float32)


def by_chance(n_rows: int) -> float:
    """The deviation of the relevance that a column of noise has."""
    return float(np.sqrt(2 * CELLS)) / n_rows


def column_relevance(
    sample: Sample,
    columns: np.ndarray,
    n_folds: int,
    variants: np.ndarray | None = None,
    *,
    in_order: bool = False,
) -> np.ndarray:
    """What each column explains of the target alone, without each fold: (n_folds, columns).

    That of its best feature (:func:`relevance`); `columns` (d,) says which column each feature was
    made of, and `variants` (d,) the fold whose members alone read it (-1: all). The targets of the
    sample are :meth:`nrs.tabular.targets.Target.indicators`. With `in_order`, what all rows say
    first, then what those of the folds before each do.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2)).astype(np.float32)
    >>> truth = (x[:, 1:] > 0).astype(np.float64)
    >>> sample = (x, truth, np.ones(400), np.arange(400) % 2)
    >>> column_relevance(sample, np.arange(2), 2).round(1)
    array([[0., 1.],
           [0., 1.]])
    """
    features, truth, weights, folds = sample
    names, number = np.unique(columns, return_inverse=True)
    found = np.zeros((n_folds, len(names)))
    variants = np.full(len(columns), -1) if variants is None else variants
    order = np.lexsort((variants, number))
    # The features of a column that the same members read.
    last = np.flatnonzero(np.diff(number[order]) | np.diff(variants[order]))
    for own in np.split(order, last + 1):
        place, variant = number[own[0]], variants[own[0]]
        if variant >= n_folds:
            continue
        readers = slice(None) if variant < 0 else variant
        for cells in _cells(features[:, own]):
            explained = relevance(cells, truth, weights, folds, n_folds, in_order=in_order)
            found[readers, place] = np.maximum(found[readers, place], explained[readers])
    return found


def relevance(
    cells: np.ndarray,
    truth: np.ndarray,
    weights: np.ndarray,
    folds: np.ndarray,
    n_folds: int,
    *,
    in_order: bool = False,
) -> np.ndarray:
    """Share of the target's variance that cells of a column explain, without each fold: (n_folds,).

    The adjusted R² of the means of the cells, not below 0; for classes it is that of their
    indicators taken together, which is Goodman and Kruskal's tau. With one fold all rows count.

    **Shape** cells, weights and folds ``(n,)``, truth ``(n, outputs)``: numbers or indicators.

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
        """Sums by cell without each fold, or before it, (n_folds, n_cells)."""
        by_fold = np.bincount(place, values, size).reshape(n_folds, n_cells)
        if in_order:
            return np.concatenate([by_fold.sum(0, keepdims=True), by_fold.cumsum(0)[:-1]])
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
