"""Adapters: other packages' estimators on the tables and labels that ours take.

A peer gets the float32 matrix of :class:`nrs.tabular.TableEncoder` (numbers as they are,
categories as 0/1 columns) and labels counted from 0, and gives back the user's labels. Packages
are imported in `fit`, so that an adapter can be made, shown and cloned without them.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any, ClassVar, Self

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
from nrs.tabular.encode.columns import labels_as_array, missing_cells
from nrs.tabular.encode.table import RawTables, Table, read_table_for
from nrs.tabular.parameters import parameters
from nrs.tabular.run import draw_seed
from nrs.tabular.types import ArrayLike, Categorical, Features, TableLike


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


@parameters
class PeerEstimator(RawTables, BaseEstimator):
    """Common base of the adapters.

    Attributes
    ----------
    peer_ : the fitted estimator of the other package.
    encoder_ : the learned encoding of the columns.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    """

    categorical_features: Categorical = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = 1

    # Whether the peer reads SciPy's sparse matrices.
    _takes_sparse = True

    def fit(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to a raw table and its labels of any type, or one number a row.

        Raises
        ------
        MissingPeerError
            If the peer's package is not installed.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        y, classes = self._read_labels(column_or_1d(labels_as_array(y), warn=True))
        table = read_table_for(self, X, reset=True)
        check_consistent_length(y, np.empty(table.n_rows))
        if table.n_rows < 2:
            raise ValueError("at least two rows are needed to fit; got n_samples=1")
        self.encoder_ = TableEncoder(self.categorical_features, scale="none").fit(table)
        features = self._encoded(table)
        seed = draw_seed(self.random_state)
        given = {}
        if sample_weight is not None:
            rows = np.empty((len(y), 1))
            given["sample_weight"] = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
        if classes is None:
            peer = self._make_peer(None, seed)
        else:
            # Boosting needs two classes; with one there is nothing to learn.
            peer = self._make_peer(len(classes), seed) if len(classes) > 1 else DummyClassifier()
        self._fit_peer(peer, features, y, given)
        self.peer_ = peer
        if classes is not None:
            self.classes_ = classes
        return self

    def _fit_peer(self, peer: Any, x: Features, y: np.ndarray, given: dict[str, Any]) -> None:
        """Fit a peer to encoded rows, with their weights if there are any."""
        peer.fit(x, y, **given)

    def _read_labels(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """What the peer is fitted to, and the classes, of which a regressor has none."""
        raise NotImplementedError

    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        """The peer's estimator; `n_classes` is None for regression."""
        raise NotImplementedError

    def serialized(self) -> bytes:
        """The fitted model as its package stores it; its length is the model's size."""
        check_is_fitted(self)
        if isinstance(self.peer_, DummyClassifier):
            return pickle.dumps(self.peer_)
        return self._stored()

    def _stored(self) -> bytes:
        return pickle.dumps(self.peer_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "peer_")

    def _answers(self, X: TableLike, method: str) -> np.ndarray:
        """What a method of the peer gives for the rows of a raw table."""
        check_is_fitted(self)
        features = self._encoded(read_table_for(self, X, reset=False))
        return np.asarray(getattr(self.peer_, method)(features))

    def _encoded(self, table: Table) -> Features:
        features = self.encoder_.transform(table)
        if isinstance(features, np.ndarray) or self._takes_sparse:
            return features
        return features.toarray()


@parameters
class PackagePeer(PeerEstimator):
    """An adapter of a package with a classifier and a regressor of like arguments."""

    options: dict[str, Any] | None = None

    # Where its two estimators are, and what to do if it is not installed.
    _package: ClassVar[str]
    _advice: ClassVar[str]
    _kinds: ClassVar[tuple[str, str]]

    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        package = import_peer(self._package, self._advice)
        kind = getattr(package, self._kinds[n_classes is None])
        return kind(**self._settings(n_classes, seed) | (self.options or {}))

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        """Arguments of the package's estimators, which `options` may replace."""
        raise NotImplementedError


class UnweightedPeer(PeerEstimator):
    """An adapter whose peer knows no weights of rows."""

    def fit(self, X: TableLike, y: ArrayLike) -> Self:  # type: ignore[override]
        """Fit to a raw table and its labels or numbers; rows have no weights here."""
        return super().fit(X, y)


class PeerClassifier(ClassifierMixin, PeerEstimator):
    """An adapter that classifies; `classes_` holds the labels."""

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the labels: (n_rows,)."""
        positions = np.rint(self._answers(X, "predict")).astype(np.int64).reshape(-1)
        return self.classes_[positions]

    def _read_labels(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if y.dtype.kind == "O" and missing_cells(y).any():
            raise ValueError("Input y contains NaN or None; every row needs a label")
        check_classification_targets(y)
        classes, positions = np.unique(y, return_inverse=True)
        return positions, classes


class ProbabilityPeerClassifier(PeerClassifier):
    """An adapter whose peer gives the probabilities of all classes."""

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Predict probabilities: (n_rows, n_classes)."""
        values = self._answers(X, "predict_proba").astype(np.float64)
        return values / values.sum(1, keepdims=True)

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the labels: (n_rows,)."""
        # By the probabilities, so that the two always agree.
        return self.classes_[self._answers(X, "predict_proba").argmax(1)]


class PeerRegressor(RegressorMixin, PeerEstimator):
    """An adapter that predicts a number."""

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the targets: (n_rows,)."""
        values = self._answers(X, "predict").astype(np.float64)
        return values.reshape(len(values), -1)[:, 0]

    def _read_labels(self, y: np.ndarray) -> tuple[np.ndarray, None]:
        if y.dtype.kind == "c":
            raise ValueError("Complex data not supported: y must hold real numbers")
        return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"), None
