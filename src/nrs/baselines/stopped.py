"""Boosted trees as users fit them: rounds by early stopping, categories by the package itself.

The paper's setting, 500 trees on 0/1 columns, is in :mod:`nrs.baselines.boosting`.
"""

from __future__ import annotations

import warnings
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from nrs.baselines.boosting import BOOSTING, PEERS
from nrs.baselines.peers import (
    PackagePeer,
    PeerRegressor,
    ProbabilityPeerClassifier,
    import_peer,
)
from nrs.tabular.encode.table import Table
from nrs.tabular.parameters import parameters
from nrs.tabular.types import Features

# Of fewer rows none can be spared, and the package's usual number of rounds is taken.
MIN_ROWS, USUAL_ROUNDS = 50, 100


@parameters
class _Stopped(PackagePeer):
    n_estimators: int = field(default=2000, kw_only=False)
    patience: int = 50
    held_out: float = 0.1

    _takes_sparse = False
    # Its own step is for fewer rounds, or it has none.
    _rate: ClassVar[float | None] = 0.05
    # Whether a category of very many levels does not make it learn rows by heart.
    _reads_many: ClassVar[bool] = True

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        rate = {} if self._rate is None else {"learning_rate": self._rate}
        return {"n_estimators": self.n_estimators, **rate}

    def _encoded(self, table: Table) -> Features:
        """Numbers, then one column of codes for each category: NaN where missing or unseen."""
        x = super()._encoded(table)
        categories = {
            index: encoder
            for index, encoder in self.encoder_.categories().items()
            if self._reads_many or not encoder.other
        }
        source = self.encoder_.find_columns(table)
        codes = np.full((len(x), len(categories)), np.nan, dtype=np.float32)
        for place, (index, encoder) in enumerate(categories.items()):
            column = table.column(int(source[index]), "category")
            known = {level: code for code, level in enumerate(encoder.levels)}
            # The last one is what missing cells, -1, point at.
            read = np.array([*(known.get(level, np.nan) for level in column.levels), np.nan])
            codes[:, place] = read[column.values]
        numbers = x[:, ~np.isin(self.encoder_.groups_, list(categories))]
        if not numbers.shape[1] and not categories:
            numbers = x
        self.n_numbers_ = numbers.shape[1]
        return np.hstack([numbers, codes])

    def _fit_peer(self, peer: Any, x: Features, y: np.ndarray, given: dict[str, Any]) -> None:
        held = self._held(y, classes=hasattr(peer, "predict_proba"))
        categories = list(range(self.n_numbers_, x.shape[1]))
        if not held.any():
            peer.set_params(n_estimators=min(USUAL_ROUNDS, self.n_estimators))
            self._fit_rounds(peer, x, y, None, categories, given)
            return
        weights = {name: values[~held] for name, values in given.items()}
        self._fit_rounds(peer, x[~held], y[~held], (x[held], y[held]), categories, weights)

    def _held(self, y: np.ndarray, *, classes: bool) -> np.ndarray:
        """The rows that say when to stop; of every class some are left to train on."""
        held = np.zeros(len(y), dtype=bool)
        if len(y) < MIN_ROWS:
            return held
        rng = np.random.default_rng(0)
        held[rng.permutation(len(y))[: round(self.held_out * len(y))]] = True
        if classes:
            left = np.bincount(y[~held], minlength=int(y.max()) + 1)
            held &= left[y] > 0
        return held

    def _fit_rounds(
        self, peer: Any, x: np.ndarray, y: np.ndarray, held: tuple[np.ndarray, np.ndarray] | None,
        categories: list[int], given: dict[str, Any],
    ) -> None:  # fmt: skip
        """Fit a peer; `held` rows say when to stop."""
        raise NotImplementedError

    @property
    def rounds_(self) -> int | None:
        """Rounds that were kept; None where there was nothing to learn."""
        raise NotImplementedError


class _XGBoost(_Stopped):
    _package, _kinds, _advice = "xgboost", ("XGBClassifier", "XGBRegressor"), BOOSTING
    # Then it gets 0/1 columns of the frequent ones.
    _reads_many = False

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        own = {"tree_method": "hist", "random_state": seed, "n_jobs": self.n_jobs}
        return super()._settings(n_classes, seed) | own

    def _fit_rounds(
        self, peer: Any, x: np.ndarray, y: np.ndarray, held: tuple[np.ndarray, np.ndarray] | None,
        categories: list[int], given: dict[str, Any],
    ) -> None:  # fmt: skip
        if categories:
            kinds = ["q"] * self.n_numbers_ + ["c"] * len(categories)
            peer.set_params(enable_categorical=True, feature_types=kinds)
        if held is not None:
            peer.set_params(early_stopping_rounds=self.patience)
            given = given | {"eval_set": [held]}
        peer.fit(x, y, verbose=False, **given)

    @property
    def rounds_(self) -> int | None:
        return 1 + int(self.peer_.best_iteration) if self._stops() else None

    def _stops(self) -> bool:
        return getattr(self.peer_, "early_stopping_rounds", None) is not None


