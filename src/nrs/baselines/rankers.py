"""Boosted trees that rank: LambdaMART, and uMart with uRank's loss as its objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, check_is_fitted

from nrs.baselines.boosting import BOOSTING
from nrs.baselines.peers import PeerEstimator, import_peer
from nrs.ranking.metrics import measure, ndcg
from nrs.ranking.queries import Qid, Queries, group_queries, read_eval_set, slots
from nrs.ranking.recipe import MAX_GRADE, are_grades, not_grades
from nrs.ranking.umart import urank_gradients
from nrs.tabular import TableEncoder
from nrs.tabular.encode.columns import labels_as_array
from nrs.tabular.encode.table import read_table_for
from nrs.tabular.parameters import parameters
from nrs.tabular.run import draw_seed
from nrs.tabular.types import ArrayLike, TableLike

# Gradient and diagonal of the Hessian as a function of scores.
Gradients = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@parameters
class _BoostedRanker(PeerEstimator):
    """What the two share: queries in order, early stopping by NDCG@10 of held-out queries."""

    n_estimators: int = field(default=500, kw_only=False)
    early_stopping_rounds: int = 50
    backend: str = "lightgbm"
    options: dict[str, Any] | None = None

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def fit(
        self, X: TableLike, y: ArrayLike, qid: Qid = None, eval_set: Sequence[Any] | None = None
    ) -> Self:
        """Fit to the documents of queries; with an ``eval_set`` (X, y, qid), stop early by it.

        Raises
        ------
        MissingPeerError
            If the backend's package is not installed.
        ValueError
            If labels are no grades, lengths differ, or an argument is unknown.
        """
        if self.backend not in ("lightgbm", "xgboost"):
            raise ValueError(f"backend must be 'lightgbm' or 'xgboost'; got {self.backend!r}")
        table = read_table_for(self, X, reset=True)
        labels, queries = _labels_and_queries(y, qid, table.n_rows)
        self.encoder_ = TableEncoder(self.categorical_features, scale="none").fit(table)
        train, held_out = _Part(self._encoded(table), labels, queries), None
        if eval_set is not None:
            X, y, qid = read_eval_set(eval_set)
            table = read_table_for(self, X, reset=False)
            held_out = _Part(self._encoded(table), *_labels_and_queries(y, qid, table.n_rows))
        fit = self._fit_lightgbm if self.backend == "lightgbm" else self._fit_xgboost
        self.peer_ = fit(train, held_out, self._objective(train), draw_seed(self.random_state))
        return self

    def predict(self, X: TableLike) -> np.ndarray:
        """Scores of documents, (n_rows,)."""
        check_is_fitted(self)
        features: Any = self._encoded(read_table_for(self, X, reset=False))
        given: dict[str, Any] = {}
        if self.backend == "xgboost":
            features = import_peer("xgboost", BOOSTING).DMatrix(features)
            stop = self.peer_.attr("best_iteration")
            given["iteration_range"] = (0, int(stop) + 1) if stop is not None else (0, 0)
        return np.asarray(self.peer_.predict(features, **given), dtype=np.float64)

    def score(self, X: TableLike, y: ArrayLike, qid: Qid = None) -> float:
        """NDCG@10 with discount log2, queries without a relevant document skipped."""
        return float(measure(self.predict(X), labels_as_array(y), qid))

    def _stored(self) -> bytes:
        if self.backend == "xgboost":
            return bytes(self.peer_.save_raw("ubj"))
        return str(self.peer_.model_to_string()).encode()

    def _objective(self, train: _Part) -> Gradients | None:
        """Gradient and Hessian of scores, or None for LambdaRank's own."""
        return None

    def _fit_lightgbm(
        self, train: _Part, held_out: _Part | None, gradients: Gradients | None, seed: int
    ) -> Any:
        lightgbm = import_peer("lightgbm", BOOSTING)
        settings = {
            "objective": "lambdarank",
            "metric": "None",
            "seed": seed,
            "num_threads": self.n_jobs or 0,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
            **(self.options or {}),
        }
        if gradients is not None:
            settings["objective"] = lambda scores, data: gradients(scores)
        data = lightgbm.Dataset(train.features, train.labels, group=train.queries.lengths)
        given: dict[str, Any] = {}
        if held_out is not None:
            validation = data.create_valid(
                held_out.features, held_out.labels, group=held_out.queries.lengths
            )
            given = {
                "valid_sets": [validation],
                "feval": lambda scores, data: ("ndcg@10", held_out.ndcg(scores), True),
                "callbacks": [lightgbm.early_stopping(self.early_stopping_rounds, verbose=False)],
            }
        return lightgbm.train(settings, data, self.n_estimators, **given)

    def _fit_xgboost(
        self, train: _Part, held_out: _Part | None, gradients: Gradients | None, seed: int
    ) -> Any:
        xgboost = import_peer("xgboost", BOOSTING)
        settings = {
            "objective": "rank:ndcg",
            "tree_method": "hist",
            "seed": seed,
            "nthread": self.n_jobs or 0,
            "disable_default_eval_metric": True,
            "base_score": 0.0,
            **(self.options or {}),
        }
        data = xgboost.DMatrix(train.features, train.labels)
        data.set_group(train.queries.lengths)
        given: dict[str, Any] = {}
        if gradients is not None:
            settings["objective"] = "reg:squarederror"
            given["obj"] = lambda scores, data: gradients(scores)
        if held_out is not None:
            validation = xgboost.DMatrix(held_out.features, held_out.labels)
            validation.set_group(held_out.queries.lengths)
            given |= {
                "evals": [(validation, "held_out")],
                "custom_metric": lambda scores, data: ("ndcg@10", held_out.ndcg(scores)),
                "early_stopping_rounds": self.early_stopping_rounds,
                "maximize": True,
                "verbose_eval": False,
            }
        return xgboost.train(settings, data, self.n_estimators, **given)


