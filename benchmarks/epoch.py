"""How fast a whole training epoch is beside the authors' loop.

    python -m benchmarks.epoch --json results/epoch.json

The paper's network for letter, NRS(16, n_mul=100) → 256 → 256 → 26 with BN and ReLU, Adam at 1e-4,
batches of 128, on 15,000 synthetic rows of its form: 16 features in [-1, 1], 26 classes.

- *Theirs*: a shuffling ``DataLoader``, the layer as a grouped convolution over the repeated and
  gathered input, plain Adam, and the loss and accuracy read every step.
- *Ours*: :func:`nrs.training.train`: batches sliced from tensors in memory, the layer, fused Adam.

Before any clock is read, both train from the same weights on the same batches, and the loss of
every step is compared.
"""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.layer import SHAPES, AuthorsLayer, network_head
from benchmarks.measure import (
    in_fresh_process,
    interleaved,
    median_over,
    median_ratio,
    provenance,
    table,
    write_json,
)
from nrs import NRS
from nrs.training import Callback, TrainSettings, TrainState, train

SEED = 0
ROWS = 15_000
BATCH = 128
LR = 1e-4
COMPARED_STEPS = 50
LOSS_TOLERANCE = 1e-3
TARGET = 2.8
LETTER = SHAPES["letter"]


def letter_like(rows: int) -> tuple[Tensor, Tensor]:
    """Rows of the form of letter: a noisy prototype a class, 16 features in [-1, 1]."""
    generator = torch.Generator().manual_seed(SEED)
    y = torch.randint(LETTER.classes, (rows,), generator=generator)
    prototypes = torch.rand(LETTER.classes, LETTER.in_features, generator=generator) * 2 - 1
    noise = 0.4 * torch.randn(rows, LETTER.in_features, generator=generator)
    return (prototypes[y] + noise).clamp_(-1, 1), y


def networks() -> tuple[nn.Module, nn.Module]:
    """The authors' network and ours, with the same weights."""
    torch.manual_seed(SEED)
    layer = NRS(LETTER.in_features, LETTER.n_mul, seed=SEED)
    head = network_head(layer.out_features, LETTER)
    theirs = nn.Sequential(AuthorsLayer(layer), copy.deepcopy(head))
    return theirs, nn.Sequential(layer, head)


def authors_epoch(network: nn.Module, x: Tensor, y: Tensor, *, shuffle: bool = True) -> list[float]:
    """An epoch as the authors write it; returns the loss of every step."""
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=shuffle)
    optimizer = torch.optim.Adam(network.parameters(), LR)
    criterion = nn.CrossEntropyLoss()
    network.train()
    losses, correct = [], 0
    for rows, labels in loader:
        optimizer.zero_grad()
        outputs = network(rows)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        correct += outputs.argmax(1).eq(labels).sum().item()
    return losses


def our_epoch(network: nn.Module, x: Tensor, y: Tensor, *, shuffle: bool = True) -> list[float]:
    """An epoch of the package's own loop; returns the loss of every step."""

    def batches(epoch: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        if not shuffle:
            yield from zip(x.split(BATCH), y.split(BATCH), strict=True)
            return
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            yield x[rows], y[rows]

    def step(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(module(batch[0]), batch[1])

    settings = TrainSettings(epochs=1, lr=LR, optimizer="adam")
    losses = _Losses()
    generator = torch.Generator().manual_seed(SEED)
    train(network, batches, step, settings, generator=generator, callbacks=[losses])
    return torch.stack(losses.values).tolist()


def measure_epoch(rows: int, epochs: int) -> dict[str, float]:
    """CPU seconds of an epoch of each side; they take turns."""
    x, y = letter_like(rows)
    theirs, ours = networks()
    return interleaved(
        {
            "theirs": lambda: authors_epoch(theirs, x, y),
            "ours": lambda: our_epoch(ours, x, y),
        },
        seconds=0,
        at_least=epochs,
    )


def compare_losses(steps: int) -> list[list[float]]:
    """Losses of each side from the same weights on the same batches, in order."""
    x, y = letter_like(steps * BATCH)
    theirs, ours = networks()
    return [authors_epoch(theirs, x, y, shuffle=False), our_epoch(ours, x, y, shuffle=False)]


def run(processes: int, rows: int = ROWS, epochs: int = 3) -> dict[str, Any]:
    """Compare the losses, then measure epochs in fresh processes."""
    report = provenance(
        processes=processes, rows=rows, epochs_per_process=epochs, batch=BATCH, lr=LR, seed=SEED
    )
    theirs, ours = in_fresh_process(compare_losses, steps=COMPARED_STEPS)
    difference = max(abs(a - b) for a, b in zip(theirs, ours, strict=True))
    report["losses"] = {
        "steps": COMPARED_STEPS,
        "theirs": theirs,
        "ours": ours,
        "largest_difference": difference,
        "tolerance": LOSS_TOLERANCE,
    }
    if not difference <= LOSS_TOLERANCE:
        raise AssertionError(
            f"the losses of the two loops must agree to {LOSS_TOLERANCE}, however: "
            f"they differ by {difference:.1e} within {COMPARED_STEPS} steps"
        )
    runs = [in_fresh_process(measure_epoch, rows=rows, epochs=epochs) for _ in range(processes)]
    report["seconds"] = median_over(runs)
    report["seconds_of_each_process"] = runs
    report["ratio"] = median_ratio(runs, "theirs", "ours")
    report["target"] = TARGET
    return report


def show(report: dict[str, Any]) -> str:
    """The table of a report, in markdown."""
    losses, seconds = report["losses"], report["seconds"]
    steps = -(-report["settings"]["rows"] // BATCH)
    columns = ["network", "steps", "theirs s", "ours s", "× ours", "target"]
    row = ["letter", steps, seconds["theirs"], seconds["ours"], report["ratio"], report["target"]]
    return "\n".join(
        [
            "**Training epoch, CPU seconds**",
            "",
            table(columns, [row]),
            "",
            f"Losses of the first {losses['steps']} steps from the same weights on the same "
            f"batches: mean {statistics.mean(losses['theirs']):.4f} and "
            f"{statistics.mean(losses['ours']):.4f}, last {losses['theirs'][-1]:.4f} and "
            f"{losses['ours'][-1]:.4f}, largest difference {losses['largest_difference']:.1e}.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="A training epoch beside the authors' loop.")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes")
    parser.add_argument("--quick", action="store_true", help="few rows, for a first look")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    arguments = parser.parse_args()
    report = run(arguments.processes, rows=2_000 if arguments.quick else ROWS)
    print(show(report))
    if arguments.json:
        write_json(arguments.json, report)


class _Losses(Callback):
    """Keeps the loss of every step, unread until the end."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []

    def on_step_end(self, state: TrainState) -> None:
        if state.loss is not None:
            self.values.append(state.loss)


if __name__ == "__main__":
    main()
