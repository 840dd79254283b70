"""RS and RF: the random-subspace forest and the random forest, on scikit-learn."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from sklearn import ensemble
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from nrs.baselines.peers import (
    PeerEstimator,
    PeerRegressor,
    ProbabilityPeerClassifier,
    UnweightedPeer,
)
from nrs.tabular.parameters import parameters


@parameters
class _Forest(PeerEstimator):
    n_estimators: int = field(default=500, kw_only=False)
    max_features: float | str | None = None
    min_samples_leaf: int = 1


class _RandomSubspace(UnweightedPeer, _Forest):
    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        if n_classes is None:
            bagging, tree = ensemble.BaggingRegressor, DecisionTreeRegressor
        else:
            bagging, tree = ensemble.BaggingClassifier, DecisionTreeClassifier
        return bagging(
            tree(min_samples_leaf=self.min_samples_leaf),
            n_estimators=self.n_estimators,
            max_features=0.5 if self.max_features is None else self.max_features,
            bootstrap=False,
            random_state=seed,
            n_jobs=self.n_jobs,
        )


class RandomSubspaceClassifier(_RandomSubspace, ProbabilityPeerClassifier):
    """RS: full trees, each on a random half of the features and on all rows (Ho, 1998).

    Parameters
    ----------
    n_estimators : int
        Number of trees; the paper's 500.
    max_features : float, int or None
        Features of a tree; None is the half that Ho advises.
    min_samples_leaf : int
    categorical_features, random_state
        As of :class:`nrs.NRSClassifier`.
    n_jobs : int
        Processes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> RandomSubspaceClassifier(10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


class RandomSubspaceRegressor(_RandomSubspace, PeerRegressor):
    """RS for one number; parameters as of :class:`RandomSubspaceClassifier`."""


class _RandomForest(_Forest):
    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        forest = ensemble.RandomForestClassifier
        # Breiman's advice: √d features a split for classes, a third of them for numbers.
        usual: float | str = "sqrt"
        if n_classes is None:
            forest, usual = ensemble.RandomForestRegressor, 1 / 3
        return forest(
            n_estimators=self.n_estimators,
            max_features=usual if self.max_features is None else self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            random_state=seed,
            n_jobs=self.n_jobs,
        )


class RandomForestClassifier(_RandomForest, ProbabilityPeerClassifier):
    """RF: scikit-learn's random forest (Breiman, 2001) on raw tables.

    Parameters
    ----------
    max_features : float, int, str or None
        Features tried at a split; None is √d for classes and d / 3 for numbers.
    n_estimators, min_samples_leaf, categorical_features, random_state, n_jobs
        As of :class:`RandomSubspaceClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> RandomForestClassifier(10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


class RandomForestRegressor(_RandomForest, PeerRegressor):
    """RF for one number; parameters as of :class:`RandomForestClassifier`."""
