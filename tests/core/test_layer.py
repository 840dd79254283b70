"""The layer: its contract, its reference, and everything torch does to a module."""

import copy
import pickle
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nrs import NRS
from nrs.core import FORMULATIONS, count_parameters
from tests.core.shapes import assert_close, grouped_convolution, seeded, shapes


class AuthorsLayer(nn.Module):
    """Repeat, gather, view, convolution, BN, ReLU: the parts and names of the authors' layer."""

    def __init__(self, d, n_mul, n_per, n_h):
        super().__init__()
        self.channels, self.n_h = d * n_mul, n_h
        permutations = [torch.randperm(d) for _ in range(n_mul * n_h * n_h)]
        self.register_buffer("mask", torch.cat(permutations))
        stages = 2 if n_h > 3 else 1
        for stage in range(1, stages + 1):
            kernel = n_h if stages == 1 else 3
            block = nn.Sequential(
                nn.Conv2d(self.channels, self.channels, kernel, groups=self.channels // n_per),
                nn.BatchNorm2d(self.channels),
                nn.ReLU(),
            )
            self.add_module("nrs" if stage == 1 else "nrs2", block)

    def forward(self, x):
        h = x[:, self.mask].view(x.shape[0], self.channels, self.n_h, self.n_h)
        h = self.nrs(h)
        return (self.nrs2(h) if hasattr(self, "nrs2") else h).flatten(1)


@pytest.mark.parametrize(
    ("d", "n_mul", "n_per", "n_h", "formulation"),
    [
        (*shape, formulation)
        for shape in [(16, 5, 1, 3), (90, 2, 1, 3), (12, 4, 6, 2), (7, 3, 3, 5)]
        for formulation in [*FORMULATIONS, "auto"]
        # One output a subspace only; the error is tested elsewhere.
        if formulation != "bag" or shape[2] == 1
    ],
)
def test_trains_like_the_authors_layer(d, n_mul, n_per, n_h, formulation):
    """Same weights, ten steps of SGD, then eval mode: outputs, gradients, running statistics."""
    torch.manual_seed(0)
    theirs = AuthorsLayer(d, n_mul, n_per, n_h)
    ours = NRS(d, n_mul, n_per, n_h, depth=2 if n_h == 5 else 1, formulation=formulation)
    ours.load_authors(theirs.state_dict())
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.05) for net in (theirs, ours)]
    for _ in range(10):
        x, target = torch.randn(33, d), torch.randn(33, d * n_mul)
        losses = []
        for net, optimizer in zip((theirs, ours), optimizers, strict=True):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert_close(ours.weight.grad, theirs.nrs[0].weight.grad, 1e-4)
    assert_close(ours.norm.running_var, theirs.nrs[1].running_var)
    # The bias before BN has no gradient but rounding; it may drift there, not in eval outputs.
    assert ours.bias.grad.abs().max() < 1e-6
    assert ours.norm.num_batches_tracked == 10
    x = torch.randn(20, d)
    assert_close(ours.eval()(x), theirs.eval()(x), 1e-4)


@given(shapes(min_batch=2), st.sampled_from([*FORMULATIONS, "auto"]))
def test_fold_equals_eval_mode(shape, formulation):
    if formulation == "bag" and shape.n_per > 1:
        formulation = "blocks"
    layer = NRS(**shape.layer(), formulation=formulation)
    x = torch.randn(shape.batch, shape.d, generator=seeded(shape.seed)) * 2 + 1
    layer(x)  # moves the running statistics away from their start
    with torch.no_grad():
        layer.norm.weight.uniform_(0.5, 2)
        layer.norm.bias.uniform_(-1, 1)
    layer.eval()
    folded = layer.fold()
    assert_close(folded(x), layer(x))
    assert_close(folded(x[:1]), layer(x[:1]))
    assert not list(folded.parameters())


