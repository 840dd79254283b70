"""Whole queries as a source of batches: bucketed by length, so that padding stays small.

The network sees documents only, one after the other; only their scores and labels are padded, for
the loss. A batch is padded to its own longest query and never holds more than `MAX_CELLS` pairs
of documents, so memory grows with the bucket and not with the longest query of the data.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nrs.ranking.queries import Queries, slots
from nrs.ranking.scaling import QueryScaler
from nrs.tabular.rows.memory import Rows, checksum

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Pairs of documents, queries × longest², of a batch of more than one query: 16 MB in float32.
MAX_CELLS = 1 << 22
# Queries are sorted by length within pools of so many batches: enough to find queries of like
# length, few enough to leave the order random.
POOL = 16


class QueryBatch(NamedTuple):
    """The documents of some queries.

    x : (documents, features), y : (documents,)
    row, column : (documents,) the place of each in a rectangle of `shape` (queries, longest).
    folds : (queries,) the fold of each query, if they have one.
    weights : (queries,) how much each query counts; None if equally.
    propensity : (documents,) how probably each was looked at; None where labels are grades.
    """

    x: Tensor
    y: Tensor
    row: Tensor
    column: Tensor
    shape: tuple[int, int]
    folds: Tensor | None = None
    weights: Tensor | None = None
    propensity: Tensor | None = None

    def padded(self, values: Tensor) -> Tensor:
        """Values of the documents in the rectangle, zeros elsewhere.

        **Shape** ``(..., documents)`` to ``(..., queries, longest)``.
        """
        queries, longest = self.shape
        flat = values.new_zeros(*values.shape[:-1], queries * longest)
        flat = flat.index_copy(-1, self.row * longest + self.column, values)
        return flat.unflatten(-1, self.shape)

    def mask(self) -> Tensor:
        """Where there is a document."""
        return self.padded(torch.ones_like(self.row, dtype=torch.bool))


class QueryRows(Rows):
    """Rows of an encoded table that belong to queries.

    Parameters
    ----------
    features, targets, device : as of :class:`nrs.tabular.rows.memory.Rows`.
    queries : the rows of each query; `index` becomes their order.
    folds : (n,) the fold of each row of the table, the same for all rows of a query.
    scaler : what scaled the features within queries, if anything did.
    weights : (n_queries,) how much each query counts; None if equally.
    propensity : (n,) how probably each document was looked at; None where labels are grades.

    Attributes
    ----------
    query_folds : ndarray (n_queries,) or None
        The fold of each query, of which a member of a forest sees all but one.
    """

    def __init__(
        self,
        features: np.ndarray | csr_matrix,
        targets: np.ndarray,
        queries: Queries,
        device: torch.device | str = "cpu",
        folds: np.ndarray | None = None,
        scaler: QueryScaler | None = None,
        weights: np.ndarray | None = None,
        propensity: np.ndarray | None = None,
    ) -> None:
        super().__init__(features, targets, None, queries.order, device, folds)
        self.queries, self.facts = queries, {"scaler_": scaler}
        self.query_weights, self.propensity = weights, propensity
        self.query_folds = None if folds is None else folds[queries.order[queries.starts]]

    @property
    def n_units(self) -> int:
        return len(self.queries)

    def joined(self, later: Rows, most: int) -> Rows:
        """The later ones alone: queries are scored by the mean over many documents already."""
        return later

    def part(self, chosen: np.ndarray) -> QueryRows:
        """Some of the queries, sharing the table."""
        other = copy.copy(self)
        other.queries = self.queries.part(chosen)
        other.index = torch.from_numpy(other.queries.order)
        other.query_folds = None if self.query_folds is None else self.query_folds[chosen]
        if self.query_weights is not None:
            other.query_weights = self.query_weights[chosen]
        return other

    def batch(self, chosen: np.ndarray) -> QueryBatch:
        """The documents of these queries."""
        lengths, numbers = self.queries.lengths[chosen], self.queries.rows(chosen)
        x, y, _ = self.take(torch.from_numpy(numbers))
        row, column = (torch.from_numpy(part).to(self.device) for part in slots(lengths))
        folds = None
        if self.query_folds is not None:
            folds = torch.from_numpy(self.query_folds[chosen]).to(self.device)
        weights = propensity = None
        if self.query_weights is not None:
            weights = torch.from_numpy(self.query_weights[chosen]).to(self.device)
        if self.propensity is not None:
            propensity = torch.from_numpy(self.propensity[numbers]).to(self.device)
        shape = (len(chosen), int(lengths.max()))
        return QueryBatch(x, y, row, column, shape, folds, weights, propensity)

    def checksum(self) -> str:
        """Of the table and its queries."""
        return super().checksum() + checksum(self.queries.order, self.queries.lengths)[:8]


@dataclass(frozen=True)
class QueryBatches:
    """All queries in a fresh order per epoch, in batches of queries of like length.

    Queries are shuffled, sorted by length within pools, cut into batches, and the batches are
    shuffled.

    Parameters
    ----------
    rows : the documents.
    batch_size : queries of a batch; fewer where their pairs would exceed `max_cells`.
    passes : how often every query comes per epoch.

    Examples
    --------
    >>> from nrs.ranking.queries import group_queries
    >>> queries = group_queries(np.repeat(np.arange(5), [1, 9, 2, 8, 2]))
    >>> rows = QueryRows(np.zeros((22, 3), np.float32), np.zeros(22, np.float32), queries)
    >>> batches = QueryBatches(rows, batch_size=2)
    >>> sorted(batch.shape for batch in batches(0, torch.Generator().manual_seed(0)))
    [(1, 9), (2, 2), (2, 8)]
    """

    rows: QueryRows
    batch_size: int
    max_cells: int = MAX_CELLS
    passes: int = 1

    def __len__(self) -> int:
        """Number of batches per epoch, but for those that long queries split."""
        return self.passes * math.ceil(len(self.rows.queries) / self.batch_size)

    def __call__(self, epoch: int, generator: torch.Generator) -> Iterator[QueryBatch]:
        for _ in range(self.passes):
            yield from self._pass(generator)

    def _pass(self, generator: torch.Generator) -> Iterator[QueryBatch]:
        order = torch.randperm(len(self.rows.queries), generator=generator).numpy()
        batches: list[np.ndarray] = []
        for start in range(0, len(order), POOL * self.batch_size):
            pool = order[start : start + POOL * self.batch_size]
            batches += self._cut(pool[np.argsort(self.rows.queries.lengths[pool], kind="stable")])
        for number in torch.randperm(len(batches), generator=generator).tolist():
            yield self.rows.batch(batches[number])

    def in_order(self) -> Iterator[QueryBatch]:
        """All queries by length, for evaluation."""
        order = np.argsort(self.rows.queries.lengths, kind="stable")
        for chosen in self._cut(order):
            yield self.rows.batch(chosen)

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        """Divide queries, sorted by length, into batches."""
        lengths = self.rows.queries.lengths
        parts: list[np.ndarray] = []
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            most = max(1, self.max_cells // int(lengths[chosen[-1]]) ** 2)
            parts += np.array_split(chosen, math.ceil(len(chosen) / most))
        # A single document has no batch statistics: its query joins those next to it.
        whole = [parts[0]]
        for part in parts[1:]:
            if lengths[whole[-1]].sum() < 2 or lengths[part].sum() < 2:
                whole[-1] = np.concatenate([whole[-1], part])
            else:
                whole.append(part)
        return whole