class XGBoostClassifier(_XGBoost, ProbabilityPeerClassifier):
    """XGBoost with early stopping and its own categories.

    Parameters
    ----------
    n_estimators : int
        Rounds of boosting at the most.
    patience : int
        Rounds without a gain on the held-out rows after which it stops.
    held_out : float
        Share of the training rows that are held out for that.
    options : dict, optional
        Further arguments of the package's estimator.
    categorical_features, random_state
        As of :class:`nrs.NRSClassifier`.
    n_jobs : int
        Threads.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = XGBoostClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.rounds_ < 500
    (True, True)
    """


class XGBoostRegressor(_XGBoost, PeerRegressor):
    """XGBoost for one number; parameters as of :class:`XGBoostClassifier`."""


class _LightGBM(_Stopped):
    _package, _kinds, _advice = "lightgbm", ("LGBMClassifier", "LGBMRegressor"), BOOSTING

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        return super()._settings(n_classes, seed) | {
            "random_state": seed, "n_jobs": self.n_jobs, "deterministic": True,
            "force_row_wise": True, "verbose": -1,
        }  # fmt: skip

    def _fit_rounds(
        self, peer: Any, x: np.ndarray, y: np.ndarray, held: tuple[np.ndarray, np.ndarray] | None,
        categories: list[int], given: dict[str, Any],
    ) -> None:  # fmt: skip
        package = import_peer(self._package, self._advice)
        if held is not None:
            stop = package.early_stopping(self.patience, verbose=False)
            given = given | {"eval_set": [held], "callbacks": [stop]}
        with warnings.catch_warnings():
            # Of a name that it is about to change.
            warnings.filterwarnings("ignore", message=".*eval_set")
            peer.fit(x, y, categorical_feature=categories or "auto", **given)

    @property
    def rounds_(self) -> int | None:
        return int(self.peer_.best_iteration_ or 0) or None


class LightGBMClassifier(_LightGBM, ProbabilityPeerClassifier):
    """LightGBM with early stopping; parameters as of :class:`XGBoostClassifier`."""


class LightGBMRegressor(_LightGBM, PeerRegressor):
    """LightGBM for one number; parameters as of :class:`XGBoostClassifier`."""


class _CatBoost(_Stopped):
    _package, _kinds, _advice = "catboost", ("CatBoostClassifier", "CatBoostRegressor"), PEERS
    # It finds a step by the number of rounds and of rows.
    _rate = None

    def _settings(self, n_classes: int | None, seed: int) -> dict[str, Any]:
        return super()._settings(n_classes, seed) | {
            "random_seed": seed, "thread_count": -1 if self.n_jobs is None else self.n_jobs,
            "allow_writing_files": False, "allow_const_label": True, "verbose": False,
        }  # fmt: skip

    def _encoded(self, table: Table) -> Any:
        """A frame whose categories are texts, which is how the package knows them."""
        from pandas import DataFrame

        x = super()._encoded(table)
        frame = DataFrame(x)
        for place in range(self.n_numbers_, x.shape[1]):
            frame[place] = np.where(np.isnan(x[:, place]), "-", x[:, place].astype(str))
        return frame

    def _fit_rounds(
        self, peer: Any, x: np.ndarray, y: np.ndarray, held: tuple[np.ndarray, np.ndarray] | None,
        categories: list[int], given: dict[str, Any],
    ) -> None:  # fmt: skip
        stop = {} if held is None else {"eval_set": held, "early_stopping_rounds": self.patience}
        peer.fit(x, y, cat_features=categories or None, **stop, **given)

    @property
    def rounds_(self) -> int | None:
        return int(self.peer_.tree_count_)


class CatBoostClassifier(_CatBoost, ProbabilityPeerClassifier):
    """CatBoost with early stopping; parameters as of :class:`XGBoostClassifier`."""


class CatBoostRegressor(_CatBoost, PeerRegressor):
    """CatBoost for one number; parameters as of :class:`XGBoostClassifier`."""
