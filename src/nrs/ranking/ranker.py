"""`NRSRanker`: documents in order, from a raw table whose rows belong to queries."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from nrs.datasets.large_table import Table as LargeTable
from nrs.ranking.metrics import Discount, Empty, Measurement, measure
from nrs.ranking.queries import (
    Qid,
    Queries,
    column_names,
    group_queries,
    qid_of_group,
    query_weights,
    read_eval_set,
    read_propensity,
    without_column,
)
from nrs.ranking.recipe import RankRecipe, RankTarget, rank_recipe
from nrs.ranking.scaling import QueryScaler
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.encode.columns import labels_as_array
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.table import Table, from_capsule
from nrs.tabular.forest.estimator import MemberEstimator
from nrs.tabular.header import recipe_schema, require
from nrs.tabular.parameters import CheckpointParameters, parameters
from nrs.tabular.recipe import Recipe, resolve
from nrs.tabular.targets import Target, refuse_dates
from nrs.tabular.types import ArrayLike, TableLike
from nrs.training.schema import (
    choice,
    either,
    flag,
    hex_number,
    list_of,
    optional,
    record,
    tagged,
    text,
)

if TYPE_CHECKING:
    import torch

    from nrs.ranking.batches import QueryRows
    from nrs.ranking.estimator import QuerySource
    from nrs.tabular.export import TableModule
    from nrs.tabular.model import SingleModel
    from nrs.tabular.task import Task


class Documents(NamedTuple):
    """What a ranker's fit knows of rows next to labels; `qid` as of :meth:`NRSRanker.fit`."""

    qid: Qid
    propensity: ArrayLike | None = None


def _qid_of(X: Any, qid: Qid, group: ArrayLike | None) -> Qid:
    """The query of each row of a table, from `qid` or `group`."""
    if group is None:
        return qid
    if qid is not None:
        raise ValueError("qid and group say the same; got both. Pass one of them.")
    return qid_of_group(group, X.shape[0] if hasattr(X, "shape") else len(X))


def _in_memory(X: Any) -> tuple[Any, Any]:
    """A table of files as an arrow table and its labels; any other table, without labels."""
    if not isinstance(X, LargeTable):
        return from_capsule(X), None
    from pyarrow import Table as ArrowTable

    whole = ArrowTable.from_batches([chunk.batch for chunk in X.chunks()])
    names = X.columns
    if len(X.targets) > 1:
        raise ValueError(
            f"a ranker needs a Table of one target, the grades; got {', '.join(X.targets)}"
        )
    labels = whole[X.targets[0]] if X.targets else None
    return whole.select(names), labels


@parameters
class NRSRanker(CheckpointParameters, MemberEstimator):
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
    n_workers : int, default=1
        Processes on this machine that train a forest together, each some of its members: a member
        for every process is needed.
    n_per, n_h, layout, hidden, dropout, scale, epochs, lr, weight_decay, patience, time_limit, \
