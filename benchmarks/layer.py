"""How fast the layer is compared with the grouped convolution as the authors write it.

    python -m benchmarks.layer --json results/layer.json

Both sides have the same weights, and their outputs are compared before any clock is read.

- *Training*: forward and backward in training mode, running statistics included. The gradient of
  the input is taken for the two CNN heads and not for the tables, where the layer comes first;
  with ``--inputs`` for all of them. The output's gradient has the same values on both sides, in
  the memory layout in which a following ``Linear`` hands it back: that of the output itself, so
  feature by feature where our output is. The column "row-major" repeats ours with a row-major
  gradient, as some other successor might give.
- "lean" is a reference that gathers from the input without repeating it first.
- *Memory*: growth of the peak resident size over a forward and backward pass.
- *Inference*: whole networks, ours folded; the reference unfolded in eval mode.
- ``--turn``: candidates take turns of 2 ms, so that ours begins each with caches that the
  reference has filled. Where our output is row-major, "ours" and "row-major" are the same
  computation, and what they differ by is this. Turns of 0.03 s measure both with warm caches.
- "of limit": the time that reading the input and weights and the output's gradient and writing
  the output and the gradients, once each, takes at the speed of a large copy, as a share of our
  time. A small layer stays in cache, so that its limit is beyond this one.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import (
    TURN,
    in_fresh_process,
    interleaved,
    median_over,
    median_ratio,
    provenance,
    table,
    write_json,
)
from nrs import NRS
from nrs.core import FORMULATIONS, fold

SEED = 0
TRAINING_BATCHES = (128, 512)
INFERENCE_BATCHES = (1, 128, 512, 4096)
MEMORY_SHAPE, MEMORY_BATCH, MEMORY_TARGET = "MNIST", 512, 5.0
INFERENCE_FLOOR = 1.0
# A map that is zero but for rounding passes the ReLU on one side and not on the other; a single
# such element is some 3e-3 of the norm of a gradient.
GRADIENT_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Shape:
    """A layer of the paper, the classes after it, and the ratio it must reach in training."""

    in_features: int
    n_mul: int
    n_per: int
    classes: int
    target: float

    @property
    def is_head(self) -> bool:
        """A CNN head passes a gradient on to its backbone; a table's layer comes first."""
        return self.n_per > 1


SHAPES = {
    "letter": Shape(16, 100, 1, 26, 10.0),
    "satimage": Shape(36, 20, 1, 6, 10.0),
    "MNIST": Shape(780, 16, 1, 10, 10.0),
    "GISETTE": Shape(5000, 1, 1, 2, 10.0),
    "SVHN": Shape(3072, 1, 1, 10, 10.0),
    "ResNet-18 head": Shape(512, 4, 32, 200, 7.0),
    "ResNet-50 head": Shape(2048, 2, 64, 200, 5.0),
}


