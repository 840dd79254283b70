"""Which rows a member of a forest never sees, so that it can judge them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from nrs.tabular.encode.columns import missing_cells
from nrs.tabular.targets import labels_as_array

MOST_FOLDS = 8
# Of fewer rows none can be spared.
LEAST_ROWS = 4


def count_folds(n_rows: int) -> int:
    """How many folds so many rows are cut into; 1 means that none can be spared.

    >>> [count_folds(n) for n in (3, 8, 50)]
    [1, 4, 8]
    """
    return max(1, min(MOST_FOLDS, n_rows // 2)) if n_rows >= LEAST_ROWS else 1


def read_groups(groups: Any, labels: np.ndarray) -> np.ndarray:
    """The number of each row's group, (n,), from 0 in the order of the groups' names.

    Raises
    ------
    ValueError
        If there is not one group a row, or fewer than two different ones.

    Examples
    --------
    >>> read_groups(["b", "a", "b"], np.zeros(3)).tolist()
    [1, 0, 1]
    """
    check_consistent_length(labels, groups)
    names = labels_as_array(groups)
    if names.ndim != 1:
        raise ValueError(
            f"groups must have one entry a row, (n_rows,), however: its shape is {names.shape}"
        )
    missing = missing_cells(names)
    if missing.any():
        raise ValueError(
            "groups must name a group for every row, however: row "
            f"{int(np.argmax(missing))} has none; give such rows groups of their own or leave "
            "them out"
        )
    # Objects that are left are of several types, which have no order.
    names = names.astype(str) if names.dtype.kind == "O" else names
    different, numbers = np.unique(names, return_inverse=True)
    if len(different) < 2:
        raise ValueError(
            f"groups must hold at least 2 different groups, however: {len(different)}; leave "
            "groups out"
        )
    return numbers


def draw_folds(labels: np.ndarray, n_folds: int, seed: int, groups: Any = None) -> np.ndarray:
    """Give each row the number of its fold.

    Folds are equally large; classes are spread evenly over them. Rows of a group share a fold,
    and the groups are spread so that the folds are about equally large.

    Parameters
    ----------
    labels : (n,) classes (not of a float dtype), or any targets.
    groups : (n,) labels of groups, optional.

    Examples
    --------
    >>> folds = draw_folds(np.array(["a", "b"] * 4), 2, seed=0)
    >>> np.bincount(folds).tolist()
    [4, 4]
    >>> draw_folds(np.zeros(4), 2, 0, groups=[7, 7, 8, 8]).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    rng = np.random.default_rng(seed)
    n_rows = len(labels)
    if groups is not None:
        return _group_folds(np.asarray(groups), n_folds, rng)
    order = rng.permutation(n_rows)
    if labels.ndim == 1 and labels.dtype.kind != "f":
        classes = np.unique(labels, return_inverse=True)[1]
        order = order[np.argsort(classes[order], kind="stable")]
    folds = np.empty(n_rows, dtype=np.int64)
    folds[order] = np.arange(n_rows) % n_folds
    return folds


def _group_folds(groups: np.ndarray, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    names, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < n_folds:
        raise ValueError(
            f"groups must hold at least {n_folds} different groups, one a fold, however: "
            f"{len(names)}; draw fewer folds"
        )
    fold_of = np.empty(len(names), dtype=np.int64)
    filled = np.zeros(n_folds, dtype=np.int64)
    # The largest first, each into the emptiest fold; equally large ones in random order.
    shuffled = rng.permutation(len(names))
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += sizes[group]
    return fold_of[members]
