"""Dropout from a pool behaves like dropout."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.core.dropout import PooledDropout, drawing_from


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


def test_a_generator_of_its_own_gives_the_masks_of_the_global_one():
    network = torch.nn.Sequential(PooledDropout(0.3), PooledDropout(0.5))
    x = torch.ones(50, 50)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        expected = [network(x) for _ in range(3)]
    before = torch.get_rng_state()
    with drawing_from(network, torch.Generator().manual_seed(1)):
        found = [network(x) for _ in range(3)]
        # A copy does not share the generator.
        assert copy.deepcopy(network)[0].generator is None
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.stack(found), torch.stack(expected))
    assert network[0].generator is None


def test_masks_do_not_depend_on_torchs_default_dtype_and_device():
    def mask():
        with drawing_from(layer := PooledDropout(0.3), torch.Generator().manual_seed(0)):
            return layer(x)

    x = torch.ones(9, 9)
    expected = mask()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(mask(), expected)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert torch.equal(mask(), expected)
