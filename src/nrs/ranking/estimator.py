"""Documents of queries as the rows of a fit: their source, and the models that score them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nrs.ranking.batches import MAX_CELLS, QueryBatch, QueryBatches, QueryRows
from nrs.ranking.evaluation import check_relevant, evaluator
from nrs.ranking.forest import (
    centre_members,
    forest_loss,
    out_of_bag,
    out_of_bag_scores,
    some_queries,
)
from nrs.ranking.metrics import measure
from nrs.ranking.queries import Queries
from nrs.ranking.recipe import RankRecipe, RankTarget, are_grades
from nrs.ranking.scaling import QueryScaler
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.table import Table
from nrs.tabular.forest.folds import NO_FOLDS, Folds, count_folds
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.model import Evaluate, ForestModel, SingleModel
from nrs.tabular.recipe import MAX_FOLDS, Recipe
from nrs.tabular.rows.memory import MAX_HELD_OUT, MemorySource, Rows
from nrs.tabular.targets import OutOfBag, Target
from nrs.tabular.task import Task
from nrs.training.processes import ALONE, Processes


class QuerySource(MemorySource):
    """A table in memory whose rows belong to queries, which stay whole.

    Attributes
    ----------
    queries : Queries
        Of all rows.
    query_weights, propensity : ndarray or None
        See :class:`nrs.ranking.batches.QueryRows`.
    scaler : QueryScaler or None
        Scales features within queries; learned from the training queries where asked for.
    """

    scaler: QueryScaler | None = None
    held_out_weights: np.ndarray | None = None

    def __init__(
        self,
        table: Table,
        labels: np.ndarray,
        queries: Queries,
        query_scale: str,
        weights: np.ndarray | None = None,
        propensity: np.ndarray | None = None,
    ) -> None:
        super().__init__(table, labels)
        self.query_weights, self.propensity = weights, propensity
        self.queries = self.training_queries = queries
        self.held_out_queries: Queries | None = None
        self.query_scale = query_scale

    def split(self, recipe: Recipe, seed: int, *, spare: bool) -> Folds:
        """Draw folds of whole queries, or hold out some queries for a single network."""
        if recipe.members:
            n_members = min(count_folds(len(self.queries)), recipe.members)
            return Folds.draw(self.labels, n_members, seed, self.queries.numbers())
        if not spare or recipe.validation_fraction == 0:
            return NO_FOLDS
        n_queries = len(self.queries)
        size = round(n_queries * recipe.validation_fraction)
        if size < 1 or n_queries - size < 1:
            raise ValueError(
                f"validation_fraction={recipe.validation_fraction} of {n_queries} queries leaves "
                "none to train or to measure on. Set validation_fraction=0, or pass an eval_set."
            )
        order = np.random.default_rng(seed).permutation(n_queries)
        trained, held_out = np.sort(order[size:]), np.sort(order[:size])
        self.training_queries = self.queries.part(trained)
        self.held_out_queries = self.queries.part(held_out)
        if self.query_weights is not None:
            self.held_out_weights = self.query_weights[held_out]
            self.query_weights = self.query_weights[trained]
        self.training = np.sort(self.training_queries.order)
        return NO_FOLDS

    def rows(
        self, encoder: TableEncoder, target: Target, folds: Folds, device: torch.device
    ) -> tuple[QueryRows, QueryRows | None]:
        """Encoded documents of the training queries, and of held-out ones if there are any."""
        features = encoder.transform(self.table, folds=folds.drawn)
        targets = target.encode(self.labels)
        if self.query_scale == "standard":
            self.scaler = self.scaler or QueryScaler.fit(features, self.training_queries)
            features = self.scaler.transform(features, self.queries)
        rows = QueryRows(
            features, targets, self.training_queries, device, folds.drawn, self.scaler,
            self.query_weights, self.propensity,
        )  # fmt: skip
        if self.held_out_queries is None:
            return rows, None
        held_out = QueryRows(
            features, targets, self.held_out_queries, device, weights=self.held_out_weights,
            propensity=self.propensity,
        )  # fmt: skip
        return rows, held_out


class RankModel(SingleModel):
    """One network that scores documents."""

    target: RankTarget
    recipe: RankRecipe

    def batches(self, rows: Rows, group: Processes = ALONE) -> QueryBatches:
        assert isinstance(rows, QueryRows)
        return QueryBatches(rows, self.recipe.batch_size)

    def loss(self, network: nn.Module, batch: QueryBatch) -> Tensor:
        return self.target.batch_loss(self.scores(network, batch), batch)

    def scores(self, network: nn.Module, batch: QueryBatch) -> Tensor:
        """Scores of the documents of a batch."""
        return self.target.scores(network(batch.x))

    def evaluator(self, rows: Rows, held_out: Rows | None, group: Processes) -> Evaluate | None:
        if held_out is None:
            return None
        assert isinstance(held_out, QueryRows)
        check_relevant(self.recipe.metric, held_out)
        return evaluator(self.recipe.metric, held_out, self.target, self.scores)


class RankForestModel(ForestModel, RankModel):
    """A forest that scores documents, each member trained without the queries of one fold."""

    def batches(self, rows: Rows, group: Processes = ALONE) -> QueryBatches:
        return self._batches(rows, self.round_epochs)

    def pass_batches(self, rows: Rows, n_seen: int) -> QueryBatches:
        # A query goes to a fold by its running number.
        self.use_folds(Folds(MAX_FOLDS))
        assert isinstance(rows, QueryRows)
        rows.query_folds = (n_seen + np.arange(rows.n_units)) % MAX_FOLDS
        rows.folds = torch.from_numpy(rows.query_folds[rows.queries.numbers()])
        return self._batches(rows, 1)

    def _batches(self, rows: Rows, passes: int) -> QueryBatches:
        assert isinstance(rows, QueryRows)
        members = self.recipe.members
        return QueryBatches(rows, self.recipe.batch_size, MAX_CELLS // members, passes)

    def loss(self, network: nn.Module, batch: QueryBatch) -> Tensor:
        assert isinstance(network, ForestNetwork)
        return forest_loss(network, batch, self.target, self.sees)

    def evaluator(self, rows: Rows, held_out: Rows | None, group: Processes) -> Evaluate | None:
        if held_out is not None or self.n_folds == 1:
            return super().evaluator(rows, held_out, group)
        assert isinstance(rows, QueryRows)
        metric, cells = self.recipe.metric, MAX_CELLS // self.recipe.members

        def unseen(network: Any, batch: QueryBatch) -> Tensor:
            assert batch.folds is not None
            return out_of_bag(network, batch.x, batch.folds[batch.row], self.sees)

        check_relevant(metric, rows)
        scored = some_queries(rows, MAX_HELD_OUT)
        return evaluator(metric, scored, self.target, unseen, cells)

    def finish(self, task: Task) -> OutOfBag | None:
        if self.n_folds == 1:
            return None
        rows = task.rows
        assert isinstance(rows, QueryRows)
        centre_members(self.network, rows)
        scores = out_of_bag_scores(self.network, rows, self.sees)
        labels = rows.targets.numpy()
        if not are_grades(labels):
            return OutOfBag(scores, None)
        return OutOfBag(scores, float(measure(scores, labels, rows.queries.numbers())))
