"""`NRSRanker`: documents in order, from a raw table whose rows belong to queries."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from nrs.ranking.batches import QueryBatch, QueryBatches, QueryRows
from nrs.ranking.metrics import Measurement, find_metric, measure
from nrs.ranking.queries import Queries, column_names, group_queries, without_column
from nrs.ranking.recipe import RankRecipe, RankTarget, are_grades, rank_recipe
from nrs.ranking.scaling import QueryScaler
from nrs.tabular.base import TableEstimator
from nrs.tabular.encoding import TableEncoder
from nrs.tabular.frames import Table
from nrs.tabular.presets import Recipe
from nrs.tabular.runtime import draw_seed, pick_device, threads
from nrs.tabular.targets import labels_as_array

# Queries of one batch of evaluation; the loss there needs no more than that at a time.
EVALUATION_QUERIES = 64
_OWN = ("loss", "query_scale", "batch_size")


class NRSRanker(TableEstimator):
    """Rank the documents of queries with a Neural Random Subspace network.

    A row of `X` is a document of a query, `y` its grade of relevance, `qid` the query it belongs
    to. Tables are taken as :class:`nrs.NRSClassifier` takes them, and files, checkpoints,
    callbacks and presets are the same.

    Parameters
    ----------
    loss : str or callable, optional
        "ranknet", "listnet", "approx_ndcg", "rank_cosine", "wass_rank", "urank" or "lambdarank"
        (see :mod:`nrs.ranking.losses`), or a function ``loss(scores, labels, mask)`` of padded
        ``(queries, documents)`` tensors that gives a scalar.
    preset : {"default", "paper"}
        ``"paper"`` is the paper's ranking function and protocol: one layer after NRS, sigmoid
        output, Adam at 1e-3 with L2 of 1e-3, one query a step.
    n_mul : int, optional
        Of the layer; ``n_mul=0`` is the plain scorer, otherwise the same.
    query_scale : {"none", "standard"}, optional
        Whether features are centred and scaled within each query, after the scaling of the table;
        see :class:`nrs.ranking.scaling.QueryScaler`. `predict` then needs `qid` too.
    batch_size : int, optional
        Queries of a step, of like length.
    validation_fraction : float, optional
        Part of the queries that is held out to choose the epoch.
    metric : str or callable, optional
        What chooses the epoch: "ndcg@10" (the default for grades), "err", "map", "mrr", each with
        an optional ``@k``, "loss", or a function ``metric(scores, labels, mask)`` of padded
        tensors, higher being better.
    n_per, n_h, layout, hidden, dropout, scale, epochs, lr, weight_decay, patience, \
