"""The network of a single model."""

import pytest
import torch
from torch import nn

from nrs.core import fold
from nrs.core.dropout import PooledDropout
from nrs.tabular.network import TableNetwork, row_by_row


def test_same_seed_same_network():
    first, second = (TableNetwork(5, 2, seed=3).state_dict() for _ in range(2))
    for key, value in first.items():
        assert torch.equal(value, second[key])


@pytest.mark.parametrize("n_mul", [0, 2])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_the_layers_are_those_of_the_settings(n_mul, hidden):
    network = TableNetwork(5, 2, n_mul=n_mul, hidden=hidden, dropout=0.1, input_dropout=0.2, seed=0)
    widths = [layer.out_features for layer in network.layers if isinstance(layer, nn.Linear)]
    assert widths == [*hidden, 2]
    assert (network.subspaces is None) == (n_mul == 0)
    if n_mul:
        assert network.subspaces.out_features == 5 * n_mul
    dropped = [layer.p for layer in network.layers if isinstance(layer, PooledDropout)]
    assert dropped == [0.2] + [0.1] * (len(hidden) + (n_mul > 0))


def test_a_row_is_answered_alone_and_the_users_generator_is_left_alone():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    network = TableNetwork(5, 2, n_mul=2, hidden=(6,), dropout=0.5, seed=0).eval()
    assert torch.equal(torch.get_rng_state(), before)
    x = torch.randn(7, 5)
    torch.testing.assert_close(network(x)[3:4], network(x[3:4]))


@pytest.mark.parametrize(("depth", "n_h"), [(1, 3), (2, 5)])
@pytest.mark.parametrize("in_features", [1, 2, 10, 40])
def test_a_row_has_the_same_answer_at_any_place(in_features, depth, n_h):
    shape = {"n_mul": 1, "n_h": n_h, "depth": depth, "hidden": (3,)}
    network = TableNetwork(in_features, 3, **shape, seed=0).eval()
    folded = row_by_row(fold(network))
    x = torch.randn(32, in_features, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        together = folded(x)
        assert torch.allclose(together, network(x), atol=1e-5)
        for shift in (1, 5, 13):
            assert torch.equal(folded(x.roll(shift, 0)).roll(-shift, 0), together)
