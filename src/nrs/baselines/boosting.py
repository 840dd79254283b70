"""Boosted trees: XGBoost (the paper's GBDT), LightGBM, CatBoost and ThunderGBM."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from nrs.baselines.peers import (
    PeerClassifier,
    PeerEstimator,
    PeerRegressor,
    ProbabilityPeerClassifier,
    import_peer,
)

BOOSTING = "run: pip install 'neural-random-subspace[boosting]'"
PEERS = "run: pip install 'neural-random-subspace[peers]'"
THUNDER = "run: pip install thundergbm, on a machine with an NVIDIA GPU and the CUDA it asks for"


class _Boosting(PeerEstimator):
    def __init__(
        self,
        n_estimators: int = 500,
        *,
        learning_rate: float = 0.1,
        max_depth: int = 6,
        options: dict[str, Any] | None = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = 1,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.options = options
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs


class _XGBoost(_Boosting):
    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        xgboost = import_peer("xgboost", BOOSTING)
        kind = xgboost.XGBRegressor if n_classes is None else xgboost.XGBClassifier
        settings = {
            "n_estimators": self.n_estimators,
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "tree_method": "hist",
            "random_state": seed,
            "n_jobs": self.n_jobs,
        }
        return kind(**settings | (self.options or {}))

    def serialized(self) -> bytes:
        check_is_fitted(self)
        if not hasattr(self.peer_, "get_booster"):
            return super().serialized()
        return bytes(self.peer_.get_booster().save_raw("ubj"))


class GBDTClassifier(_XGBoost, ProbabilityPeerClassifier):
    """GBDT: gradient-boosted trees of XGBoost on raw tables.

    Parameters
    ----------
    n_estimators : int
        Rounds of boosting; the paper's 500.
    learning_rate : float
    max_depth : int
    options : dict, optional
        Further arguments of ``xgboost.XGBClassifier``.
    categorical_features, random_state
        As of :class:`nrs.NRSClassifier`.
    n_jobs : int
        Threads.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> GBDTClassifier(10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


class GBDTRegressor(_XGBoost, PeerRegressor):
    """GBDT for one number; parameters as of :class:`GBDTClassifier`."""


class _LightGBM(_Boosting):
    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        lightgbm = import_peer("lightgbm", BOOSTING)
        kind = lightgbm.LGBMRegressor if n_classes is None else lightgbm.LGBMClassifier
        settings = {
            "n_estimators": self.n_estimators,
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            # A tree of that depth is not cut short by the package's default of 31 leaves.
            "num_leaves": min(2**self.max_depth, 255) if self.max_depth > 0 else 31,
            "random_state": seed,
            "n_jobs": self.n_jobs,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
        }
        return kind(**settings | (self.options or {}))

    def serialized(self) -> bytes:
        check_is_fitted(self)
        if not hasattr(self.peer_, "booster_"):
            return super().serialized()
        return str(self.peer_.booster_.model_to_string()).encode()


class LightGBMClassifier(_LightGBM, ProbabilityPeerClassifier):
    """LightGBM's boosted trees on raw tables; parameters as of :class:`GBDTClassifier`."""


class LightGBMRegressor(_LightGBM, PeerRegressor):
    """LightGBM for one number; parameters as of :class:`GBDTClassifier`."""


class _CatBoost(_Boosting):
    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        catboost = import_peer("catboost", PEERS)
        kind = catboost.CatBoostRegressor if n_classes is None else catboost.CatBoostClassifier
        settings = {
            "n_estimators": self.n_estimators,
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "random_seed": seed,
            "thread_count": -1 if self.n_jobs is None else self.n_jobs,
            "allow_writing_files": False,
            # One target for all rows is predicted, as by every other method, and not refused.
            "allow_const_label": True,
            "verbose": False,
        }
        return kind(**settings | (self.options or {}))

    def serialized(self) -> bytes:
        check_is_fitted(self)
        if not hasattr(self.peer_, "save_model"):
            return super().serialized()
        return _saved(self.peer_.save_model)


class CatBoostClassifier(_CatBoost, ProbabilityPeerClassifier):
    """CatBoost's boosted trees on raw tables; parameters as of :class:`GBDTClassifier`."""


class CatBoostRegressor(_CatBoost, PeerRegressor):
    """CatBoost for one number; parameters as of :class:`GBDTClassifier`."""


class _ThunderGBM(_Boosting):
    """The GPU library of the paper's table of speeds, through its scikit-learn interface.

    It takes no seed and tells no probabilities of all classes, so neither do the adapters.
    """

    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        thundergbm = import_peer("thundergbm", THUNDER)
        kind = thundergbm.TGBMRegressor if n_classes is None else thundergbm.TGBMClassifier
        settings: dict[str, Any] = {"depth": self.max_depth, "verbose": 0} | self._ensemble()
        if n_classes is not None:
            settings |= {"objective": "multi:softmax", "num_class": n_classes}
        return kind(**settings | (self.options or {}))

    def _ensemble(self) -> dict[str, Any]:
        return {"n_trees": self.n_estimators, "learning_rate": self.learning_rate}

    def serialized(self) -> bytes:
        check_is_fitted(self)
        if not hasattr(self.peer_, "save_model"):
            return super().serialized()
        return _saved(self.peer_.save_model)


class _ThunderGBMForest(_ThunderGBM):
    def _ensemble(self) -> dict[str, Any]:
        # One round of parallel trees on resampled rows, at full step, is a random forest.
        return {
            "n_trees": 1,
            "n_parallel_trees": self.n_estimators,
            "bagging": 1,
            "learning_rate": 1.0,
        }


class _ThunderGBMClassifier(PeerClassifier):
    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Fit to a raw table and labels of any type; rows have no weights here."""
        return super().fit(X, y)


class _ThunderGBMRegressor(PeerRegressor):
    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Fit to a raw table and one number a row; rows have no weights here."""
        return super().fit(X, y)


class ThunderGBMClassifier(_ThunderGBM, _ThunderGBMClassifier):
    """ThunderGBM's boosted trees on a GPU; parameters as of :class:`GBDTClassifier`."""


class ThunderGBMRegressor(_ThunderGBM, _ThunderGBMRegressor):
    """ThunderGBM's boosted trees for one number."""


class ThunderGBMForestClassifier(_ThunderGBMForest, _ThunderGBMClassifier):
    """ThunderGBM's random forest on a GPU; `learning_rate` has no effect."""


class ThunderGBMForestRegressor(_ThunderGBMForest, _ThunderGBMRegressor):
    """ThunderGBM's random forest for one number."""


def _saved(save: Any) -> bytes:
    """What a peer writes to a file, for those that write nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        save(path)
        return Path(path).read_bytes()
