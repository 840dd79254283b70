"""Metrics against scikit-learn, by hand, and under every rule they name."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from nrs.ranking.metrics import (
    err,
    find_metric,
    mean_average_precision,
    mean_reciprocal_rank,
    measure,
    ndcg,
)
from tests.ranking.references import ragged

ALL = [ndcg, err, mean_average_precision, mean_reciprocal_rank]


def test_ndcg_by_hand():
    # Ranked: grades 0, 2, 1 (gains 0, 3, 1).
    scores, labels = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2, 1]])
    found = 3 / math.log2(3) + 1 / 2
    best = 3 + 1 / math.log2(3)
    assert ndcg(scores, labels).item() == pytest.approx(found / best)
    assert ndcg(scores, labels, 2).item() == pytest.approx(3 / math.log2(3) / best)
    assert ndcg(scores, labels, 1).item() == 0
    # The paper's: no discount at ranks 1 and 2, log2(3) at rank 3.
    paper = (3 + 1 / math.log2(3)) / (3 + 1)
    assert ndcg(scores, labels, discount="paper").item() == pytest.approx(paper)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.sampled_from([1, 3, 10, None]), ties=st.booleans())
def test_ndcg_agrees_with_scikit_learn(seed, k, ties):
    scores, labels, mask = ragged(torch.Generator().manual_seed(seed), 5, 8)
    scores = scores.round(decimals=0) if ties else scores
    values = []
    for s, y, m in zip(scores, labels, mask, strict=True):
        if m.sum() > 1 and y[m].max() > 0:
            gains = 2.0 ** y[m].numpy() - 1
            values.append(ndcg_score(gains[None], s[m].numpy()[None], k=k))
    alone = mask.sum(1) < 2
    found = ndcg(scores[~alone], labels[~alone], k, mask[~alone])
    if values:
        assert found.item() == pytest.approx(np.mean(values))
    else:
        assert found.isnan()


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_map_agrees_with_scikit_learn(seed):
    scores, labels, mask = ragged(torch.Generator().manual_seed(seed), 4, 9, grades=2)
    values = [
        average_precision_score(y[m].numpy(), s[m].numpy())
        for s, y, m in zip(scores, labels, mask, strict=True)
        if y[m].any()
    ]
    if values:
        found = mean_average_precision(scores, labels, mask=mask)
        assert found.item() == pytest.approx(np.mean(values))


def test_err_by_hand():
    # Stops with 3/4 at the first, 1/4 at the second document.
    scores, labels = torch.tensor([[2.0, 1.0]]), torch.tensor([[2, 1]])
    assert err(scores, labels).item() == pytest.approx(3 / 4 + 1 / 4 * 1 / 4 / 2)
    assert err(scores, labels, 1).item() == pytest.approx(3 / 4)
    assert err(scores, labels, max_label=4).item() < err(scores, labels).item()
    with pytest.raises(ValueError, match=r"max_label must be .* got 1"):
        err(scores, labels, max_label=1)


def test_mrr_and_map_within_the_first_k():
    scores, labels = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 0, 1]])
    assert mean_reciprocal_rank(scores, labels, 2).item() == 0
    assert mean_reciprocal_rank(scores, labels, 3).item() == pytest.approx(1 / 3)
    assert mean_average_precision(scores, labels, 2).item() == 0


@pytest.mark.parametrize("metric", ALL)
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_neither_padding_nor_the_order_of_documents_counts(metric, seed):
    scores, labels, mask = ragged(torch.Generator().manual_seed(seed), 4, 7)
    scores = scores.round(decimals=0)
    labels[:, 0] = 1
    value = metric(scores, labels, 3, mask)
    wider = [torch.nn.functional.pad(t, (0, 4), value=9) for t in (scores, labels)]
    padded = metric(*wider, 3, torch.nn.functional.pad(mask, (0, 4)))
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(seed))
    other = metric(scores[:, order], labels[:, order], 3, mask[:, order])
    assert other.item() == pytest.approx(value.item())
    if metric is not err:  # padding of grade 9 raises the best grade of ERR only if it counts
        assert padded.item() == pytest.approx(value.item())


def test_err_ignores_padding():
    scores, labels = torch.tensor([[2.0, 1.0, 5.0]]), torch.tensor([[2, 1, 9]])
    mask = torch.tensor([[True, True, False]])
    assert err(scores, labels, mask=mask) == err(scores[:, :2], labels[:, :2])


@pytest.mark.parametrize("metric", ALL)
def test_queries_without_a_relevant_document(metric):
    scores, labels = torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
    good = metric(scores[:1], labels[:1]).item()
    assert metric(scores, labels).item() == pytest.approx(good)
    assert metric(scores, labels, empty="zero").item() == pytest.approx(good / 2)
    assert metric(scores, labels, empty="one").item() == pytest.approx((good + 1) / 2)
    assert metric(scores[1:], labels[1:]).isnan()
    with pytest.raises(ValueError, match="empty must be"):
        metric(scores, labels, empty="half")


def test_a_measurement_tells_its_rules():
    qid = [5, 5, 2, 2, 9]
    found = measure([2, 1, 1, 2, 0], [1, 0, 0, 1, 0], qid, "ndcg@10")
    assert str(found) == (
        "NDCG@10 1.0000 (discount log2; 1 of 3 queries without a relevant document: skipped)"
    )
    assert float(found) == 1.0
    other = measure([2, 1, 1, 2, 0], [1, 0, 0, 1, 0], qid, "map", empty="zero")
    assert str(other) == "MAP 0.6667 (1 of 3 queries without a relevant document: counted as 0)"


def test_bad_input():
    with pytest.raises(ValueError, match="whole numbers from 0"):
        measure([1.0], [0.5], [1])
    with pytest.raises(ValueError, match=r"below 1024 .*; got 1100"):
        measure([2.0, 1.0], [1100, 1], [1, 1], "err")
    with pytest.raises(ValueError, match=r"labels must have one entry per row.*\(3,\)"):
        measure([1, 2], [1, 2, 3], [1, 1])
    with pytest.raises(ValueError, match="discount must be"):
        ndcg(torch.zeros(1, 2), torch.zeros(1, 2), discount="ln")
    for metric in ("ndcg", "err", "map@1", "mrr"):
        with pytest.raises(ValueError, match="scores must be numbers; 1 of 3 are NaN"):
            measure([float("nan"), 2, 1], [0, 1, 2], [1, 1, 2], metric)
        with pytest.raises(ValueError, match="labels must be numbers; 2 of 3 are NaN"):
            measure([3, 2, 1], [0, float("nan"), float("nan")], [1, 1, 2], metric)
    for k in (0, -1, 1.5):
        for function in ALL:
            with pytest.raises(ValueError, match=rf"k must be .* got {k}"):
                function(torch.zeros(1, 2), torch.ones(1, 2), k)
    for name in ("recall", "ndcg@0", "ndcg@x", "ndcg@²"):
        with pytest.raises(ValueError, match="metric must be"):
            find_metric(name)
