"""What NRS costs in a CNN: the head beside its backbone, the block beside squeeze-and-excitation.

    python -m benchmarks.vision --json results/vision.json
    python -m benchmarks.vision --training --json results/vision_training.json

- *Head*: ResNet-50 with 200 classes, batch 1, at 448 and 224 pixels, with its linear classifier and
  with NRS before it (the paper: 540.48 and 541.57 ms, 0.2 %).
- *Block*: squeeze-and-excitation (ratio 16, no biases) and NRS in its place, on a 7×7 map of C
  channels, batch 32 and batch 1, forward and a training step; and the first C from which NRS is the
  faster at batch 1. Beside the package's own baseline, two fully connected layers, stands timm's
  block, two 1×1 convolutions.

- *Training*: an epoch of a ResNet-18 on JPEG files by `nrs.training.train_network` and by a plain
  loop as in torchvision's references, with the same transforms and loader; the most memory of each.

Both sides take turns in one process; ratios are within a process, medians over processes.
"""

from __future__ import annotations

import argparse
import copy
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.measure import (
    in_fresh_process,
    interleaved,
    median_over,
    median_ratio,
    provenance,
    table,
    write_json,
)
from nrs.training import RunSettings, TrainSettings, train_network
from nrs.vision import NRSExcite, SEBlock, add_head
from nrs.vision._torchvision import part, torchvision
from nrs.vision.data import Preparation, read_folder

SEED = 0
CLASSES = 200
# Pixels and the most that the head may add.
HEAD_LIMITS = {448: 0.01, 224: 0.025}
CHANNELS = (64, 128, 256, 512, 1024, 2048)
SIDE = 7
BATCHES = (1, 32)
FASTER_FROM = 512
# Of training: files, their batch, the side that the network sees, and the largest ratio of times.
PICTURES, TRAIN_BATCH, TRAINED, TIME_LIMIT = 64, 16, 64, 1.05


def backbones() -> dict[str, nn.Module]:
    """ResNet-50 with 200 classes, and the same weights with the paper's head."""
    torch.manual_seed(SEED)
    models = torchvision().models
    plain = models.resnet50(weights=None, num_classes=CLASSES)
    headed = models.resnet50(weights=None, num_classes=CLASSES)
    headed.load_state_dict(plain.state_dict())
    return {"backbone": plain.eval(), "with_nrs": add_head(headed, CLASSES, seed=SEED).eval()}


def measure_head(size: int, turns: int) -> dict[str, float]:
    """CPU seconds of a picture with each network, and of both classifiers alone."""
    networks = backbones()
    x = torch.randn(1, 3, size, size)
    pooled = torch.randn(1, 2048)
    with torch.inference_mode():
        whole = interleaved(
            {name: _call(network, x) for name, network in networks.items()},
            seconds=0, at_least=turns, turn=0.0,
        )  # fmt: skip
        ends = {f"{name}_end": _call(network.fc, pooled) for name, network in networks.items()}
        return whole | interleaved(ends, seconds=1.0)


def measure_block(channels: int, batch: int, seconds: float) -> dict[str, float]:
    """CPU seconds of each block, forward and training step."""
    torch.manual_seed(SEED)
    blocks = {
        "se": SEBlock(channels),
        "timm": part("timm.layers").SEModule(channels, bias=False),
        "nrs": NRSExcite(channels, seed=SEED),
    }
    x = torch.randn(batch, channels, SIDE, SIDE)
    with torch.inference_mode():
        times = interleaved(
            {f"{name}_forward": _call(block, x) for name, block in blocks.items()}, seconds=seconds
        )
    steps = {f"{name}_step": _step(block, x) for name, block in blocks.items()}
    return times | interleaved(steps, seconds=seconds)


