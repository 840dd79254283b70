"""The compiled formulation in float32: numbers, derivatives, and what torch does to an operator."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from nrs import NRS
from nrs.core import dense_weight, subspace_map
from nrs.core.compiled import compiled_applies, compiled_stage
from nrs.core.subspace_map import settled
from nrs.engine import instructions
from nrs.engine.layer import AVAILABLE
from tests.core.shapes import assert_close, grouped_convolution, seeded, shapes

pytestmark = pytest.mark.skipif(not AVAILABLE, reason=instructions()[1])
PARTS = ("weight", "norm.weight", "norm.bias")
SEVERAL = pytest.mark.parametrize("n_per", [1, 4])


def _twins(n_per, d=6, n_mul=2, n_h=3, **more):
    """A compiled layer in float32 and the reference in float64, with the same weights."""
    layer = NRS(d, n_mul, n_per, n_h, formulation="compiled", seed=0, **more)
    with torch.no_grad():
        if layer.norm is not None:
            layer.norm.weight.uniform_(0.5, 2, generator=seeded(1))
            layer.norm.bias.uniform_(-1, 1, generator=seeded(2))
    reference = copy.deepcopy(layer).double()
    reference.formulation = "conv"
    return layer, reference


@given(shapes(min_batch=2), st.booleans(), st.booleans())
def test_a_training_step_is_that_of_the_reference(shape, by_row, of_inputs):
    layer, reference = _twins(shape.n_per, shape.d, shape.n_mul, shape.n_h, layout=shape.layout)
    draw = seeded(shape.seed)
    x = torch.randn(shape.batch, shape.d, generator=draw) * 2 + 1
    upstream = torch.randn(shape.batch, shape.channels, generator=draw)
    twin = x.double().requires_grad_(of_inputs)
    x.requires_grad_(of_inputs)
    expected = reference(twin)
    output = layer(x)
    assert_close(output.double(), expected, 1e-4)
    for name in ("running_mean", "running_var"):
        assert_close(getattr(layer.norm, name).double(), getattr(reference.norm, name), 1e-5)
    # A map within rounding of 0 may pass the ReLU on one side only.
    upstream = upstream * ((output > 0) == (expected > 0))
    # Rows that are nearly alike make anything of a rounding.
    alike = reference.norm.running_var.min() < 0.91
    output.backward(upstream if by_row else upstream.t().contiguous().t())
    expected.backward(upstream.double())
    tolerance = 1e-2 if alike else 1e-4
    pairs = [[net.get_parameter(name).grad for net in (layer, reference)] for name in PARTS]
    pairs += [(x.grad, twin.grad)] if of_inputs else []
    for own, other in pairs:
        # What two rows leave of a gradient may be next to nothing.
        assert (own.double() - other).abs().max() <= tolerance * max(1, other.abs().max())
    assert layer.bias.grad.abs().max() == 0


@SEVERAL
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", None])
@pytest.mark.parametrize("norm", [True, False])
def test_second_derivatives_are_those_of_the_reference(n_per, training, activation, norm):
    found = []
    for layer in _twins(n_per, activation=activation, norm=norm):
        layer.train(training)
        x = torch.randn(20, 6, generator=seeded(3)).to(layer.weight.dtype).requires_grad_()
        # The plain sum of what is normalised would hardly move.
        counts = torch.randn(20, 12, generator=seeded(4)).to(x.dtype)
        loss = (layer(x).square() * counts).sum()
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        slope.square().mean().backward()
        found.append([x.grad, *(p.grad for p in layer.parameters())])
    for own, expected in zip(*found, strict=True):
        if expected is None:
            assert own is None
        else:
            assert_close(own.double(), expected, 1e-4)
    assert found[0][1].abs().max() > 0


@SEVERAL
def test_a_folded_layer_with_its_activation(n_per):
    layer, reference = _twins(n_per)
    x = torch.randn(50, 6, generator=seeded(3))
    layer(x), reference(x.double())
    folded, expected = layer.eval().fold(), reference.eval().fold()
    for rows in (x, x[:1], x[:3]):
        assert_close(folded(rows).double(), expected(rows.double()))
    # Gradients of the inputs, through the ReLU of the kernel, and of these.
    found = []
    for net, rows in ((folded, x), (expected, x.double())):
        rows = rows.detach().requires_grad_()
        (slope,) = torch.autograd.grad(net(rows).square().sum(), rows, create_graph=True)
        found.append((slope.detach(), torch.autograd.grad(slope.square().sum(), rows)[0]))
    for own, other in zip(*found, strict=True):
        assert_close(own.double(), other, 1e-4)


@SEVERAL
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_many_gradients_at_once(n_per, training):
    layer, reference = (net.train(training) for net in _twins(n_per))
    x = torch.randn(5, 6, generator=seeded(3))

    def jacobian(net, rows):
        return torch.autograd.functional.jacobian(net, rows, vectorize=True)

    assert_close(jacobian(layer, x).double(), jacobian(reference, x.double()), 1e-4)
    # By the gradient of a gradient.
    way = torch.randn(5, 6, generator=seeded(4))
    moved = torch.autograd.functional.jvp(layer, x, way)[1]
    expected = torch.autograd.functional.jvp(reference, x.double(), way.double())[1]
    assert_close(moved.double(), expected, 1e-4)


@SEVERAL
def test_transforms_of_torch_func(n_per):
    layer, reference = (net.eval() for net in _twins(n_per))
    x = torch.randn(5, 6, generator=seeded(3))
    assert not torch.func.vmap(lambda row: torch.tensor(compiled_applies(row, layer.weight)))(
        x
    ).any()
    expected = torch.func.jacrev(reference)(x.double())
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        assert_close(transform(layer)(x).double(), expected)


@SEVERAL
def test_torch_checks_the_operators(n_per):
    layer, _ = _twins(n_per)
    index, weight = layer.subspaces(), layer.weight.detach().view(12 // n_per, n_per, -1)
    scale, shift = layer.norm.weight.detach(), layer.norm.bias.detach()
    x = torch.randn(9, 6, requires_grad=True)
    weight = weight.clone().requires_grad_()
    for relu in (False, True):
        torch.library.opcheck(torch.ops.nrs.subspace_map.default, (x, index, weight, shift, relu))
    plain = (x, index, weight, scale, shift, 1e-5)
    torch.library.opcheck(torch.ops.nrs.subspace_stage.default, plain)
    with torch.no_grad():
        output, *kept = torch.ops.nrs.subspace_stage(*plain)
    own = weight.detach()
    for inputs in (False, True):
        for name, arguments in (
            ("subspace_map_backward", (output, x.detach(), index, own, inputs)),
            ("subspace_stage_backward", (output, index, own, *plain[3:], *kept, inputs)),
        ):
            torch.library.opcheck(getattr(torch.ops.nrs, name).default, arguments)


@SEVERAL
def test_the_operators_are_in_a_compiled_graph(n_per):
    layer, _ = _twins(n_per)
    twin = copy.deepcopy(layer)
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    x = torch.randn(30, 6, requires_grad=True)
    for net in (compiled, twin):
        net(x).square().sum().backward()
    assert "nrs.subspace_stage" in seen
    assert_close(layer.weight.grad, twin.weight.grad)
    assert_close(layer.norm.running_var, twin.norm.running_var)
    torch._dynamo.reset()


@SEVERAL
def test_an_exported_program_has_the_operator_only_where_it_was_asked_for(n_per):
    x = torch.randn(30, 500)
    batch = torch.export.Dim("batch", min=2, max=1000)
    for formulation in ("compiled", "auto"):
        layer = NRS(500, n_per=n_per, formulation=formulation, seed=0).eval()
        program = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: batch}})
        targets = {str(node.target) for node in program.graph.nodes}
        assert ("nrs.subspace_map.default" in targets) == (formulation == "compiled")
        assert_close(program.module()(x[:7]), layer(x[:7]))


def test_the_operators_count_what_they_multiply():
    flops = {}
    for n_per in (1, 4):
        # torch's counter has hooks on every module, so that a layer's normalisation stands alone.
        layer = NRS(6, 2, n_per, seed=0)
        index, weight = layer.subspaces(), layer.weight.view(12 // n_per, n_per, -1)
        x = torch.randn(10, 6, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            compiled_stage(x, index, weight, torch.ones(12), torch.ones(12), 1e-5)[
                0
            ].sum().backward()
        flops[n_per] = counter.get_total_flops() / (2 * 10 * 12 * n_per * 9)
    # Forward, gradients of inputs and weights; of one output a subspace the map once more.
    assert flops == {1: 4, 4: 3}


def test_a_trace_has_operations_of_torch():
    layer = NRS(500, seed=0).eval()
    x = torch.randn(70, 500)
    with torch.no_grad():
        traced = torch.jit.trace(layer, x)
        assert "PythonOp" not in str(traced.graph)
        assert_close(traced(x[:40]), layer(x[:40]))


def test_auto_takes_it_where_it_is_worth_its_call():
    layer = NRS(780, n_mul=16, seed=0)
    index, weight = layer.subspaces(), layer.weight.view(12480, 1, 9)
    x = torch.randn(4, 780)
    shape = weight.shape
    assert settled("auto", x, shape, weight) == "compiled"
    assert settled("compiled", x, shape, weight) == "compiled"
    assert settled("conv", x, shape, weight) == "conv"
    for formulation in ("auto", "compiled"):
        # float64 is torch's, and so is a small map.
        assert settled(formulation, x.double(), shape, weight.double()) != "compiled"
        assert subspace_map(x.double(), index, weight.double(), formulation=formulation).shape
    assert settled("auto", x[:, :16], (16, 1, 9), weight[:16]) == "dense"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert settled("auto", x, shape, weight) == "compiled"
        assert settled("auto", x, (390, 32, 288), weight) != "compiled"


def test_without_the_engine_torch_computes():
    code = (
        "import torch; from nrs import NRS; from nrs.core.compiled import compiled_applies\n"
        "layer = NRS(500, formulation='compiled', seed=0)\n"
        "x = torch.ones(40, 500)\n"
        "assert not compiled_applies(x, layer.weight)\n"
        "layer(x).sum().backward()\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"NRS_ENGINE": "torch"}
    )


def test_a_wrong_index_reads_nothing_beyond_the_rows():
    x, weight = torch.zeros(40, 4), torch.zeros(3, 1, 2)
    for wrong in (4, -1, 2**62):
        with pytest.raises(IndexError, match="from 0 to 3, the features of the input"):
            subspace_map(x, torch.full((3, 2), wrong), weight, formulation="compiled")


def test_rows_in_any_layout():
    index, weight = torch.randint(6, (4, 3)), torch.randn(4, 2, 3)
    x = torch.randn(6, 50)
    expected = x.t() @ dense_weight(index, weight, 6).t()
    for rows in (x.t(), x.t().contiguous(), torch.cat([x.t()] * 2, 1)[:, :6]):
        assert_close(subspace_map(rows, index, weight, formulation="compiled"), expected)
    one = torch.randn(6).expand(50, 6)
    assert_close(
        subspace_map(one, index, weight, formulation="compiled"),
        one @ dense_weight(index, weight, 6).t(),
    )


@SEVERAL
def test_the_output_may_be_changed_in_place(n_per):
    layer, reference = _twins(n_per)
    x = torch.randn(20, 6, generator=seeded(3))
    layer(x).mul_(2).sum().backward()
    reference(x.double()).mul(2).sum().backward()
    assert_close(layer.weight.grad.double(), reference.weight.grad, 1e-4)


def test_a_frozen_part_has_no_gradient():
    layer = NRS(6, 2, formulation="compiled", seed=0)
    layer.weight.requires_grad_(False)
    layer(torch.randn(20, 6)).sum().backward()
    assert layer.weight.grad is None
    assert layer.norm.weight.grad is not None


def test_the_map_alone_is_the_convolution():
    layer = NRS(6, 2, norm=False, activation=None, formulation="compiled", seed=0)
    x = torch.randn(40, 6)
    assert_close(layer(x), grouped_convolution(x, layer.index, layer.weight, layer.bias))
