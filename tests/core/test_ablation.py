"""The fully connected stand-in: sparse and frozen it is NRS, otherwise it learns."""

import pytest
import torch
from hypothesis import given, settings

from nrs import NRS
from nrs.core import FullyConnectedExpansion, count_parameters
from tests.core.shapes import assert_close, shapes


@given(shapes(max_weights=4_000, max_d=20, min_batch=2))
@settings(max_examples=20)
def test_sparse_and_frozen_is_nrs(shape):
    stand_in = FullyConnectedExpansion(**shape.layer(), sparse_init=True, frozen=True)
    layer = NRS(**shape.layer())
    x = torch.randn(shape.batch, shape.d)
    assert_close(stand_in(x), layer(x), 1e-4)
    assert count_parameters(stand_in, trainable_only=True) == count_parameters(layer)


@pytest.mark.parametrize("sparse_init", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_stays_and_trained_moves(sparse_init, frozen):
    layer = FullyConnectedExpansion(6, 2, sparse_init=sparse_init, frozen=frozen, seed=0)
    before = layer.expansion.detach().clone()
    assert (((before == 0) | (before == 1)).all()) == sparse_init
    optimizer = torch.optim.SGD([p for p in layer.parameters() if p.requires_grad], lr=0.1)
    layer(torch.randn(16, 6)).square().sum().backward()
    optimizer.step()
    assert torch.equal(layer.expansion.detach(), before) == frozen


def test_it_learns_as_many_weights_as_the_paper_says():
    layer = FullyConnectedExpansion(8, 3, sparse_init=False, frozen=False)
    expansion = 8 * (3 * 9 * 8)
    assert count_parameters(layer) == count_parameters(NRS(8, 3)) + expansion


def test_a_single_row_has_no_statistics():
    layer = FullyConnectedExpansion(6, 2, sparse_init=True, frozen=True)
    with pytest.raises(ValueError, match=r"at least two.*\(1, 6\)"):
        layer(torch.zeros(1, 6))


def test_it_comes_whole_from_the_meta_device():
    arguments = {"sparse_init": True, "frozen": True, "seed": 3}
    empty = FullyConnectedExpansion(5, 2, **arguments, device="meta").to_empty(device="cpu")
    empty.order.zero_()  # What memory holds there is anything.
    empty.reset_parameters()
    x = torch.randn(6, 5)
    assert_close(empty(x), FullyConnectedExpansion(5, 2, **arguments)(x))