@given(shapes(max_weights=20_000, min_batch=2), st.sampled_from(["relu", "sigmoid", None]))
@settings(max_examples=20)
def test_bare_map_is_the_documented_convolution(shape, activation):
    layer = NRS(**shape.layer(), norm=False, activation=activation)
    x = torch.randn(shape.batch, shape.d)
    expected = grouped_convolution(x, layer.index, layer.weight, layer.bias)
    if activation:
        expected = getattr(torch, activation)(expected)
    assert_close(layer(x), expected)
    folded = layer.fold()
    assert_close(folded(x), expected)


def test_depth_two_folds():
    layer = NRS(6, n_mul=3, n_per=2, n_h=5, depth=2)
    x = torch.randn(9, 6)
    layer(x)
    assert_close(layer.eval().fold()(x), layer(x))


def test_training_a_wide_layer_in_float64_passes_gradcheck():
    """The sliced normalisation has its own backward pass."""
    layer = NRS(70, n_h=1, seed=1, dtype=torch.float64, formulation="bag")

    def run(x, weight, gamma, beta):
        state = {"weight": weight, "norm.weight": gamma, "norm.bias": beta}
        return torch.func.functional_call(layer, state, (x,))

    x = torch.randn(5, 70, dtype=torch.float64, requires_grad=True)
    leaves = [p.detach().clone().requires_grad_() for p in (layer.weight, *layer.norm.parameters())]
    assert torch.autograd.gradcheck(run, (x, *leaves), fast_mode=True)


def test_leading_dimensions_share_their_statistics():
    layer = NRS(5, n_mul=2, seed=0)
    x = torch.randn(4, 3, 5)
    flat = copy.deepcopy(layer)(x.view(12, 5))
    assert_close(layer(x).view(12, 10), flat)


def test_same_seed_same_layer_and_the_global_generator_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, second, other = NRS(9, seed=4), NRS(9, seed=4), NRS(9, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    for key, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[key])
    assert not torch.equal(first.index, other.index)
    torch.manual_seed(1)
    unseeded = NRS(9)
    torch.manual_seed(1)
    assert torch.equal(unseeded.index, NRS(9).index)


def test_subspaces_are_what_the_groups_read():
    layer = NRS(10, n_mul=2, n_per=4, n_h=2)
    assert layer.subspaces().shape == (5, 16)
    x = torch.zeros(1, 10)
    x[0, layer.subspaces()[3]] = 1.0
    layer.eval()
    silent = NRS(10, n_mul=2, n_per=4, n_h=2, norm=False, bias=False, activation=None)
    silent.load_state_dict(
        {k: v for k, v in layer.state_dict().items() if k in ("index", "weight")}
    )
    read = (silent.subspaces() < 10).all()
    assert read
    x = torch.eye(10)
    touched = silent(x).view(10, 5, 4).abs().sum(2) > 0
    for group in range(5):
        assert set(touched[:, group].nonzero().flatten().tolist()) == set(
            silent.subspaces()[group].tolist()
        )


@pytest.mark.parametrize(
    ("d", "n_mul", "n_per", "parts"),
    [
        (2048, 2, 64, (2_359_296, 4_096, 8_192)),  # ResNet-50 head
        (512, 6, 64, (1_769_472, 3_072, 6_144)),  # VGG-16 head
        (512, 4, 32, (589_824, 2_048, 4_096)),  # ResNet-18 head
        (1280, 1, 32, (368_640, 1_280, 2_560)),  # MobileNetV2 head
        (1024, 1, 32, (294_912, 1_024, 2_048)),  # PointNet and PointNet++
        (2048, 1, 64, (1_179_648, 2_048, 4_096)),  # DGCNN
        (16, 100, 1, (14_400, 1_600, 3_200)),  # letter
    ],
)
def test_parameter_counts_of_the_papers_heads(d, n_mul, n_per, parts):
    layer = NRS(d, n_mul, n_per)
    norm = sum(p.numel() for p in layer.norm.parameters())
    assert (layer.weight.numel(), layer.bias.numel(), norm) == parts
    assert count_parameters(layer) == sum(parts)


