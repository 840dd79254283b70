"""Dropout from a pool behaves like dropout."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.core.dropout import PooledDropout


@given(st.floats(0.05, 0.9), st.integers(2, 300), st.integers(2, 40), st.booleans())
def test_units_are_dropped_or_scaled(p, rows, columns, by_feature):
    x = torch.ones(columns, rows).t() if by_feature else torch.ones(rows, columns)
    layer = PooledDropout(p)
    dropped = layer(x)
    kept = torch.tensor(1.0) / (1 - p)
    assert torch.all((dropped == 0) | torch.isclose(dropped, kept))
    assert dropped.stride() == x.stride()
    assert torch.equal(layer.eval()(x), x)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_the_share_and_the_mean(p):
    torch.manual_seed(0)
    layer = PooledDropout(p)
    masks = torch.stack([layer(torch.ones(64, 32)) for _ in range(200)])
    assert (masks == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    assert masks.mean().item() == pytest.approx(1, abs=0.02)
    # A unit is dropped in some batches and kept in others, and rows differ from each other.
    share = (masks == 0).float().mean(0)
    assert share.min() > 0
    assert share.max() < 1
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0, 0], masks[0, 1])


def test_the_generator_decides_the_mask_and_copies_agree():
    layer = PooledDropout(0.3)
    x = torch.ones(50, 50)
    torch.manual_seed(1)
    first = layer(x)
    twin = copy.deepcopy(layer)
    torch.manual_seed(1)
    assert torch.equal(twin(x), first)
    assert not twin.__getstate__()["_pools"]


def test_gradients_pass_where_units_were_kept():
    x = torch.ones(20, 10, requires_grad=True)
    dropped = PooledDropout(0.5)(x)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())
