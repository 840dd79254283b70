"""Means of the target by level of a category: what a column of many levels says, without a leak.

A member of a forest must not learn from rows that it is to score, nor a row from its own target.
The sums of each level are therefore kept by fold. For the members that do not see fold k, a
training row of fold j has the mean of its level in all folds but j and k; any other row has that
in all folds but k. So there is one variant of the features per fold, side by side, and a member
reads its own. Where folds are blocks in order of time, variant 0 is that of the members which see
all of them, and variant k of those that see the blocks before k: nothing in it comes from later
targets, neither the mean of all rows nor the prior.

Means of few rows are drawn towards the mean of all rows, as far as the levels' own variance
suggests (empirical Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nrs.tabular.encode.number import LIMIT
from nrs.tabular.forest.folds import seen_folds

if TYPE_CHECKING:
    from nrs.tabular.encode.columns import Column
    from nrs.tabular.encode.encoder import TableEncoder
    from nrs.tabular.encode.table import Table
    from nrs.tabular.forest.folds import Folds
    from nrs.tabular.targets import Target

# With fewer folds, too little is left when two of them are left out.
MIN_FOLDS = 4
# The most frequent outputs have means.
MAX_OUTPUTS = 8
# Rows' worth of the mean of all rows that is added to each level.
MAX_PRIOR = 1_000.0
# Sums of all columns together: they are in the header of a model file, which has bounds.
MAX_SUMS = 2_000_000
# Means that differ by less than this differ by rounding.
MIN_SCALE = 1e-12


@dataclass
class LevelMeans:
    """What was summed up of one column; all of it JSON values.

    Attributes
    ----------
    places : list of int
        The place of each level with sums among the levels of the column; that of missing cells is
        their number.
    outputs : list of int
        Which outputs of the target the sums are of.
    n_folds : int
    sums : list of float, (places, folds, 1 + outputs)
        Weight, and weighted targets.
    mean, scale : list of float, (outputs,)
        Of all rows, and the deviation of the means.
    prior : float
    earlier : list of list of float
        Prior, mean and scale of the variants from 1 on, where folds are in order of time.
    """

    places: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    n_folds: int = 0
    sums: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    prior: float = 0.0
    earlier: list[list[float]] = field(default_factory=list)

    @cached_property
    def _by_fold(self) -> np.ndarray:
        """The sums, and zeros for levels that have none: (places + 1, folds, 1 + outputs)."""
        sums = np.array(self.sums).reshape(len(self.places), self.n_folds, 1 + len(self.outputs))
        return np.concatenate([sums, np.zeros((1, *sums.shape[1:]))])

    @cached_property
    def _seen(self) -> list[np.ndarray]:
        """The sums that each variant sees: (places + 1, 1 + outputs)."""
        total: np.ndarray = self._by_fold.sum(1)
        if not self.earlier:
            return [total - self._by_fold[:, k] for k in range(self.n_folds)]
        return [total, *np.moveaxis(self._by_fold.cumsum(1), 1, 0)[:-1]]

    @property
    def variants(self) -> list[int]:
        """The variant of each feature: the fold that it leaves out, unless they are in order."""
        return [fold for fold in range(self.n_folds) for _ in self.outputs]

    def write(self, place: np.ndarray, out: np.ndarray, fold: np.ndarray | None) -> None:
        """Write the features of rows by the places of their levels, in training by their folds."""
        row, width = rows_of(self.places, place), len(self.outputs)
        sees = seen_folds(self.n_folds, in_order=bool(self.earlier))
        for k in range(self.n_folds):
            prior, mean, scale = self.prior, self.mean, self.scale
            if k and self.earlier:
                prior, *both = self.earlier[k - 1]
                mean, scale = both[:width], both[width:]
            left = self._seen[k][row]
            if fold is not None:
                left -= self._by_fold[row, fold] * sees[k, fold][:, None]
            # What is left of a weight after subtraction may be a rounding error below 0.
            weight = np.maximum(left[:, :1], 0.0)
            drawn = (left[:, 1:] - weight * mean) / (weight + prior)
            out[:, k * width : (k + 1) * width] = np.clip(drawn / scale, -LIMIT, LIMIT)


def rows_of(places: np.ndarray | list[int], place: np.ndarray) -> np.ndarray:
    """The row of each place among `places`; one past the last where it is none of them."""
    found = np.full(max(places) + 2, len(places))
    found[places] = np.arange(len(places))
    return found[np.minimum(place, len(found) - 1)]


class LevelSums:
    """Sums of all columns with many levels: one `add` in memory, many in a stream, then `merge`.

    Parameters
    ----------
    frequency : ndarray (outputs,)
        What :meth:`Target.frequency` gives of all rows, or of those that all members see.
    """

    def __init__(
        self, encoder: TableEncoder, target: Target, folds: Folds, frequency: np.ndarray
    ) -> None:
        self.encoder, self.target, self.n_folds = encoder, target, folds.n_folds
        n_folds, self.in_order = folds.n_folds, folds.scorers > 0
        self.outputs = np.sort(np.argsort(-frequency, kind="stable")[:MAX_OUTPUTS])
        if target.kind == "classes" and target.n_outputs == 2:
            # What is not the second class is the first.
            self.outputs = np.array([1])
        width = 1 + len(self.outputs)
        columns = {index: one for index, one in encoder.categories().items() if one.other}
        most = MAX_SUMS // (max(1, len(columns)) * n_folds * width)
        found = {index: one.common_levels(most) for index, one in columns.items()}
        self.places = {index: places for index, places in found.items() if len(places)}
        self.sums: dict[int, np.ndarray] = {}
        self.sums |= {i: np.zeros((len(p), n_folds, width)) for i, p in self.places.items()}
        # Of all rows, or by block: weight, targets, squares of targets.
        parts = n_folds if self.in_order else 1
        self.total: np.ndarray = np.zeros((parts, width))
        self.squares: np.ndarray = np.zeros((parts, len(self.outputs)))

    def add(self, table: Table, y: np.ndarray, weight: np.ndarray | None, fold: np.ndarray) -> None:
        """Add rows, of which `y` is what the target has encoded."""
        truth = self.target.indicators(y, self.outputs)
        each = np.concatenate([np.ones((len(truth), 1)), truth], axis=1)
        if weight is not None:
            each *= weight[:, None]
        for part in range(len(self.total)):
            rows = fold == part if self.in_order else slice(None)
            self.total[part] += each[rows].sum(0)
            self.squares[part] += (each[rows, 1:] * truth[rows]).sum(0)
        source = self.encoder.find_columns(table)
        for index, places in self.places.items():
            column: Column = table.column(int(source[index]), "category")
            row = rows_of(places, self.encoder.categories()[index].place(column))
            # Rows of other levels come after all of these.
            cell, size = row * self.n_folds + fold, (len(places) + 1) * self.n_folds
            for output in range(each.shape[1]):
                found = np.bincount(cell, each[:, output], size).reshape(-1, self.n_folds)
                self.sums[index][:, :, output] += found[:-1]

    def arrays(self) -> np.ndarray:
        """Everything that was added up, as one array: sums of processes are its sums."""
        every = (self.total, self.squares, *self.sums.values())
        return np.concatenate([one.ravel() for one in every])

    def restore(self, arrays: np.ndarray) -> None:
        """Take what :meth:`arrays` gave, added up."""
        every = (self.total, self.squares, *self.sums.values())
        parts = np.split(arrays, np.cumsum([one.size for one in every]))[:-1]
        found = [one.reshape(old.shape) for one, old in zip(parts, every, strict=True)]
        self.total, self.squares, *sums = found
        self.sums = dict(zip(self.sums, sums, strict=True))

    def means(self) -> dict[int, LevelMeans]:
        """The means of each column whose levels differ by more than chance."""
        found = {}
        for index, sums in self.sums.items():
            # No training row can read the mean of a level that is in one fold only, as where
            # groups are levels: members would not have learned what it means.
            several = (sums[..., 0] > 0).sum(1) > 1
            one = self._in_order(sums[several]) if self.in_order else self._drawn(sums[several])
            if one is not None:
                one.places = self.places[index][several].tolist()
                found[index] = one
        return found

    def _drawn(self, sums: np.ndarray) -> LevelMeans | None:
        """The means of random folds; None if the levels do not differ."""
        one = _shrunken(sums.sum(1), self.total[0], self.squares[0])
        if one is None:
            return None
        prior, mean, scale = one
        differ = scale > MIN_SCALE
        if not differ.any():
            return None
        return LevelMeans(
            outputs=self.outputs[differ].tolist(),
            n_folds=self.n_folds,
            sums=sums[..., np.append(True, differ)].ravel().tolist(),
            mean=mean[differ].tolist(),
            scale=scale[differ].tolist(),
            prior=prior,
        )

    def _in_order(self, sums: np.ndarray) -> LevelMeans | None:
        """The means of blocks in order of time.

        Which levels and outputs have features must not depend on later targets: where the levels
        do not differ, or only one block is seen, so that its own rows have no mean to learn from,
        the features are 0 to all digits.
        """
        if len(sums) < 2:
            return None
        none = (1.0, np.zeros(len(self.outputs)), np.full(len(self.outputs), LIMIT))
        variants = []
        for sees in seen_folds(self.n_folds, in_order=True):
            known = (sums[:, sees].sum(1), self.total[sees].sum(0), self.squares[sees].sum(0))
            prior, mean, scale = (_shrunken(*known) if sees.sum() > 1 else None) or none
            variants.append((prior, mean, np.where(scale > MIN_SCALE, scale, LIMIT)))
        prior, mean, scale = variants[0]
        return LevelMeans(
            outputs=self.outputs.tolist(),
            n_folds=self.n_folds,
            sums=sums.ravel().tolist(),
            mean=mean.tolist(),
            scale=scale.tolist(),
            prior=prior,
            earlier=[[one, *m.tolist(), *s.tolist()] for one, m, s in variants[1:]],
        )


def _shrunken(
    of_level: np.ndarray, total: np.ndarray, squares: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Prior, from the variance between and within levels, mean and scale; None if that is 0."""
    weight, targets = of_level[:, :1], of_level[:, 1:]
    used = weight[:, 0] > 0
    n_rows, n_levels = weight.sum(), int(used.sum())
    if n_levels < 2 or n_rows <= n_levels:
        return None
    mean = total[1:] / total[0]
    centre = targets.sum(0) / n_rows
    between = (targets[used] ** 2 / weight[used]).sum(0) - n_rows * centre**2
    overall = n_rows * (squares / total[0] - mean**2)
    within = (overall - between).clip(0).sum() / (n_rows - n_levels)
    usual = (n_rows - (weight**2).sum() / n_rows) / (n_levels - 1)
    # A level that outweighs all others by far leaves nothing to compare with.
    variance = (between.sum() / (n_levels - 1) - within) / usual if usual > 0 else 0.0
    if variance <= 0:
        return None
    prior = float(np.clip(within / variance, 1.0, MAX_PRIOR))
    drawn = (targets - weight * mean) / (weight + prior)
    return prior, mean, np.sqrt((weight * drawn**2).sum(0) / n_rows)
