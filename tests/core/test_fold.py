"""Folding a whole network."""

import pytest
import torch
from torch import nn

from nrs import NRS
from nrs.core import FoldedNRS, fold
from tests.core.shapes import assert_close


def _network():
    return nn.Sequential(
        NRS(12, n_mul=3),
        nn.Linear(36, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Sequential(nn.Linear(16, 8, bias=False), nn.BatchNorm1d(8)),
    )


def test_fold_gives_the_outputs_of_eval_mode_and_leaves_the_original_alone():
    network = _network()
    for _ in range(3):
        network(torch.randn(20, 12) * 3)
    network.train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    folded = fold(network)
    assert network.training
    assert not folded.training
    for key, value in network.state_dict().items():
        assert torch.equal(value, before[key])
    assert isinstance(folded[0], FoldedNRS)
    assert not [m for m in folded.modules() if isinstance(m, nn.BatchNorm1d)]
    x = torch.randn(30, 12)
    assert_close(folded(x), network.eval()(x))


def test_fold_of_the_layer_itself():
    assert isinstance(fold(NRS(4)), FoldedNRS)


def test_inputs_of_a_folded_network_have_gradients():
    network = _network().eval()
    x = torch.randn(5, 12, requires_grad=True)
    (expected,) = torch.autograd.grad(network(x).sum(), x)
    (got,) = torch.autograd.grad(fold(network)(x).sum(), x)
    assert_close(got, expected)


def test_a_module_that_comes_twice_is_folded_where_it_stands():
    relu = nn.ReLU()
    network = nn.Sequential(relu, nn.Linear(4, 4), relu, nn.Linear(4, 4), nn.BatchNorm1d(4))
    for _ in range(3):
        network(torch.randn(20, 4) * 3)
    x = torch.randn(5, 4)
    folded = fold(network)
    assert_close(folded(x), network.eval()(x))
    assert isinstance(folded[4], nn.Identity)


def test_a_folded_layer_computes_with_the_weights_that_it_loads():
    layers = [NRS(6, n_mul=2, n_h=5, depth=2, seed=seed).eval().fold() for seed in (0, 1)]
    assert layers[0].matrix0 is not None
    x = torch.randn(40, 6)
    expected = layers[0](x)
    layers[1].load_state_dict(layers[0].state_dict())
    assert torch.equal(layers[1](x), expected)


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.BatchNorm1d(5, affine=False), (6, 4)),
        (nn.BatchNorm1d(5, track_running_stats=False), (6, 4)),
        (nn.BatchNorm1d(3), (6, 3, 4)),
    ],
)
def test_a_normalisation_that_cannot_be_folded_is_copied(norm, shape):
    network = nn.Sequential(nn.Linear(4, 5), norm)
    x = torch.randn(shape) + 1
    network(x)
    assert_close(fold(network)(x), network.eval()(x))


def test_the_normalisation_of_several_gpus_is_folded_and_another_refused():
    layer = NRS(6, n_mul=2, seed=0)
    layer(3 * torch.randn(50, 6) + 1)
    x = torch.randn(20, 6)
    expected = layer.eval()(x)
    apart = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    assert isinstance(apart.norm, nn.SyncBatchNorm)
    assert_close(fold(apart)(x), expected)
    layer.norm = nn.LayerNorm(12)
    with pytest.raises(ValueError, match="folded; the layer has a LayerNorm"):
        fold(layer)
