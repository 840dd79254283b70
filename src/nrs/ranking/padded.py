"""Queries of different lengths in one rectangle: ``(queries, documents)`` tensors and a mask."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nrs._util.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


# Stands for minus infinity where a row may be all padding: its softmax is then finite.
LOWEST = -1e30


def check_padded(
    scores: Tensor, labels: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and labels with zeros as padding, and the mask.

    **Shape** all ``(queries, documents)``; `mask` is True where there is a document, None where
    every place has one. Labels come back in the dtype of the scores, whole numbers as float64.

    Raises
    ------
    ValueError
        If the shapes differ or are not two-dimensional, or a query has no document.

    Examples
    --------
    >>> scores, labels = torch.ones(1, 2), torch.tensor([[2, 7]])
    >>> check_padded(scores, labels, torch.tensor([[True, False]]))[:2]
    (tensor([[1., 0.]]), tensor([[2., 0.]]))
    """
    shapes = [tuple(t.shape) for t in (scores, labels, mask) if t is not None]
    if scores.ndim != 2 or len(set(shapes)) > 1:
        raise ValueError(
            "scores, labels and mask must have one shape (queries, documents); got "
            f"{', '.join(map(str, shapes))}. Pass a single query as scores[None]."
        )
    if not scores.is_floating_point():
        scores = scores.double()
    labels = labels.to(scores.dtype)
    if mask is None:
        return scores, labels, torch.ones_like(scores, dtype=torch.bool)
    mask = mask.bool()
    real = mask.any(1)
    if not real.all():
        query = int(real.int().argmin())
        raise ValueError(
            f"every query must have a document; query {query} has none by its mask. Leave out "
            "queries of which nothing is left after filtering."
        )
    return scores.masked_fill(~mask, 0), labels.masked_fill(~mask, 0), mask


def gains_of(labels: Tensor) -> Tensor:
    """2^label − 1, the gain of a document.

    Raises
    ------
    ValueError
        If a label is negative or not a whole number, or its gain is infinite in its dtype.

    Examples
    --------
    >>> gains_of(torch.tensor([[0.0, 1.0, 2.0]]))
    tensor([[0., 1., 3.]])
    """
    most = math.log2(torch.finfo(labels.dtype).max)
    wrong = (labels < 0) | (labels != labels.floor()) | (labels >= most)
    if wrong.any():
        value = labels[wrong][0].item()
        raise ValueError(
            f"labels must be whole numbers from 0 and below {most:.0f} where a gain 2^label − 1 is "
            f"taken in {labels.dtype}; got {value:g}. Grade the documents 0, 1, 2, … or use a loss "
            "without gains ('ranknet', 'listnet', 'rank_cosine')."
        )
    return torch.exp2(labels) - 1


def ranked(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Places by rank, ``(queries, documents)``: best score first and padding last.

    Among equal scores the lowest label comes first, so that no tie is luck.

    Examples
    --------
    >>> scores, labels = torch.tensor([[1.0, 1.0, 5.0]]), torch.tensor([[2, 0, 0]])
    >>> ranked(scores, labels, torch.tensor([[True, True, False]]))
    tensor([[1, 0, 2]])
    """
    by_label = torch.where(mask, labels, torch.inf).argsort(dim=1)
    shown = torch.where(mask, scores, -torch.inf).gather(1, by_label)
    return by_label.gather(1, shown.argsort(dim=1, descending=True, stable=True))


def tied_means(values: Tensor, first: Tensor) -> Tensor:
    """Values by rank, each replaced by the mean of its tie; `first` is True where a tie begins.

    Examples
    --------
    >>> tied_means(torch.tensor([[4.0, 2.0, 0.0]]), torch.tensor([[True, True, False]]))
    tensor([[4., 1., 1.]])
    """
    group = first.cumsum(1) - 1
    zeros = torch.zeros_like(values)
    counts = zeros.scatter_add(1, group, torch.ones_like(values)).clamp_min(1)
    return (zeros.scatter_add(1, group, values) / counts).gather(1, group)


def ideal_dcg(gains: Tensor, k: int | None = None) -> Tensor:
    """DCG of the best order with discount log2(1 + rank): ``(queries,)``; padding has gain 0.

    Examples
    --------
    >>> ideal_dcg(torch.tensor([[0.0, 3.0, 0.0]]))
    tensor([3.])
    """
    best = gains.sort(dim=1, descending=True).values
    ranks = torch.arange(1, best.shape[1] + 1, dtype=gains.dtype, device=gains.device)
    terms = best / torch.log2(1 + ranks)
    return terms[:, :k].sum(1)


def inverse_or_zero(values: Tensor) -> Tensor:
    """1 / values, and 0 where a value is 0: such queries have nothing to be normalised by."""
    return torch.where(values > 0, 1 / values.clamp_min(torch.finfo(values.dtype).tiny), 0.0)
