"""How fast the point-cloud operations are beside the vectorised research code.

    python -m benchmarks.points --json results/points.json
    python -m benchmarks.points --only fps --json results/points.json

- *FPS*: 1,024 → 512 points, against one step a point on (B, N, 3) with a masked update.
- *Ball query*: 512 centres, 32 points within 0.2, against a distance matrix and a full sort of
  the row numbers. (Research code takes the first points within the radius, ours the nearest.)
- *kNN*: k = 20, in 3 and in 64 dimensions, against a distance matrix and topk.
- *Memory* of kNN: growth of the peak resident size, by the chunk.
- *Models*: the paper's encoders with NRS and without, in evaluation mode, as the research code
  runs them at inference.

Batch 16, one thread, CPU time, candidates interleaved, medians over fresh processes; the results
of both sides are compared before any clock is read.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.layer import _peak_megabytes
from benchmarks.measure import (
    in_fresh_process,
    interleaved,
    median_over,
    median_ratio,
    provenance,
    table,
    write_json,
)
from nrs.points import ball_query, create, farthest_point_sampling, knn
from nrs.points.registry import PAPER_SUBSPACE

SEED = 0
BATCH, POINTS, CENTRES, K, RADIUS, GROUP = 16, 1024, 512, 20, 0.2, 32
# How many times as fast ours must be, at least; and how much longer NRS may take, in percent.
TARGETS = {"fps": 1.5, "ball query": 1.3, "knn, 3 dimensions": 1.0, "knn, 64 dimensions": 1.0}
MODEL_TARGET = 3.0
# The batches of each; the paper times one cloud.
MODELS = {"pointnet": (1, BATCH), "pointnet2": (1,), "dgcnn": (1,)}
CHUNKS = (1 << 18, 1 << 20, 1 << 22)


def research_distances(a: Tensor, b: Tensor) -> Tensor:
    """|a|² + |b|² − 2·a·b, a pass a term."""
    squares = -2 * torch.matmul(a, b.transpose(1, 2))
    squares += (a**2).sum(-1, keepdim=True)
    squares += (b**2).sum(-1).unsqueeze(1)
    return squares


def research_fps(xyz: Tensor, n: int, start: Tensor) -> Tensor:
    """One step a point, the nearest distances updated where they shrink."""
    batch, points, _ = xyz.shape
    chosen = torch.zeros(batch, n, dtype=torch.int64)
    nearest = torch.full((batch, points), 1e10)
    rows = torch.arange(batch)
    last = start
    for step in range(n):
        chosen[:, step] = last
        centre = xyz[rows, last].unsqueeze(1)
        distance = ((xyz - centre) ** 2).sum(-1)
        closer = distance < nearest
        nearest[closer] = distance[closer]
        last = nearest.max(-1).indices
    return chosen


def research_ball_query(xyz: Tensor, k: int, radius: float, centres: Tensor) -> Tensor:
    """All row numbers, those outside set to N, a full sort, the first k."""
    batch, points, _ = xyz.shape
    index = torch.arange(points).view(1, 1, -1).repeat(batch, centres.shape[1], 1)
    index[research_distances(centres, xyz) > radius**2] = points
    index = index.sort(-1).values[:, :, :k]
    first = index[:, :, :1].expand_as(index)
    return torch.where(index == points, first, index)


def research_knn(x: Tensor, k: int) -> Tensor:
    """The whole distance matrix, then topk."""
    inner = -2 * torch.matmul(x, x.transpose(2, 1))
    squares = (x**2).sum(2, keepdim=True)
    closeness = -squares - inner - squares.transpose(2, 1)
    return closeness.topk(k, dim=-1).indices


def measure_operation(name: str, seconds: float) -> dict[str, float]:
    """CPU seconds of a call on each side."""
    torch.manual_seed(SEED)
    xyz = torch.rand(BATCH, POINTS, 3) * 2 - 1
    sides: dict[str, Callable[[], object]]
    if name == "fps":
        start = torch.zeros(BATCH, dtype=torch.int64)
        sides = {
            "reference": partial(research_fps, xyz, CENTRES, start),
            "ours": partial(farthest_point_sampling, xyz, CENTRES, start=start),
        }
        assert torch.equal(sides["ours"](), sides["reference"]())  # type: ignore[arg-type]
    elif name == "ball query":
        centres = xyz[:, :CENTRES]
        sides = {
            "reference": partial(research_ball_query, xyz, GROUP, RADIUS, centres),
            "ours": partial(ball_query, xyz, GROUP, RADIUS, centres),
        }
        # Where a ball holds no more than the group, both find the same points.
        ours, theirs = (sides[side]().sort(-1).values for side in ("ours", "reference"))  # type: ignore[attr-defined]
        inside = (research_distances(centres, xyz) <= RADIUS**2).sum(-1) <= GROUP
        same = [set(a) == set(b) for a, b in zip(ours[inside].tolist(), theirs[inside].tolist(),
                                                  strict=True)]  # fmt: skip
        assert sum(same) >= 0.999 * len(same)
    else:
        x = xyz if "3" in name else torch.randn(BATCH, POINTS, 64)
        sides = {"reference": partial(research_knn, x, K), "ours": partial(knn, x, K)}
        ours, theirs = (sides[side]() for side in ("ours", "reference"))  # type: ignore[assignment]
        assert (ours.sort(-1).values == theirs.sort(-1).values).float().mean() > 0.999
    return interleaved(sides, seconds=seconds, turn=0.03)


def measure_memory(chunk: int | None) -> float:
    """Growth of the peak resident size, in MB, over a kNN; None is the research code."""
    torch.manual_seed(SEED)
    x = torch.rand(BATCH, POINTS, 3)
    research_knn(x[:1, :64], 4)
    knn(x[:1, :64], 4)
    before = _peak_megabytes(reset=True)
    if chunk is None:
        research_knn(x, K)
    else:
        knn(x, K, chunk=chunk)
    return _peak_megabytes() - before


def measure_model(name: str, batch: int, seconds: float) -> dict[str, float]:
    """CPU seconds of a forward pass with NRS and without; the encoders' weights are the same."""
    models = {}
    for side, subspace in (("plain", None), ("with NRS", PAPER_SUBSPACE[name])):
        torch.manual_seed(SEED)
        models[side] = create(name, 40, subspace=subspace).eval()
    x = torch.rand(batch, POINTS, models["plain"].channels) * 2 - 1
    with torch.no_grad():
        return interleaved(
            {side: partial(model, x) for side, model in models.items()},
            seconds=seconds,
            at_least=7,
            turn=0.03,
        )


