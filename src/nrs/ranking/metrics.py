"""How good an order is: NDCG, ERR, MAP and MRR on padded queries.

Two choices change the numbers, so both have names. The *discount* of NDCG: ``"log2"``, the
field's 1 / log2(1 + rank), or ``"paper"``, the paper's 1 at rank 1 and 1 / log2(rank) after. And
what a query without a relevant document counts: ``"skip"`` leaves it out, ``"zero"`` and ``"one"``
count it as 0 or 1. `measure` gives a number that prints both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nrs._util.lazy import torch
from nrs.ranking.padded import check_padded, gains_of, ranked, tied_means
from nrs.ranking.queries import pad_queries

if TYPE_CHECKING:
    from torch import Tensor

Discount = Literal["log2", "paper"]
Empty = Literal["skip", "zero", "one"]
DISCOUNTS = ("log2", "paper")
EMPTY = ("skip", "zero", "one")


def ndcg(
    scores: Tensor,
    labels: Tensor,
    k: int | None = None,
    mask: Tensor | None = None,
    discount: Discount = "log2",
    *,
    empty: Empty = "skip",
) -> Tensor:
    """Normalised discounted cumulative gain of the first k documents, mean over queries.

    Gains are 2^label − 1. Documents of equal score share the mean of their gains, which is the
    expectation over their orders; scikit-learn's `ndcg_score` does the same.

    Parameters
    ----------
    scores, labels : (queries, documents)
    k : int, optional
        Of all documents by default.
    mask : (queries, documents), optional
        True where there is a document.
    discount : {"log2", "paper"}
        1 / log2(1 + rank), or 1 at rank 1 and 1 / log2(rank) after (Järvelin & Kekäläinen's base
        2; with the natural logarithm rank 2 would count more than rank 1).
    empty : {"skip", "zero", "one"}
        What a query without a relevant document counts.

    Returns
    -------
    Tensor
        A scalar; NaN if every query is skipped.

    Raises
    ------
    ValueError
        If shapes differ, a label is negative or fractional, or an argument is unknown.

    Examples
    --------
    >>> ndcg(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 1, 2]]), k=2)  # (1/log2 3)/(3+...)
    tensor(0.1738)
    >>> ndcg(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 1, 2]]), k=2, discount="paper")
    tensor(0.2500)
    """
    _check("discount", discount, DISCOUNTS)
    _check_k(k)
    scores, labels, mask = check_padded(scores, labels, mask)
    gains = gains_of(labels)
    weights = _discounts(gains, k, discount)
    ideal = (gains.sort(dim=1, descending=True).values * weights).sum(1)
    found = (_mean_of_ties(scores, labels, gains, mask) * weights).sum(1)
    return _over_queries(found / ideal.clamp_min(torch.finfo(ideal.dtype).tiny), labels, empty)


def err(
    scores: Tensor,
    labels: Tensor,
    k: int | None = None,
    mask: Tensor | None = None,
    *,
    max_label: int | None = None,
    empty: Empty = "skip",
) -> Tensor:
    """Expected reciprocal rank: a user stops at a document with probability (2^y − 1) / 2^max.

    Among equal scores the less relevant document comes first (Chapelle et al., CIKM 2009).

    Parameters
    ----------
    max_label : int, optional
        The best grade there is; the largest of these labels by default.

    Examples
    --------
    >>> err(torch.tensor([[2.0, 1.0]]), torch.tensor([[0, 1]]))
    tensor(0.2500)
    """
    _check_k(k)
    scores, labels, mask = check_padded(scores, labels, mask)
    gains = gains_of(labels)
    best = float(labels.max()) if max_label is None else float(max_label)
    if labels.numel() and float(labels.max()) > best:
        raise ValueError(f"max_label must be at least every label; got {max_label}")
    stops = (gains / 2**best).gather(1, ranked(scores, labels, mask))
    goes_on = torch.cumprod(1 - stops, dim=1)
    reaches = torch.cat([torch.ones_like(stops[:, :1]), goes_on[:, :-1]], dim=1)
    terms = stops * reaches / _ranks(stops)
    return _over_queries(terms[:, :k].sum(1), labels, empty)


def mean_average_precision(
    scores: Tensor,
    labels: Tensor,
    k: int | None = None,
    mask: Tensor | None = None,
    *,
    empty: Empty = "skip",
) -> Tensor:
    """MAP: the mean precision at the relevant documents (label above 0).

    Among equal scores the less relevant document comes first. With `k`, the mean is over
    min(k, relevant documents).

    Examples
    --------
    >>> mean_average_precision(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 2]]))
    tensor(0.8333)
    """
    labels, relevant = _relevant_by_rank(scores, labels, k, mask)
    precision = relevant.cumsum(1) / _ranks(relevant)
    count = relevant.sum(1)
    if k is not None:
        count = count.clamp_max(k)
    found = (precision * relevant)[:, :k].sum(1) / count.clamp_min(1)
    return _over_queries(found, labels, empty)


def mean_reciprocal_rank(
    scores: Tensor,
    labels: Tensor,
    k: int | None = None,
    mask: Tensor | None = None,
    *,
    empty: Empty = "skip",
) -> Tensor:
    """MRR: the mean of 1 / rank of the first relevant document (label above 0).

    Among equal scores the less relevant document comes first; beyond `k` it counts 0.

    Examples
    --------
    >>> mean_reciprocal_rank(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 1, 2]]))
    tensor(0.5000)
    """
    labels, relevant = _relevant_by_rank(scores, labels, k, mask)
    found = (relevant / _ranks(relevant))[:, :k].amax(1)
    return _over_queries(found, labels, empty)


METRICS: dict[str, Callable[..., Tensor]] = {
    "ndcg": ndcg,
    "err": err,
    "map": mean_average_precision,
    "mrr": mean_reciprocal_rank,
}


@dataclass(frozen=True)
class Measurement:
    """A metric's value with the rules it was taken by, which its text tells.

    Examples
    --------
    >>> print(Measurement("ndcg@10", 0.5, "log2", "skip", n_queries=156, n_empty=51))
    NDCG@10 0.5000 (discount log2; 51 of 156 queries without a relevant document: skipped)
    """

    metric: str
    value: float
    discount: str | None
    empty: str
    n_queries: int
    n_empty: int

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        rule = {"skip": "skipped", "zero": "counted as 0", "one": "counted as 1"}[self.empty]
        counted = f"{self.n_empty} of {self.n_queries} queries without a relevant document: {rule}"
        rules = counted if self.discount is None else f"discount {self.discount}; {counted}"
        return f"{self.metric.upper()} {self.value:.4f} ({rules})"


def measure(
    scores: Any,
    labels: Any,
    qid: Any,
    metric: str = "ndcg@10",
    *,
    discount: Discount = "log2",
    empty: Empty = "skip",
) -> Measurement:
    """Measure scores of rows with their queries; the result prints the rules with the number.

    Parameters
    ----------
    scores, labels, qid : (n_rows,)
        Rows of a query need not be together.
    metric : str
        "ndcg", "err", "map" or "mrr", with ``@k`` for the first k documents.

    Raises
    ------
    ValueError
        If lengths differ, a score or label is NaN, a label is negative or fractional where gains
        are taken, or the metric is unknown.

    Examples
    --------
    >>> print(measure([3, 2, 1, 1], [0, 1, 2, 0], qid=["a", "a", "a", "b"], metric="mrr"))
    MRR 0.5000 (1 of 2 queries without a relevant document: skipped)
    """
    function, k = find_metric(metric)
    padded, mask = pad_queries(qid, scores=scores, labels=labels)
    for name, values in padded.items():
        if values.isnan().any():
            raise ValueError(
                f"{name} must be numbers; {int(values.isnan().sum())} of {int(mask.sum())} are "
                "NaN. Leave out these rows, or fix what gave them."
            )
    given: dict[str, Any] = {"discount": discount} if function is ndcg else {}
    value = function(padded["scores"], padded["labels"], k, mask, empty=empty, **given)
    return Measurement(
        metric,
        float(value),
        discount if function is ndcg else None,
        empty,
        n_queries=len(mask),
        n_empty=int((~((padded["labels"] > 0) & mask).any(1)).sum()),
    )


def find_metric(metric: str) -> tuple[Callable[..., Tensor], int | None]:
    """The function of a metric's name and its k.

    Examples
    --------
    >>> find_metric("ndcg@5")[1]
    5
    """
    name, at, k = str(metric).partition("@")
    if name not in METRICS or (at and not (k.isdecimal() and int(k) > 0)):
        raise ValueError(
            f"metric must be one of {', '.join(METRICS)}, or one of them with a number of "
            f"documents such as 'ndcg@10'; got {metric!r}"
        )
    return METRICS[name], int(k) if at else None


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {value!r}")


def _check_k(k: int | None) -> None:
    if k is not None and (not hasattr(k, "__index__") or k < 1):
        raise ValueError(f"k must be a number of documents of at least 1; got {k!r}")


def _ranks(x: Tensor) -> Tensor:
    return torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)


def _relevant_by_rank(
    scores: Tensor, labels: Tensor, k: int | None, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The labels, and 1 at the ranks of relevant documents, 0 at others."""
    _check_k(k)
    scores, labels, mask = check_padded(scores, labels, mask)
    return labels, (labels > 0).to(scores.dtype).gather(1, ranked(scores, labels, mask))


def _discounts(x: Tensor, k: int | None, discount: Discount) -> Tensor:
    ranks = _ranks(x)
    logs = torch.log2(1 + ranks) if discount == "log2" else torch.log2(ranks.clamp_min(2))
    weights = 1 / logs
    return weights if k is None else weights * (ranks <= k)


def _mean_of_ties(scores: Tensor, labels: Tensor, gains: Tensor, mask: Tensor) -> Tensor:
    """Gains by rank, those of equal scores replaced by their mean."""
    order = ranked(scores, labels, mask)
    shown, real, by_rank = (part.gather(1, order) for part in (scores, mask, gains))
    first = torch.ones_like(real)
    first[:, 1:] = (shown[:, 1:] != shown[:, :-1]) | (real[:, 1:] != real[:, :-1])
    return tied_means(by_rank, first)


def _over_queries(values: Tensor, labels: Tensor, empty: Empty) -> Tensor:
    _check("empty", empty, EMPTY)
    relevant = (labels > 0).any(1)
    if empty == "skip":
        return values[relevant].mean()
    fill = 0.0 if empty == "zero" else 1.0
    return torch.where(relevant, values, fill).mean()