KINDS = [{"n_mul": 3}, {"n_per": 4}, {"n_h": 5, "depth": 2}]
COMPILED = [("aot_eager", kind) for kind in KINDS]
if shutil.which("g++") or shutil.which("clang++"):
    # The same graph; inductor then writes C++, ten seconds of it.
    COMPILED += [pytest.param("inductor", kind, marks=pytest.mark.heavy) for kind in KINDS]


@pytest.mark.parametrize(("backend", "arguments"), COMPILED)
def test_compiles_as_one_graph(backend, arguments):
    layer = NRS(80, **arguments, seed=0)
    twin = copy.deepcopy(layer)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    x = torch.randn(24, 80)
    out = compiled(x)
    expected = twin(x)
    assert_close(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    assert_close(layer.weight.grad, twin.weight.grad)
    layer.eval(), twin.eval()
    with torch.no_grad():
        assert_close(torch.compile(layer, fullgraph=True, backend=backend)(x), twin(x))
    torch._dynamo.reset()


@pytest.mark.parametrize(("d", "n_per"), [(8, 1), (100, 1), (100, 5)])
def test_exports_with_a_free_batch_size(d, n_per):
    layer = NRS(d, n_per=n_per).eval()
    batch = torch.export.Dim("batch", min=2, max=1000)
    program = torch.export.export(layer, (torch.randn(32, d),), dynamic_shapes={"x": {0: batch}})
    x = torch.randn(50, d)
    assert_close(program.module()(x), layer(x))


def test_copies_pickles_and_round_trips():
    layer = NRS(11, n_mul=2, seed=0)
    x = torch.randn(7, 11)
    layer(x)
    layer.eval()
    expected = layer(x)
    other = NRS(11, n_mul=2, seed=99).eval()
    other.load_state_dict(layer.state_dict())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        assert torch.equal(twin(x), expected)
    folded = layer.fold()
    assert torch.equal(pickle.loads(pickle.dumps(folded))(x), folded(x))


def test_a_wrong_index_fails_loudly():
    state = NRS(11, n_mul=2).state_dict()
    with pytest.raises(RuntimeError, match="size mismatch for index"):
        NRS(11, n_mul=2, n_h=2).load_state_dict(state)
    del state["index"]
    with pytest.raises(RuntimeError, match=r"Missing key.*index"):
        NRS(11, n_mul=2).load_state_dict(state)


@pytest.mark.parametrize(("d", "n_per"), [(8, 1), (100, 1), (100, 5)])
def test_autocast_keeps_close_to_float32(d, n_per):
    layer = NRS(d, n_per=n_per, seed=0)
    x = torch.randn(64, d)
    expected = copy.deepcopy(layer)(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(nn.Identity()(x))
        half_input = layer(x.bfloat16())
    out.float().sum().backward()
    assert torch.isfinite(layer.weight.grad).all()
    for result in (out, half_input):
        assert (result.float() - expected).abs().max() < 0.1


def test_moves_between_dtypes_and_devices():
    layer = NRS(8, dtype=torch.float64)
    assert layer(torch.randn(4, 8, dtype=torch.float64)).dtype == torch.float64
    assert layer.float()(torch.randn(4, 8)).dtype == torch.float32
    assert layer.index.dtype == torch.int64
    empty = NRS(8, n_mul=2, device="meta")
    assert empty(torch.randn(4, 8, device="meta")).shape == (4, 16)
    real = empty.to_empty(device="cpu")
    real.reset_parameters()
    assert torch.bincount(real.index).tolist() == [18] * 8
    assert torch.isfinite(real(torch.randn(4, 8))).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"in_features": 0}, ValueError, "in_features must be at least 1; got 0"),
        ({"n_mul": -1}, ValueError, "n_mul must be at least 1; got -1"),
        ({"n_h": 0}, ValueError, "n_h must be at least 1; got 0"),
        ({"n_mul": 1.5}, TypeError, "n_mul must be an integer; got 1.5"),
        ({"n_per": 4}, ValueError, r"n_per .* got 4\. Nearest divisors: 3 and 5"),
        ({"n_per": 100}, ValueError, "Nearest divisors: 15"),
        ({"layout": "rows"}, ValueError, "layout must be .* got 'rows'"),
        ({"formulation": "fft"}, ValueError, "formulation must be .* got 'fft'"),
        ({"activation": "tanh"}, ValueError, "activation must be .* got 'tanh'"),
        ({"depth": 3}, ValueError, "depth must be 1 or 2; got 3"),
        ({"depth": 2}, ValueError, "n_h=3"),
    ],
)
def test_bad_arguments_of_the_constructor(arguments, error, message):
    with pytest.raises(error, match=message):
        NRS(**({"in_features": 15} | arguments))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(4, 6), ValueError, r"features 5.*\(4, 6\)"),
        (torch.tensor(1.0), ValueError, "features 5"),
        (torch.zeros(4, 5, dtype=torch.int32), TypeError, "int32"),
        (torch.zeros(4, 5, dtype=torch.complex64), TypeError, "complex64"),
        (torch.zeros(4, 5, dtype=torch.float64), TypeError, "float64"),
        (torch.zeros(1, 5), ValueError, r"at least two.*\.eval\(\)"),
        (torch.zeros(5), ValueError, "at least two"),
    ],
)
def test_bad_input(x, error, message):
    with pytest.raises(error, match=message):
        NRS(5)(x)


