"""The layer in the hands of others: transforms, hooks, traces, counters, autocast, processes.

The law: what torch's own linear map, BatchNorm1d and ReLU allow, every formulation allows.
"""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vmap,
)
from torch.utils.flop_counter import FlopCounterMode

from nrs import NRS
from nrs.core import FORMULATIONS, FoldedNRS, FullyConnectedExpansion, subspace_map
from nrs.core.context import has_hooks
from tests.core.shapes import assert_close
from tests.forked import run_ranks

# One output a subspace, several, two stages; a bag has one output.
SHAPES = [(1, 3, 1), (4, 3, 1), (1, 5, 2)]
EVERY = [
    pytest.param(formulation, shape, id=f"{formulation}-{shape[0]}-{shape[2]}")
    for formulation in (*FORMULATIONS, "auto")
    for shape in SHAPES
    if formulation != "bag" or shape[0] == 1
]
MODES = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def _layer(formulation, shape, training=False, dtype=torch.float64, d=6, **more):
    n_per, n_h, depth = shape
    layer = NRS(d, 2, n_per, n_h, depth=depth, formulation=formulation, seed=0, dtype=dtype, **more)
    return layer.train(training)


def _rows(batch=5, d=6, dtype=torch.float64):
    return torch.randn(batch, d, dtype=dtype, generator=torch.Generator().manual_seed(1))


def _of_parameters(layer):
    """The layer as a function of its input and of all its parameters."""
    names = [name for name, _ in layer.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def run(x, *given):
        state = dict(zip(names, given, strict=True))
        state |= {name: b.clone() for name, b in layer.named_buffers()}
        return functional_call(layer, state, (x,))

    return run, values


@pytest.mark.parametrize(("formulation", "shape"), EVERY)
@MODES
def test_first_and_second_derivatives(formulation, shape, training):
    # The bias before a batch mean has a gradient of exactly zero, which gradcheck sees too.
    layer = _layer(formulation, shape, training, d=4)
    run, values = _of_parameters(layer)
    x = _rows(4, 4).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *values), fast_mode=True)
    assert torch.autograd.gradgradcheck(run, (x, *values), fast_mode=True)


