"""Losses of learning to rank on padded queries.

Every loss takes ``scores`` and ``labels`` of shape ``(queries, documents)`` and a mask that is
True where there is a document. It is summed within a query and averaged over the queries of the
batch; it depends neither on padding nor on the order of documents. s are
scores, y labels, G_i = 2^{y_i} − 1 gains; sums run over the documents of a query.

Every loss also takes ``weights``, (queries,), by which the mean over queries is weighted, and
``propensity``, (queries, documents): the probability that the document was looked at where labels
are clicks. A relevant document then counts 1 / propensity times (Joachims, Swaminathan & Schnabel,
WSDM 2017): so its gain or label, its part of ListNet's and WassRank's distribution of labels, or
the pairs in which it is the more relevant one.

Pairs are summed in blocks, so that memory does not grow with the square of a query's length.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nrs._util.lazy import torch
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
from nrs.ranking.pairs import by_blocks, by_blocks_of

if TYPE_CHECKING:
    from torch import Tensor

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

Loss = Callable[..., "Tensor"]


def _averaged(by_query: Loss) -> Loss:
    """A loss of each query, (queries,), as the mean over queries."""

    @functools.wraps(by_query)
    def loss(
        scores: Tensor,
        labels: Tensor,
        mask: Tensor | None = None,
        *,
        weights: Tensor | None = None,
        propensity: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        scores, labels, mask = check_padded(scores, labels, mask)
        boost = None
        if propensity is not None:
            # Padding and irrelevant documents count as they do.
            boost = torch.where(mask & (labels > 0), 1 / propensity, 1.0).to(scores)
        return mean_of_queries(by_query(scores, labels, mask, boost=boost, **options), weights)

    return loss


def mean_of_queries(each: Tensor, weights: Tensor | None) -> Tensor:
    """Mean of (queries,) losses; queries count by their weight.

    Examples
    --------
    >>> mean_of_queries(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0]))
    tensor(2.)
    """
    if weights is None:
        return each.mean()
    # Queries that all have weight zero teach nothing.
    return (each * weights).sum() / weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)


def _boosted(values: Tensor, boost: Tensor | None) -> Tensor:
    return values if boost is None else values * boost


@_averaged
def ranknet(scores: Tensor, labels: Tensor, mask: Tensor, *, boost: Tensor | None = None) -> Tensor:
    """RankNet: the cross-entropy of every pair's order (Burges et al., ICML 2005).

    Σ_{i<j} ½ (1 − S_ij)(s_i − s_j) + log(1 + e^{−(s_i − s_j)}), S_ij the sign of y_i − y_j. Pairs
    of equal labels count too, and pull their scores together.

    Examples
    --------
    >>> ranknet(torch.zeros(1, 2), torch.tensor([[1, 0]]))
    tensor(0.6931)
    """
    if boost is not None:
        return _ordered_pairs(scores, labels, mask, boost)
    # Over both orders of a pair the halves of s_i − s_j cancel. What is left is half of
    # Σ_{i≠j} log(1 + e^{s_j − s_i}), and how many documents are less and more relevant.
    real = mask.to(scores.dtype)[:, :, None]

    def block(scores: Tensor, first: Tensor) -> Tensor:
        pairs = torch.nn.functional.softplus(scores[:, None, :] - scores[:, first, None])
        return torch.bmm(real[:, first].mT, torch.bmm(pairs, real))[:, 0, 0]

    entropy = sum_of(by_blocks(block, scores)) - math.log(2) * real.sum((1, 2))
    with torch.no_grad():
        grades = Grades.of(labels, mask)
        counts = grades.total(real[:, :, 0])
        before = counts.cumsum(1)
        above = counts.sum(1, keepdim=True) - before
        balance = grades.spread(before - counts - above) * mask
    return 0.5 * (entropy - (scores * balance).sum(1))


def _ordered_pairs(scores: Tensor, labels: Tensor, mask: Tensor, boost: Tensor) -> Tensor:
    """Σ_{y_i > y_j} log(1 + e^{−(s_i − s_j)}) / propensity_i: RankNet without its ties."""
    lower = labels.masked_fill(~mask, torch.inf)

    def block(scores: Tensor, first: Tensor) -> Tensor:
        above = (labels[:, first, None] > lower[:, None, :]).to(scores)
        pairs = above * torch.nn.functional.softplus(scores[:, None, :] - scores[:, first, None])
        return (pairs.sum(2) * boost[:, first]).sum(1)

    return sum_of(by_blocks_of(block, scores, mask & (labels > labels.amin(1, keepdim=True))))


@_averaged
def listnet(scores: Tensor, labels: Tensor, mask: Tensor, *, boost: Tensor | None = None) -> Tensor:
    """ListNet: the cross-entropy of top-one probabilities (Cao et al., ICML 2007).

    −Σ_i softmax(y)_i · log softmax(s)_i.

    Examples
    --------
    >>> listnet(torch.zeros(1, 2), torch.tensor([[1, 0]]))
    tensor(0.6931)
    """
    wanted = labels.masked_fill(~mask, LOWEST).softmax(1)
    if boost is not None:
        wanted = wanted * boost
        wanted = wanted / wanted.sum(1, keepdim=True)
    given = scores.masked_fill(~mask, LOWEST).log_softmax(1)
    return -(wanted * given * mask).sum(1)


@_averaged
def rank_cosine(
    scores: Tensor, labels: Tensor, mask: Tensor, *, boost: Tensor | None = None
) -> Tensor:
    """RankCosine: how far scores point away from labels (Qin et al., IPM 2008).

    (1 − cos(s, y)) / 2; the cosine of a vector of zeros is taken as 0.

    Examples
    --------
    >>> rank_cosine(torch.tensor([[2.0, 0.0]]), torch.tensor([[1, 0]]))
    tensor(0.)
    """
    labels = _boosted(labels, boost)
    # The square root has no slope at 0, so the squares are kept away from it.
    tiny = torch.finfo(scores.dtype).tiny ** 0.5
    norms = scores.square().sum(1).clamp_min(tiny).sqrt()
    wanted = labels.square().sum(1).clamp_min(tiny).sqrt()
    cosine = (scores * labels).sum(1) / norms / wanted
    return (1 - cosine) / 2


@_averaged
def approx_ndcg(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    *,
    alpha: float = 10.0,
    boost: Tensor | None = None,
) -> Tensor:
    """ApproxNDCG: minus NDCG with ranks made smooth (Qin, Liu & Li, IR 2010).

    −(Σ_i G_i / log2(1 + r_i)) / (ideal DCG), r_i = ½ + Σ_j σ(α (s_j − s_i)). A query without a
    relevant document contributes 0. `alpha` is how sharp the ranks are.

    Examples
    --------
    >>> approx_ndcg(torch.tensor([[9.0, 0.0]]), torch.tensor([[1, 0]]))
    tensor(-1.)
    """
    gains = _boosted(gains_of(labels), boost)

    def block(scores: Tensor, first: Tensor) -> Tensor:
        above = torch.sigmoid(alpha * (scores[:, None, :] - scores[:, first, None]))
        return (above * mask[:, None, :]).sum(2)

    ranks = 0.5 + torch.cat(by_blocks(block, scores), 1)
    dcg = (gains / torch.log2(1 + ranks)).sum(1)
    return -dcg * inverse_or_zero(ideal_dcg(gains))


@_averaged
def urank(scores: Tensor, labels: Tensor, mask: Tensor, *, boost: Tensor | None = None) -> Tensor:
    """uRank: each document against all that are less relevant (Zhu & Klabjan, WSDM 2020).

    −Σ_i G_i · log[e^{s_i} / (e^{s_i} + Σ_{y_j < y_i} e^{s_j})].

    Examples
    --------
    >>> urank(torch.zeros(1, 3), torch.tensor([[1, 0, 0]]))
    tensor(1.0986)
    """
    gains = _boosted(gains_of(labels), boost)
    grades = Grades.of(labels, mask)
    n = len(grades.values)
    lower = torch.full((n, n), LOWEST, dtype=scores.dtype, device=scores.device).triu()
    rivals = log_sum(grades.log_total(scores)[:, None, :] + lower)
    against = torch.logaddexp(scores, grades.spread(rivals))
    return (gains * (against - scores)).sum(1)


@_averaged
def lambdarank(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    *,
    k: int | None = None,
    sigma: float = 1.0,
    boost: Tensor | None = None,
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
    gains = gains_of(labels)
    with torch.no_grad():
        ranks = _ranks(scores, labels, mask)
        discount = 1 / torch.log2(1 + ranks)
        if k is not None:
            discount = discount * (ranks <= k)
        # Beside a gain like that, padding is never the less relevant one of a pair.
        lower = gains.masked_fill(~mask, torch.finfo(gains.dtype).max)
        scale = inverse_or_zero(ideal_dcg(gains, k)) / math.log(2)

    def block(scores: Tensor, first: Tensor) -> Tensor:
        with torch.no_grad():
            weights = (gains[:, first, None] - lower[:, None, :]).relu_()
            weights *= (discount[:, first, None] - discount[:, None, :]).abs_()
            if boost is not None:
                weights *= boost[:, first, None]
        steep = sigma * scores
        order = torch.nn.functional.softplus(steep[:, None, :] - steep[:, first, None])
        total = torch.bmm(weights.view(len(scores), 1, -1), order.view(len(scores), -1, 1))
        return total[:, 0, 0]

    return sum_of(by_blocks_of(block, scores, gains > 0)) * scale


@_averaged
def wass_rank(
    scores: Tensor, labels: Tensor, mask: Tensor, *, boost: Tensor | None = None, **options: Any
) -> Tensor:
    """WassRank: entropic transport between softmax(s) and softmax(y) (Yu et al., WSDM 2019).

    See :func:`nrs.ranking.transport.transport_costs`, whose options it takes.

    Examples
    --------
    >>> good = wass_rank(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1, 0, 0]]))
    >>> bad = wass_rank(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[1, 0, 0]]))
    >>> bool(good < bad)
    True
    """
    from nrs.ranking.transport import transport_costs

    return transport_costs(scores, labels, mask, boost=boost, **options)


def sum_of(parts: list[Tensor]) -> Tensor:
    """Sum of tensors of one shape.

    Examples
    --------
    >>> sum_of([torch.ones(2), torch.ones(2)])
    tensor([2., 2.])
    """
    return functools.reduce(torch.add, parts)


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