@pytest.mark.parametrize(("n_per", "depth", "n_h"), [(1, 1, 3), (4, 1, 3), (4, 2, 5)])
def test_weights_in_any_memory_format(n_per, depth, n_h):
    # model.to(memory_format=torch.channels_last) of a CNN reaches the weights of its head.
    layer = NRS(12, n_mul=2, n_per=n_per, n_h=n_h, depth=depth, seed=0).eval()
    x = torch.randn(5, 12)
    expected = layer(x)
    layer.to(memory_format=torch.channels_last)
    assert torch.equal(layer(x), expected)
    assert torch.allclose(layer.fold()(x), expected, atol=1e-6)
    layer.train()(x).sum().backward()


@pytest.mark.parametrize(("depth", "n_h"), [(1, 3), (2, 5)])
def test_a_batch_of_no_rows_leaves_the_running_statistics_finite(depth, n_h):
    layer = NRS(6, n_mul=2, n_h=n_h, depth=depth, seed=0)
    before = {name: value.clone() for name, value in layer.named_buffers() if "running" in name}
    assert layer(torch.empty(0, 6)).shape == (0, 12)
    for name, value in before.items():
        assert torch.equal(layer.get_buffer(name), value)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_half_precision_squares_do_not_overflow(formulation):
    x = 30 * torch.randn(512, 64)
    expected = NRS(64, n_mul=8, seed=0)(x)
    layer = NRS(64, n_mul=8, seed=0, formulation=formulation).half()
    assert (layer(x.half()).float() - expected).abs().max() < 0.05
    assert layer.norm.running_var.isfinite().all()


def test_depth_two_refuses_a_single_row_before_anything_changes():
    layer = NRS(6, n_h=5, depth=2)
    with pytest.raises(ValueError, match=r"at least two.*\(1, 6\)"):
        layer(torch.zeros(1, 6))
    assert layer.norm.num_batches_tracked == 0


def test_a_seed_may_be_numpys_and_the_default_device_another():
    expected = NRS(6, n_mul=2, seed=3)
    assert torch.equal(NRS(6, n_mul=2, seed=np.int64(3)).weight, expected.weight)
    # As "cuda" would be, the default is not where the generators are.
    with torch.device("meta"):
        layer = NRS(6, n_mul=2, seed=3, device="cpu")
    assert torch.equal(layer.index, expected.index)
    assert torch.equal(layer.weight, expected.weight)
