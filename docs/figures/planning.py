"""Simulate a pass over very many rows with 8, 64 and 512 workers.

Reads results/planning.json (`python -m benchmarks.planning`), prints the tables of docs/planning.md
and writes docs/images/planning.png. Run by `make figures`.

A step of the default forest has eight stretches of computing, each ended by a reduction that all
workers wait for: one for the weights of the rows, one forward and one back for each of three batch
normalisations, and the gradients. Workers compute at speeds that vary from stretch to stretch, and
talk over a network of given latency and bandwidth. Nothing overlaps: the simulation is cautious.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parents[2]
MEASURED = json.loads((ROOT / "results" / "planning.json").read_text(encoding="utf-8"))
TARGET = ROOT / "docs" / "images" / "planning.png"
WORKERS = (1, 8, 64, 512)
ROWS = (10**9, 10**10, 10**11)
# Rows of a step of all workers together: larger steps are cheaper, and fewer learn less.
BATCH = 32_768
STRETCHES, STEPS, SEED = 8, 400, 0
PARTS = ("computing", "waiting for the slowest", "small reductions", "gradients")
COLOURS = ("#588157", "#e0a458", "#4878a8", "#c8553d")


@dataclass(frozen=True)
class Cluster:
    """What the simulation assumes of machines and network."""

    latency: float = 50e-6  # seconds of a message
    bandwidth: float = 1.25e9  # bytes a second: 10 Gbit/s
    spread: float = 0.1  # of the time of a stretch, as a standard deviation


def all_reduce(cluster: Cluster, workers: int, size: float) -> tuple[float, float]:
    """Seconds of latency and of transfer: halving and doubling, every byte twice on the wire."""
    if workers == 1:
        return 0.0, 0.0
    transfer = 2 * (workers - 1) / workers * size / cluster.bandwidth
    return 2 * math.log2(workers) * cluster.latency, transfer


def bytes_of_a_step(forest: dict[str, float]) -> tuple[float, float]:
    """Bytes that each worker puts into the small reductions and into that of the gradients."""
    forward = 8 * (2 * forest["channels"] + 3)
    back = 4 * 2 * forest["channels"]
    return forward + back + 4 * forest["members"], 4 * forest["parameters"]


def step(cluster: Cluster, workers: int, forest: dict[str, float]) -> dict[str, float]:
    """Mean seconds of the parts of a step."""
    rng = np.random.default_rng(SEED)
    by_row = forest["seconds_by_row"] + MEASURED["reading"]["seconds_by_row"]
    mean = BATCH / workers * by_row / STRETCHES
    sigma = math.sqrt(math.log1p(cluster.spread**2))
    speed = rng.lognormal(-(sigma**2) / 2, sigma, (STEPS, STRETCHES, workers))
    small, gradients = bytes_of_a_step(forest)
    one = all_reduce(cluster, workers, small / (STRETCHES - 1))
    last = all_reduce(cluster, workers, gradients)
    return dict(
        zip(
            PARTS,
            (
                STRETCHES * mean,
                STRETCHES * mean * float(speed.max(2).mean() - 1) if workers > 1 else 0.0,
                (STRETCHES - 1) * sum(one),
                sum(last),
            ),
            strict=True,
        )
    )


def hours(rows: int, seconds: float) -> float:
    """Of a pass over so many rows with steps of so many seconds."""
    return rows / BATCH * seconds / 3600


def tables(cluster: Cluster, forest: dict[str, float]) -> str:
    """What docs/planning.md shows."""
    steps = {n: step(cluster, n, forest) for n in WORKERS}
    alone = sum(steps[1].values())
    lines = ["| workers | ms a step | " + " | ".join(PARTS) + " | of ideal | bottleneck |"]
    lines.append("|--:" * (len(PARTS) + 3) + "|:--|")
    for n, parts in steps.items():
        whole = sum(parts.values())
        shares = " | ".join(f"{100 * parts[name] / whole:.0f} %" for name in PARTS)
        told = max(PARTS, key=parts.__getitem__)
        lines.append(
            f"| {n} | {1000 * whole:.1f} | {shares} | {100 * alone / n / whole:.0f} % | {told} |"
        )
    heads = (f"{n} worker" if n == 1 else f"{n} workers" for n in WORKERS)
    lines += ["", "| rows | " + " | ".join(heads) + " |"]
    lines.append("|:--" + "|--:" * len(WORKERS) + "|")
    for rows in ROWS:
        times = (hours(rows, sum(parts.values())) for parts in steps.values())
        power = round(math.log10(rows))
        told = " | ".join(map(_duration, times))
        lines.append(f"| 10<sup>{power}</sup> | {told} |")
    return "\n".join(lines)


def _duration(hours: float) -> str:
    return f"{hours:.1f} h" if hours < 100 else f"{hours / 24:.0f} d"


def draw(cluster: Cluster, forest: dict[str, float]) -> None:
    """Shares of a step beside the hours of a pass."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3))
    bottom = np.zeros(len(WORKERS))
    steps = [step(cluster, n, forest) for n in WORKERS]
    places = np.arange(len(WORKERS))
    for name, colour in zip(PARTS, COLOURS, strict=True):
        share = np.array([100 * parts[name] / sum(parts.values()) for parts in steps])
        left.bar(places, share, 0.65, bottom=bottom, color=colour, label=name)
        bottom += share
    left.set_xticks(places, [str(n) for n in WORKERS])
    left.set(xlabel="workers", ylabel="% of a step", ylim=(0, 100))
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, fontsize=8, frameon=False)
    left.set_title(f"Where the time of a step of {BATCH:,} rows goes", fontsize=10)
    many = 2 ** np.arange(11)
    times = [sum(step(cluster, int(n), forest).values()) for n in many]
    for rows, colour in zip(ROWS, COLOURS, strict=False):
        taken = [hours(rows, seconds) for seconds in times]
        power = round(math.log10(rows))
        right.loglog(many, taken, color=colour, label=f"$10^{{{power}}}$ rows")
        right.loglog(many, taken[0] / many, color=colour, linestyle=":", linewidth=1)
    right.set(xlabel="workers", ylabel="hours of a pass")
    right.set_title("A pass; dotted: if nobody had to wait or talk", fontsize=10)
    right.legend(fontsize=8)
    right.grid(color="#dddddd", linewidth=0.6)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(TARGET, dpi=150)


def main() -> None:
    forest = next(one for one in MEASURED["forests"] if (one["members"], one["width"]) == (8, 128))
    small, gradients = bytes_of_a_step(forest)
    print(f"a step sends {small / 1000:.0f} kB of statistics and {gradients / 1000:.0f} kB of ")
    print(f"gradients, each twice, for {forest['parameters']:,} parameters\n")
    print(tables(Cluster(), forest))
    draw(Cluster(), forest)


if __name__ == "__main__":
    main()
