"""Adapters: other packages' estimators on the tables and labels that ours take.

A peer gets the float32 matrix of :class:`nrs.tabular.TableEncoder` (numbers as they are,
categories as 0/1 columns) and labels counted from 0, and gives back the user's labels. Packages
are imported in `fit`, so that an adapter can be made, shown and cloned without them.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    column_or_1d,
)

from nrs.tabular import TableEncoder
from nrs.tabular.encode.columns import missing_cells
from nrs.tabular.encode.table import Table, read_table_for
from nrs.tabular.run import draw_seed
from nrs.tabular.targets import labels_as_array


class MissingPeerError(ImportError):
    """A package that a baseline needs is not installed, or cannot be loaded here."""


def import_peer(package: str, advice: str) -> Any:
    """Import a peer's package.

    Raises
    ------
    MissingPeerError
        One line: which package, what is wrong, what to do.

    Examples
    --------
    >>> import_peer("no_such_package", "run: pip install no-such-package")
    Traceback (most recent call last):
        ...
    nrs.baselines.peers.MissingPeerError: no_such_package is not installed; run: pip install \
no-such-package
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        missing = error.name or package
        raise MissingPeerError(f"{missing} is not installed; {advice}", name=missing) from None
    except (ImportError, OSError) as error:
        # A wheel whose shared library wants what this machine has not.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MissingPeerError(
            f"{package} is installed but cannot be loaded ({reason}); {advice}", name=package
        ) from error


class PeerEstimator(BaseEstimator):
    """Common base of the adapters.

    Attributes
    ----------
    peer_ : the fitted estimator of the other package.
    encoder_ : the learned encoding of the columns.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    """

    # Whether the peer reads SciPy's sparse matrices.
    _takes_sparse = True
    categorical_features: Any
    random_state: Any
    n_jobs: int | None

    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        """The peer's estimator; `n_classes` is None for regression."""
        raise NotImplementedError

    def serialized(self) -> bytes:
        """The fitted model as its package stores it; its length is the model's size."""
        check_is_fitted(self)
        return pickle.dumps(self.peer_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "peer_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _read_table(self, X: Any, *, reset: bool) -> Table:
        return read_table_for(self, X, reset=reset)

    def _fit_peer(self, X: Any, y: np.ndarray, sample_weight: Any, n_classes: int | None) -> None:
        table = self._read_table(X, reset=True)
        check_consistent_length(y, np.empty(table.n_rows))
        if table.n_rows < 2:
            raise ValueError("at least two rows are needed to fit, however: n_samples=1")
        self.encoder_ = TableEncoder(self.categorical_features, scale="none").fit(table)
        features = self._encoded(table)
        seed = draw_seed(self.random_state)
        given = {}
        if sample_weight is not None:
            rows = np.empty((len(y), 1))
            given["sample_weight"] = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
        # Boosting needs two classes; with one there is nothing to learn.
        peer = DummyClassifier() if n_classes == 1 else self._make_peer(n_classes, seed)
        peer.fit(features, y, **given)
        self.peer_ = peer

    def _features(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._encoded(self._read_table(X, reset=False))

    def _encoded(self, table: Table) -> Any:
        features = self.encoder_.transform(table)
        if isinstance(features, np.ndarray) or self._takes_sparse:
            return features
        return features.toarray()


class PeerClassifier(ClassifierMixin, PeerEstimator):
    """An adapter that classifies; `classes_` holds the labels."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a raw table and labels of any type.

        Raises
        ------
        MissingPeerError
            If the peer's package is not installed.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        labels = column_or_1d(labels_as_array(y), warn=True)
        if labels.dtype.kind == "O" and missing_cells(labels).any():
            raise ValueError("Input y contains NaN or None; every row needs a label")
        check_classification_targets(labels)
        classes, positions = np.unique(labels, return_inverse=True)
        self._fit_peer(X, positions, sample_weight, len(classes))
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the labels: (n_rows,)."""
        positions = np.asarray(self._positions(self._features(X)))
        labels: np.ndarray = self.classes_[np.rint(positions).astype(np.int64).reshape(-1)]
        return labels

    def _positions(self, features: Any) -> Any:
        """Positions among the classes of the predicted ones."""
        return self.peer_.predict(features)


class ProbabilityPeerClassifier(PeerClassifier):
    """An adapter whose peer tells the probabilities of all classes."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities: (n_rows, n_classes)."""
        features = self._features(X)
        values = np.asarray(self.peer_.predict_proba(features), dtype=np.float64)
        return values / values.sum(1, keepdims=True)

    def _positions(self, features: Any) -> Any:
        # By the probabilities, so that the two always agree.
        return np.asarray(self.peer_.predict_proba(features)).argmax(1)


class PeerRegressor(RegressorMixin, PeerEstimator):
    """An adapter that predicts a number."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a raw table and one number a row.

        Raises
        ------
        MissingPeerError
            If the peer's package is not installed.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        y = column_or_1d(y.to_numpy() if hasattr(y, "to_numpy") else y, warn=True)
        if y.dtype.kind == "c":
            raise ValueError("Complex data not supported: y must hold real numbers")
        values = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        self._fit_peer(X, values, sample_weight, None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the targets: (n_rows,)."""
        features = self._features(X)
        values = np.asarray(self.peer_.predict(features), dtype=np.float64)
        return values.reshape(len(values), -1)[:, 0]