@pytest.mark.parametrize(("formulation", "shape"), EVERY)
@MODES
def test_a_gradient_penalty_is_that_of_the_reference(formulation, shape, training):
    # The gradient of a sum needs no gradient itself: a silent constant would be wrong.
    found = []
    for name in ("conv", formulation):
        layer, x = _layer(name, shape, training), _rows().requires_grad_()
        (slope,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        slope.square().sum().backward()
        found.append(layer.weight.grad)
    assert found[1].abs().max() > 0
    assert_close(found[1], found[0], 1e-10)


def _train(formulation, shape, dtype):
    # With this seed no map is as close to 0 as rounding, where a ReLU passes it or not.
    torch.manual_seed(1)
    network = nn.Sequential(_layer(formulation, shape, True, dtype, d=20), nn.Linear(40, 3))
    network = network.to(dtype)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    # Drawn in double, so that both precisions train on the same.
    x, y = torch.randn(100, 32, 20, dtype=torch.float64), torch.randn(100, 32, 3, dtype=dtype)
    losses = []
    for rows, wanted in zip(x.to(dtype), y, strict=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(rows), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    with torch.no_grad():
        return torch.stack(losses), network.eval()(x[0].to(dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_a_hundred_steps_are_the_same_in_every_formulation(shape, dtype, tolerance):
    reference = _train("conv", shape, dtype)
    for formulation in (*FORMULATIONS[1:], "auto"):
        if formulation != "bag" or shape[0] == 1:
            for found, expected in zip(_train(formulation, shape, dtype), reference, strict=True):
                assert_close(found, expected, tolerance)


@pytest.mark.parametrize(("formulation", "shape"), EVERY)
def test_transforms_of_torch_func_in_eval_mode(formulation, shape):
    layer, x = _layer(formulation, shape), _rows()
    reference = _layer("conv", shape)
    weights = dict(layer.named_parameters())

    def run(x):
        return functional_call(layer, weights, (x,))

    jacobian = torch.autograd.functional.jacobian(reference, x)
    assert_close(jacrev(run)(x), jacobian, 1e-10)
    assert_close(jacfwd(run)(x), jacobian, 1e-10)
    second = hessian(lambda x: run(x).square().sum())(x)
    expected = torch.autograd.functional.hessian(lambda x: reference(x).square().sum(), x)
    assert_close(second, expected, 1e-10)
    # Row by row: as one batch, and a gradient of each row.
    assert_close(vmap(lambda row: run(row[None])[0])(x), reference(x), 1e-10)

    def loss(weights, row):
        return functional_call(layer, weights, (row[None],)).square().sum()

    by_row = vmap(grad(loss), in_dims=(None, 0))(weights, x)["weight"]
    reference(x).square().sum().backward()
    assert_close(by_row.sum(0), reference.weight.grad, 1e-10)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, torch.ones_like(x)))).tangent
    assert_close(tangent, jvp(run, (x,), (torch.ones_like(x),))[1], 1e-10)


@pytest.mark.parametrize(("formulation", "shape"), EVERY)
def test_an_ensemble_by_vmap(formulation, shape):
    layers = [_layer(formulation, shape) for _ in range(3)]
    for seed, layer in enumerate(layers):
        layer.seed = seed
        layer.reset_parameters()
    x, state = _rows(), stack_module_state(layers)
    found = vmap(lambda *state: functional_call(layers[0], state, (x,)))(*state)
    assert_close(found, torch.stack([layer(x) for layer in layers]), 1e-10)


@pytest.mark.parametrize(("formulation", "shape"), EVERY)
def test_transforms_of_torch_func_in_training(formulation, shape):
    """As of torch's BatchNorm: buffers are given, or do not track statistics."""
    layer, reference, x = _layer(formulation, shape, True), _layer("conv", shape, True), _rows()
    weights = dict(layer.named_parameters())

    def loss(weights, buffers):
        return functional_call(layer, (weights, buffers), (x,)).square().sum()

    buffers = {name: value.clone() for name, value in layer.named_buffers()}
    found = grad(loss)(weights, buffers)["weight"]
    reference(x).square().sum().backward()
    assert_close(found, reference.weight.grad, 1e-10)
    assert_close(buffers["norm.running_var"], reference.norm.running_var, 1e-10)
    replace_all_batch_norm_modules_(layer)
    found = grad(lambda weights: loss(weights, {}))(weights)["weight"]
    assert_close(found, reference.weight.grad, 1e-10)


@pytest.mark.parametrize(("formulation", "shape"), EVERY)
@MODES
def test_hooks_of_the_normalisation_fire_and_change_nothing(formulation, shape, training):
    layer, x = _layer(formulation, shape, training), _rows()
    plain = copy.deepcopy(layer)
    seen = []
    layer.norm.register_forward_pre_hook(lambda module, inputs: seen.append("before"))
    layer.norm.register_forward_hook(lambda module, inputs, output: seen.append("after"))
    layer.norm.register_full_backward_hook(lambda module, inputs, outputs: seen.append("back"))
    out, expected = layer(x), plain(x)
    assert_close(out, expected, 1e-10)
    assert_close(layer.norm.running_mean, plain.norm.running_mean, 1e-10)
    out.square().sum().backward(), expected.square().sum().backward()
    assert_close(layer.weight.grad, plain.weight.grad, 1e-10)
    assert seen == ["before", "after", "back"]


def test_hooks_of_all_modules_fire():
    seen = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, inputs, output: seen.append(type(module).__name__)
    )
    try:
        assert has_hooks(nn.Identity())
        NRS(6)(torch.randn(4, 6))
    finally:
        handle.remove()
    assert seen == ["BatchNorm1d", "NRS"]


@given(
    st.sampled_from([*FORMULATIONS, "auto"]), st.sampled_from(SHAPES),
    # Of two rows the normalisation makes 1 and -1 of any difference, rounding included.
    st.sampled_from([torch.bfloat16, torch.float16]), st.booleans(), st.integers(4, 40),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_one_dtype_under_autocast(formulation, shape, dtype, training, batch):
    if formulation == "bag" and shape[0] > 1:
        formulation = "blocks"
    layer = _layer(formulation, shape, training, torch.float32)
    x = _rows(batch, dtype=torch.float32)
    plain = copy.deepcopy(layer)
    expected = plain(x)
    with torch.autocast("cpu", dtype=dtype):
        out = layer(x)
        folded = plain.eval().fold()(x)
    assert out.dtype == folded.dtype == dtype
    assert (out.float() - expected).abs().max() < 0.2
    out.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    # Double is left alone, as by torch's own products.
    with torch.autocast("cpu", dtype=dtype):
        assert layer.double()(x.double()).dtype == torch.float64


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("members", [False, True])
def test_one_dtype_under_autocast_of_members(formulation, members):
    index = torch.randint(6, (3, 4, 5))
    x = torch.randn(2, 3, 6) if members else torch.randn(2, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = subspace_map(x, index, torch.randn(3, 4, 1, 5), formulation=formulation)
    assert out.dtype == torch.bfloat16


def _flops(run, backward=False):
    with FlopCounterMode(display=False) as counter:
        out = run()
        if backward:
            out.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("batch", [1, 2, 64])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_torchs_counter_sees_the_layer(formulation, batch):
    layer = NRS(50, n_mul=3, formulation=formulation).eval()
    x = torch.randn(batch, 50, requires_grad=True)
    # Twice the multiply-adds: of the subspaces, or of a whole matrix.
    expected = 2 * batch * 150 * (50 if formulation == "dense" else 9)
    assert _flops(lambda: layer(x)) == expected
    with torch.no_grad():
        assert _flops(lambda: layer(x)) == expected
    assert _flops(lambda: layer.fold()(x)) == expected
    # torch counts the backward pass of a grouped convolution as that of a whole one.
    if formulation != "conv":
        assert _flops(lambda: layer(x), backward=True) == 3 * expected


def test_the_counter_counts_as_before_what_is_not_ours():
    table, ids = torch.randn(10, 4), torch.tensor([[0, 1], [2, 3]])
    assert _flops(lambda: nn.functional.embedding_bag(ids, table, mode="sum")) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: NRS(6, 2).eval(),
        lambda: NRS(6, 2).eval().fold(),
        lambda: FullyConnectedExpansion(6, 2, sparse_init=True, frozen=True).eval(),
    ],
    ids=["layer", "folded", "ablation"],
)
def test_a_symbolic_trace_has_the_layer_as_one_node(make):
    network = nn.Sequential(make(), nn.Linear(12, 3))
    traced = torch.fx.symbolic_trace(network)
    x = torch.randn(4, 6)
    assert torch.equal(traced(x), network(x))
    targets = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    assert targets == ["0", "1"]
    assert isinstance(traced.get_submodule("0"), (NRS, FoldedNRS, FullyConnectedExpansion))