def _call(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    return lambda: module(x)


def _step(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    x = x.clone().requires_grad_()

    def step() -> None:
        module.zero_grad(set_to_none=True)
        x.grad = None
        module(x).sum().backward()

    return step


def run(
    processes: int,
    turns: int = 7,
    seconds: float = 1.0,
    sizes: tuple[int, ...] = tuple(HEAD_LIMITS),
    channels: tuple[int, ...] = CHANNELS,
) -> dict[str, Any]:
    """Measure everything in fresh processes."""
    report = provenance(
        processes=processes, turns=turns, seconds=seconds, classes=CLASSES, side=SIDE, seed=SEED
    )
    report["heads"] = {}
    for size in sizes:
        runs = [in_fresh_process(measure_head, size=size, turns=turns) for _ in range(processes)]
        found = median_over(runs)
        # The whole networks differ by less than they vary; their ends alone tell it sharply.
        ends = found["with_nrs_end"] - found["backbone_end"]
        report["heads"][str(size)] = {
            "seconds": found,
            "added": median_ratio(runs, "with_nrs", "backbone") - 1,
            "added_by_ends": ends / found["backbone"],
            "limit": HEAD_LIMITS.get(size),
            "runs": runs,
        }
    report["blocks"] = []
    for batch in BATCHES:
        for width in channels:
            runs = [
                in_fresh_process(measure_block, channels=width, batch=batch, seconds=seconds)
                for _ in range(processes)
            ]
            report["blocks"].append(
                {
                    "batch": batch,
                    "channels": width,
                    "seconds": median_over(runs),
                    "forward_ratio": median_ratio(runs, "se_forward", "nrs_forward"),
                    "timm_forward_ratio": median_ratio(runs, "timm_forward", "nrs_forward"),
                    "step_ratio": median_ratio(runs, "se_step", "nrs_step"),
                    "timm_step_ratio": median_ratio(runs, "timm_step", "nrs_step"),
                }
            )
    report["crossover_at_batch_1"] = crossover(report["blocks"])
    return report


def write_jpegs(folder: Path) -> Path:
    """Pictures of noise in one folder per class; JPEG files as a camera's, in small."""
    generator = np.random.default_rng(SEED)
    for number in range(PICTURES):
        coarse = generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        path = folder / f"class-{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(coarse).resize((256, 256)).save(path)
    return folder


def loops(folder: Path) -> dict[str, Callable[[], object]]:
    """An epoch of the plain loop and of ours: the same files, transforms, weights and optimizer."""
    transform = Preparation(size=TRAINED, resize=TRAINED + 16).transform(train=True)
    models = torchvision().models
    torch.manual_seed(SEED)
    theirs = models.resnet18(weights=None, num_classes=4)
    ours = copy.deepcopy(theirs)
    settings = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-4}
    optimizer = torch.optim.SGD(theirs.parameters(), **settings)
    files = part("torchvision.datasets").ImageFolder(str(folder), transform)
    pictures = read_folder(folder).prepared(transform)
    training = TrainSettings(epochs=1, optimizer="sgd", **settings)

    def plain() -> None:
        theirs.train()
        for x, labels in DataLoader(files, TRAIN_BATCH, shuffle=True, drop_last=True):
            loss = torch.nn.functional.cross_entropy(theirs(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def nrs() -> None:
        run = RunSettings(batch_size=TRAIN_BATCH, device="cpu")
        train_network(ours, pictures, None, training, run, verbose=0)

    return {"plain": plain, "nrs": nrs}


def measure_training(turns: int) -> dict[str, float]:
    """CPU seconds of an epoch of each loop."""
    with tempfile.TemporaryDirectory() as folder:
        both = loops(write_jpegs(Path(folder)))
        return interleaved(both, seconds=0, at_least=turns, turn=0.0)


def measure_memory(name: str) -> dict[str, float]:
    """The most memory, in MB, of a process that trains by one of the loops."""
    with tempfile.TemporaryDirectory() as folder:
        epoch = loops(write_jpegs(Path(folder)))[name]
        for _ in range(2):
            epoch()
    return {name: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def run_training(processes: int, turns: int = 9) -> dict[str, Any]:
    """Measure both loops in fresh processes."""
    report = provenance(
        processes=processes, turns=turns, pictures=PICTURES, batch=TRAIN_BATCH, pixels=TRAINED,
        seed=SEED,
    )  # fmt: skip
    runs = [in_fresh_process(measure_training, turns=turns) for _ in range(processes)]
    memory = [
        {
            k: v
            for name in ("plain", "nrs")
            for k, v in in_fresh_process(measure_memory, name=name).items()
        }
        for _ in range(processes)
    ]
    report |= {
        "seconds": median_over(runs),
        "time_ratio": median_ratio(runs, "nrs", "plain"),
        "time_limit": TIME_LIMIT,
        "megabytes": median_over(memory),
        "memory_ratio": median_ratio(memory, "nrs", "plain"),
        "runs": runs,
        "memory_runs": memory,
    }
    return report


def show_training(report: dict[str, Any]) -> str:
    """The table of both loops, in markdown."""
    measured = (
        ("CPU seconds of an epoch", "seconds", "time"),
        ("MB at most", "megabytes", "memory"),
    )
    rows = [
        [words, report[key]["plain"], report[key]["nrs"], report[f"{ratio}_ratio"]]
        for words, key, ratio in measured
    ]
    return table(["", "plain loop", "nrs", "ratio"], rows)


def crossover(blocks: list[dict[str, Any]]) -> int | None:
    """The first C from which NRS is the faster at batch 1, forward; None if there is none."""
    single = sorted((b for b in blocks if b["batch"] == 1), key=lambda b: b["channels"])
    first = None
    for block in reversed(single):
        if block["forward_ratio"] <= 1:
            break
        first = int(block["channels"])
    return first


def show(report: dict[str, Any]) -> str:
    """The tables of a report, in markdown."""
    heads = [
        [
            f"{size} px", 1000 * found["seconds"]["backbone"], 1000 * found["seconds"]["with_nrs"],
            100 * found["added"], 100 * found["added_by_ends"],
            None if found["limit"] is None else 100 * found["limit"],
        ]
        for size, found in report["heads"].items()
    ]  # fmt: skip
    blocks = [
        [
            f"C = {block['channels']}", block["batch"],
            1e6 * block["seconds"]["se_forward"], 1e6 * block["seconds"]["nrs_forward"],
            block["forward_ratio"], block["timm_forward_ratio"],
            block["step_ratio"], block["timm_step_ratio"],
        ]
        for block in report["blocks"]
    ]  # fmt: skip
    first = report["crossover_at_batch_1"]
    return "\n".join(
        [
            "**ResNet-50 with 200 classes, batch 1, CPU milliseconds**", "",
            table(["input", "plain", "+NRS", "added %", "added by ends %", "limit %"], heads), "",
            "**A block on a 7×7 map, CPU microseconds; × how many times as fast as SE**", "",
            table(
                ["block", "batch", "SE", "NRS", "× SE", "× timm", "× SE train", "× timm train"],
                blocks,
            ), "",
            f"At batch 1 NRS is the faster from C = {first} on." if first
            else "At batch 1 squeeze-and-excitation is the faster at every C measured.",
        ]
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="What NRS costs in a CNN.")
    parser.add_argument("--processes", type=int, default=3, help="fresh processes")
    parser.add_argument("--quick", action="store_true", help="little, for a first look")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    parser.add_argument("--training", action="store_true", help="the training loops alone")
    arguments = parser.parse_args()
    if arguments.training:
        found = run_training(arguments.processes, **({"turns": 1} if arguments.quick else {}))
        print(show_training(found))
        if arguments.json:
            write_json(arguments.json, found)
        return
    quick = {"turns": 1, "seconds": 0.2, "sizes": (224,)} if arguments.quick else {}
    report = run(arguments.processes, **quick)  # type: ignore[arg-type]
    print(show(report))
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
