"""The pooled layer and the edge convolution give the numbers of the plain sequence of layers."""

import copy

import pytest
import torch

from nrs.points import pooled
from nrs.points.edge_conv import EdgeConv
from nrs.points.pooled import PooledLayer
from nrs.points.shared import SharedLayer
from nrs.training.precision import probe_bf16


def randomised(layer, seed=0):
    """Weights of the normalisation of both signs, and statistics that are not 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        layer.norm.weight.copy_(torch.randn(layer.out_features, generator=generator))
        layer.norm.bias.copy_(torch.randn(layer.out_features, generator=generator))
        layer.norm.running_mean.normal_(generator=generator)
        layer.norm.running_var.uniform_(0.5, 2, generator=generator)
    return layer.double()


def plain(layer, x):
    h = torch.nn.functional.linear(x, layer.weight, layer.bias)
    h = layer.norm(h.flatten(0, -2)).view_as(h)
    return h if layer.slope is None else torch.nn.functional.leaky_relu(h, layer.slope)


def compare(mine, other, inputs, result, expected):
    """Same outputs, gradients and running statistics."""
    torch.testing.assert_close(result, expected)
    if result.requires_grad:
        direction = torch.randn_like(result)
        ours = torch.autograd.grad(
            result, [*inputs[:1], *mine.parameters()], direction, allow_unused=True
        )
        theirs = torch.autograd.grad(
            expected, [*inputs[1:], *other.parameters()], direction, allow_unused=True
        )
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b)
    for a, b in zip(mine.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("slope", [0.0, 0.2, None])
def test_a_shared_layer_is_linear_norm_activation(training, slope):
    mine = randomised(SharedLayer(5, 7, slope=slope)).train(training)
    other = copy.deepcopy(mine)
    x = torch.randn(3, 11, 5, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    compare(mine, other, [x, y], mine(x), plain(other, y))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("points", [1, 9, 150])
@pytest.mark.parametrize(("slope", "bias"), [(0.0, True), (0.2, False), (None, True)])
def test_a_pooled_layer_is_a_shared_layer_and_a_maximum(training, points, slope, bias, monkeypatch):
    monkeypatch.setattr(pooled, "_CHUNK", 2000)  # several chunks
    mine = randomised(PooledLayer(5, 7, slope=slope, bias=bias)).train(training)
    other = copy.deepcopy(mine)
    x = torch.randn(2, 4, points, 5, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    result = mine(x)
    assert result.shape == (2, 4, 7)
    compare(mine, other, [x, y], result, plain(other, y).amax(2))


def test_the_gradient_of_a_pooled_layer_by_differences():
    layer = randomised(PooledLayer(3, 4, slope=None))
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x), (x,))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("slope", [0.2, 0.0])
def test_an_edge_convolution_is_its_definition(training, slope):
    mine = randomised(EdgeConv(4, 6, k=5, slope=slope)).train(training)
    other = copy.deepcopy(mine)
    x = torch.randn(3, 10, 4, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    neighbours = torch.stack([torch.randperm(10)[:5] for _ in range(30)]).view(3, 10, 5)
    compare(mine, other, [x, y], mine(x, neighbours), other._edges(y, neighbours))


def test_other_normalisations_take_the_plain_way():
    for layer, inputs in (
        (PooledLayer(5, 7), [torch.randn(4, 9, 5)]),
        (EdgeConv(5, 7, k=3), [torch.randn(4, 9, 5), torch.randint(9, (4, 9, 3))]),
    ):
        layer.norm.momentum = None  # a cumulative average
        layer(*inputs)
        assert layer.norm.num_batches_tracked == 1
        assert layer.norm.running_mean.abs().sum() > 0


def test_lower_precision_trains():
    if not probe_bf16():
        pytest.skip("this CPU has no working bfloat16 products")
    for layer, inputs in (
        (PooledLayer(5, 7), [torch.randn(4, 9, 5)]),
        (SharedLayer(5, 7), [torch.randn(4, 9, 5)]),
        (EdgeConv(5, 7, k=3), [torch.randn(4, 9, 5), torch.randint(9, (4, 9, 3))]),
    ):
        exact = copy.deepcopy(layer)(*inputs)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            lowered = layer(*inputs).float()
        lowered.sum().backward()
        assert layer.weight.grad.isfinite().all()
        torch.testing.assert_close(lowered, exact, rtol=0.1, atol=0.1)
        inputs[0] = inputs[0].bfloat16()
        lowest = layer.bfloat16()(*inputs)
        lowest.sum().backward()
        torch.testing.assert_close(lowest.float(), exact, rtol=0.1, atol=0.1)


def test_one_row_has_no_statistics():
    with pytest.raises(ValueError, match="one row has no batch statistics"):
        PooledLayer(3, 4)(torch.randn(1, 1, 3))
    with pytest.raises(ValueError, match="one row has no batch statistics"):
        SharedLayer(3, 4)(torch.randn(1, 3))
