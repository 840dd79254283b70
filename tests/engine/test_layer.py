"""The compiled layer: its border, bits and threads. Its numbers are tested where it is used."""

import ctypes

import pytest
import torch

from nrs.engine import forest, instructions
from nrs.engine import layer as module

pytestmark = pytest.mark.skipif(not module.AVAILABLE, reason=instructions()[1])


def parts(rows=37, features=11, groups=6, outputs=1, size=9, seed=0):
    """Everything a training step reads, by name."""
    draw = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(rows, features, generator=draw),
        "index": torch.randint(features, (groups, size), generator=draw),
        "weight": torch.randn(groups, outputs, size, generator=draw),
        "scale": torch.rand(groups * outputs, generator=draw) + 0.5,
        "shift": torch.randn(groups * outputs, generator=draw),
        "epsilon": 1e-5,
    }


def step(given, inputs=True):
    """All that a step forward and back computes."""
    output, *kept = module.train(**given)
    gradient = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    rest = {name: value for name, value in given.items() if name != "x"}
    back = module.train_backward(gradient, **rest, **_kept(kept), inputs=inputs)
    plain = (given["x"], given["index"], given["weight"])
    mapped = module.apply(*plain, given["shift"], True)
    return [output, *kept[:2], *back, mapped, *module.map_backward(gradient, *plain, inputs)]


def _kept(values):
    return dict(zip(("mean", "variance", "columns", "kept"), values, strict=True))


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("x", torch.zeros(0, 11), ValueError, r"rows \(B, d\); got \(0, 11\)"),
        ("x", torch.zeros(4, 3, 11), ValueError, r"got \(4, 3, 11\)"),
        ("x", torch.zeros(37, 11, dtype=torch.float64), ValueError, "got .* torch.float64"),
        ("x", torch.zeros(37, 2), IndexError, "from 0 to 1, the features .* got 0 to 10"),
        ("x", torch.zeros(37, 11, device="meta"), ValueError, "on the CPU; got .* meta"),
        ("index", torch.full((6, 9), 11), IndexError, "got 11 to 11"),
        ("index", torch.full((6, 9), -1), IndexError, "got -1 to -1"),
        ("index", torch.full((6, 9), -(2**63)), IndexError, "got -9223372036854775808"),
        ("index", torch.zeros(6, 8, dtype=torch.int64), ValueError, r"\(6, 9\) .* got \(6, 8\)"),
        (
            "index",
            torch.zeros(6, 9, dtype=torch.int32),
            ValueError,
            "int64 on .*; got .* of torch.int32",
        ),
        ("index", torch.zeros(9, 6, dtype=torch.int64).t(), ValueError, "contiguous"),
        ("weight", torch.zeros(6, 1, 0), ValueError, r"weights \(G, O, F\); got \(6, 1, 0\)"),
        (
            "weight",
            torch.zeros(6, 1, 9).half(),
            ValueError,
            "float32 on .*; got .* of torch.float16",
        ),
        ("weight", torch.zeros(9, 1, 6).permute(2, 1, 0), ValueError, "contiguous"),
        ("scale", torch.zeros(5), ValueError, r"\(6,\) .* got \(5,\)"),
        ("shift", torch.zeros(12)[::2], ValueError, "contiguous"),
    ],
)
def test_nothing_unfit_passes_the_border(name, value, error, message):
    with pytest.raises(error, match=message):
        module.train(**parts() | {name: value})