class LambdaMARTRanker(_BoostedRanker):
    """LambdaMART: LightGBM's boosted trees with LambdaRank's gradients, at its defaults.

    Parameters
    ----------
    n_estimators : int
        Most rounds of boosting; with an ``eval_set`` its NDCG@10 stops them.
    early_stopping_rounds : int
        Rounds without improvement.
    backend : {"lightgbm", "xgboost"}
    options : dict, optional
        Further parameters of the backend.
    categorical_features, random_state, n_jobs
        As of :class:`nrs.baselines.boosting.GBDTClassifier`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> y, qid = (X[:, 0] > 0.5).astype(int), np.repeat(np.arange(20), 20)
    >>> LambdaMARTRanker(10, random_state=0).fit(X, y, qid=qid).score(X, y, qid=qid) > 0.9
    True
    """


class UMartRanker(_BoostedRanker):
    """uMart: boosted trees on the gradient and Hessian of uRank's loss (Zhu & Klabjan, 2020).

    Parameters as of :class:`LambdaMARTRanker`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> y, qid = (X[:, 0] > 0.5).astype(int), np.repeat(np.arange(20), 20)
    >>> UMartRanker(10, random_state=0).fit(X, y, qid=qid).score(X, y, qid=qid) > 0.9
    True
    """

    def _objective(self, train: _Part) -> Gradients:
        labels, lengths = train.labels, train.queries.lengths
        return lambda scores: urank_gradients(scores, labels, lengths)


class _Part:
    """Encoded rows with those of a query together, as the backends want them."""

    def __init__(self, features: Any, labels: np.ndarray, queries: Queries) -> None:
        self.features = features[queries.order]
        self.labels = labels[queries.order]
        self.queries = queries

    def ndcg(self, scores: np.ndarray) -> float:
        """NDCG@10 of scores of these rows; 0 where no query has a relevant document."""
        padded = np.zeros((3, len(self.queries), int(self.queries.lengths.max())))
        row, column = slots(self.queries.lengths)
        padded[:, row, column] = (scores, self.labels, np.ones(len(self.labels)))
        s, y, mask = torch.from_numpy(padded)
        return float(ndcg(s, y, 10, mask.bool()).nan_to_num(0.0))


def _labels_and_queries(y: ArrayLike, qid: Qid, n_rows: int) -> tuple[np.ndarray, Queries]:
    if y is None:
        raise ValueError("y must hold one grade 0, 1, 2, … per row; got y=None")
    labels = check_array(labels_as_array(y), dtype=np.float64, ensure_2d=False, input_name="y")
    check_consistent_length(labels, np.empty(n_rows))
    if labels.ndim != 1:
        raise ValueError(f"y must hold one grade per row; its shape is {labels.shape}")
    if not are_grades(labels):
        wrong = labels[not_grades(labels)][0]
        raise ValueError(
            f"y must hold grades 0, 1, 2, … up to {MAX_GRADE}; got {wrong:g}. Map the labels to "
            "grades."
        )
    return labels, group_queries(qid, n_rows)
