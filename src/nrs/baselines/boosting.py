"""Boosted trees: XGBoost (the paper's GBDT), LightGBM, CatBoost and ThunderGBM."""

from __future__ import annotations

import os
import tempfile
from dataclasses import field
from pathlib import Path
from typing import Any

from nrs.baselines.peers import (
    PackagePeer,
    PeerClassifier,
    PeerRegressor,
    ProbabilityPeerClassifier,
    UnweightedPeer,
)
from nrs.tabular.parameters import parameters

BOOSTING = "run: pip install 'neural-random-subspace[boosting]'"
PEERS = "run: pip install 'neural-random-subspace[peers]'"
THUNDER = "run: pip install thundergbm, on a machine with an NVIDIA GPU and the CUDA it asks for"


@parameters
class _Boosting(PackagePeer):
    n_estimators: int = field(default=500, kw_only=False)
    learning_rate: float = 0.1
    max_depth: int = 6

    _advice = BOOSTING

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        return {
            "n_estimators": self.n_estimators,
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
        }


class _XGBoost(_Boosting):
    _package, _kinds = "xgboost", ("XGBClassifier", "XGBRegressor")

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        own = {"tree_method": "hist", "random_state": seed, "n_jobs": self.n_jobs}
        return super()._settings(n_classes, seed) | own

    def _stored(self) -> bytes:
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
    _package, _kinds = "lightgbm", ("LGBMClassifier", "LGBMRegressor")

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        return super()._settings(n_classes, seed) | {
            # A tree of that depth is not cut short by the package's default of 31 leaves.
            "num_leaves": min(2**self.max_depth, 255) if self.max_depth > 0 else 31,
            "random_state": seed,
            "n_jobs": self.n_jobs,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
        }

    def _stored(self) -> bytes:
        return str(self.peer_.booster_.model_to_string()).encode()


class LightGBMClassifier(_LightGBM, ProbabilityPeerClassifier):
    """LightGBM's boosted trees on raw tables; parameters as of :class:`GBDTClassifier`."""


class LightGBMRegressor(_LightGBM, PeerRegressor):
    """LightGBM for one number; parameters as of :class:`GBDTClassifier`."""


class _CatBoost(_Boosting):
    _package, _kinds, _advice = "catboost", ("CatBoostClassifier", "CatBoostRegressor"), PEERS

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        return super()._settings(n_classes, seed) | {
            "random_seed": seed,
            "thread_count": -1 if self.n_jobs is None else self.n_jobs,
            "allow_writing_files": False,
            # One target for all rows is predicted, as by every other method, and not refused.
            "allow_const_label": True,
            "verbose": False,
        }

    def _stored(self) -> bytes:
        return _saved(self.peer_)


class CatBoostClassifier(_CatBoost, ProbabilityPeerClassifier):
    """CatBoost's boosted trees on raw tables; parameters as of :class:`GBDTClassifier`."""


class CatBoostRegressor(_CatBoost, PeerRegressor):
    """CatBoost for one number; parameters as of :class:`GBDTClassifier`."""


class _ThunderGBM(UnweightedPeer, _Boosting):
    """The GPU library of the paper's table of speeds, through its scikit-learn interface.

    It takes no seed and gives no probabilities of all classes, so neither do the adapters.
    """

    _package, _kinds, _advice = "thundergbm", ("TGBMClassifier", "TGBMRegressor"), THUNDER

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        settings: dict[str, Any] = {"depth": self.max_depth, "verbose": 0} | self._ensemble()
        if n_classes is not None:
            settings |= {"objective": "multi:softmax", "num_class": n_classes}
        return settings

    def _ensemble(self) -> dict[str, Any]:
        return {"n_trees": self.n_estimators, "learning_rate": self.learning_rate}

    def _stored(self) -> bytes:
        return _saved(self.peer_)


class _ThunderGBMForest(_ThunderGBM):
    def _ensemble(self) -> dict[str, Any]:
        # One round of parallel trees on resampled rows, at full step, is a random forest.
        return {
            "n_trees": 1,
            "n_parallel_trees": self.n_estimators,
            "bagging": 1,
            "learning_rate": 1.0,
        }


class ThunderGBMClassifier(_ThunderGBM, PeerClassifier):
    """ThunderGBM's boosted trees on a GPU; parameters as of :class:`GBDTClassifier`."""


class ThunderGBMRegressor(_ThunderGBM, PeerRegressor):
    """ThunderGBM's boosted trees for one number."""


class ThunderGBMForestClassifier(_ThunderGBMForest, PeerClassifier):
    """ThunderGBM's random forest on a GPU; `learning_rate` has no effect."""


class ThunderGBMForestRegressor(_ThunderGBMForest, PeerRegressor):
    """ThunderGBM's random forest for one number."""


def _saved(peer: Any) -> bytes:
    """What a peer writes to a file, for those that write nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        peer.save_model(path)
        return Path(path).read_bytes()
