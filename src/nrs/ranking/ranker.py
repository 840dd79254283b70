"""`NRSRanker`: documents in order, from a raw table whose rows belong to queries."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs.ranking.estimator import QueryEstimator
from nrs.ranking.metrics import Measurement, measure
from nrs.ranking.queries import group_queries
from nrs.tabular.run import threads


class NRSRanker(QueryEstimator):
    """Rank the documents of queries with a Neural Random Subspace forest.

    A row of `X` is a document of a query, `y` its grade of relevance, `qid` the query it belongs
    to. Tables are taken as :class:`nrs.NRSClassifier` takes them, and files, checkpoints,
    callbacks and presets are the same.

    Parameters
    ----------
    loss : str or callable, optional
        "ranknet", "listnet", "approx_ndcg", "rank_cosine", "wass_rank", "urank" or "lambdarank"
        (see :mod:`nrs.ranking.losses`), or a function ``loss(scores, labels, mask)`` of padded
        ``(queries, documents)`` tensors that gives a scalar.
    preset : {"default", "fast", "best", "single", "paper"}
        ``"default"`` is a forest: members trained side by side, each without the queries of one
        fold, so that every query has out-of-bag scores; they pick the epoch. ``"fast"`` is a
        smaller one, ``"best"`` a larger one. ``"single"`` is one network that stops by held-out
        queries. ``"paper"`` is the paper's ranking function and protocol: one layer after NRS,
        sigmoid output, Adam at 1e-3 with L2 of 1e-3, one query a step.
    n_mul : int, optional
        Of the layer. ``n_mul=0`` is the plain scorer, a single network; with ``preset="single"``
        or ``"paper"`` it is otherwise the same as the one with NRS.
    query_scale : {"none", "standard"}, optional
        Whether features are centred and scaled within each query, after the scaling of the table;
        see :class:`nrs.ranking.scaling.QueryScaler`. `predict` then needs `qid` too.
    batch_size : int, optional
        Queries of a step, of like length.
    validation_fraction : float, optional
        Part of the queries that a single network holds out to choose the epoch.
    metric : str or callable, optional
        What chooses the epoch: "ndcg@10" (the default for grades), "err", "map", "mrr", each with
        an optional ``@k``, "loss", or a function ``metric(scores, labels, mask)`` of padded
        tensors, higher being better.
    n_per, n_h, layout, hidden, dropout, scale, epochs, lr, weight_decay, patience, time_limit, \
