"""What a row and a parameter cost on one core, and what two processes pay to talk.

    python -m benchmarks.planning --json results/planning.json

- *Training*: CPU seconds of a training step of forests of several sizes, 30 columns, batches of
  1,024 rows, by row. A line through them gives what a row costs whatever the forest, and what it
  costs for each parameter.
- *Reading*: CPU seconds to read, encode and shuffle a row of a Parquet file, and its bytes.
- *Talking*: seconds of an all-reduce of two gloo processes on this machine, by bytes.

The documentation's planning page builds on these figures.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import in_fresh_process, interleaved, provenance, table, write_json

SEED = 0
COLUMNS, CLASSES, BINS, BATCH = 30, 2, 8, 1024
# Members and width of each forest; the third is the default for a million rows.
FORESTS = ((4, 64), (8, 64), (8, 128), (16, 128), (8, 256))
READ_ROWS = 200_000
SIZES = (1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 22)


def forest(members: int, width: int) -> Any:
    """A forest as the default makes it for 30 columns, half of whose members read bins."""
    from nrs.tabular.forest.bins import PiecewiseLinear
    from nrs.tabular.forest.network import ForestNetwork

    edges = [(column, np.linspace(-2, 2, BINS + 1)) for column in range(COLUMNS)]
    bins = PiecewiseLinear.between(edges)
    generator = torch.Generator().manual_seed(SEED)
    n_inputs = COLUMNS + bins.n_bins
    index = torch.randint(n_inputs, (members, width, 9 * (1 + BINS) // 2), generator=generator)
    hidden = (width, width)
    return ForestNetwork(COLUMNS, CLASSES, index, bins, hidden=hidden, dropout=0.1, seed=SEED)


def training(seconds: float) -> list[dict[str, float]]:
    """CPU seconds by row of a training step of each forest."""
    from nrs.tabular.forest.folds import Folds
    from nrs.tabular.forest.network import forest_loss
    from nrs.tabular.targets import ClassTarget
    from nrs.training.loop import build_optimizer
    from nrs.training.settings import TrainSettings

    target = ClassTarget(np.arange(CLASSES))
    x = torch.randn(BATCH, COLUMNS)
    batch = x, (x[:, 0] > 0).long(), None, torch.arange(BATCH) % 8

    def stepper(network: Any) -> Any:
        optimizer = build_optimizer(list(network.parameters()), TrainSettings(optimizer="adamw"))
        sees = Folds(8).sees(network.n_members)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            forest_loss(network, batch, target, sees).backward()
            optimizer.step()

        return step

    networks = {f"{members}x{width}": forest(members, width) for members, width in FORESTS}
    times = interleaved({name: stepper(n) for name, n in networks.items()}, seconds=seconds)
    return [
        {
            "members": members,
            "width": width,
            "parameters": sum(p.numel() for p in networks[f"{members}x{width}"].parameters()),
            "channels": (members * width) * 3,
            "seconds_by_row": times[f"{members}x{width}"] / BATCH,
        }
        for members, width in FORESTS
    ]


def reading(rows: int) -> dict[str, float]:
    """CPU seconds and bytes of a row that is read, encoded and shuffled."""
    import pyarrow
    from pyarrow import parquet

    from nrs import NRSClassifier, Table
    from nrs.tabular.rows.table import TableSource
    from nrs.training.processes import ALONE

    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        columns = {f"x{k}": rng.normal(size=rows).astype(np.float32) for k in range(COLUMNS)}
        columns["y"] = rng.integers(0, 2, rows)
        parquet.write_table(pyarrow.table(columns), path, row_group_size=1 << 15)
        size = path.stat().st_size
        model = NRSClassifier(preset="fast", random_state=0, verbose=0)
        started = time.process_time()
        source = TableSource.of(Table(path, "y"))
        target = source.classification()
        recipe = model.resolve(source.n_rows, source.n_columns)
        folds = source.split(recipe, SEED, spare=False)
        encoder = source.encoder(None, "standard", target, folds)
        prepared, _ = source.rows(encoder, target, folds, torch.device("cpu"))
        surveyed = time.process_time() - started
        batches = prepared.batches(BATCH, 1, ALONE)
        started = time.process_time()
        seen = sum(len(batch[0]) for batch in batches(0, torch.Generator().manual_seed(0)))
        read = time.process_time() - started
    assert seen == rows
    return {"survey": surveyed / rows, "seconds_by_row": read / rows, "bytes_by_row": size / rows}


_TALK = """
import json, sys, time
import torch
import torch.distributed as dist
folder, rank, sizes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
found = []
for size in sizes:
    values, times = torch.zeros(size // 4), []
    for _ in range(40):
        started = time.perf_counter()
        dist.all_reduce(values)
        times.append(time.perf_counter() - started)
    found.append(sorted(times)[len(times) // 10])
print(json.dumps(found))
"""


def talking() -> list[dict[str, float]]:
    """Median seconds of an all-reduce of two processes on this machine, by bytes."""
    import json

    with tempfile.TemporaryDirectory() as folder:
        runs = [
            subprocess.Popen(
                [sys.executable, "-c", _TALK, folder, str(rank), json.dumps(SIZES)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = [run.communicate()[0] for run in runs]
    return [
        {"bytes": size, "seconds": seconds}
        for size, seconds in zip(SIZES, json.loads(said[0]), strict=True)
    ]


def line(forests: list[dict[str, float]]) -> tuple[float, float]:
    """Seconds of a row whatever the forest, and for each parameter: least relative squares.

    Examples
    --------
    >>> found = line([{"parameters": p, "seconds_by_row": 2 + 3 * p} for p in (1, 2, 5)])
    >>> [round(value, 6) for value in found]
    [2.0, 3.0]
    """
    x = np.array([one["parameters"] for one in forests])
    y = np.array([one["seconds_by_row"] for one in forests])
    slope, constant = np.polyfit(x, y, 1, w=1 / y)
    return float(max(constant, 0.0)), float(slope)


def run(processes: int, seconds: float, rows: int) -> dict[str, Any]:
    """Measure in fresh processes and put the medians together."""
    turns = [in_fresh_process(training, seconds=seconds) for _ in range(processes)]
    forests = [
        {
            **one,
            "seconds_by_row": statistics.median(turn[k]["seconds_by_row"] for turn in turns),
        }
        for k, one in enumerate(turns[0])
    ]
    by_row, by_parameter = line(forests)
    settings = {"processes": processes, "seconds": seconds, "rows": rows, "batch": BATCH}
    return {
        **provenance(**settings),
        "forests": forests,
        "seconds_by_row": by_row,
        "seconds_by_row_and_parameter": by_parameter,
        "reading": in_fresh_process(reading, rows=rows),
        "talking": talking(),
    }


def show(report: dict[str, Any]) -> str:
    """The report as tables."""
    forests = [
        [f"{one['members']} × {one['width']}", one["parameters"], 1e6 * one["seconds_by_row"]]
        for one in report["forests"]
    ]
    talks = [[str(one["bytes"]), 1e6 * one["seconds"]] for one in report["talking"]]
    read = report["reading"]
    return "\n\n".join(
        [
            table(["members × width", "parameters", "µs a row"], forests),
            f"{1e6 * report['seconds_by_row']:.1f} µs a row and "
            f"{1e12 * report['seconds_by_row_and_parameter']:.0f} ps a row and parameter; "
            f"surveying {1e6 * read['survey']:.2f} µs a row, reading "
            f"{1e6 * read['seconds_by_row']:.2f} µs a row of {read['bytes_by_row']:.0f} bytes",
            table(["bytes of an all-reduce", "µs"], talks),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rows", type=int, default=READ_ROWS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = run(arguments.processes, arguments.seconds, arguments.rows)
    print(show(report))
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