categorical_features, random_state, n_jobs, device, verbose, callbacks, checkpoint
        As of :class:`nrs.NRSClassifier`.

    Attributes
    ----------
    history_, feature_importances_, network_, encoder_, recipe_
        As of :class:`nrs.NRSClassifier`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> y = (X[:, 0] > 0.5).astype(int) + (X[:, 0] > 1)
    >>> qid = np.repeat(np.arange(20), 10)
    >>> model = NRSRanker(loss="listnet", epochs=20, random_state=0).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) > 0.8
    True
    >>> print(model.evaluate(X, y, qid, "ndcg@5"))  # doctest: +ELLIPSIS
    NDCG@5 0... (discount log2; 0 of 20 queries without a relevant document: skipped)
    """

    _recipe_type = RankRecipe
    _file_kind = "ranker"
    recipe_: RankRecipe
    target_: RankTarget  # type: ignore[assignment]
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

    def fit(self, X: Any, y: Any, qid: Any = None, eval_set: Any = None) -> Self:
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
            Queries that decide when to stop, instead of held-out ones.

        Raises
        ------
        ValueError
            Bad input, with what came, what was expected and what to do.
        nrs.training.DivergenceError
            If the loss becomes NaN or infinite.
        """
        self._qid_column = qid if isinstance(qid, str) else None
        with threads(self.n_jobs):
            rows, validation, seed = self._prepare_queries(X, y, qid, eval_set)
            self._train(rows, validation, seed)
        return self

    def predict(self, X: Any, qid: Any = None) -> np.ndarray:
        """Scores of documents, (n_rows,); higher ranks earlier within a query.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            A document a row.
        qid : array (n_rows,), optional
            The query of each row; needed only with ``query_scale="standard"``.
        """
        check_is_fitted(self)
        X, qid = self._take_qid(X, qid)
        features = self.encoder_.transform(self._read_table(X, reset=False))
        if self._scaler is not None:
            features = self._scaler.transform(features, group_queries(qid, len(features)))
        with torch.inference_mode():
            scores = self.target_.scores(self._forward(features))
        return scores.double().numpy()

    def rank(self, X: Any, qid: Any = None) -> np.ndarray:
        """Row numbers in order: query by query as they first appear, best document first.

        Documents of equal score keep their order. ``X.iloc[model.rank(X, qid)]`` is the ranked
        table.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            A document a row.
        qid : array (n_rows,), optional
            The query of each row; all of one if None.

        Examples
        --------
        >>> X = np.arange(6.0)[:, None]
        >>> model = NRSRanker(epochs=1, random_state=0).fit(X, [0, 1, 2, 0, 1, 2], qid=[0] * 6)
        >>> sorted(model.rank(X, qid=[0, 1, 0, 1, 0, 1])[:3].tolist())
        [0, 2, 4]
        """
        scores = self.predict(X, qid)
        queries = group_queries(self._take_qid(X, qid)[1], len(scores))
        number = np.empty(len(scores), dtype=np.int64)
        number[queries.order] = np.repeat(np.arange(len(queries)), queries.lengths)
        order: np.ndarray = np.lexsort((-scores, number))
        return order

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """NDCG@10 with discount log2, queries without a relevant document skipped.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            A document a row.
        y : array (n_rows,)
            Relevance grades.
        qid : array (n_rows,), optional
            The query of each row.
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
        qid : array (n_rows,), optional
            The query of each row.
        metric : str
            Such as "ndcg@10", "map" or "mrr".
        discount : str or callable
            How gains at lower ranks count less, see :func:`nrs.ranking.metrics.measure`.
        empty : str or float
            What a query without a relevant document counts: "skip" leaves it out.
        """
        scores = self.predict(X, qid)
        labels = self._check_labels(y)
        given = self._take_qid(X, qid)[1]
        return measure(scores, labels, given, metric, discount=discount, empty=empty)

    # The steps of a fit.

    def _prepare_queries(
        self, X: Any, y: Any, qid: Any, eval_set: Any
    ) -> tuple[QueryRows, QueryRows | None, int]:
        table, labels, queries = self._read_queries(X, y, qid, reset=True)
        seed = draw_seed(self.random_state)
        device = pick_device(self.device)
        self._n_queries = len(queries)
        recipe = self._resolve(table.n_rows, table.n_columns)
        training, held_out = self._split_queries(queries, recipe, seed, eval_set)
        self.target_ = RankTarget(recipe.loss, sigmoid=recipe.sigmoid)
        targets = self.target_.encode(labels)
        self.encoder_ = TableEncoder(self.categorical_features, scale=recipe.scale)
        features = self.encoder_.fit_transform(table, rows=np.sort(training.order))
        self._remember(self._resolve(table.n_rows, self.encoder_.n_features_out_))
        self._scaler = None
        if recipe.query_scale == "standard":
            self._scaler = QueryScaler.fit(features, training)
            features = self._scaler.transform(features, queries)
        rows = QueryRows(features, targets, training, device)
        if eval_set is None:
            held = held_out and QueryRows(features, targets, held_out, device)
            return rows, held, seed
        return rows, self._eval_rows(eval_set, device), seed

    def _eval_rows(self, eval_set: Any, device: torch.device) -> QueryRows:
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if isinstance(eval_set, (tuple, list)) and len(eval_set) == 2 and self._qid_column:
            eval_set = (*eval_set, None)
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 3:
            raise ValueError(
                "eval_set must be a triple (X, y, qid) of held-out queries, however: "
                f"{type(eval_set).__name__}{_size(eval_set)}"
            )
        table, labels, queries = self._read_queries(*eval_set, reset=False)
        features = self.encoder_.transform(table)
        if self._scaler is not None:
            features = self._scaler.transform(features, queries)
        return QueryRows(features, self.target_.encode(labels), queries, device)

    def _read_queries(
        self, X: Any, y: Any, qid: Any, *, reset: bool
    ) -> tuple[Table, np.ndarray, Queries]:
        X, qid = self._take_qid(X, qid)
        table, labels = self._read(X, y, reset=reset)
        return table, labels, group_queries(qid, table.n_rows)

    def _take_qid(self, X: Any, qid: Any) -> tuple[Any, Any]:
        """The table without its column of queries, and the query of each row."""
        name = qid if isinstance(qid, str) else self._qid_column
        names = column_names(X)
        if name is None or (names is not None and name not in names and not isinstance(qid, str)):
            return X, qid
        if names is None or name not in names:
            raise ValueError(
                f"qid={name!r} must name a column of X, however: "
                f"{'X has no names' if names is None else f'its columns are {names}'}; give the "
                "query of each row as an array"
            )
        column = X[name]
        return without_column(X, name), column if qid is None or isinstance(qid, str) else qid

    def _check_labels(self, y: Any) -> np.ndarray:
        y = labels_as_array(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(f"y must have one label a row, however: its shape is {y.shape}")
        checked: np.ndarray = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        return checked

    def _recipe_extras(self) -> dict[str, Any]:
        # A table's rules for the size of a batch count rows.
        return {"batch_size": None}

    def _resolve(self, rows: int, features: int) -> RankRecipe:
        names = {field: getattr(self, field, None) for field in RankRecipe.__dataclass_fields__}
        plain: Recipe = super()._resolve(rows, features)
        return rank_recipe(self.preset, plain, names, self._n_queries)

    def _split_queries(
        self, queries: Queries, recipe: RankRecipe, seed: int, eval_set: Any
    ) -> tuple[Queries, Queries | None]:
        """Training and held-out queries; (all, None) keeps all for training."""
        if eval_set is not None or recipe.validation_fraction == 0:
            return queries, None
        size = round(len(queries) * recipe.validation_fraction)
        if size < 1 or len(queries) - size < 1:
            raise ValueError(
                f"validation_fraction={recipe.validation_fraction} of {len(queries)} queries "
                "leaves none to train or to measure on; set validation_fraction=0 or give an "
                "eval_set"
            )
        order = np.random.default_rng(seed).permutation(len(queries))
        return queries.part(np.sort(order[size:])), queries.part(np.sort(order[:size]))

    def _make_batches(self, rows: Any) -> Any:
        return QueryBatches(rows, self.recipe_.batch_size)

    def _step(self, network: torch.nn.Module, batch: QueryBatch) -> Tensor:
        scores = self.target_.scores(network(batch.x))
        return self.target_.padded_loss(batch.padded(scores), batch.padded(batch.y), batch.mask())

    def _evaluator(self, rows: Any, validation: Any) -> Any:
        if validation is None:
            return None
        metric = self.recipe_.metric
        if metric == "default":
            metric = "ndcg@10" if are_grades(validation.targets.numpy()) else "loss"
        if not callable(metric) and metric != "loss":
            find_metric(metric)
        batches = list(QueryBatches(validation, EVALUATION_QUERIES).in_order())

        def evaluate(network: torch.nn.Module) -> dict[str, float]:
            losses, values = 0.0, []
            for batch in batches:
                scores = batch.padded(self.target_.scores(network(batch.x)))
                labels, mask = batch.padded(batch.y), batch.mask()
                losses += float(self.target_.padded_loss(scores, labels, mask)) * len(mask)
                values.append((scores, labels, mask))
            loss = losses / len(validation.queries)
            measured = {"val_loss": loss}
            if metric == "loss":
                return measured | {"score": -loss}
            value = _over_batches(metric, values)
            name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
            return measured | {f"val_{name}": value, "score": value}

        return evaluate

    def _extra_header(self) -> dict[str, Any]:
        return {
            "query_scaler": None if self._scaler is None else self._scaler.state(),
            "qid_column": self._qid_column,
        }

    def _restore_extra(self, header: dict[str, Any]) -> None:
        scaler = header["query_scaler"]
        self._scaler = None if scaler is None else QueryScaler.from_state(scaler)
        self._qid_column = header["qid_column"]

    @staticmethod
    def _target_from_state(state: dict[str, Any]) -> Any:
        return RankTarget(None, sigmoid=state["sigmoid"])


def _over_batches(metric: Any, batches: list[tuple[Tensor, Tensor, Tensor]]) -> float:
    """A metric of padded batches, as of one rectangle."""
    longest = max(mask.shape[1] for _, _, mask in batches)
    whole = [
        torch.cat([torch.nn.functional.pad(part, (0, longest - part.shape[1])) for part in parts])
        for parts in zip(*batches, strict=True)
    ]
    scores, labels, mask = whole
    if callable(metric):
        return float(metric(scores, labels, mask))
    function, k = find_metric(metric)
    return float(function(scores, labels, k, mask))


def _size(value: Any) -> str:
    return f" of {len(value)}" if hasattr(value, "__len__") else ""
