"""From documents of queries to a trained scorer: the steps of a ranker's fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_array
from torch import Tensor

from nrs.ranking.batches import MOST_CELLS, QueryBatch, QueryBatches, QueryRows
from nrs.ranking.evaluation import check_relevant, evaluator
from nrs.ranking.forest import (
    centre_members,
    forest_loss,
    out_of_bag,
    out_of_bag_scores,
    some_queries,
)
from nrs.ranking.losses import LOSSES
from nrs.ranking.metrics import measure
from nrs.ranking.queries import (
    Queries,
    column_names,
    group_queries,
    read_eval_set,
    without_column,
)
from nrs.ranking.recipe import RankRecipe, RankTarget, are_grades, rank_recipe
from nrs.ranking.scaling import QueryScaler
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.table import Table
from nrs.tabular.estimator import MOST_VALIDATION_ROWS
from nrs.tabular.forest.estimator import ForestEstimator
from nrs.tabular.forest.folds import MOST_FOLDS, count_folds, draw_folds
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.recipe import Recipe
from nrs.tabular.run import draw_seed, pick_device, threads
from nrs.tabular.targets import labels_as_array, refuse_dates


class QueryEstimator(ForestEstimator):
    """A :class:`ForestEstimator` whose rows belong to queries; see :class:`nrs.NRSRanker`."""

    _recipe_type = RankRecipe
    _file_kind = "ranker"
    recipe_: RankRecipe
    target_: RankTarget  # type: ignore[assignment]
    _scaler: QueryScaler | None = None
    _qid_column: str | None = None

    def _prepare_queries(
        self, X: Any, y: Any, qid: Any, eval_set: Any
    ) -> tuple[QueryRows, QueryRows | None, int]:
        table, labels, queries = self._read_queries(X, y, qid, reset=True)
        seed = draw_seed(self.random_state)
        device = pick_device(self.device)
        self._n_queries = len(queries)
        recipe = self._resolve(table.n_rows, table.n_columns)
        training, held_out = self._split_queries(labels, queries, recipe, seed, eval_set)
        self._remember(recipe)
        self.target_ = self._make_target(labels, None)
        targets = self.target_.encode(labels)
        self.encoder_ = TableEncoder(self.categorical_features, scale=recipe.scale)
        features = self.encoder_.fit_transform(table, rows=np.sort(training.order))
        self._remember(self._resolve(table.n_rows, self.encoder_.n_features_out_))
        features = self._scaled(features, queries, learn_from=training)
        folds = None if self._folds is None else self._folds[training.order[training.starts]]
        rows = QueryRows(features, targets, training, device, folds)
        if eval_set is None:
            held = held_out and QueryRows(features, targets, held_out, device)
            return rows, held, seed
        return rows, self._eval_rows(eval_set, device), seed

    def _pass_over_queries(self, X: Any, y: Any, qid: Any) -> None:
        """Take one pass over more queries, which go to folds by their running numbers."""
        first = not hasattr(self, "network_")
        table, labels, queries = self._read_queries(X, y, qid, reset=first)
        with threads(self.n_jobs):
            if first:
                self._n_queries = len(queries)
                self._learn_columns(table, labels)
            features = self.encoder_.transform(table)
            features = self._scaled(features, queries, learn_from=queries if first else None)
            folds = (self._n_seen + np.arange(len(queries))) % MOST_FOLDS
            self._n_seen += len(queries)
            device = pick_device(self.device)
            targets = self.target_.encode(labels)
            self._take_pass(QueryRows(features, targets, queries, device, folds))

    def _eval_rows(self, eval_set: Any, device: torch.device) -> QueryRows:
        held_out = read_eval_set(eval_set, qid_in_x=self._qid_column is not None)
        table, labels, queries = self._read_queries(*held_out, reset=False)
        features = self._scaled(self.encoder_.transform(table), queries)
        return QueryRows(features, self.target_.encode(labels), queries, device)

    def _features(self, X: Any, qid: Any) -> Any:
        """Encoded rows of a raw table, scaled within their queries if need be."""
        X, qid = self._take_qid(X, qid)
        features = self.encoder_.transform(self._read_table(X, reset=False))
        if self._scaler is None:
            return features
        return self._scaled(features, group_queries(qid, len(features)))

    def _scaled(self, features: Any, queries: Queries, learn_from: Queries | None = None) -> Any:
        """Features scaled within queries, if the recipe says so."""
        if learn_from is not None:
            standard = self.recipe_.query_scale == "standard"
            self._scaler = QueryScaler.fit(features, learn_from) if standard else None
        return features if self._scaler is None else self._scaler.transform(features, queries)

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
        if not isinstance(qid, str) and (name is None or name not in (names or ())):
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
        refuse_dates(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(f"y must have one label a row, however: its shape is {y.shape}")
        if y.dtype.kind in "UOS":
            try:
                y = y.astype(np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    "y must hold numbers, the grades 0, 1, 2, … of relevance, however: "
                    f"{y[:3].tolist()}; map the labels to numbers, and leave out rows without one"
                ) from None
        checked: np.ndarray = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        return checked

    def _make_target(self, labels: np.ndarray, rows: np.ndarray | None) -> Any:
        return RankTarget(self.recipe_.loss, sigmoid=self.recipe_.sigmoid)

    def _recipe_extras(self) -> dict[str, Any]:
        # A table's rules for the size of a batch count rows.
        return {"batch_size": None}

    def _resolve(self, rows: int, features: int) -> RankRecipe:
        names = {field: getattr(self, field, None) for field in RankRecipe.__dataclass_fields__}
        plain: Recipe = super()._resolve(rows, features)
        return rank_recipe(self.preset, plain, names, self._n_queries, rows)

    def _split_queries(
        self, labels: np.ndarray, queries: Queries, recipe: RankRecipe, seed: int, eval_set: Any
    ) -> tuple[Queries, Queries | None]:
        """Training and held-out queries; (all, None) keeps all for training.

        A forest keeps all: a fold of them is held out of each member.
        """
        if recipe.members:
            n_folds = min(count_folds(len(queries)), recipe.members)
            self._folds = draw_folds(labels, n_folds, seed, queries.numbers())
            return queries, None
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
        members, size = self.recipe_.members, self.recipe_.batch_size
        if not members:
            return QueryBatches(rows, size)
        # partial_fit takes a single pass, and has drawn no folds.
        passes = 1 if self._folds is None else self._round_epochs()
        return QueryBatches(rows, size, MOST_CELLS // members, passes)

    def _step(self, network: torch.nn.Module, batch: QueryBatch) -> Tensor:
        if isinstance(network, ForestNetwork):
            return forest_loss(network, batch, self.target_, self._n_folds())
        scores = batch.padded(self._joint_scores(network, batch))
        return self.target_.padded_loss(scores, batch.padded(batch.y), batch.mask())

    def _joint_scores(self, network: torch.nn.Module, batch: QueryBatch) -> Tensor:
        return self.target_.scores(network(batch.x))

    def _measure_pace(self, network: Any, rows: Any) -> None:
        """Rankers judge whole queries, all at a time: a pace a row would tell little."""

    def _evaluator(self, rows: Any, validation: Any) -> Any:
        metric, target = self.recipe_.metric, self.target_
        if validation is not None:
            check_relevant(metric, validation)
            return evaluator(metric, validation, target, self._joint_scores)
        n_folds = self._n_folds()
        if not self.recipe_.members or n_folds == 1:
            return None

        def unseen(network: ForestNetwork, batch: QueryBatch) -> Tensor:
            assert batch.folds is not None
            return out_of_bag(network, batch.x, batch.folds[batch.row], n_folds)

        check_relevant(metric, rows)
        judged = some_queries(rows, MOST_VALIDATION_ROWS)
        return evaluator(metric, judged, target, unseen, MOST_CELLS // self.recipe_.members)

    def _judge(self, rows: Any) -> None:
        """Score every document by the members that did not see its query."""
        assert self._folds is not None
        assert isinstance(self.network_, ForestNetwork)
        centre_members(self.network_, rows)
        scores = out_of_bag_scores(self.network_, rows, self._folds, self._n_folds())
        self.oob_prediction_ = scores
        labels = rows.targets.numpy()
        if are_grades(labels):
            self.oob_score_ = float(measure(scores, labels, rows.queries.numbers()))

    def _extra_header(self) -> dict[str, Any]:
        return super()._extra_header() | {
            "query_scaler": None if self._scaler is None else self._scaler.state(),
            "qid_column": self._qid_column,
        }

    def _restore_extra(self, header: dict[str, Any]) -> None:
        super()._restore_extra(header)
        scaler = header["query_scaler"]
        self._scaler = None if scaler is None else QueryScaler.from_state(scaler)
        self._qid_column = header["qid_column"]

    @staticmethod
    def _target_from_state(state: dict[str, Any]) -> Any:
        known = state["loss"] if state["loss"] in LOSSES else None
        return RankTarget(known, sigmoid=state["sigmoid"])
