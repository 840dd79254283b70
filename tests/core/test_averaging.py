"""Averages of a network's buffers leave the permutations as they are."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn

from nrs import NRS
from nrs.baselines.forest import NeuralForest
from nrs.core import FullyConnectedExpansion, fold
from nrs.core.permutations import IndexModule
from nrs.vision import NRSExcite
from nrs.vision.pooling import CompactBilinearPool, ISqrtCovPool
from tests.forked import run_ranks

AVERAGES = [{"multi_avg_fn": get_ema_multi_avg_fn(0.9)}, {"avg_fn": get_ema_avg_fn(0.99)}, {}]


def averaged(network, updates=5, **how):
    average = AveragedModel(network, use_buffers=True, **(how or AVERAGES[0]))
    for _ in range(updates):
        average.update_parameters(network)
    return average


def damaged(layer):
    """A copy whose index was averaged, before anything looked at it."""
    other = copy.deepcopy(layer)
    other.index.copy_(other.index * 0.999)
    assert not torch.equal(other._buffers["index"], layer.index)
    return other


@pytest.mark.parametrize("how", AVERAGES)
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: NRS(40, n_mul=3, seed=0), (8, 40)),
        (lambda: NRS(30, n_per=5, n_h=5, depth=2, seed=0), (8, 30)),
        (lambda: NRS(2, n_mul=5, seed=0), (8, 2)),
        (lambda: NRS(300, n_mul=3, seed=0).fold(), (8, 300)),
        (lambda: FullyConnectedExpansion(20, sparse_init=False, frozen=False), (8, 20)),
        (lambda: NRSExcite(64, seed=0), (4, 64, 3, 3)),
        (lambda: CompactBilinearPool(16, 64), (4, 16, 3, 3)),
        (lambda: ISqrtCovPool(8), (4, 8, 3, 3)),
        (lambda: NeuralForest(20, 3, n_trees=4, depth=3, n_features=64, seed=0), (8, 20)),
    ],
)
def test_an_average_of_buffers_computes_what_the_network_does(make, shape, how):
    network = make().eval()
    x = torch.randn(shape)
    expected = network(x)
    with torch.no_grad():
        # As small batches of inference have a path of their own in some blocks.
        assert torch.allclose(averaged(network, **how).eval()(x), expected, atol=1e-5)
    # Without a call of eval() in between.
    assert torch.allclose(averaged(network, **how).module(x), expected, atol=1e-5)


def test_the_average_of_a_training_run_is_as_good_as_the_network():
    torch.manual_seed(0)
    x = torch.randn(600, 50)
    y = (x[:, 3] > x[:, 40]).long()
    network = nn.Sequential(NRS(50, n_mul=4, seed=0), nn.Linear(200, 2))
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
        average.update_parameters(network)
    right = (average.eval()(x).argmax(1) == y).float().mean()
    assert right > 0.95
    assert torch.equal(average.module[0].index, network[0].index)


@pytest.mark.parametrize(
    "look",
    [
        lambda layer: layer.state_dict()["index"],
        lambda layer: copy.deepcopy(layer).index,
        lambda layer: pickle.loads(pickle.dumps(layer)).index,
        lambda layer: layer.to(torch.float64).index,
        lambda layer: layer.train().index,
        lambda layer: layer.eval().index,
        lambda layer: layer.subspaces().flatten(),
        lambda layer: layer.fold().index0.flatten(),
        lambda layer: fold(nn.Sequential(layer))[0].index0.flatten(),
    ],
)
def test_whatever_looks_at_an_averaged_index_sees_the_permutation(look):
    layer = NRS(30, n_mul=2, seed=0)
    assert torch.equal(look(damaged(layer)), layer.index)


def test_another_permutation_is_taken_and_then_kept():
    layer, other = NRS(2, n_mul=4, seed=0), NRS(2, n_mul=4, seed=5)
    assert not torch.equal(layer.index, other.index)
    layer.load_state_dict(other.state_dict())
    assert torch.equal(layer.index, other.index)
    assert torch.equal(damaged(layer).read_index(), other.index)
    # As DistributedDataParallel does.
    layer = NRS(2, n_mul=4, seed=0)
    layer.index.copy_(other.index)
    layer(torch.randn(4, 2))
    assert torch.equal(layer.index, other.index)
    with torch.device("meta"):
        layer = NRS(2, n_mul=4)
    layer.load_state_dict(other.state_dict(), assign=True)
    assert torch.equal(damaged(layer).read_index(), other.index)


def test_what_cannot_be_restored_is_refused():
    layer = NRS(30, n_mul=2, seed=0)
    state = {"index": (layer.index * 0.999).long()}
    with pytest.raises(RuntimeError, match="read each of its 30 features 18 times"):
        NRS(30, n_mul=2, seed=1).load_state_dict(layer.state_dict() | state)
    layer.load_state_dict(layer.state_dict() | state)  # its own, hence known
    assert torch.equal(layer.index, NRS(30, n_mul=2, seed=0).index)
    for value in (-1, 30):
        other = NRS(30, n_mul=2, seed=1)
        other.index.copy_(layer.index)
        other.index[0] = value
        with pytest.raises(ValueError, match="average parameters only"):
            other(torch.randn(4, 30))


def test_layers_of_older_pickles_have_no_copy_yet():
    layer = NRS(30, seed=0)
    state = {name: value for name, value in layer.__getstate__().items() if name != "_kept"}
    other = NRS.__new__(NRS)
    other.__setstate__(state)
    x = torch.randn(4, 30)
    assert torch.equal(other.eval()(x), layer.eval()(x))


def test_a_layer_made_in_inference_mode_trains():
    with torch.inference_mode():
        layer = NRS(10, seed=0)
        layer.load_state_dict(layer.state_dict())
    network = nn.Sequential(nn.Linear(5, 10), NRS(10, seed=0))
    with torch.inference_mode():
        network[1].index.copy_(network[1].index)
        network(torch.randn(4, 5))
    network(torch.randn(4, 5)).sum().backward()
    assert isinstance(layer, IndexModule)
    assert network[0].weight.grad is not None


RANK = """
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from nrs import NRS
from nrs.baselines.forest import NeuralForest

distributed.init_process_group("gloo")
rank = distributed.get_rank()
network = DistributedDataParallel(NRS(20, n_mul=2, seed=rank))
for _ in range(3):
    network(torch.randn(4, 20)).sum().backward()
assert torch.equal(network.module.index, NRS(20, n_mul=2, seed=0).index)
network.module.index.copy_(network.module.index * 0.999)
network.eval()(torch.randn(4, 20))
assert torch.equal(network.module.index, NRS(20, n_mul=2, seed=0).index)
print("agreed")
del network
distributed.destroy_process_group()
"""


def test_processes_agree_on_the_permutation_of_the_first():
    assert all("agreed" in said for said in run_ranks(RANK, 2))