categorical_features, random_state, n_jobs, device, verbose, callbacks, checkpoint
        As of :class:`nrs.NRSClassifier`.

    Attributes
    ----------
    oob_prediction_ : ndarray (n_rows,)
        Scores of the training documents by members that did not see their query.
    oob_score_ : float
        NDCG@10 of those scores, if the labels are grades.
    history_, feature_importances_, network_, encoder_, recipe_
        As of :class:`nrs.NRSClassifier`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> y = (X[:, 0] > 0.5).astype(int) + (X[:, 0] > 1)
    >>> qid = np.repeat(np.arange(20), 10)
    >>> model = NRSRanker(loss="listnet", epochs=20, random_state=0).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) >= model.oob_score_ > 0.8
    True
    >>> print(model.evaluate(X, y, qid, "ndcg@5"))
    NDCG@5 1.0000 (discount log2; 0 of 20 queries without a relevant document: skipped)
    """

    # Routed without being asked for, in cross-validation with metadata routing.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def __init__(
        self,
        *,
        loss: Any = None,
        preset: str = "default",
        n_mul: int | None = None,
        n_per: int | None = None,
        n_h: int | None = None,
        layout: str | None = None,
        hidden: Any = None,
        dropout: float | None = None,
        scale: str | None = None,
        query_scale: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        validation_fraction: float | None = None,
        patience: int | None = None,
        metric: Any = None,
        time_limit: float | None = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: int = 1,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            preset=preset,
            n_mul=n_mul,
            n_per=n_per,
            n_h=n_h,
            layout=layout,
            hidden=hidden,
            dropout=dropout,
            scale=scale,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            weight_decay=weight_decay,
            validation_fraction=validation_fraction,
            patience=patience,
            metric=metric,
            time_limit=time_limit,
            categorical_features=categorical_features,
            random_state=random_state,
            n_jobs=n_jobs,
            device=device,
            verbose=verbose,
            callbacks=callbacks,
            checkpoint=checkpoint,
        )
        self.loss = loss
        self.query_scale = query_scale

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, qid: Any = None, eval_set: Any = None
    ) -> Self:
        """Fit to the documents of queries.

        Parameters
        ----------
        X : array, data frame (pandas, polars, pyarrow) or sparse matrix, (n_rows, n_columns)
        y : array (n_rows,)
            Grades 0, 1, 2, …; losses without gains take any numbers.
        qid : array (n_rows,) of numbers or strings, or str
            The query of each row, in any order; or the name of a column of `X`, which is then not
            a feature, here and in `predict`.
        eval_set : (X, y, qid), optional
            Queries that decide when to stop, instead of out-of-bag or held-out ones.

        Raises
        ------
        ValueError
            Bad input, with what came, what was expected and what to do.
        nrs.training.DivergenceError
            If the loss becomes NaN or infinite.
        """
        self._begin = time.monotonic()
        self._qid_column = qid if isinstance(qid, str) else None
        self._forget_fit()
        try:
            with threads(self.n_jobs):
                rows, validation, seed = self._prepare_queries(X, y, qid, eval_set)
                self._train(rows, validation, seed)
        finally:
            self._folds = None
        return self

    def partial_fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Take one pass over more queries, keeping what was learned.

        The first call learns the encoding of the columns; so the first queries should be typical
        ones. All documents of a query must come together. There are no out-of-bag scores.

        Parameters
        ----------
        X, y, qid : as of :meth:`fit`.
        """
        if isinstance(qid, str):
            self._qid_column = qid
        self._pass_over_queries(X, y, qid)
        return self

    def predict(self, X: Any, qid: Any = None, return_std: bool = False) -> Any:
        """Scores of documents, (n_rows,); higher ranks earlier within a query.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            A document a row.
        qid : array (n_rows,), optional
            The query of each row; needed only with ``query_scale="standard"``.
        return_std : bool, default=False
            Give a pair of the scores and of the spread of the forest's members around them.
        """
        check_is_fitted(self)
        if return_std:
            return self.predict(X, qid), self.member_outputs(X, qid).std(0)
        scores = self.target_.scores(self._forward(self._features(X, qid)))
        return scores.double().numpy()

    def member_outputs(self, X: Any, qid: Any = None) -> np.ndarray:
        """Scores that each member of the forest gives, (n_members, n_rows).

        Parameters
        ----------
        X, qid : as of :meth:`predict`.

        Raises
        ------
        ValueError
            If the model is not a forest.
        """
        check_is_fitted(self)
        outputs = self._outputs_of_members(self._features(X, qid))
        return outputs[:, :, 0].double().numpy()

    def rank(self, X: Any, qid: Any = None) -> np.ndarray:
        """Row numbers in order: query by query as they first appear, best document first.

        Documents of equal score keep their order. ``X.iloc[model.rank(X, qid)]`` is the ranked
        table.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            A document a row.
        qid : array (n_rows,) or str, optional
            The query of each row, or the name of a column of `X`. If None, the column that the
            model was fitted with; all rows are of one query if `X` has no such column.

        Examples
        --------
        >>> X = np.arange(6.0)[:, None]
        >>> model = NRSRanker(epochs=1, random_state=0).fit(X, [0, 1, 2, 0, 1, 2], qid=[0] * 6)
        >>> sorted(model.rank(X, qid=[0, 1, 0, 1, 0, 1])[:3].tolist())
        [0, 2, 4]
        """
        given = self._take_qid(X, qid)[1]
        if given is None:
            qid = given = np.zeros(X.shape[0] if hasattr(X, "shape") else len(X), dtype=np.int64)
        scores = self.predict(X, qid)
        queries = group_queries(given, len(scores))
        order: np.ndarray = np.lexsort((-scores, queries.numbers()))
        return order

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """NDCG@10 with discount log2, queries without a relevant document skipped.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            A document a row.
        y : array (n_rows,)
            Relevance grades.
        qid : array (n_rows,) or str
            The query of each row, or the name of a column of `X`; not needed where the model was
            fitted with that name.
        """
        return float(self.evaluate(X, y, qid))

    def evaluate(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        metric: str = "ndcg@10",
        *,
        discount: Any = "log2",
        empty: Any = "skip",
    ) -> Measurement:
        """Measure a metric of :mod:`nrs.ranking.metrics`; the result prints its rules.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            A document a row.
        y : array (n_rows,)
            Relevance grades.
        qid : array (n_rows,) or str
            The query of each row, or the name of a column of `X`; not needed where the model was
            fitted with that name.
        metric : str
            Such as "ndcg@10", "map" or "mrr".
        discount : {"log2", "paper"}
            How gains at lower ranks count less, see :func:`nrs.ranking.metrics.ndcg`.
        empty : {"skip", "zero", "one"}
            What a query without a relevant document counts: "skip" leaves it out.
        """
        scores = self.predict(X, qid)
        labels = self._check_labels(y)
        given = self._take_qid(X, qid)[1]
        return measure(scores, labels, given, metric, discount=discount, empty=empty)
