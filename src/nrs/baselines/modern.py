"""Today's networks for tables: TabM and RealMLP at their defaults, through pytabkit."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from joblib import effective_n_jobs

from nrs.baselines.peers import (
    PeerEstimator,
    PeerRegressor,
    ProbabilityPeerClassifier,
    import_peer,
)
from nrs.vision._torchvision import torchvision

PEERS = "run: pip install 'neural-random-subspace[peers]'"


class _Pytabkit(PeerEstimator):
    _takes_sparse = False
    # Names of the package's classifier and regressor.
    _kinds: tuple[str, str]

    def __init__(
        self,
        *,
        options: dict[str, Any] | None = None,
        device: str = "cpu",
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = 1,
    ) -> None:
        self.options = options
        self.device = device
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _make_peer(self, n_classes: int | None, seed: int) -> Any:
        # Lightning imports torchvision where it is installed: through its one door.
        if importlib.util.find_spec("torchvision") is not None:
            torchvision()
        pytabkit = import_peer("pytabkit", PEERS)
        kind = getattr(pytabkit, self._kinds[n_classes is None])
        settings = {
            "device": self.device,
            "random_state": seed,
            "n_threads": effective_n_jobs(self.n_jobs),
        }
        return kind(**settings | (self.options or {}))


class _PytabkitClassifier(_Pytabkit, ProbabilityPeerClassifier):
    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Fit to a raw table and labels of any type; rows have no weights here."""
        with _quiet():
            return super().fit(X, y)

    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities: (n_rows, n_classes)."""
        with _quiet():
            return super().predict_proba(X)

    def predict(self, X: Any) -> Any:
        """Predict the labels: (n_rows,)."""
        with _quiet():
            return super().predict(X)


class _PytabkitRegressor(_Pytabkit, PeerRegressor):
    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Fit to a raw table and one number a row; rows have no weights here."""
        with _quiet():
            return super().fit(X, y)

    def predict(self, X: Any) -> Any:
        """Predict the targets: (n_rows,)."""
        with _quiet():
            return super().predict(X)


class TabMClassifier(_PytabkitClassifier):
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

    _kinds = ("TabM_D_Classifier", "TabM_D_Regressor")


class TabMRegressor(_PytabkitRegressor):
    """TabM for one number; parameters as of :class:`TabMClassifier`."""

    _kinds = ("TabM_D_Classifier", "TabM_D_Regressor")


class RealMLPClassifier(_PytabkitClassifier):
    """RealMLP (Holzmüller et al., 2024): an MLP with tuned defaults.

    Parameters
    ----------
    options : dict, optional
        Further arguments of ``pytabkit.RealMLP_TD_Classifier``.
    device : str
    categorical_features, random_state
        As of :class:`nrs.NRSClassifier`.
    n_jobs : int
        Threads.
    """

    _kinds = ("RealMLP_TD_Classifier", "RealMLP_TD_Regressor")


class RealMLPRegressor(_PytabkitRegressor):
    """RealMLP for one number; parameters as of :class:`RealMLPClassifier`."""

    _kinds = ("RealMLP_TD_Classifier", "RealMLP_TD_Regressor")


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
