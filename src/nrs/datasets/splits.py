"""How the paper splits: official parts, a seeded 70/30 split, or ten folds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, train_test_split

from nrs.datasets.dataset import PARTS, Array, Dataset
from nrs.datasets.entry import Entry

Split = Literal["paper", "official", "random", "whole"]
SPLITS = ("paper", "official", "random", "whole")


def random_split(
    n_rows: int, *, test_size: float = 0.3, seed: int = 42
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the row numbers of scikit-learn's ``train_test_split``, as the authors call it.

    Parameters
    ----------
    n_rows : int
        Rows to split.
    test_size : float, default=0.3
        Part of the rows that goes to the test, rounded up to whole rows.
    seed : int, default=42
        The same number gives the same split.

    Returns
    -------
    train, test : ndarray of int64
        Shuffled row numbers, from 0.

    Examples
    --------
    >>> train, test = random_split(10)
    >>> train.tolist(), test.tolist()
    ([0, 7, 2, 9, 4, 3, 6], [8, 1, 5])
    """
    train, test = train_test_split(np.arange(n_rows), test_size=test_size, random_state=seed)
    return train, test


def split_arrays(
    entry: Entry, arrays: Mapping[str, Array], *, split: Split = "paper", seed: int = 42
) -> dict[str, Array]:
    """Name the parts of an entry's arrays ``X_train``, ``y_train``, … by a split rule.

    Parameters
    ----------
    entry : Entry
        Whose rule ``"paper"`` follows.
    arrays : mapping of str to array
        Either ``X, y[, qid]`` or official parts.
    split : {"paper", "official", "random", "whole"}
        ``"random"`` splits all rows, official parts one after the other; ``"whole"`` puts all
        rows in the training part, as the paper's rule does where it cross-validates.
    seed : int, default=42
        Of the random split.

    Raises
    ------
    ValueError
        If the split is not one of these, or is official and there is none, or would cut the
        queries of a ranking set.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, however: split={split!r}")
    official = "X" not in arrays
    rule = {"paper": entry.split, "official": "official", "random": "random"}.get(split, "folds")
    if rule == "official":
        if not official:
            raise ValueError(
                f"split='official' needs an official split, however: {entry.name!r} has none; "
                "use split='paper' or split='random'"
            )
        return dict(arrays)
    whole = stack_parts(arrays) if official else dict(arrays)
    if rule == "folds":
        return {f"{kind}_train": array for kind, array in whole.items()}
    if entry.task == "ranking":
        raise ValueError(
            f"split='random' would cut queries apart, however: {entry.name!r} is a ranking set; "
            "use its official split, or nrs.datasets.folds, which keeps queries whole"
        )
    train, test = random_split(len(whole["X"]), test_size=entry.test_size, seed=seed)
    parts = (("train", train), ("test", test))
    return {f"{kind}_{name}": whole[kind][rows] for name, rows in parts for kind in whole}


def stack_parts(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Stack the parts train, val and test of each array, in this order."""
    whole = {}
    for kind in ("X", "y", "qid"):
        parts = [arrays[f"{kind}_{part}"] for part in PARTS if f"{kind}_{part}" in arrays]
        if parts:
            whole[kind] = np.concatenate(parts)
    return whole


def folds(dataset: Dataset, n: int = 10, seed: int = 0) -> Iterator[Dataset]:
    """Cross-validate over all rows of a dataset: n datasets, each with one fold as its test.

    Folds are shuffled by the seed. Classes are spread evenly over them; queries stay whole.

    Parameters
    ----------
    dataset : Dataset
        Its parts train, val and test are taken together.
    n : int, default=10
        Number of folds, as the paper uses for yeast.
    seed : int, default=0
        Seed of the shuffle.

    Examples
    --------
    >>> import numpy as np
    >>> data = Dataset("tiny", np.eye(20, dtype=np.float32), np.arange(20) % 2, n_classes=2)
    >>> [sorted(fold.y_test.tolist()) for fold in folds(data, n=5)][:2]
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """
    present = {}
    for part in PARTS:
        for kind, array in zip(("X", "y", "qid"), dataset.part(part), strict=True):
            if array is not None:
                present[f"{kind}_{part}"] = array
    whole = stack_parts(present)
    X, y, qid = whole["X"], whole["y"], whole.get("qid")
    if not 2 <= n <= len(X):
        raise ValueError(f"n must be between 2 and the {len(X)} rows, however: n={n}")
    if qid is not None:
        splitter = GroupKFold(n, shuffle=True, random_state=seed)
    elif dataset.task == "classification":
        splitter = StratifiedKFold(n, shuffle=True, random_state=seed)
    else:
        splitter = KFold(n, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # yeast has a class of five rows: it cannot be in all ten folds.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        pairs = list(splitter.split(X, y, qid))
    for train, test in pairs:
        yield replace(
            dataset,
            X_train=X[train],
            y_train=y[train],
            qid_train=None if qid is None else qid[train],
            X_val=None,
            y_val=None,
            qid_val=None,
            X_test=X[test],
            y_test=y[test],
            qid_test=None if qid is None else qid[test],
        )
