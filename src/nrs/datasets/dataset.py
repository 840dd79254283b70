"""A dataset in memory: its parts, and what is predicted from what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from nrs.datasets.entry import Kind, Preprocess, Task

Array = NDArray[Any]
PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Arrays of a dataset, split.

    Attributes
    ----------
    name : str
        The name in the catalog.
    X_train, X_val, X_test : array (n, d) or (n, points, 3), float32
        Inputs; None where there is no such part.
    y_train, y_val, y_test : array (n,) or (n, outputs)
        Labels as at the source (-1/1, 1..6, …), targets, or relevance grades.
    qid_train, qid_val, qid_test : array (n,)
        The query of each row, for ranking; else None.
    task : {"classification", "regression", "ranking", "multilabel"}
        What is predicted.
    n_classes : int or None
        Classes, labels or relevance grades; None for regression.
    kind : {"table", "images", "points"}
        What a row is.
    preprocess : str
        What `nrs.datasets.paper_preprocess` is still to do; ``"none"`` once done.
    notes : str
        What one should know before comparing numbers.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.zeros((3, 2), np.float32), np.array([1, 2, 1])
    >>> Dataset("tiny", X, y, X_test=X, y_test=y, n_classes=2)
    Dataset('tiny', classification, train 3, test 3, 2 features, 2 classes)
    """

    name: str
    X_train: Array
    y_train: Array
    X_val: Array | None = None
    y_val: Array | None = None
    X_test: Array | None = None
    y_test: Array | None = None
    qid_train: Array | None = None
    qid_val: Array | None = None
    qid_test: Array | None = None
    task: Task = "classification"
    n_classes: int | None = None
    kind: Kind = "table"
    preprocess: Preprocess = "none"
    notes: str = ""

    @property
    def n_features(self) -> int:
        """Numbers in one row of X."""
        return math.prod(self.X_train.shape[1:])

    def part(self, name: str) -> tuple[Array | None, Array | None, Array | None]:
        """Give ``X, y, qid`` of a part; None for what there is not.

        Parameters
        ----------
        name : {"train", "val", "test"}
            Which part.

        Raises
        ------
        ValueError
            If the name is none of these.
        """
        if name not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, however: part={name!r}")
        return getattr(self, f"X_{name}"), getattr(self, f"y_{name}"), getattr(self, f"qid_{name}")

    def __repr__(self) -> str:
        facts: list[str] = [self.task]
        for name in PARTS:
            X = self.part(name)[0]
            if X is not None:
                facts.append(f"{name} {len(X)}")
        facts.append(f"{self.n_features} features")
        if self.n_classes is not None:
            facts.append(f"{self.n_classes} classes")
        return f"Dataset({self.name!r}, {', '.join(facts)})"
