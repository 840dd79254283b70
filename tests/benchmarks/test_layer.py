"""The benchmark measures what it says: same numbers on both sides, a complete report."""

import argparse
import json
from functools import partial

import pytest
import torch
from torch import nn

from benchmarks import layer as benchmark
from benchmarks.layer import SHAPES, AuthorsLayer, Shape, network_head, training_step
from benchmarks.measure import in_fresh_process, table, write_json
from nrs import NRS
from nrs.core import FORMULATIONS

TINY = {"table": Shape(6, 4, 1, 3, 1.0), "head": Shape(16, 2, 4, 5, 1.0)}


@pytest.fixture
def tiny_shapes(monkeypatch):
    monkeypatch.setattr(benchmark, "SHAPES", TINY)


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("name", TINY)
def test_reference_is_the_layer(name, repeat):
    shape = TINY[name]
    layer = NRS(shape.in_features, shape.n_mul, shape.n_per, seed=1)
    x = torch.randn(32, shape.in_features, generator=torch.Generator().manual_seed(0))
    reference = AuthorsLayer(layer, repeat=repeat)
    torch.testing.assert_close(reference(x), layer(x))
    torch.testing.assert_close(reference.eval()(x), layer.eval()(x))


@pytest.mark.parametrize("formulation", ["dense", "bag"])
def test_gradient_comes_in_the_layout_a_linear_layer_hands_back(formulation):
    layer = NRS(6, n_mul=4, formulation=formulation, seed=0)
    output = layer(torch.randn(32, 6))
    strides = []
    output.register_hook(lambda gradient: strides.append(gradient.stride()))
    nn.Linear(24, 5)(output).square().mean().backward()
    assert strides == [output.stride()] == [torch.empty_like(output).stride()]


def test_training_step_takes_fresh_gradients_each_time():
    layer, x = NRS(6, n_mul=2, seed=0), torch.randn(8, 6, requires_grad=True)
    step = training_step(layer, x, torch.randn(8, 12))
    step()
    first, of_input = layer.weight.grad, x.grad
    step()
    torch.testing.assert_close(layer.weight.grad, first)
    torch.testing.assert_close(x.grad, of_input)


@pytest.mark.parametrize("formulations", [False, True])
@pytest.mark.parametrize("name", TINY)
def test_measurements_are_positive(tiny_shapes, name, formulations):
    parts = benchmark.measure_shape(name, [8], [1, 8], 0.0, formulations, inputs=formulations)
    assert set(parts["training"]) == {8}
    assert set(parts["inference"]) == {1, 8}
    times = parts["training"][8]
    expected = {"reference", *FORMULATIONS} - ({"bag"} if name == "head" else set())
    assert set(times) == (expected if formulations else {"reference", "lean", "ours", "row-major"})
    assert {"reference", "ours"} <= set(parts["inference"][1])
    measured = [t for part in parts.values() for case in part.values() for t in case.values()]
    assert min(measured) > 0


def test_report_of_a_quick_run(tmp_path, monkeypatch, here, brief):
    here(benchmark)
    brief(benchmark)
    monkeypatch.setattr(benchmark, "measure_copy", partial(benchmark.measure_copy, megabytes=4))
    arguments = argparse.Namespace(
        processes=1, quick=True, shapes=["letter"], batches=[8], formulations=False, turn=0.001,
        inputs=True,
    )  # fmt: skip
    report = benchmark.run(arguments)
    (row,) = report["training"]
    assert (row["layer"], row["batch"], row["target"]) == ("letter", 8, SHAPES["letter"].target)
    assert min(row["ratios"].values()) > 0
    assert row["percent_of_limit"] > 0
    assert report["copy_gigabytes_per_second"] > 0
    assert report["versions"]["torch"] == torch.__version__
    assert report["settings"]["seed"] == benchmark.SEED
    text = benchmark.show(report)
    assert "| letter" in text
    write_json(tmp_path / "new" / "report.json", report)
    assert json.loads((tmp_path / "new" / "report.json").read_text()) == report


def test_memory_is_measured():
    assert in_fresh_process(benchmark.measure_memory, shape="letter", batch=64, reference=True) > 0


def test_a_failing_process_tells_why():
    with pytest.raises(RuntimeError, match="KeyError"):
        in_fresh_process(benchmark.measure_memory, shape="none", batch=2, reference=True)


def test_least_bytes_counts_everything_once():
    # Input 8·6, weights 24·(9 + 3), output 8·24; gradients of the weights and the output.
    assert benchmark.least_bytes(TINY["table"], 8) == 4 * (48 + 2 * 288 + 2 * 192)
    assert benchmark.least_bytes(TINY["table"], 8, inputs=True) == 4 * (96 + 2 * 288 + 2 * 192)


def test_networks_end_in_the_classes():
    for shape in TINY.values():
        features = shape.in_features * shape.n_mul
        assert network_head(features, shape)(torch.randn(4, features)).shape == (4, shape.classes)


def test_table_aligns_numbers_right():
    lines = table(["a", "b"], [["x", 1.5], ["longer", 20]]).splitlines()
    assert lines[2] == "| x      | 1.5 |"
    assert lines[3] == "| longer |  20 |"
