"""Today's networks for tables: TabM and RealMLP at their defaults, through pytabkit."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs

from nrs.baselines.boosting import PEERS
from nrs.baselines.peers import (
    PackagePeer,
    PeerRegressor,
    ProbabilityPeerClassifier,
    UnweightedPeer,
)
from nrs.tabular.parameters import parameters
from nrs.tabular.types import ArrayLike, TableLike
from nrs.vision._torchvision import torchvision


@parameters
class _Pytabkit(UnweightedPeer, PackagePeer):
    device: str = "cpu"

    _package, _advice = "pytabkit", PEERS
    _takes_sparse = False

    def fit(self, X: TableLike, y: ArrayLike) -> Self:  # type: ignore[override]
        """Fit to a raw table and its labels or numbers; rows have no weights here."""
        with _quiet():
            return super().fit(X, y)

    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        # Lightning imports torchvision where it is installed: through its one door.
        if importlib.util.find_spec("torchvision") is not None:
            torchvision()
        return super()._make_peer(n_classes, seed)

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        threads = effective_n_jobs(self.n_jobs)
        return {"device": self.device, "random_state": seed, "n_threads": threads}

    def _answers(self, X: TableLike, method: str) -> np.ndarray:
        with _quiet():
            return super()._answers(X, method)


class _TabM(_Pytabkit):
    _kinds = ("TabM_D_Classifier", "TabM_D_Regressor")


class _RealMLP(_Pytabkit):
    _kinds = ("RealMLP_TD_Classifier", "RealMLP_TD_Regressor")


class TabMClassifier(_TabM, ProbabilityPeerClassifier):
    """TabM (Gorishniy et al., 2025): an ensemble of MLPs that share most of their weights.

    Parameters
    ----------
    options : dict, optional
        Further arguments of ``pytabkit.TabM_D_Classifier``.
    device : str
    categorical_features, random_state
        As of :class:`nrs.NRSClassifier`.
    n_jobs : int
        Threads.
    """


class TabMRegressor(_TabM, PeerRegressor):
    """TabM for one number; parameters as of :class:`TabMClassifier`."""


class RealMLPClassifier(_RealMLP, ProbabilityPeerClassifier):
    """RealMLP (Holzmüller et al., 2024): an MLP with tuned defaults.

    Parameters as of :class:`TabMClassifier`; `options` are those of
    ``pytabkit.RealMLP_TD_Classifier``.
    """


class RealMLPRegressor(_RealMLP, PeerRegressor):
    """RealMLP for one number; parameters as of :class:`RealMLPClassifier`."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Lightning from telling about devices and products on every fit."""
    loggers = [logging.getLogger(f"{name}.utilities.rank_zero") for name in _LIGHTNING]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_LIGHTNING = ("pytorch_lightning", "lightning.pytorch")
