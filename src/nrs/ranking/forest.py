"""A forest of rankers: members that learn from all queries but those of their own fold.

Members and queries lie side by side in the loss: each member's scores of each query are a row of
one padded rectangle ``(members × queries, documents)``, without the rows that a member must not
see. So any loss of padded queries trains all members at once.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nrs.ranking.batches import QueryBatch, QueryRows
from nrs.ranking.recipe import RankTarget
from nrs.tabular.forest.network import FoldedForest, ForestNetwork
from nrs.tabular.rows.memory import spread_rows

# Documents that are scored at once: all members' activations of a very long query are 0.5 GB.
MAX_DOCUMENTS = 8_192


def forest_loss(
    network: ForestNetwork, batch: QueryBatch, target: RankTarget, sees: Tensor
) -> Tensor:
    """Mean of the loss over all pairs of a member and a query that it may see.

    Parameters
    ----------
    sees : (members of the whole forest, folds), see :meth:`nrs.tabular.forest.folds.Folds.sees`.

    Examples
    --------
    >>> from nrs.ranking.queries import group_queries
    >>> from nrs.tabular.forest.bins import PiecewiseLinear
    >>> from nrs.tabular.forest.folds import Folds
    >>> index = torch.tensor([[[0, 1]], [[1, 2]]])  # two members
    >>> network = ForestNetwork(3, 1, index, PiecewiseLinear.between([]))
    >>> rows = QueryRows(
    ...     np.eye(4, 3, dtype=np.float32), np.array([0, 1, 0, 2], np.float32),
    ...     group_queries([1, 1, 2, 2]), folds=np.array([0, 0, 1, 1]),
    ... )
    >>> batch = rows.batch(np.array([0, 1]))
    >>> forest_loss(network, batch, RankTarget("listnet"), Folds(2).sees(2)).shape
    torch.Size([])
    """
    scores = network.members(batch.x)[:, 0]
    own = slice(network.first_member, network.first_member + network.n_members)
    seen = None
    if sees.shape[1] > 1:
        assert batch.folds is not None
        seen = sees.to(batch.folds.device)[:, batch.folds]
    if network.n_members == network.all_members:
        return target.batch_loss(scores, batch, seen)
    # One process of several: its members' part of the mean over all members.
    counts = scores.new_ones(network.all_members, batch.shape[0])
    counts = counts if seen is None else counts * seen
    counts = counts if batch.weights is None else counts * batch.weights
    share = counts[own].sum() / counts.sum().clamp_min(torch.finfo(counts.dtype).tiny)
    if share == 0:
        return 0.0 * scores.sum()
    return share * target.batch_loss(scores, batch, None if seen is None else seen[own])


def out_of_bag(
    network: ForestNetwork | FoldedForest, x: Tensor, folds: Tensor, sees: Tensor
) -> Tensor:
    """Joint scores of the members that did not see each document.

    **Shape** x ``(documents, features)``, folds ``(documents,)``, result ``(documents,)``.
    """
    unseen = (~sees).to(x.device)[:, folds].to(x.dtype)
    parts = zip(x.split(MAX_DOCUMENTS), unseen.split(MAX_DOCUMENTS, 1), strict=True)
    return torch.cat([network.combine(network.members(part), of)[:, 0] for part, of in parts])


def centre_members(network: ForestNetwork, rows: QueryRows, most: int = 2048) -> None:
    """Shift the scores of each member so that their mean over training documents is 0.

    No order changes; but the losses leave the level of a member's scores to chance, and the
    spread of members would show little else.
    """
    spread = spread_rows(len(rows), min(most, len(rows)))
    x, _, _ = rows.take(rows.index[spread])
    with torch.no_grad():
        network.out_bias.sub_(network.members(x).mean(2, keepdim=True))


def some_queries(rows: QueryRows, most: int) -> QueryRows:
    """Queries of about so many documents at most, spread evenly; all if there are fewer."""
    if len(rows) <= most:
        return rows
    n = max(1, round(len(rows.queries) * most / len(rows)))
    return rows.part(spread_rows(len(rows.queries), n).numpy())


def out_of_bag_scores(
    network: ForestNetwork | FoldedForest, rows: QueryRows, sees: Tensor
) -> np.ndarray:
    """Out-of-bag scores of all rows of a table, (n_rows,), in its order."""
    assert rows.folds is not None
    found = np.empty(len(rows))
    with torch.no_grad():
        for numbers in rows.parts():
            x, _, _ = rows.take(numbers)
            scores = out_of_bag(network, x, rows.folds[numbers].to(rows.device), sees)
            found[numbers.numpy()] = scores.double().cpu().numpy()
    return found
