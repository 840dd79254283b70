"""Boosted trees that rank: LambdaMART, and uMart with uRank's loss as its objective."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, check_is_fitted

from nrs.baselines.boosting import BOOSTING
from nrs.baselines.peers import PeerEstimator, import_peer
from nrs.ranking.metrics import measure, ndcg
from nrs.ranking.queries import Queries, group_queries, read_eval_set, slots
from nrs.ranking.recipe import MAX_GRADE, are_grades, not_grades
from nrs.ranking.umart import urank_gradients
from nrs.tabular import TableEncoder
from nrs.tabular.run import draw_seed
from nrs.tabular.targets import labels_as_array


class _BoostedRanker(PeerEstimator):
    """What the two share: queries in order, early stopping by NDCG@10 of held-out queries."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def __init__(
        self,
        n_estimators: int = 500,
        *,
        early_stopping_rounds: int = 50,
        backend: str = "lightgbm",
        options: dict[str, Any] | None = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = 1,
    ) -> None:
        self.n_estimators = n_estimators
        self.early_stopping_rounds = early_stopping_rounds
        self.backend = backend
        self.options = options
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, qid: Any = None, eval_set: Any = None) -> Self:
        """Fit to the documents of queries; with an ``eval_set`` (X, y, qid), stop early by it.

        Raises
        ------
        MissingPeerError
            If the backend's package is not installed.
        ValueError
            If labels are no grades, lengths differ, or an argument is unknown.
        """
        if self.backend not in ("lightgbm", "xgboost"):
            raise ValueError(
                f"backend must be 'lightgbm' or 'xgboost', however: backend={self.backend!r}"
            )
        table = self._read_table(X, reset=True)
        labels, queries = _labels_and_queries(y, qid, table.n_rows)
        self.encoder_ = TableEncoder(self.categorical_features, scale="none").fit(table)
        train = _Part(self._encoded(table), labels, queries)
        held_out = None
        if eval_set is not None:
            X_val, y_val, qid_val = read_eval_set(eval_set)
            table = self._read_table(X_val, reset=False)
            held_out = _Part(
                self._encoded(table), *_labels_and_queries(y_val, qid_val, table.n_rows)
            )
        seed = draw_seed(self.random_state)
        fit = self._fit_lightgbm if self.backend == "lightgbm" else self._fit_xgboost
        self.peer_ = fit(train, held_out, seed)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Scores of documents, (n_rows,)."""
        check_is_fitted(self)
        features = self._features(X)
        if self.backend == "xgboost":
            xgboost = import_peer("xgboost", BOOSTING)
            stop = self.peer_.attr("best_iteration")
            rounds = (0, int(stop) + 1) if stop is not None else (0, 0)
            matrix = xgboost.DMatrix(features)
            return np.asarray(self.peer_.predict(matrix, iteration_range=rounds), np.float64)
        return np.asarray(self.peer_.predict(features), dtype=np.float64)

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """NDCG@10 with discount log2, queries without a relevant document skipped."""
        return float(measure(self.predict(X), labels_as_array(y), qid))

    def serialized(self) -> bytes:
        check_is_fitted(self)
        if self.backend == "xgboost":
            return bytes(self.peer_.save_raw("ubj"))
        return str(self.peer_.model_to_string()).encode()

    def _objective(self, train: _Part) -> Any:
        """A function (scores) -> (gradient, hessian), or None for LambdaRank's own."""
        raise NotImplementedError

    def _fit_lightgbm(self, train: _Part, held_out: _Part | None, seed: int) -> Any:
        lightgbm = import_peer("lightgbm", BOOSTING)
        gradients = self._objective(train)
        parameters = {
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
            parameters["objective"] = lambda scores, data: gradients(scores)
        data = lightgbm.Dataset(train.features, train.labels, group=train.queries.lengths)
        callbacks, valid = [], []
        if held_out is not None:
            valid = [
                lightgbm.Dataset(
                    held_out.features, held_out.labels, group=held_out.queries.lengths,
                    reference=data,
                )
            ]  # fmt: skip
            callbacks = [lightgbm.early_stopping(self.early_stopping_rounds, verbose=False)]
        return lightgbm.train(
            parameters,
            data,
            self.n_estimators,
            valid_sets=valid,
            feval=None
            if held_out is None
            else lambda scores, data: ("ndcg@10", held_out.ndcg(scores), True),
            callbacks=callbacks,
        )

    def _fit_xgboost(self, train: _Part, held_out: _Part | None, seed: int) -> Any:
        xgboost = import_peer("xgboost", BOOSTING)
        gradients = self._objective(train)
        parameters = {
            "objective": "rank:ndcg",
            "tree_method": "hist",
            "seed": seed,
            "nthread": self.n_jobs or 0,
            "disable_default_eval_metric": True,
            "base_score": 0.0,
            **(self.options or {}),
        }
        if gradients is not None:
            parameters["objective"] = "reg:squarederror"
        data = xgboost.DMatrix(train.features, train.labels)
        data.set_group(train.queries.lengths)
        given: dict[str, Any] = {}
        if gradients is not None:
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
        return xgboost.train(parameters, data, self.n_estimators, **given)


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

    def _objective(self, train: _Part) -> Any:
        return None


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

    def _objective(self, train: _Part) -> Any:
        labels, lengths = train.labels, train.queries.lengths
        return lambda scores: urank_gradients(scores, labels, lengths)


class _Part:
    """Encoded rows with those of a query together, as the backends want them."""

    def __init__(self, features: Any, labels: np.ndarray, queries: Queries) -> None:
        self.features = features[queries.order]
        self.labels = labels[queries.order]
        self.queries = queries
        self._row, self._column = slots(queries.lengths)
        self._shape = (len(queries), int(queries.lengths.max()))

    def ndcg(self, scores: np.ndarray) -> float:
        """NDCG@10 of scores of these rows; 0 where no query has a relevant document."""
        padded = np.zeros((3, *self._shape))
        values = (scores, self.labels, np.ones(len(self.labels)))
        padded[:, self._row, self._column] = values
        s, y, mask = torch.from_numpy(padded)
        return float(ndcg(s, y, 10, mask.bool()).nan_to_num(0.0))


def _labels_and_queries(y: Any, qid: Any, n_rows: int) -> tuple[np.ndarray, Queries]:
    if y is None:
        raise ValueError("y must hold one grade 0, 1, 2, … a row, however: y=None")
    labels = check_array(labels_as_array(y), dtype=np.float64, ensure_2d=False, input_name="y")
    check_consistent_length(labels, np.empty(n_rows))
    if labels.ndim != 1:
        raise ValueError(f"y must hold one grade a row, however: its shape is {labels.shape}")
    if not are_grades(labels):
        wrong = labels[not_grades(labels)][0]
        raise ValueError(
            f"y must hold grades 0, 1, 2, … up to {MAX_GRADE}, however: {wrong:g}; map the labels "
            "to grades"
        )
    return labels, group_queries(qid, n_rows)