QUESTIONS = (*TARGETS, "memory", *MODELS)


def run(
    processes: int = 5, seconds: float = 6.0, only: Sequence[str] = QUESTIONS
) -> dict[str, Any]:
    """Answer some questions, or all."""
    report: dict[str, Any] = {"operations": [], "knn_memory_mb": {}, "models": []}
    for name in [name for name in TARGETS if name in only]:
        runs = [
            in_fresh_process(measure_operation, name=name, seconds=seconds)
            for _ in range(processes)
        ]
        times = median_over(runs)
        report["operations"].append(
            {
                "operation": name,
                "reference_ms": 1e3 * times["reference"],
                "ours_ms": 1e3 * times["ours"],
                "ratio": median_ratio(runs, "reference", "ours"),
                "target": TARGETS[name],
            }
        )
    if "memory" in only:
        report["knn_memory_mb"] = {
            "reference" if chunk is None else str(chunk): statistics.median(
                in_fresh_process(measure_memory, chunk=chunk) for _ in range(min(3, processes))
            )
            for chunk in (None, *CHUNKS)
        }
    for name in [name for name in MODELS if name in only]:
        for batch in MODELS[name]:
            runs = [
                in_fresh_process(measure_model, name=name, batch=batch, seconds=seconds)
                for _ in range(processes)
            ]
            times = median_over(runs)
            report["models"].append(
                {
                    "model": name,
                    "batch": batch,
                    "plain_ms": 1e3 * times["plain"],
                    "nrs_ms": 1e3 * times["with NRS"],
                    "more_percent": 100 * (median_ratio(runs, "with NRS", "plain") - 1),
                    "target": MODEL_TARGET,
                }
            )
    return report


def joined(before: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """A report with the answers of an earlier one that it lacks itself."""
    for part, key in (("operations", "operation"), ("models", "model")):
        new = {entry[key] for entry in report[part]}
        report[part] = [e for e in before.get(part, []) if e[key] not in new] + report[part]
    report["knn_memory_mb"] = report["knn_memory_mb"] or before.get("knn_memory_mb", {})
    return report


def tables(report: dict[str, Any]) -> str:
    """The report for people."""
    operations = ["operation", "reference_ms", "ours_ms", "ratio", "target"]
    rows = [[entry[column] for column in operations] for entry in report["operations"]]
    lines = ["**Operations**", "", table(operations, rows)] if rows else []
    memory = [[name, value] for name, value in report["knn_memory_mb"].items()]
    if memory:
        lines += ["", "**Peak memory of kNN, by chunk (distances)**", ""]
        lines += [table(["chunk", "MB"], memory)]
    if report["models"]:
        columns = ["model", "batch", "plain_ms", "nrs_ms", "more_percent", "target"]
        rows = [[entry[column] for column in columns] for entry in report["models"]]
        lines += ["", "**Whole models with NRS and without**", "", table(columns, rows)]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the report if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="PATH", help="write the report here")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument(
        "--only", action="append", choices=QUESTIONS, help="keep the other answers of the report"
    )
    arguments = parser.parse_args()
    report = provenance(processes=arguments.processes, seconds=arguments.seconds)
    report |= run(arguments.processes, arguments.seconds, arguments.only or QUESTIONS)
    if arguments.json and arguments.only and Path(arguments.json).is_file():
        report = joined(json.loads(Path(arguments.json).read_text("utf-8")), report)
    print(tables(report))
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