categorical_features, text_features, convert, random_state, n_jobs, device, verbose, callbacks, \
checkpoint
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

    loss: str | Callable[..., Any] | None = None
    query_scale: str | None = None
    n_workers: int = 1

    _recipe_type = RankRecipe
    # Queries of one batch are not divided.
    divide = "members"
    _recipe_schema = recipe_schema(
        RankRecipe, loss=text(200), sigmoid=flag, query_scale=choice("none", "standard")
    )
    _target_schema = tagged(
        "kind", {"ranking": record({"kind": text(), "loss": text(200), "sigmoid": flag})}
    )
    _own_schema: ClassVar[Mapping[str, Any]] = {
        # Squares of these are numbers above 0.
        "query_scaler": optional(list_of(either(choice((0.0).hex()), hex_number(1e-100, 1e100)))),
        "qid_column": optional(text()),
    }
    _file_kind = "ranker"
    # Fitted state that not every fit has.
    scaler_ = qid_column_ = None
    n_queries_ = 0

    # Routed without being asked for, in cross-validation with metadata routing.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def fit(  # type: ignore[override]
        self,
        X: TableLike,
        y: ArrayLike | None = None,
        qid: Qid = None,
        eval_set: Sequence[Any] | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
    ) -> Self:
        """Fit to the documents of queries.

        Parameters
        ----------
        X : array, data frame (pandas, polars, pyarrow) or sparse matrix, (n_rows, n_columns)
            Or a :class:`nrs.Table`, which is read into memory; `qid` is then a column of it.
        y : array (n_rows,)
            Grades 0, 1, 2, …; losses without gains take any numbers. A :class:`nrs.Table` names
            its target itself.
        qid : array (n_rows,) of numbers or strings, or str
            The query of each row, in any order; or the name of a column of `X`, which is then not
            a feature, here and in `predict`.
        eval_set : (X, y, qid), optional
            Queries that decide when to stop, instead of out-of-bag or held-out ones.
        group : array (n_queries,), optional
            In place of `qid`: the number of rows of each query, as LightGBM and XGBoost take it.
        sample_weight : array (n_rows,) or (n_queries,), optional
            How much each query counts in the loss; equal for all documents of a query. Metrics
            count all queries alike.
        propensity : array (n_rows,), optional
            Where labels are clicks: the probability that the document was looked at, by its
            position. A clicked document counts 1 / propensity times, see
            :mod:`nrs.ranking.losses`.

        Raises
        ------
        ValueError
            Bad input, with what came, what was expected and what to do.
        nrs.training.DivergenceError
            If the loss becomes NaN or infinite.
        """
        documents = Documents(_qid_of(X, qid, group), propensity)
        return super().fit(X, y, sample_weight, eval_set, documents)

    def partial_fit(self, X: TableLike, y: ArrayLike, qid: Qid = None) -> Self:
        """Take one pass over more queries, keeping what was learned.

        The first call learns the encoding of the columns; so the first queries should be typical
        ones. All documents of a query must come together. ``oob_score_`` is that of the queries of
        the last call.

        Parameters
        ----------
        X, y, qid : as of :meth:`fit`.
        """
        return self._partial_fit(X, y, groups=qid)

    def predict(
        self,
        X: TableLike,
        qid: Qid = None,
        return_std: bool = False,
        *,
        group: ArrayLike | None = None,
    ) -> Any:
        """Scores of documents, (n_rows,); higher ranks earlier within a query.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            One document per row.
        qid : array (n_rows,), optional
            The query of each row; needed only with ``query_scale="standard"``.
        return_std : bool, default=False
            Give a pair of the scores and of the spread of the forest's members around them.
        group : array (n_queries,), optional
            In place of `qid`, as of :meth:`fit`.
        """
        check_is_fitted(self)
        qid = _qid_of(X, qid, group)
        if return_std:
            return self.predict(X, qid), self.member_outputs(X, qid).std(0)
        return self.target_.answer(self.outputs(X, qid=qid))

    def outputs(
        self,
        X: TableLike,
        *,
        members: bool = False,
        watch: Watch | None = None,
        qid: Qid = None,
    ) -> np.ndarray:
        """As of :class:`nrs.NRSClassifier`; `qid` as of :meth:`predict`."""
        counts = Watch() if watch is None else watch
        found = self.forward(self._features(X, qid, counts), members=members)
        if watch is None:
            self.encoder_.warn(counts)
        return found

    def joined_by(self) -> dict[str, str]:
        if self.scaler_ is None:
            return {}
        if self.qid_column_ is None:
            raise ValueError(
                "This ranker scales features within queries and does not know their column. Fit it "
                "with the name of a column: qid='COLUMN'"
            )
        return {self.qid_column_: "category"}

    def member_outputs(self, X: TableLike, qid: Qid = None) -> np.ndarray:
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
        return self.outputs(X, members=True, qid=qid)[:, :, 0].astype(np.float64)

    def rank(self, X: TableLike, qid: Qid = None, *, group: ArrayLike | None = None) -> np.ndarray:
        """Row numbers in order: query by query as they first appear, best document first.

        Documents of equal score keep their order. ``X.iloc[model.rank(X, qid)]`` is the ranked
        table.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            One document per row.
        qid : array (n_rows,) or str, optional
            The query of each row, or the name of a column of `X`. If None, the column that the
            model was fitted with; all rows are of one query if `X` has no such column.
        group : array (n_queries,), optional
            In place of `qid`, as of :meth:`fit`.

        Examples
        --------
        >>> X = np.arange(6.0)[:, None]
        >>> model = NRSRanker(epochs=1, random_state=0).fit(X, [0, 1, 2, 0, 1, 2], qid=[0] * 6)
        >>> sorted(model.rank(X, qid=[0, 1, 0, 1, 0, 1])[:3].tolist())
        [0, 2, 4]
        """
        X, qid = _in_memory(X)[0], _qid_of(X, qid, group)
        given = self._take_qid(X, qid)[1]
        if given is None:
            qid = given = np.zeros(X.shape[0] if hasattr(X, "shape") else len(X), dtype=np.int64)
        scores = self.predict(X, qid)
        queries = group_queries(given, len(scores))
        return np.lexsort((-scores, queries.numbers()))

    def score(
        self,
        X: TableLike,
        y: ArrayLike | None = None,
        qid: Qid = None,
        *,
        group: ArrayLike | None = None,
    ) -> float:
        """NDCG@10 with discount log2, queries without a relevant document skipped.

        Parameters
        ----------
        X, y, qid, group : as of :meth:`evaluate`.
        """
        return float(self.evaluate(X, y, qid, group=group))

    def evaluate(
        self,
        X: TableLike,
        y: ArrayLike | None = None,
        qid: Qid = None,
        metric: str = "ndcg@10",
        *,
        group: ArrayLike | None = None,
        discount: Discount = "log2",
        empty: Empty = "skip",
    ) -> Measurement:
        """Measure a metric of :mod:`nrs.ranking.metrics`; the result prints its rules.

        Parameters
        ----------
        X : table (n_rows, n_columns)
            One document per row.
        y : array (n_rows,)
            Relevance grades.
        qid : array (n_rows,) or str
            The query of each row, or the name of a column of `X`; not needed where the model was
            fitted with that name.
        metric : str
            Such as "ndcg@10", "map" or "mrr".
        group : array (n_queries,), optional
            In place of `qid`, as of :meth:`fit`.
        discount, empty : as of :func:`nrs.ranking.metrics.ndcg`.
        """
        X, labels_of_table = _in_memory(X)
        y = labels_of_table if y is None else y
        qid = _qid_of(X, qid, group)
        scores = self.predict(X, qid)
        labels = self._check_labels(y)
        given = self._take_qid(X, qid)[1]
        return measure(scores, labels, given, metric, discount=discount, empty=empty)

    # Reading.

    def read_source(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        qid: Qid = None,
        time: Any = None,
        offset: Any = None,
    ) -> QuerySource:
        """Read and check the documents of queries that a fit learns from."""
        return self.read_rows(X, y, sample_weight, qid, reset=True)

    def read_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        qid: Any,
        time: Any = None,
        offset: Any = None,
        *,
        reset: bool,
    ) -> QuerySource:
        from nrs.ranking.estimator import QuerySource

        qid, propensity = qid if isinstance(qid, Documents) else (qid, None)
        if isinstance(qid, str):
            self.qid_column_ = qid
        table, labels, queries = self._read_queries(X, y, qid, reset=reset)
        if reset:
            self.n_queries_ = len(queries)
        source = QuerySource(
            table, labels, queries, self.query_scale or "none",
            query_weights(sample_weight, queries), read_propensity(propensity, table.n_rows),
        )  # fmt: skip
        if not reset:
            source.scaler = self.scaler_
        return source

    def read_held_out(
        self, eval_set: Any, encoder: TableEncoder, target: Target, device: torch.device
    ) -> QueryRows:
        from nrs.ranking.batches import QueryRows

        X, y, qid = read_eval_set(eval_set, qid_in_x=self.qid_column_ is not None)
        table, labels, queries = self._read_queries(X, y, qid, reset=False)
        features = encoder.transform(table)
        if self.scaler_ is not None:
            features = self.scaler_.transform(features, queries)
        return QueryRows(features, target.encode(labels), queries, device)

    def _read_queries(
        self, X: TableLike, y: ArrayLike, qid: Qid, *, reset: bool
    ) -> tuple[Table, np.ndarray, Queries]:
        X, labels_of_table = _in_memory(X)
        X, qid = self._take_qid(X, qid)
        table, labels = self._read(X, labels_of_table if y is None else y, reset=reset)
        return table, labels, group_queries(qid, table.n_rows)

    def _take_qid(self, X: Any, qid: Qid) -> tuple[Any, Any]:
        """The table without its column of queries, and the query of each row."""
        name = qid if isinstance(qid, str) else self.qid_column_
        names = column_names(X)
        if not isinstance(qid, str) and (name is None or name not in (names or ())):
            return X, qid
        if names is None or name not in names:
            has = "X has no names" if names is None else f"its columns are {names}"
            raise ValueError(
                f"qid={name!r} must name a column of X; {has}. Pass the query of each row as an "
                "array."
            )
        column = X[name]
        return without_column(X, name), column if qid is None or isinstance(qid, str) else qid

    def _features(self, X: TableLike, qid: Qid, watch: Watch | None = None) -> Any:
        """Encoded rows of a raw table, scaled within their queries if need be."""
        X, qid = self._take_qid(_in_memory(X)[0], qid)
        X = self._in_order(X)
        features = self.encoder_.transform(super().read_table(X), watch)
        if self.scaler_ is None:
            return features
        return self.scaler_.transform(features, group_queries(qid, len(features)))

    def read_table(self, X: TableLike) -> Table:
        """Read rows that stand by themselves, as explanations and other runtimes take them.

        Raises
        ------
        ValueError
            If features are scaled within queries, which a row alone cannot be.
        """
        self._refuse_query_scale("an explanation")
        return super().read_table(self._in_order(self._take_qid(_in_memory(X)[0], None)[0]))

    def to_torch(self, *, preprocessing: bool = False) -> TableModule:
        self._refuse_query_scale("to_torch")
        return super().to_torch(preprocessing=preprocessing)

    to_torch.__doc__ = MemberEstimator.to_torch.__doc__

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        self._refuse_query_scale("to_onnx")
        super().to_onnx(path)

    to_onnx.__doc__ = MemberEstimator.to_onnx.__doc__

    def _refuse_query_scale(self, what: str) -> None:
        check_is_fitted(self)
        if self.scaler_ is not None:
            raise ValueError(
                f"{what} takes rows one by one; this ranker scales features within queries. Fit it "
                "with query_scale='none'."
            )

    def _in_order(self, X: Any) -> Any:
        """A data frame with the columns of the fit in their order, if it has just these."""
        names, known = column_names(X), getattr(self, "feature_names_in_", None)
        if names is None or known is None or names == known.tolist():
            return X
        if len(set(names)) < len(names) or set(names) != set(known):
            return X  # Refused where it is read, in words.
        return X.select(known.tolist()) if hasattr(X, "select") else X[known.tolist()]

    def _check_labels(self, y: ArrayLike) -> np.ndarray:
        y = labels_as_array(y)
        refuse_dates(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(f"y must have one label per row; its shape is {y.shape}")
        if y.dtype.kind in "UOS":
            try:
                y = y.astype(np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    "y must hold numbers, the grades 0, 1, 2, … of relevance; got "
                    f"{y[:3].tolist()}. Map the labels to numbers, and leave out rows without one."
                ) from None
        return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")

    # What a ranker decides.

    def resolve(self, rows: int, features: int) -> RankRecipe:
        # A table's rules for the size of a batch count rows.
        plain = resolve(self.preset, self._chosen() | {"batch_size": None}, rows, features)
        chosen = self._chosen() | {"loss": self.loss, "query_scale": self.query_scale}
        return rank_recipe(self.preset, plain, chosen, self.n_queries_, rows)

    def make_target(self, source: Any) -> RankTarget:
        recipe = self.resolve(source.n_rows, source.n_columns)
        return RankTarget(recipe.loss, sigmoid=recipe.sigmoid)

    def _task_type(self) -> type[Task]:
        from nrs.ranking.task import RankTask

        return RankTask

    def model_type(self, recipe: Recipe) -> type[SingleModel]:
        from nrs.ranking.estimator import RankForestModel, RankModel

        return RankForestModel if recipe.members else RankModel

    def _own_state(self, reader: Any) -> dict[str, Any]:
        names = ("n_queries_", "qid_column_", "scaler_")
        return {name: getattr(reader, name) for name in names}

    def _own_header(self) -> dict[str, Any]:
        return {
            "query_scaler": None if self.scaler_ is None else self.scaler_.state(),
            "qid_column": self.qid_column_,
        }

    def restore(self, header: Mapping[str, Any], encoder: TableEncoder) -> None:
        scaler = header["query_scaler"]
        if scaler is not None:
            fits = len(scaler) == encoder.n_features_out_ and not encoder.is_sparse_
            require(fits, "header.query_scaler must have one number per dense feature")
        self.scaler_ = None if scaler is None else QueryScaler.from_state(scaler)
        apart = header["qid_column"] not in (encoder.names or [])
        require(apart, "header.qid_column must be none of the columns that are read")
        self.qid_column_ = header["qid_column"]

    @staticmethod
    def _target_from_state(state: dict[str, Any]) -> RankTarget:
        return RankTarget.from_state(state)
