"""How good a network orders queries, after every epoch: what chooses the best one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nrs.ranking.batches import MAX_CELLS, QueryBatch, QueryBatches, QueryRows
from nrs.ranking.metrics import find_metric
from nrs.ranking.recipe import RankTarget, are_grades

# Queries of one batch of evaluation; the loss there needs no more than that at a time.
EVALUATION_QUERIES = 64


def check_relevant(metric: Any, rows: QueryRows) -> None:
    """Refuse to score by queries without a relevant document: their NDCG, MAP, … are undefined.

    Raises
    ------
    ValueError
        If there is none, and a metric that needs one is to choose the epoch.
    """
    labels = rows.targets[rows.index]
    by_loss = metric == "loss" or (metric == "default" and not are_grades(labels.numpy()))
    if callable(metric) or by_loss or (labels > 0).any():
        return
    raise ValueError(
        "the queries that choose the epoch must have a relevant document (a label above 0); none "
        f"of the {len(rows.queries)} has one. Pass an eval_set that does, or set metric='loss'."
    )


def evaluator(
    metric: Any,
    rows: QueryRows,
    target: RankTarget,
    scores_of: Callable[[Any, QueryBatch], Tensor],
    max_cells: int = MAX_CELLS,
) -> Callable[[nn.Module], dict[str, float]]:
    """Make the function that measures a network on queries: loss, metric, deciding score.

    Parameters
    ----------
    metric : "default" (NDCG@10 for grades, else the loss), "loss", a name of
        :mod:`nrs.ranking.metrics`, or a function of padded scores, labels and mask.
    scores_of : gives the scores, (documents,), of a network for a batch.

    Raises
    ------
    ValueError
        If there is no metric of that name.
    """
    if metric == "default":
        metric = "ndcg@10" if are_grades(rows.targets[rows.index].numpy()) else "loss"
    if not callable(metric) and metric != "loss":
        find_metric(metric)
    batches = list(QueryBatches(rows, EVALUATION_QUERIES, max_cells).in_order())

    def evaluate(network: nn.Module) -> dict[str, float]:
        losses, total, values = 0.0, 0.0, []
        for batch in batches:
            of_documents = scores_of(network, batch)
            scores = batch.padded(of_documents)
            labels, mask = batch.padded(batch.y), batch.mask()
            weight = len(mask) if batch.weights is None else float(batch.weights.sum())
            losses += float(target.batch_loss(of_documents, batch)) * weight
            total += weight
            values.append((scores, labels, mask))
        loss = losses / total if total else 0.0
        measured = {"val_loss": loss}
        if metric == "loss":
            return measured | {"score": -loss}
        value = _over_batches(metric, values)
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
        return measured | {f"val_{name}": value, "score": value}

    return evaluate


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
