"""Which rows a member of a forest is not trained on, so that it can score them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_consistent_length

from nrs._util.lazy import torch
from nrs.tabular.encode.columns import (
    Column,
    labels_as_array,
    missing_cells,
    read_cells,
    read_column,
)
from nrs.tabular.recipe import MAX_FOLDS
from nrs.tabular.rows.sample import hashed

if TYPE_CHECKING:
    from torch import Tensor

    from nrs.tabular.types import ArrayLike

# Share of the rows in the first block of time, which no member scores: models of fewer rows would
# score far lower than one of all.
FIRST_BLOCK = 1 / 3
# Of fewer rows none can be spared.
MIN_ROWS = 4


@dataclass(frozen=True)
class Folds:
    """The folds of a table's rows; everything that asks "did this member see this row" asks here.

    Attributes
    ----------
    n_folds : int
        1 where no row can be spared: then all members see all rows.
    seed : int
    drawn : ndarray (n_rows,) or None
        The fold of each row in memory. Rows of files are hashed by their place or group instead.
    keys : ndarray (n_groups,) or None
        Ascending hashes of the groups in files, if they are few: then each fold has as many.
    scorers : int
        Above 0 where folds are blocks in order of time (:meth:`in_order`): members per block but
        the first that only score it. They are trained on the blocks before it; all others, which
        predict, on all blocks.
    cuts : ndarray (n_folds - 1,) or None
        The times at which the blocks begin, but the first.

    Examples
    --------
    >>> folds = Folds.draw(np.array(["a", "b"] * 4), 2, seed=0)
    >>> np.bincount(folds.of(np.arange(8))).tolist()
    [4, 4]
    >>> folds.sees(3).tolist()
    [[False, True], [True, False], [False, True]]
    >>> folds = Folds.in_order(np.array([3.0, 1.0, 1.0, 2.0, 4.0, 4.0]), 2, seed=0)
    >>> folds.drawn.tolist(), folds.members(2).tolist()
    ([1, 0, 0, 1, 2, 2], [1, 2, 0, 0])
    >>> folds.sees(4).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]
    """

    n_folds: int
    seed: int = 0
    drawn: np.ndarray | None = None
    keys: np.ndarray | None = None
    scorers: int = 0
    cuts: np.ndarray | None = None

    @classmethod
    def draw(
        cls, strata: np.ndarray, n_members: int, seed: int, groups: np.ndarray | None = None
    ) -> Folds:
        """Draw folds for rows in memory, as many as rows, groups (from 0) and members allow."""
        n_folds = min(count_folds(len(strata)), n_members)
        if groups is not None:
            n_folds = min(n_folds, int(groups.max()) + 1)
        drawn = draw_folds(strata, n_folds, seed, groups)
        return cls(int(drawn.max()) + 1, seed, drawn)

    @classmethod
    def in_order(
        cls, times: np.ndarray, n_members: int, seed: int, weights: np.ndarray | None = None
    ) -> Folds:
        """Cut rows into consecutive blocks of about equal size; rows of equal time stay together.

        Rows of weight 0 do not count, so that each block has some that do.

        Raises
        ------
        ValueError
            If all times are equal.
        """
        counts = slice(None) if weights is None or not weights.any() else weights > 0
        ordered = np.sort(times[counts])
        n_folds = count_folds(len(ordered))
        later = (1 - FIRST_BLOCK) * np.arange(n_folds - 1) / max(1, n_folds - 1)
        starts = np.unique(ordered[((FIRST_BLOCK + later) * len(ordered)).astype(int)])
        rest = ordered[ordered > ordered[0]]
        if not len(rest):
            raise ValueError(
                "time must hold at least 2 different times, in rows that have a weight; got 1. "
                "Leave time out."
            )
        if n_folds == 1:
            return cls(1, seed, np.zeros(len(times), dtype=np.int64))
        starts = starts[starts > ordered[0]]
        # Nearly all rows may have the first time.
        cuts = starts if len(starts) else rest[:1]
        folds = cls(len(cuts) + 1, seed, None, None, max(1, n_members // (len(cuts) + 1)), cuts)
        return replace(folds, drawn=folds.of(times))

    def of(self, places: np.ndarray) -> np.ndarray:
        """The fold of each row: by its number in memory, else by its place, group or time."""
        if self.drawn is not None:
            return self.drawn[places]
        if self.keys is not None:
            fold = np.empty(len(self.keys), dtype=np.int64)
            order = np.argsort(hashed(self.keys, self.seed + 2))
            fold[order] = np.arange(len(order)) % self.n_folds
            return fold[np.searchsorted(self.keys, places)]
        if self.cuts is not None:
            return np.searchsorted(self.cuts, places, side="right")
        return (hashed(places, self.seed + 2) % np.uint64(self.n_folds)).astype(np.int64)

    def members(self, n_predicting: int) -> np.ndarray:
        """The variant of each member, of which so many predict.

        Members of a variant see the same folds. In order of time there are more members: first
        those that score block 1, 2, …, then those that see all blocks, of variant 0. Else a
        member's variant is the fold that it scores, and does not see if there are several.
        """
        return self._variants(n_predicting + self.scorers * (self.n_folds - 1))

    def _variants(self, n_members: int) -> np.ndarray:
        if not self.scorers:
            return np.arange(n_members) % self.n_folds
        scoring = np.repeat(np.arange(1, self.n_folds), self.scorers)
        return np.concatenate([scoring, np.zeros(n_members - len(scoring), dtype=np.int64)])

    def sees(self, n_members: int) -> Tensor:
        """Which folds each of all members is trained on, (members, folds)."""
        return self.tables(n_members)[0]

    def tables(self, n_members: int) -> tuple[Tensor, Tensor]:
        """:meth:`sees`, and which folds each member scores: both (members, folds)."""
        variants = self._variants(n_members)
        sees = seen_folds(self.n_folds, in_order=self.scorers > 0)[variants]
        scores = ~sees & (variants[:, None] == np.arange(self.n_folds))
        return torch.from_numpy(sees), torch.from_numpy(scores)


# No row is spared: a single network, or rows that come batch by batch.
NO_FOLDS = Folds(1)


def seen_folds(n_folds: int, *, in_order: bool = False) -> np.ndarray:
    """Which folds the members of each variant see, (variants, folds) bool; see `Folds.members`.

    >>> seen_folds(3, in_order=True).astype(int).tolist()
    [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    """
    fold = np.arange(n_folds)
    if in_order:
        return (fold < fold[:, None]) | (fold[:, None] == 0)
    return (fold != fold[:, None]) | (n_folds == 1)


def count_folds(n_rows: int) -> int:
    """Number of folds for so many rows; 1 means that none can be spared.

    >>> [count_folds(n) for n in (3, 8, 50)]
    [1, 4, 8]
    """
    return max(1, min(MAX_FOLDS, n_rows // 2)) if n_rows >= MIN_ROWS else 1


def read_groups(groups: ArrayLike, n_rows: int) -> np.ndarray:
    """The number of each row's group, (n,), from 0 in the order of the groups' names.

    Examples
    --------
    >>> read_groups(["b", "a", "b"], 3).tolist()
    [1, 0, 1]
    """
    check_consistent_length(np.empty(n_rows), groups)
    names = labels_as_array(groups)
    if names.ndim != 1:
        raise ValueError(
            f"groups must have one entry per row, (n_rows,); its shape is {names.shape}"
        )
    missing = missing_cells(names)
    if missing.any():
        raise ValueError(
            f"groups must name a group for every row; row {int(np.argmax(missing))} has none. Give "
            "such rows groups of their own, or leave them out."
        )
    # Objects that are left are of several types, which have no order.
    names = names.astype(str) if names.dtype.kind == "O" else names
    different, numbers = np.unique(names, return_inverse=True)
    if len(different) < 2:
        raise ValueError(
            f"groups must hold at least 2 different groups; got {len(different)}. Leave groups out."
        )
    return numbers


def read_times(time: ArrayLike, n_rows: int) -> np.ndarray:
    """The time of each row as a number, (n,) float64, of numbers, dates or ISO texts of dates.

    Examples
    --------
    >>> read_times(["1970-01-02", "1970-01-01T00:00:01"], 2).tolist()
    [86400000000.0, 1000000.0]
    """
    check_consistent_length(np.empty(n_rows), time)
    shape = np.asarray(time).shape
    if len(shape) != 1:
        raise ValueError(f"time must have one entry per row, (n_rows,); its shape is {shape}")
    is_list = isinstance(time, (list, tuple))
    return times_of(read_cells(list(time)) if is_list else read_column(time), "time")


def times_of(column: Column, name: str) -> np.ndarray:
    """The cells of a column as numbers that grow with time; `name` is what messages call it."""
    values, missing = column.values, column.missing()
    if missing.any():
        raise ValueError(
            f"{name} must have a value in every row; row {int(np.argmax(missing))} has none. Fill "
            "it in, or leave such rows out."
        )
    if column.kind == "category":
        try:
            values = np.array(column.levels, dtype="datetime64[us]")[values]
        except ValueError:
            raise ValueError(
                f"{name} must hold numbers, dates or texts such as '2024-12-31' or "
                f"'2024-12-31T23:59'; got {column.levels[0]!r}. Turn it into dates first, such as "
                "with pandas.to_datetime."
            ) from None
    found = (values.astype(np.int64) if values.dtype.kind == "M" else values).astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite; row {np.argmin(np.isfinite(found))} is not")
    return found


def draw_folds(
    strata: np.ndarray, n_folds: int, seed: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """Give each row the number of its fold.

    Folds are equally large; classes (`strata` that are no floats) are spread evenly over them.
    Rows of a group share a fold, and the groups are spread so that the folds are about equally
    large.

    Examples
    --------
    >>> folds = draw_folds(np.array(["a", "b"] * 4), 2, seed=0)
    >>> np.bincount(folds).tolist()
    [4, 4]
    >>> draw_folds(np.zeros(4), 2, 0, groups=[7, 7, 8, 8]).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    rng = np.random.default_rng(seed)
    n_rows = len(strata)
    if groups is not None:
        return _group_folds(np.asarray(groups), n_folds, rng)
    order = rng.permutation(n_rows)
    if strata.ndim == 1 and strata.dtype.kind != "f":
        classes = np.unique(strata, return_inverse=True)[1]
        order = order[np.argsort(classes[order], kind="stable")]
    folds = np.empty(n_rows, dtype=np.int64)
    folds[order] = np.arange(n_rows) % n_folds
    return folds


def _group_folds(groups: np.ndarray, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    names, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < n_folds:
        raise ValueError(
            f"groups must hold at least {n_folds} different groups, one per fold; got "
            f"{len(names)}. Draw fewer folds."
        )
    fold_of = np.empty(len(names), dtype=np.int64)
    filled = np.zeros(n_folds, dtype=np.int64)
    # The largest first, each into the emptiest fold; equally large ones in random order.
    shuffled = rng.permutation(len(names))
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += sizes[group]
    return fold_of[members]
