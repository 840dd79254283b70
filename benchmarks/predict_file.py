"""How long ``nrs predict`` takes for a large CSV, and how much memory it needs.

    python -m benchmarks.predict_file --json results/predict_file.json

Two sides, each in a process of its own, on a CSV of made-up numbers and categories:

- *stream*: ``nrs predict model.safetensors rows.csv -o out.csv``, chunk by chunk.
- *memory*: reading the whole file with pyarrow, predicting it at once, writing nothing.

One thread. CPU and wall time with imports and the loading of the model; the peak of the resident
size. The file is deleted at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, provenance, table, write_json

# What must hold: peak memory in MB, and time as a multiple of the other side's.
MEMORY_TARGET, RATIO_TARGET = 1000.0, 1.5
NUMBERS = 16
BLOCK = 20_000

_IN_MEMORY = """
import sys
from pyarrow import csv
from nrs import NRSClassifier
model = NRSClassifier.load(sys.argv[1])
table = csv.read_csv(sys.argv[2])
print(len(model.predict(table.select(model.feature_names_in_.tolist()))))
"""


def make_rows(n: int, seed: int) -> Any:
    """A frame of numbers and two categories, and its labels."""
    import pandas

    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, NUMBERS)).round(5)
    frame = pandas.DataFrame(numbers, columns=[f"n{k}" for k in range(NUMBERS)])
    frame["city"] = rng.choice(["Oslo", "Rome", "Lima", "Cairo"], n)
    frame["plan"] = rng.choice(["basic", "plus", "family"], n)
    labels = np.where(numbers[:, 0] * numbers[:, 1] + (frame["city"] == "Rome") > 0, "yes", "no")
    return frame, labels


def write_csv(path: Path, n_bytes: int) -> int:
    """Write a CSV of about so many bytes; returns its rows."""
    # One block of text again and again: making it would take longer than measuring.
    frame, _ = make_rows(BLOCK, seed=1)
    text = frame.to_csv(index=False)
    header, _, body = text.partition("\n")
    repeats = max(1, round(n_bytes / len(body)))
    with path.open("w", encoding="utf-8") as file:
        file.write(header + "\n")
        for _ in range(repeats):
            file.write(body)
    return repeats * BLOCK


def fit_model(path: Path) -> None:
    """Save a forest of the default settings."""
    from nrs import NRSClassifier

    frame, labels = make_rows(2000, seed=0)
    NRSClassifier(random_state=0, epochs=4, verbose=0).fit(frame, labels).save(path)


def run_side(command: list[str]) -> dict[str, float]:
    """Seconds and peak megabytes of a process."""
    code = (
        "import json, resource, subprocess, sys, time\n"
        "begin = time.perf_counter()\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps({'code': done.returncode, 'wall': time.perf_counter() - begin, "
        "'cpu': used.ru_utime + used.ru_stime, 'peak_mb': used.ru_maxrss / 1024}))\n"
    )
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # A process between: the peak of children is the largest that this one ever had.
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True, text=True, check=True, env=os.environ | threads, cwd=ROOT,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    if found.pop("code"):
        raise RuntimeError(f"failed: {' '.join(command)}\n{done.stderr}")
    return found


def run(n_bytes: int, repeats: int, folder: Path, memory: bool = True) -> dict[str, Any]:
    """Measure both sides, in turns."""
    model, source, output = (
        folder / name for name in ("model.safetensors", "rows.csv", "predictions.csv")
    )
    fit_model(model)
    try:
        n_rows = write_csv(source, n_bytes)
        sides = {
            "stream": ["-m", "nrs", "predict", str(model), str(source), "-o", str(output)],
            "memory": ["-c", _IN_MEMORY, str(model), str(source)],
        }
        if not memory:
            del sides["memory"]
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for _ in range(repeats):
            for name, arguments in sides.items():
                runs[name].append(run_side([sys.executable, *arguments]))
        with output.open("rb") as file:
            written = sum(1 for _ in file) - 1
        if written != n_rows:
            raise RuntimeError(f"{written} predictions for {n_rows} rows")
        size = source.stat().st_size
    finally:
        for path in (source, output):
            path.unlink(missing_ok=True)
    report: dict[str, Any] = {"bytes": size, "rows": n_rows}
    for name, found in runs.items():
        report[name] = {key: min(one[key] for one in found) for key in ("wall", "cpu")}
        report[name]["peak_mb"] = max(one["peak_mb"] for one in found)
    if memory:
        report["cpu_ratio"] = report["stream"]["cpu"] / report["memory"]["cpu"]
        report["wall_ratio"] = report["stream"]["wall"] / report["memory"]["wall"]
    report["targets"] = {"peak_mb": MEMORY_TARGET, "ratio": RATIO_TARGET}
    return report


def tables(report: dict[str, Any]) -> str:
    """The report for people."""
    sides = [name for name in ("stream", "memory") if name in report]
    rows = [[name, *(report[name][key] for key in ("cpu", "wall", "peak_mb"))] for name in sides]
    lines = [
        f"{report['bytes'] / 1e9:.2f} GB, {report['rows']:,} rows",
        "",
        table(["side", "cpu s", "wall s", "peak MB"], rows),
    ]
    if "cpu_ratio" in report:
        lines += ["", f"stream / memory: {report['cpu_ratio']:.2f} of CPU time, "
                      f"{report['wall_ratio']:.2f} of wall time"]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the report if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="PATH", help="write the report here")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    report = provenance(gigabytes=arguments.gigabytes, repeats=arguments.repeats)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report |= run(int(arguments.gigabytes * 1e9), arguments.repeats, Path(folder))
    report["seconds"] = time.perf_counter() - begin
    print(tables(report))
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
