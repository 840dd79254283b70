"""Padding never counts, in metrics and losses alike, whatever scores and labels stand there."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.ranking.losses import LOSSES, lambdarank
from nrs.ranking.metrics import EMPTY, METRICS

# What may stand at a masked place: grades, numbers that are none, and what computes to NaN.
ANYTHING = st.sampled_from([0.0, 1.0, 9.0, -3.0, 0.5, 1e30, float("inf"), float("nan")])


@st.composite
def _padded(draw, lowest=-2.0):
    """Queries of documents with many ties, among them masked places that hold anything."""
    queries, longest = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    scores, labels, mask, fill = [], [], [], []
    grades = st.sampled_from([0.0, 0.0, 1.0, 2.0])
    for _ in range(queries):
        real = draw(st.lists(st.booleans(), min_size=longest, max_size=longest))
        real[draw(st.integers(0, longest - 1))] = True
        mask.append(real)
        labels.append([draw(grades if document else ANYTHING) for document in real])
        scores.append(
            [
                draw(st.sampled_from([lowest, -1.0, 0.0, 1.0]) if document else ANYTHING)
                for document in real
            ]
        )
        fill.append([draw(ANYTHING) for _ in real])
    return tuple(torch.tensor(part) for part in (scores, labels, mask, fill))


def _by_query(function, scores, labels, mask):
    """The function of every query alone, without padding."""
    parts = zip(scores, labels, mask, strict=True)
    return [function(s[m][None], y[m][None]) for s, y, m in parts]


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("name", sorted(METRICS))
@settings(max_examples=20)
@given(data=_padded(lowest=float("-inf")), k=st.sampled_from([None, 1, 2]))
def test_metrics_do_not_see_padding(name, empty, data, k):
    scores, labels, mask, fill = data
    options = {"empty": empty} | ({"max_label": 4} if name == "err" else {})
    found = METRICS[name](scores, labels, k, mask, **options)
    other = METRICS[name](scores, torch.where(mask, labels, fill), k, mask, **options)
    assert torch.equal(found, other) or (found.isnan() and other.isnan())
    alone = _by_query(lambda s, y: METRICS[name](s, y, k, **options), scores, labels, mask)
    counted = [value for value in alone if not value.isnan()]
    if counted:
        torch.testing.assert_close(found, torch.stack(counted).mean())
    else:
        assert found.isnan()


@pytest.mark.parametrize("name", sorted(LOSSES))
@settings(max_examples=20)
@given(data=_padded())
def test_losses_do_not_see_padding(name, data):
    scores, labels, mask, fill = data
    scores = scores.double().requires_grad_()
    found = LOSSES[name](scores, labels, mask)
    other = LOSSES[name](scores, torch.where(mask, labels, fill), mask)
    assert torch.equal(found, other)
    (gradient,) = torch.autograd.grad(found, scores)
    assert not gradient[~mask].any()
    alone = torch.stack(_by_query(LOSSES[name], scores, labels, mask)).mean()
    torch.testing.assert_close(found, alone, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient, torch.autograd.grad(alone, scores)[0])


def test_padding_shares_no_rank_with_the_last_document():
    scores, labels = torch.tensor([[1.0, 0.0]]), torch.tensor([[1, 0]])
    wider = torch.nn.functional.pad(scores, (0, 3)), torch.nn.functional.pad(labels, (0, 3))
    mask = torch.tensor([[True, True, False, False, False]])
    assert lambdarank(*wider, mask) == lambdarank(scores, labels)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(METRICS))
def test_metrics_take_scores_of_any_type(name, dtype):
    scores, labels = torch.tensor([[3, 2, 1, 9]]), torch.tensor([[0, 1, 2, 9]])
    mask = torch.tensor([[True, True, True, False]])
    found = METRICS[name](scores.to(dtype), labels, mask=mask)
    wanted = METRICS[name](scores.double(), labels, mask=mask)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-2)
