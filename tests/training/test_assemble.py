"""A network takes memory only once the tensors of its file are known to fit."""

import resource

import pytest
import torch
from torch import nn

from nrs import NRS
from nrs.training import ModelFileError, load_network


class Shifted(nn.Module):
    """With a buffer that is not in the state dict, and a tensor that is no buffer."""

    def __init__(self, width=4, outside=3):
        super().__init__()
        self.linear = nn.Linear(width, 2)
        self.register_buffer("shift", torch.arange(outside) / 2, persistent=False)
        self.factors = [torch.full((2,), 3.0)]

    def forward(self, x):
        return self.linear(x) * self.factors[0] + self.shift.sum()


def copied(network):
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


@pytest.mark.parametrize(
    ("build", "width"),
    [
        (lambda: nn.Linear(4, 2), 4),
        (lambda: nn.Sequential(nn.Linear(4, 6), NRS(6, n_mul=2)), 4),
        (lambda: NRS(6, n_h=5, depth=2), 6),
        (Shifted, 4),
    ],
)
def test_the_loaded_network_is_the_saved_one(build, width):
    torch.manual_seed(0)
    network = build().eval()
    tensors = copied(network)
    loaded = load_network(build, tensors).eval()
    x = torch.randn(5, width)
    assert torch.equal(loaded(x), network(x))
    assert not any(tensor.is_meta for tensor in loaded.state_dict().values())
    loaded.train()(x).sum().backward()


def test_weights_stay_where_they_were_read():
    tensors = copied(nn.Linear(4, 2))
    assert load_network(lambda: nn.Linear(4, 2), tensors).weight.data_ptr() == (
        tensors["weight"].data_ptr()
    )


def test_the_network_may_be_part_of_an_object():
    class Model:
        def __init__(self):
            self.network = nn.Linear(4, 2)

    tensors = copied(Model().network)
    model = load_network(Model, tensors, module=lambda model: model.network)
    assert torch.equal(model.network.weight, tensors["weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": None}, "needs a tensor 'bias'"),
        ({"more": torch.ones(1)}, "has no tensor 'more'"),
        ({"weight": torch.ones(2, 5)}, r"'weight' must be float32 \[2, 4\]; got float32 \[2, 5\]"),
        ({"weight": torch.ones(2, 4).double()}, "must be float32 .* got float64"),
        ({"weight": torch.ones(2, 4).half()}, "must be float32 .* got float16"),
        ({"bias": torch.tensor([1, float("nan")])}, "'bias' must be finite"),
        ({"bias": torch.tensor([1, float("-inf")])}, "'bias' must be finite"),
    ],
)
def test_other_tensors_are_refused(change, message):
    tensors = {**copied(nn.Linear(4, 2)), **change}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    with pytest.raises(ModelFileError, match=message):
        load_network(lambda: nn.Linear(4, 2), tensors)


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Linear(1 << 20, 1 << 16),
        lambda: NRS(1 << 20, n_mul=1 << 10),
        lambda: Shifted(1 << 30),
        lambda: Shifted(4, 1 << 40),
    ],
)
def test_a_huge_network_takes_no_memory(build):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError):
        load_network(build, copied(Shifted()))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_widths_may_be_computed_by_tensors():
    def build():
        return nn.Linear(int((torch.arange(4) * 2).sum().item()), 2)

    network = build()
    assert torch.equal(load_network(build, copied(network)).weight, network.weight)