def test_a_trace_of_the_layer_itself_says_that_it_is_a_leaf():
    with pytest.raises(ValueError, match=r"got NRS alone\. Trace nn\.Sequential"):
        torch.fx.symbolic_trace(NRS(6))


@pytest.mark.parametrize(("formulation", "shape"), EVERY)
def test_compiles_and_exports_every_formulation(formulation, shape):
    layer = _layer(formulation, shape, True, torch.float32)
    x, twin = _rows(24, dtype=torch.float32), copy.deepcopy(layer)
    torch._dynamo.reset()
    out = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
    expected = twin(x)
    assert_close(out, expected)
    out.square().sum().backward(), expected.square().sum().backward()
    assert_close(layer.weight.grad, twin.weight.grad, 1e-4)
    batch = torch.export.Dim("batch", min=2, max=1000)
    program = torch.export.export(twin.eval(), (x,), dynamic_shapes={"x": {0: batch}})
    assert_close(program.module()(x[:7]), twin(x[:7]))


DDP = """
import torch, torch.distributed as dist
from torch import nn
from nrs import NRS

dist.init_process_group("gloo")
rank = dist.get_rank()
for formulation in ("conv", "dense", "bag", "blocks", "compiled", "auto"):
    torch.manual_seed(rank)  # Every process draws other subspaces: DDP broadcasts the first's.
    network = nn.Sequential(NRS(40, 2, formulation=formulation), nn.Linear(80, 3))
    parallel = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        parallel(torch.randn(16, 40)).square().sum().backward()
        optimizer.step()
    for own in (network[0].weight.detach(), network[0].index):
        total = own.clone()
        dist.all_reduce(total)
        assert torch.equal(total, 2 * own), formulation
print("equal")
del parallel, optimizer, network
dist.barrier()
dist.destroy_process_group()
"""

FSDP = """
import copy, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from nrs import NRS

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
for formulation in ("conv", "dense", "bag", "blocks", "compiled", "auto"):
    for apart in (False, True):
        torch.manual_seed(0)
        network = nn.Sequential(NRS(40, 2, formulation=formulation), nn.Linear(80, 3))
        alone = copy.deepcopy(network)
        if apart:
            fully_shard(network[0], mesh=mesh)
        fully_shard(network, mesh=mesh)
        pairs = [(n, torch.optim.SGD(n.parameters(), lr=0.1)) for n in (network, alone)]
        for step in range(3):
            x = torch.randn(16, 40, generator=torch.Generator().manual_seed(step))
            for trained, optimizer in pairs:
                optimizer.zero_grad()
                trained(x).square().mean().backward()
                optimizer.step()
        assert torch.allclose(network.eval()(x), alone.eval()(x), atol=1e-6), formulation
with torch.device("meta"):
    network = nn.Sequential(NRS(40, 2, seed=3))
fully_shard(network, mesh=mesh)
network.to_empty(device="cpu")
network[0].reset_parameters()
assert torch.equal(network[0].weight.full_tensor(), NRS(40, 2, seed=3).weight)
print("equal")
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [DDP, FSDP], ids=["ddp", "fully_shard"])
def test_two_processes(script):
    if script is FSDP:
        pytest.importorskip("torch.distributed.fsdp", reason="fully_shard came with torch 2.6")
    for lines in run_ranks(script, 2):
        assert lines.strip().endswith("equal"), lines
