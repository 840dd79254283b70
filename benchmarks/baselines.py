"""What the methods of the comparison cost and give on letter.

    NRS_DATA=~/data python -m benchmarks.baselines --json results/baselines.json

Rows come from ``letter.npz`` in the folder ``NRS_DATA``, or from ``--data FILE.npz`` (arrays
``X_train, y_train, X_test, y_test``); without either they are synthetic, of letter's shape. One
thread, every method in a process of its own, CPU time.

- Networks of this package: seconds an epoch (median), and of the whole fit. NDF and ANT run in
  their CPU settings, the rest by the paper's; ``--trees`` and ``--epochs`` shorten a run.
- The rest: seconds of the fit.
- *NDF beside an MLP*: an epoch of each, with as many parameters in both, in one process.
- *Where the time goes*: the largest shares of an NDF epoch, by operation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import in_fresh_process, provenance, table, write_json
from nrs.baselines import MLPClassifier, NDFClassifier, available, make, model_size, names

SEED = 0
CPU_SETTINGS = {"NDF": {"preset": "default", "n_trees": None}, "ANT": {"preset": "default"}}
NETWORKS = ("NRS", "MLP", "MLP-2", "MLP-3", "MLP-D", "NDF")
EPOCH_TARGET = 2.0


def letters(path: str | None) -> dict[str, np.ndarray]:
    """Letter from a file, or rows of its shape: 26 classes, each of three clouds of points."""
    if path is not None:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in ("X_train", "y_train", "X_test", "y_test")}
    generator = np.random.default_rng(SEED)
    centres = generator.normal(size=(78, 16))
    cloud = generator.integers(78, size=20_000)
    X = (centres[cloud] + 0.7 * generator.normal(size=(20_000, 16))).astype(np.float32)
    y = cloud // 3
    return {
        "X_train": X[:15_000], "y_train": y[:15_000], "X_test": X[15_000:], "y_test": y[15_000:],
    }  # fmt: skip


def find_data(given: str | None) -> str | None:
    """The file of `--data`, else letter in the folder NRS_DATA, else None."""
    if given is not None:
        return given
    folder = os.environ.get("NRS_DATA")
    path = Path(folder).expanduser() / "letter.npz" if folder else None
    return str(path) if path is not None and path.exists() else None


def measure(name: str, data: str | None, rows: int | None, **overrides: Any) -> dict[str, Any]:
    """Fit a method: CPU seconds, seconds an epoch, bytes, accuracy."""
    arrays = letters(data)
    X, y = arrays["X_train"][:rows], arrays["y_train"][:rows]
    model = make(name, seed=SEED, **{**CPU_SETTINGS.get(name, {}), **overrides})
    wall, started = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    fitted = getattr(model, "best_estimator_", model)
    epochs = getattr(fitted, "history_", None)
    # The history counts wall time; the share of CPU time is that of the whole fit.
    share = min(1.0, seconds / wall)
    return {
        "method": name,
        "epoch_seconds": share * statistics.median(epochs["seconds"]) if epochs else None,
        "fit_seconds": seconds,
        "bytes": model_size(model),
        "accuracy": float(model.score(arrays["X_test"], arrays["y_test"])),
    }


def compare_epochs(data: str | None, rows: int | None, epochs: int) -> dict[str, Any]:
    """An epoch of NDF and of an MLP with as many parameters, in turns."""
    arrays = letters(data)
    X, y = arrays["X_train"][:rows], arrays["y_train"][:rows]
    shared: dict[str, Any] = {
        "epochs": 1, "validation_fraction": 0.0, "random_state": SEED, "verbose": 0,
    }  # fmt: skip
    forest = NDFClassifier(**shared).fit(X, y)
    wanted = _parameters(forest)
    # Two hidden layers of width w have about w² + (d + classes + 1)·w parameters.
    half = (X.shape[1] + len(forest.classes_) + 5) / 2
    width = round(np.sqrt(half**2 + wanted) - half)
    models = {"NDF": forest, "MLP": MLPClassifier(hidden=(width, width), dropout=0.0, **shared)}
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(epochs):
        for name, model in models.items():
            started = time.process_time()
            model.fit(X, y)
            times[name].append(time.process_time() - started)
    return {
        "ndf_seconds": statistics.median(times["NDF"]),
        "mlp_seconds": statistics.median(times["MLP"]),
        "ndf_parameters": wanted,
        "mlp_parameters": _parameters(models["MLP"]),
    }


def profile(data: str | None, rows: int | None, most: int) -> list[dict[str, Any]]:
    """The operations that take most of an NDF epoch, leaves and steps apart."""
    arrays = letters(data)
    X, y = arrays["X_train"][:rows], arrays["y_train"][:rows]
    model = NDFClassifier(epochs=1, validation_fraction=0.0, random_state=SEED, verbose=0)
    model.fit(X, y)
    with torch.profiler.profile() as profiler:
        model.fit(X, y)
    events = [event for event in profiler.key_averages() if event.self_cpu_time_total > 0]
    total = sum(event.self_cpu_time_total for event in events)
    events.sort(key=lambda event: -event.self_cpu_time_total)
    return [
        {
            "operation": event.key,
            "share": event.self_cpu_time_total / total,
            "calls": event.count,
            "seconds": event.self_cpu_time_total / 1e6,
        }
        for event in events[:most]
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.baselines", description=__doc__)
    parser.add_argument("--data", help="file of arrays, instead of letter in NRS_DATA")
    parser.add_argument("--json", help="write the numbers to this file")
    parser.add_argument("--methods", nargs="*", default=names(), help="only these")
    parser.add_argument("--rows", type=int, help="only so many training rows")
    parser.add_argument("--epochs", type=int, help="epochs of the networks")
    parser.add_argument("--trees", type=int, help="trees of the ensembles, instead of 500")
    given = parser.parse_args(arguments)
    data = find_data(given.data)
    shared = {"data": data, "rows": given.rows}

    results: list[dict[str, Any]] = []
    for name in given.methods:
        works, reason = available(name)
        if not works:
            results.append({"method": name, "not_run": reason})
            continue
        settings: dict[str, Any] = {}
        if given.epochs and name in NETWORKS:
            settings["epochs"] = given.epochs
        if given.trees and "n_estimators" in make(name).get_params():
            settings["n_estimators"] = given.trees
        results.append(in_fresh_process(measure, name=name, **shared, **settings))
        print(f"{name}: {results[-1]['accuracy']:.4f}", file=sys.stderr)

    columns = ["method", "s / epoch", "s / fit", "MB", "accuracy %", ""]
    shown = Path(data).name if data else "synthetic rows of the shape of letter"
    print(f"{shown}, one thread, CPU time\n")
    print(table(columns, [_row(result) for result in results]))
    report = {"data": shown, "methods": results}
    if "NDF" in given.methods:
        report["epochs"] = epochs = in_fresh_process(compare_epochs, **shared, epochs=3)
        ratio = epochs["ndf_seconds"] / epochs["mlp_seconds"]
        verdict = "within" if ratio <= EPOCH_TARGET else "beyond"
        print(
            f"\nNDF beside an MLP of {epochs['mlp_parameters']:,} parameters: "
            f"{epochs['ndf_seconds']:.2f} s an epoch to {epochs['mlp_seconds']:.2f} s, "
            f"{ratio:.2f} times ({verdict} {EPOCH_TARGET:g})"
        )
        report["profile"] = in_fresh_process(profile, **shared, most=8)
        print("\nwhere an epoch of NDF goes")
        for part in report["profile"]:
            print(f"{part['share']:5.1%}  {part['operation']} ({part['calls']} calls)")
    if given.json:
        write_json(given.json, report | {"provenance": provenance(**vars(given))})
    return 0


def _row(result: dict[str, Any]) -> list[Any]:
    if "not_run" in result:
        return [result["method"], None, None, None, None, f"not run: {result['not_run']}"]
    return [
        result["method"], result["epoch_seconds"], result["fit_seconds"], result["bytes"] / 1e6,
        100 * result["accuracy"], "",
    ]  # fmt: skip


def _parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.network_.parameters())


if __name__ == "__main__":
    sys.exit(main())