class AuthorsLayer(nn.Module):
    """The layer as the authors write it: repeat, gather, view, convolution, BN, ReLU.

    **Shape** input ``(B, d)``, output ``(B, C)``.

    Parameters
    ----------
    layer : its weights, statistics and permutations are copied.
    repeat : False gathers from the input itself (the "lean" reference).
    """

    def __init__(self, layer: NRS, *, repeat: bool = True) -> None:
        super().__init__()
        channels, n_h = layer.out_features, layer.n_h
        self.channels, self.n_h = channels, n_h
        self.copies = layer.n_mul * n_h * n_h if repeat else 1
        positions = layer.index.clone()
        if repeat:
            # Entry k of permutation m is read from the m-th copy of the input.
            copy = torch.arange(self.copies).repeat_interleave(layer.in_features)
            positions += copy * layer.in_features
        self.register_buffer("positions", positions)
        self.convolution = nn.Conv2d(channels, channels, n_h, groups=channels // layer.n_per)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        assert layer.bias is not None
        assert layer.norm is not None
        with torch.no_grad():
            self.convolution.weight.copy_(layer.weight)
            self.convolution.bias.copy_(layer.bias)  # type: ignore[union-attr]
        self.norm.load_state_dict(layer.norm.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        cells = x.repeat(1, self.copies) if self.copies > 1 else x
        cells = cells[:, self.get_buffer("positions")]
        cells = cells.view(x.shape[0], self.channels, self.n_h, self.n_h)
        return self.relu(self.norm(self.convolution(cells))).view(x.shape[0], -1)


def training_step(
    layer: nn.Module, x: Tensor, gradient: Tensor, *, row_major: bool = False
) -> Callable[[], Tensor]:
    """A forward and backward pass; the gradient comes in the layout of the output."""
    with torch.no_grad():
        output = layer(x)
    if not row_major:
        gradient = torch.empty_like(output).copy_(gradient)  # empty_like keeps the layout

    def step() -> Tensor:
        x.grad = None
        for parameter in layer.parameters():
            parameter.grad = None
        output = layer(x)
        output.backward(gradient)
        return output

    return step


def measure_shape(
    shape: str,
    training_batches: Sequence[int],
    inference_batches: Sequence[int],
    seconds: float,
    formulations: bool = False,
    turn: float = TURN,
    inputs: bool = False,
) -> dict[str, dict[int, dict[str, float]]]:
    """CPU seconds of each candidate in training and at inference, at each batch."""
    return {
        "training": {
            batch: measure_training(shape, batch, seconds, formulations, turn, inputs)
            for batch in training_batches
        },
        "inference": {
            batch: measure_inference(shape, batch, seconds, formulations, turn)
            for batch in inference_batches
        },
    }


def measure_training(
    shape: str,
    batch: int,
    seconds: float,
    formulations: bool = False,
    turn: float = TURN,
    inputs: bool = False,
) -> dict[str, float]:
    """CPU seconds of a training step of each candidate."""
    spec = SHAPES[shape]
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(batch, spec.in_features, generator=generator)
    x.requires_grad_(spec.is_head or inputs)
    ours = _layer(spec)
    gradient = torch.randn(batch, ours.out_features, generator=generator) / batch
    reference = AuthorsLayer(ours)
    steps = {"reference": training_step(reference, x, gradient)}
    if formulations:
        for name in FORMULATIONS:
            if name == "bag" and spec.n_per > 1:
                continue
            steps[name] = training_step(_layer(spec, name), x, gradient)
    else:
        steps["lean"] = training_step(AuthorsLayer(ours, repeat=False), x, gradient)
        steps["ours"] = training_step(ours, x, gradient)
        steps["row-major"] = training_step(_layer(spec), x, gradient, row_major=True)
    expected, of_input = steps["reference"](), x.grad
    for name, step in steps.items():
        _check_close(f"output of {name}", step(), expected)
        if of_input is not None and x.grad is not None:
            _check_close(
                f"input gradient of {name}", x.grad, of_input, tolerance=GRADIENT_TOLERANCE
            )
    if not formulations:
        of_weight = reference.convolution.weight.grad
        _check_close("weight gradient", ours.weight.grad, of_weight, tolerance=GRADIENT_TOLERANCE)
    return interleaved(steps, seconds=seconds, turn=turn)


def measure_inference(
    shape: str, batch: int, seconds: float, formulations: bool = False, turn: float = TURN
) -> dict[str, float]:
    """CPU seconds of a forward pass of whole networks: the reference and ours, folded."""
    spec = SHAPES[shape]
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(batch, spec.in_features, generator=generator)
    torch.manual_seed(SEED)
    layer = _layer(spec)
    head = network_head(layer.out_features, spec)
    warm = torch.randn(256, spec.in_features, generator=generator)
    for _ in range(3):  # running statistics that are not their initial values
        head(layer(warm))
    networks: dict[str, nn.Module]
    networks = {"reference": nn.Sequential(AuthorsLayer(layer), head).eval()}
    for name in ("auto", *FORMULATIONS) if formulations else ("auto",):
        if name == "bag" and spec.n_per > 1:
            continue
        layer.formulation = name
        networks["ours" if name == "auto" else name] = fold(nn.Sequential(layer, head))
    with torch.inference_mode():
        expected = networks["reference"](x)
        for name, network in networks.items():
            _check_close(f"output of {name}", network(x), expected, tolerance=1e-4)
        return interleaved(
            {name: partial(network, x) for name, network in networks.items()},
            seconds=seconds,
            turn=turn,
        )


def measure_memory(shape: str, batch: int, reference: bool) -> float:
    """Growth of the peak resident size, in MB, over a forward and backward pass."""
    spec = SHAPES[shape]
    layer: nn.Module = _layer(spec)
    if reference:
        layer = AuthorsLayer(layer)  # type: ignore[arg-type]
    x = torch.randn(batch, spec.in_features)
    gradient = torch.randn(batch, spec.in_features * spec.n_mul)
    layer(x[:2]).sum().backward()  # libraries load what they need
    for parameter in layer.parameters():
        parameter.grad = None
    before = _peak_megabytes(reset=True)
    output = layer(x)
    output.backward(gradient if output.is_contiguous() else gradient.view(output.t().shape).t())
    return _peak_megabytes() - before


def measure_copy(megabytes: int = 512) -> float:
    """Bytes a second, read and written, of a copy too large for the caches."""
    source = torch.ones(megabytes << 18)
    target = torch.zeros_like(source)
    times = interleaved({"copy": lambda: target.copy_(source)}, seconds=1.0, at_least=5)
    return 2 * source.nbytes / times["copy"]


def least_bytes(shape: Shape, batch: int, inputs: bool = False) -> int:
    """Bytes a training step must move: input, weights, output and their gradients, once each."""
    outputs = shape.in_features * shape.n_mul
    weights = outputs * (shape.n_per * 9 + 3)
    rows = batch * shape.in_features
    times = 2 if shape.is_head or inputs else 1
    return 4 * (2 * weights + 2 * batch * outputs + times * rows)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; candidates take turns within a process, shapes have their own."""
    seconds = 0.1 if arguments.quick else 0.6
    report = provenance(
        processes=arguments.processes,
        seconds_per_case=seconds,
        seconds_per_turn=arguments.turn,
        seed=SEED,
        threads=1,
    )
    plain = {
        "seconds": seconds,
        "turn": arguments.turn,
        "formulations": arguments.formulations,
        "inputs": arguments.inputs,
        "training_batches": arguments.batches or TRAINING_BATCHES,
        "inference_batches": arguments.batches or INFERENCE_BATCHES,
    }
    runs: dict[str, list[dict[str, dict[str, dict[str, float]]]]]
    runs = {name: [] for name in arguments.shapes}
    copies: list[float] = []
    for number in range(arguments.processes):
        copies.append(in_fresh_process(measure_copy))
        for name in arguments.shapes:
            runs[name].append(in_fresh_process(measure_shape, shape=name, **plain))
        print(f"round {number + 1} of {arguments.processes}", file=sys.stderr, flush=True)
    bandwidth = statistics.median(copies)
    report["copy_gigabytes_per_second"] = bandwidth / 1e9
    report["training"] = [
        _training_row(
            name, int(batch), [run["training"][batch] for run in parts], bandwidth, arguments.inputs
        )
        for name, parts in runs.items()
        for batch in parts[0]["training"]
    ]
    report["inference"] = [
        _inference_row(name, int(batch), [run["inference"][batch] for run in parts])
        for name, parts in runs.items()
        for batch in parts[0]["inference"]
    ]
    if MEMORY_SHAPE in arguments.shapes and not arguments.formulations:
        report["memory"] = _memory(arguments.processes)
    return report


def show(report: dict[str, Any]) -> str:
    """The tables of a report, in markdown."""
    lines = []
    for part, title in (
        ("training", "Training step, CPU ms"),
        ("inference", "Whole network at inference, folded, CPU ms"),
    ):
        rows = report[part]
        if not rows:
            continue
        # A formulation that does not apply to every shape leaves an empty cell.
        names = sorted({name for row in rows for name in row["milliseconds"]}, key=_position)
        columns = ["layer", "batch", *(f"{name} ms" for name in names)]
        ratios = sorted({name for row in rows for name in row["ratios"]}, key=_position)
        columns += [f"× {name}" for name in ratios]
        columns += ["target", "of limit %"] if part == "training" else ["target"]
        body = [
            [row["layer"], row["batch"]]
            + [row["milliseconds"].get(name) for name in names]
            + [row["ratios"].get(name) for name in ratios]
            + [row["target"]]
            + ([row["percent_of_limit"]] if part == "training" else [])
            for row in rows
        ]
        lines += [f"**{title}**", "", table(columns, body), ""]
    if "memory" in report:
        memory = report["memory"]
        values = [memory[key] for key in ("reference_mb", "ours_mb", "ratio", "target")]
        columns = ["layer", "batch", "reference MB", "ours MB", "× less", "target"]
        body = [[memory["layer"], memory["batch"], *values]]
        lines += ["**Peak memory of a training step**", "", table(columns, body), ""]
    lines.append(f"Copy of a large block: {report['copy_gigabytes_per_second']:.1f} GB/s.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The layer beside the authors' convolution.")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes a case")
    parser.add_argument("--quick", action="store_true", help="short runs, for a first look")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--batches", nargs="+", type=int, help="instead of the usual ones")
    parser.add_argument(
        "--formulations", action="store_true", help="every formulation at every shape"
    )
    parser.add_argument(
        "--inputs", action="store_true", help="gradients of the inputs of every shape"
    )
    parser.add_argument("--turn", type=float, default=TURN, help="seconds of a candidate's turn")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    arguments = parser.parse_args()
    report = run(arguments)
    print(show(report))
    if arguments.json:
        write_json(arguments.json, report)


def _layer(shape: Shape, formulation: str = "auto") -> NRS:
    return NRS(shape.in_features, shape.n_mul, shape.n_per, formulation=formulation, seed=SEED)


def network_head(features: int, shape: Shape) -> nn.Sequential:
    if shape.is_head:
        return nn.Sequential(nn.Linear(features, shape.classes))
    layers: list[nn.Module] = []
    for width in (256, 256):
        layers += [nn.Linear(features, width), nn.BatchNorm1d(width), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, shape.classes))


def _check_close(
    what: str, got: Tensor | None, expected: Tensor | None, tolerance: float = 1e-5
) -> None:
    assert got is not None
    assert expected is not None
    error = (got - expected).norm() / expected.norm()
    if not error <= tolerance:
        raise AssertionError(f"{what} differs from the reference by {error:.1e} of its norm")


def _training_row(
    name: str, batch: int, runs: list[dict[str, float]], bandwidth: float, inputs: bool
) -> dict[str, Any]:
    times = median_over(runs)
    bytes_moved = least_bytes(SHAPES[name], batch, inputs)
    least = bytes_moved / bandwidth
    best = times.get("ours", min(value for key, value in times.items() if key != "reference"))
    if "ours" in times:
        ratios = {"ours": median_ratio(runs, "reference", "ours")}
        ratios["ours to lean"] = median_ratio(runs, "lean", "ours")
        ratios["row-major"] = median_ratio(runs, "reference", "row-major")
    else:
        ratios = {key: median_ratio(runs, "reference", key) for key in times if key != "reference"}
    return {
        "layer": name,
        "batch": batch,
        "milliseconds": {key: 1e3 * value for key, value in times.items()},
        "ratios": ratios,
        "target": SHAPES[name].target,
        "least_megabytes": bytes_moved / 1e6,
        "percent_of_limit": 100 * least / best,
    }


def _inference_row(name: str, batch: int, runs: list[dict[str, float]]) -> dict[str, Any]:
    times = median_over(runs)
    return {
        "layer": name,
        "batch": batch,
        "milliseconds": {key: 1e3 * value for key, value in times.items()},
        "ratios": {k: median_ratio(runs, "reference", k) for k in times if k != "reference"},
        "target": 8.0 if (name, batch) == ("letter", 128) else INFERENCE_FLOOR,
    }


def _memory(processes: int) -> dict[str, Any]:
    where = {"shape": MEMORY_SHAPE, "batch": MEMORY_BATCH}
    reference, ours = (
        statistics.median(
            in_fresh_process(measure_memory, **where, reference=side) for _ in range(processes)
        )
        for side in (True, False)
    )
    return {
        "layer": MEMORY_SHAPE,
        "batch": MEMORY_BATCH,
        "reference_mb": reference,
        "ours_mb": ours,
        "ratio": reference / ours,
        "target": MEMORY_TARGET,
    }


def _peak_megabytes(*, reset: bool = False) -> float:
    """Peak resident size of this process; `reset` lets the peak start from the present size."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) / 1024


def _position(name: str) -> int:
    order = ("reference", "lean", "ours", "ours to lean", "row-major", *FORMULATIONS)
    return order.index(name)


if __name__ == "__main__":
    main()
