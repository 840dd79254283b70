"""Each loss equals its reference, has the right gradient, and knows neither padding nor order."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.ranking.losses import GAIN_LOSSES, LOSSES, find_loss, lambdarank
from tests.ranking.references import REFERENCES, ragged

NAMES = sorted(LOSSES)
SEEDS = st.integers(0, 10**6)


def _random(seed, queries=4, longest=9, **options):
    return ragged(torch.Generator().manual_seed(seed), queries, longest, **options)


def test_every_loss_has_a_reference():
    assert REFERENCES.keys() == LOSSES.keys()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(seed=SEEDS, scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_equals_the_slow_reference(name, seed, scale):
    scores, labels, mask = _random(seed)
    found = LOSSES[name](scores * scale, labels, mask).item()
    wanted = REFERENCES[name](scores * scale, labels, mask)
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_gradient(name):
    scores, labels, mask = _random(3, queries=3, longest=6)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: LOSSES[name](s, labels, mask), scores)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_invariant_to_padding_and_to_the_order_of_documents(name, seed):
    scores, labels, mask = _random(seed)
    # Ties are where an order could leak in.
    scores = scores.round(decimals=0)
    whole = _value_and_gradient(name, scores, labels, mask)
    wider = [torch.nn.functional.pad(t, (0, 5), value=1) for t in (scores, labels)]
    padded = _value_and_gradient(name, *wider, torch.nn.functional.pad(mask, (0, 5)))
    assert padded[0] == pytest.approx(whole[0], rel=1e-9, abs=1e-12)
    assert torch.allclose(padded[1][:, :-5], whole[1])
    assert not padded[1][:, -5:].any()
    order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(seed))
    other = _value_and_gradient(name, scores[:, order], labels[:, order], mask[:, order])
    assert other[0] == pytest.approx(whole[0], rel=1e-9, abs=1e-12)
    assert torch.allclose(other[1], whole[1][:, order])


@pytest.mark.parametrize("name", NAMES)
def test_is_the_mean_over_queries(name):
    scores, labels, mask = _random(5, queries=3)
    single = [
        LOSSES[name](scores[q : q + 1], labels[q : q + 1], mask[q : q + 1]).item() for q in range(3)
    ]
    assert LOSSES[name](scores, labels, mask).item() == pytest.approx(sum(single) / 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "scores",
    [[[0.0] * 5], [[1e4, -1e4, 1e4, -1e4, 0.0]], [[-1e4] * 5], [[1e4, 1.0, 1.0, -1e4, 1e4]]],
    ids=["zeros", "extremes", "equal", "mixed"],
)
@pytest.mark.parametrize(
    "labels", [[[0] * 5], [[2] * 5], [[0, 4, 0, 1, 4]]], ids=["none", "all", "some"]
)
def test_finite_in_every_corner(name, scores, labels, dtype):
    for documents in (5, 1):
        mask = torch.arange(5)[None] < documents
        value, gradient = _value_and_gradient(
            name, torch.tensor(scores, dtype=dtype), torch.tensor(labels), mask
        )
        assert abs(value) < 1e12
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_the_right_order_is_better_than_the_wrong_one(name):
    labels = torch.tensor([[3, 2, 1, 0, 0]])
    right = LOSSES[name](torch.tensor([[2.0, 1.0, 0.5, -1.0, -1.0]]), labels)
    wrong = LOSSES[name](torch.tensor([[-1.0, -1.0, 0.5, 1.0, 2.0]]), labels)
    assert right < wrong


@pytest.mark.parametrize("name", NAMES)
def test_descent_finds_the_order(name):
    labels = torch.tensor([[0, 2, 1, 0], [1, 0, 0, 2]])
    generator = torch.Generator().manual_seed(0)
    scores = (0.1 * torch.randn(2, 4, generator=generator)).requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        LOSSES[name](scores, labels).backward()
        optimizer.step()
    for s, y in zip(scores, labels, strict=True):
        assert s.argmax() == y.argmax()
        assert s[y == 1].item() > s[y == 0].max().item()


@pytest.mark.parametrize("name", sorted(GAIN_LOSSES))
@pytest.mark.parametrize("label", [-1.0, 0.5, 200.0])
def test_gains_need_grades(name, label):
    with pytest.raises(ValueError, match=rf"whole numbers from 0 .* {label:g}"):
        LOSSES[name](torch.zeros(1, 2), torch.tensor([[1.0, label]]))


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - GAIN_LOSSES))
def test_other_losses_take_any_label(name):
    assert LOSSES[name](torch.zeros(1, 2), torch.tensor([[-1.0, 0.5]])).isfinite()


def test_bad_shapes_and_queries_without_documents():
    with pytest.raises(ValueError, match="one shape"):
        LOSSES["listnet"](torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"scores\[None\]"):
        LOSSES["listnet"](torch.zeros(3), torch.zeros(3))
    mask = torch.tensor([[True, True], [False, False]])
    with pytest.raises(ValueError, match="query 1 has none"):
        LOSSES["listnet"](torch.zeros(2, 2), torch.zeros(2, 2), mask)


def test_losses_by_name():
    assert find_loss(lambdarank) is lambdarank
    with pytest.raises(ValueError, match=r"loss must be .*; got 'hinge'"):
        find_loss("hinge")


def test_lambdarank_weighs_only_the_first_documents():
    scores, labels = torch.tensor([[4.0, 3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 0, 1]])
    _, gradient = _value_and_gradient("lambdarank", scores, labels, None, k=1)
    # The pair of the documents at ranks 2 to 4 does not touch the first place.
    assert gradient[0, 0] < 0
    assert gradient[0, 3] == 0


def _value_and_gradient(name, scores, labels, mask, **options):
    scores = scores.clone().requires_grad_()
    value = LOSSES[name](scores, labels, mask, **options)
    value.backward()
    return value.item(), scores.grad
