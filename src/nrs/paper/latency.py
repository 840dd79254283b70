"""CPU time a picture or cloud at batch 1, as a ratio to the network without its addition.

nrs paper run latency --methods ResNet-50,ResNet-50+NRS
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from nrs.paper.gpu import NOTE as GPU_NOTE
from nrs.paper.gpu import gpu_ms
from nrs.paper.modelnet40 import cost_cells
from nrs.paper.table import Cell, Found, Measured, Printed, Subject, Table
from nrs.paper.vision_models import Model, models

TABLES = ("fine_grained", "imagenet_se")
# Turns of the two networks; a forward of VGG-16 at 448 pixels takes seconds.
TURNS, LEAST_SECONDS = 9, 2.0


def _timed() -> dict[tuple[str, str], Model]:
    return {place: model for place, model in models().items() if model.reported("cpu_ms")}


def _measure(cell: Cell, found: Found) -> Measured:
    known = models()
    model = known[cell.subject.dataset, cell.subject.method]
    base = known[model.table, model.base or model.row]
    return _compare(model.build, base.build, model.inputs, cell.seed, TURNS)


def _compare(
    build: Callable[[], nn.Module],
    base: Callable[[], nn.Module],
    inputs: tuple[int, ...],
    seed: int,
    turns: int,
) -> Measured:
    """Both networks take turns in one process, so that the machine's other work hits both."""
    torch.manual_seed(seed)
    networks = {"base": base().eval(), "model": build().eval()}
    x = torch.randn(1, *inputs)
    times: dict[str, list[float]] = {name: [] for name in networks}
    with torch.inference_mode():
        calls = 1
        for name, network in networks.items():
            begin = time.process_time()
            network(x)  # also warms up
            if name == "base":
                once = max(time.process_time() - begin, 1e-4)
                calls = max(1, round(LEAST_SECONDS / turns / once)) if turns > 1 else 1
        for _ in range(turns):
            for name, network in networks.items():
                network(x)
                begin = time.process_time()
                for _ in range(calls):
                    network(x)
                times[name].append((time.process_time() - begin) / calls)
    ratios = [m / b for m, b in zip(times["model"], times["base"], strict=True)]
    return Measured(
        metrics={
            "ratio": statistics.median(ratios),
            "cpu_ms": 1000 * statistics.median(times["model"]),
            **gpu_ms(networks["model"], x),
        },
        settings={"turns": turns, "calls": calls, "threads": torch.get_num_threads()},
    )


def _tiny(cell: Cell) -> Measured:
    from nrs.vision import cifar_network

    def build() -> nn.Module:
        return cifar_network("resnet20", excite="nrs")

    return _compare(build, lambda: cifar_network("resnet20"), (3, 32, 32), cell.seed, 1)


def _printed(model: Model) -> list[Printed]:
    subject = Subject("latency", model.table, model.row)
    row = f"{model.table} / {model.row}"
    own, base = model.reported("cpu_ms"), None
    if model.base is not None:
        base = models()[model.table, model.base].reported("cpu_ms")
    cells = []
    if own is not None and base is not None:
        cells.append(
            Printed(
                row, "ratio", subject, metric="ratio", reported=round(own / base, 4),
                comparable=False, note="of the printed milliseconds",
            )
        )  # fmt: skip
    cells += [
        Printed(
            row, column, subject, metric=column, reported=model.reported(column),
            comparable=False, note=note,
        )
        for column, note in (("cpu_ms", "another machine"), ("gpu_ms", GPU_NOTE))
    ]  # fmt: skip
    return cells


LATENCY = Table(
    name="latency",
    title="CPU time a picture or cloud, batch 1: ratio to the network without the addition, and ms",
    finding=(
        "The NRS head costs 0.2 % of the time of ResNet-50 and VGG-16; second-order poolings cost "
        "20 to 290 %. SE+NRS is faster than SE."
    ),
    protocol=(
        "Random weights, evaluation mode, one thread, CPU time; the two networks take turns in one "
        "process, median of the ratios of a turn. 448 pixels in fine_grained, 224 in imagenet_se, "
        "clouds of 1,024 points in modelnet40. gpu_ms: median of 50 passes on the GPU of the run; "
        "none was there."
    ),
    printed=(
        *(cell for model in _timed().values() for cell in _printed(model)),
        *cost_cells(("ratio", "cpu_ms", "gpu_ms")),
    ),
    measure=_measure,
    trials=1,
    lower_is_better=frozenset({"ratio", "cpu_ms", "gpu_ms"}),
    tiny=_tiny,
)