@pytest.mark.parametrize("name", ["mean", "variance", "columns", "kept", "gradient"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_way_back_checks_what_was_kept(name, outputs):
    given = parts(outputs=outputs)
    output, *kept = module.train(**given)
    del given["x"]
    given |= _kept(kept) | {"gradient": torch.ones_like(output)}
    module.train_backward(**given, inputs=True)
    with pytest.raises((ValueError, IndexError), match=r"expects a .*tensor|features of the"):
        module.train_backward(**given | {name: torch.zeros(2, 3)}, inputs=True)


def test_a_bias_has_the_shape_of_the_outputs():
    given = parts()
    with pytest.raises(ValueError, match=r"\(6,\) .* got \(7,\)"):
        module.apply(given["x"], given["index"], given["weight"], torch.zeros(7), False)


SHAPES = [
    {},
    {"rows": 1, "outputs": 5, "size": 20},
    {"rows": 1},
    {"rows": 130, "groups": 70, "size": 4},
    {"rows": 65, "outputs": 21, "size": 31},
    {"rows": 16, "outputs": 32, "size": 48, "features": 1},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_instruction_sets_give_the_same_bits(monkeypatch, shape):
    found = {level: forest._path(level) for level in forest._LEVELS}
    if instructions()[0] != "avx512" or not all(path.exists() for path in found.values()):
        pytest.skip("this processor runs one of the libraries only")
    results = []
    for path in found.values():
        monkeypatch.setattr(module, "_LIBRARY", module._declared(ctypes.CDLL(str(path))))
        results.append(step(parts(**shape)))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("outputs", [1, 8])
def test_threads_compute_the_same(monkeypatch, outputs):
    given = parts(rows=300, groups=40, outputs=outputs)
    alone = step(given)
    monkeypatch.setattr(module, "THREAD_WORK", 1)
    torch.set_num_threads(3)
    try:
        together, again = step(given), step(given)
    finally:
        torch.set_num_threads(1)
    for one, other, third in zip(alone, together, again, strict=True):
        # Gradients of the inputs are sums over the threads.
        torch.testing.assert_close(one, other)
        assert torch.equal(other, third)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(
    "layout",
    [
        torch.Tensor.contiguous,
        lambda g: g.t().contiguous().t(),
        lambda g: torch.stack([g, g], 2)[:, :, 0],
        lambda g: torch.cat([g, g], 1)[:, : g.shape[1]],
        lambda g: torch.cat([g.t(), g.t()], 1)[:, : g.shape[0]].t(),
    ],
)
def test_rows_and_gradients_of_any_layout(outputs, layout):
    given = parts(outputs=outputs)
    gradient = torch.randn(6 * outputs, 37)
    plain = (given["index"], given["weight"], True)
    expected = module.map_backward(gradient, given["x"], *plain)
    found = module.map_backward(layout(gradient), layout(given["x"]), *plain)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_a_gradient_that_is_one_number_everywhere():
    given = parts()
    plain = (given["x"], given["index"], given["weight"], True)
    found = module.map_backward(torch.ones(()).expand(6, 37), *plain)
    expected = module.map_backward(torch.ones(6, 37), *plain)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("outputs", [1, 3])
def test_without_gradients_of_the_inputs_the_others_are_the_same(outputs):
    given = parts(outputs=outputs)
    with_inputs, without = step(given), step(given, inputs=False)
    assert without[3].shape == (0, 11)
    assert all(torch.equal(with_inputs[k], without[k]) for k in (0, 1, 2, 4, 5, 6, 7, 9))


@pytest.mark.parametrize("outputs", [1, 3])
def test_what_is_not_a_number_stays_where_it_is(outputs):
    given = parts(outputs=outputs, groups=2, size=3, features=6)
    given["index"] = torch.arange(6).view(2, 3)
    given["x"][5, 1] = torch.nan
    output = module.train(**given)[0]
    assert output[:outputs].isnan().all()
    assert not output[outputs:].isnan().any()
    mapped = module.apply(given["x"], given["index"], given["weight"], None, True)
    assert mapped.isnan().nonzero().tolist() == [[c, 5] for c in range(outputs)]


@pytest.mark.parametrize("outputs", [1, 3])
def test_statistics_of_numbers_far_from_zero(outputs):
    given = parts(rows=1000, outputs=outputs)
    given["x"] = given["x"] + 1000
    _, mean, variance, *_ = module.train(**given)
    cells = given["x"].double().t()[given["index"]]
    exact = (given["weight"].double() @ cells).flatten(0, 1)
    torch.testing.assert_close(mean.double(), exact.mean(1), rtol=1e-6, atol=1e-3)
    torch.testing.assert_close(variance.double(), exact.var(1, correction=0), rtol=1e-3, atol=0)
