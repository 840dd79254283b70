"""Losses of learning to rank on padded queries.

Every loss takes ``scores`` and ``labels`` of shape ``(queries, documents)`` and a mask that is
True where there is a document. It is summed within a query and averaged over the queries of the
batch; it depends neither on padding nor on the order of documents. s are
scores, y labels, G_i = 2^{y_i} − 1 gains; sums run over the documents of a query.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nrs.ranking.grades import Grades, log_sum
from nrs.ranking.padded import (
    LOWEST,
    check_padded,
    gains_of,
    ideal_dcg,
    inverse_or_zero,
    ranked,
    tied_means,
)
from nrs.ranking.transport import wass_rank

__all__ = [
    "GAIN_LOSSES",
    "LOSSES",
    "approx_ndcg",
    "find_loss",
    "lambdarank",
    "listnet",
    "rank_cosine",
    "ranknet",
    "urank",
    "wass_rank",
]

Loss = Callable[..., Tensor]


def ranknet(scores: Tensor, labels: Tensor, mask: Tensor | None = None) -> Tensor:
    """RankNet: the cross-entropy of every pair's order (Burges et al., ICML 2005).

    Σ_{i<j} ½ (1 − S_ij)(s_i − s_j) + log(1 + e^{−(s_i − s_j)}), S_ij the sign of y_i − y_j. Pairs
    of equal labels count too, and pull their scores together.

    Examples
    --------
    >>> ranknet(torch.zeros(1, 2), torch.tensor([[1, 0]]))
    tensor(0.6931)
    """
    scores, labels, mask = check_padded(scores, labels, mask)
    # Over both orders of a pair the halves of s_i − s_j cancel. What is left is half of
    # Σ_{i≠j} log(1 + e^{s_j − s_i}), and how many documents are less and more relevant.
    real = mask.to(scores.dtype)[:, :, None]
    pairs = F.softplus(scores[:, None, :] - scores[:, :, None])
    entropy = torch.bmm(real.mT, torch.bmm(pairs, real))[:, 0, 0] - math.log(2) * real.sum((1, 2))
    with torch.no_grad():
        grades = Grades.of(labels, mask)
        counts = grades.total(real[:, :, 0])
        before = counts.cumsum(1)
        above = counts.sum(1, keepdim=True) - before
        balance = grades.spread(before - counts - above) * mask
    return 0.5 * (entropy - (scores * balance).sum(1)).mean()


def listnet(scores: Tensor, labels: Tensor, mask: Tensor | None = None) -> Tensor:
    """ListNet: the cross-entropy of top-one probabilities (Cao et al., ICML 2007).

    −Σ_i softmax(y)_i · log softmax(s)_i.

    Examples
    --------
    >>> listnet(torch.zeros(1, 2), torch.tensor([[1, 0]]))
    tensor(0.6931)
    """
    scores, labels, mask = check_padded(scores, labels, mask)
    wanted = labels.masked_fill(~mask, LOWEST).softmax(1)
    given = scores.masked_fill(~mask, LOWEST).log_softmax(1)
    return -(wanted * given * mask).sum(1).mean()


def rank_cosine(scores: Tensor, labels: Tensor, mask: Tensor | None = None) -> Tensor:
    """RankCosine: how far scores point away from labels (Qin et al., IPM 2008).

    (1 − cos(s, y)) / 2; the cosine of a vector of zeros is taken as 0.

    Examples
    --------
    >>> rank_cosine(torch.tensor([[2.0, 0.0]]), torch.tensor([[1, 0]]))
    tensor(0.)
    """
    scores, labels, mask = check_padded(scores, labels, mask)
    # The square root has no slope at 0, so the squares are kept away from it.
    tiny = torch.finfo(scores.dtype).tiny ** 0.5
    norms = scores.square().sum(1).clamp_min(tiny).sqrt()
    wanted = labels.square().sum(1).clamp_min(tiny).sqrt()
    cosine = (scores * labels).sum(1) / norms / wanted
    return ((1 - cosine) / 2).mean()


def approx_ndcg(
    scores: Tensor, labels: Tensor, mask: Tensor | None = None, *, alpha: float = 10.0
) -> Tensor:
    """ApproxNDCG: minus NDCG with ranks made smooth (Qin, Liu & Li, IR 2010).

    −(Σ_i G_i / log2(1 + r_i)) / (ideal DCG), r_i = ½ + Σ_j σ(α (s_j − s_i)). A query without a
    relevant document contributes 0. `alpha` is how sharp the ranks are.

    Examples
    --------
    >>> approx_ndcg(torch.tensor([[9.0, 0.0]]), torch.tensor([[1, 0]]))
    tensor(-1.)
    """
    scores, labels, mask = check_padded(scores, labels, mask)
    gains = gains_of(labels)
    above = torch.sigmoid(alpha * (scores[:, None, :] - scores[:, :, None]))
    ranks = 0.5 + (above * mask[:, None, :]).sum(2)
    dcg = (gains / torch.log2(1 + ranks)).sum(1)
    return (-dcg * inverse_or_zero(ideal_dcg(gains))).mean()


def urank(scores: Tensor, labels: Tensor, mask: Tensor | None = None) -> Tensor:
    """uRank: each document against all that are less relevant (Zhu & Klabjan, WSDM 2020).

    −Σ_i G_i · log[e^{s_i} / (e^{s_i} + Σ_{y_j < y_i} e^{s_j})].

    Examples
    --------
    >>> urank(torch.zeros(1, 3), torch.tensor([[1, 0, 0]]))
    tensor(1.0986)
    """
    scores, labels, mask = check_padded(scores, labels, mask)
    gains = gains_of(labels)
    grades = Grades.of(labels, mask)
    n = len(grades.values)
    lower = torch.full((n, n), LOWEST, dtype=scores.dtype, device=scores.device).triu()
    rivals = log_sum(grades.log_total(scores)[:, None, :] + lower)
    against = torch.logaddexp(scores, grades.spread(rivals))
    return (gains * (against - scores)).sum(1).mean()


def lambdarank(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    k: int | None = None,
    sigma: float = 1.0,
) -> Tensor:
    """LambdaRank: RankNet's pairs, each weighted by what swapping it would change in NDCG.

    Σ_{y_i > y_j} |ΔNDCG_ij| · log2(1 + e^{−σ (s_i − s_j)}), where |ΔNDCG_ij| = |G_i − G_j| ·
    |1/log2(1 + r_i) − 1/log2(1 + r_j)| / (ideal DCG) with the present ranks r as constants
    (Burges, Ragno & Le, NIPS 2006, in the form of Wang et al., CIKM 2018). Among equal scores the
    less relevant document ranks first, and documents of equal label share the mean rank. With
    `k`, ranks beyond k have no weight.

    Examples
    --------
    >>> lambdarank(torch.zeros(1, 2), torch.tensor([[1, 0]]))
    tensor(0.3691)
    """
    scores, labels, mask = check_padded(scores, labels, mask)
    gains = gains_of(labels)
    with torch.no_grad():
        ranks = _ranks(scores, labels, mask)
        discount = 1 / torch.log2(1 + ranks)
        if k is not None:
            discount = discount * (ranks <= k)
        # Beside a gain like that, padding is never the less relevant one of a pair.
        lower = gains.masked_fill(~mask, torch.finfo(gains.dtype).max)
        weights = (gains[:, :, None] - lower[:, None, :]).relu_()
        weights *= (discount[:, :, None] - discount[:, None, :]).abs_()
        scale = inverse_or_zero(ideal_dcg(gains, k)) / math.log(2)
    steep = sigma * scores
    order = F.softplus(steep[:, None, :] - steep[:, :, None])
    total = torch.bmm(weights.view(len(scores), 1, -1), order.view(len(scores), -1, 1))
    return (total[:, 0, 0] * scale).mean()


def _ranks(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Ranks from 1; among equal scores by ascending label, and equal documents share the mean."""
    order = ranked(scores, labels, mask)
    # A grade below all keeps padding from sharing a rank with the last document.
    s, y = scores.gather(1, order), labels.masked_fill(~mask, -1).gather(1, order)
    new = torch.ones_like(s, dtype=torch.bool)
    new[:, 1:] = (s[:, 1:] != s[:, :-1]) | (y[:, 1:] != y[:, :-1])
    places = torch.arange(1, s.shape[1] + 1, dtype=s.dtype, device=s.device).expand_as(s)
    return torch.empty_like(s).scatter(1, order, tied_means(places, new))


LOSSES: dict[str, Loss] = {
    "ranknet": ranknet,
    "listnet": listnet,
    "approx_ndcg": approx_ndcg,
    "rank_cosine": rank_cosine,
    "wass_rank": wass_rank,
    "urank": urank,
    "lambdarank": lambdarank,
}
# These take 2^label − 1, so their labels must be whole numbers from 0.
GAIN_LOSSES = frozenset({"approx_ndcg", "wass_rank", "urank", "lambdarank"})


def find_loss(loss: Any) -> Loss:
    """A loss by its name; a function is taken as it is.

    Raises
    ------
    ValueError
        If there is no loss of that name.

    Examples
    --------
    >>> find_loss("listnet") is listnet
    True
    """
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"loss must be a function or one of {', '.join(LOSSES)}; got {loss!r}")
    return LOSSES[loss]
