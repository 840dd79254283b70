"""Which rows a member of a forest is not trained on, so that it can score them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from torch import Tensor

from nrs.tabular.encode.columns import labels_as_array, missing_cells
from nrs.tabular.recipe import MAX_FOLDS
from nrs.tabular.rows.sample import hashed

if TYPE_CHECKING:
    from nrs.tabular.types import ArrayLike

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

    Examples
    --------
    >>> folds = Folds.draw(np.array(["a", "b"] * 4), 2, seed=0)
    >>> np.bincount(folds.of(np.arange(8))).tolist()
    [4, 4]
    >>> folds.sees(3).tolist()
    [[False, True], [True, False], [False, True]]
    """

    n_folds: int
    seed: int = 0
    drawn: np.ndarray | None = None
    keys: np.ndarray | None = None

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

    def of(self, places: np.ndarray) -> np.ndarray:
        """The fold of each row, by its number in memory or by what is hashed of a file's row."""
        if self.drawn is not None:
            return self.drawn[places]
        if self.keys is not None:
            fold = np.empty(len(self.keys), dtype=np.int64)
            order = np.argsort(hashed(self.keys, self.seed + 2))
            fold[order] = np.arange(len(order)) % self.n_folds
            return fold[np.searchsorted(self.keys, places)]
        return (hashed(places, self.seed + 2) % np.uint64(self.n_folds)).astype(np.int64)

    def own(self, n_members: int) -> np.ndarray:
        """The fold that each member scores, and is not trained on if there are several."""
        return np.arange(n_members) % self.n_folds

    def sees(self, n_members: int) -> Tensor:
        """Which folds each member is trained on, (members, folds): all but its own."""
        if self.n_folds == 1:
            return torch.ones(n_members, 1, dtype=torch.bool)
        return torch.from_numpy(self.own(n_members)[:, None] != np.arange(self.n_folds))


# No row is spared: a single network, or rows that come batch by batch.
NO_FOLDS = Folds(1)


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
