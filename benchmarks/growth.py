"""How the time and memory of a fit grow, one axis at a time, by the engine and by its peers.

    python -m benchmarks.growth --json results/growth.json --figure results/growth.png

Generated classes (scikit-learn's `make_classification`, ten informative columns): 5,000 rows of 30
columns and 2 classes, of which one number changes at a time. Every method is at its defaults, on
one thread, and each fit has a process of its own, in which a short fit has loaded what Python
loads. Measured are CPU seconds of the fit, the memory that it takes above what was there before, at
most, and the accuracy on 2,000 other rows. Fits that take longer than ``--most-seconds`` are the
last of their method on that axis. Finished cells of the JSON file are not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import in_plain_process, provenance, table, write_json
from benchmarks.peers import at_defaults

BASE = {"rows": 5_000, "columns": 30, "classes": 2}
AXES = {
    "rows": (1_000, 10_000, 50_000, 500_000),
    "columns": (20, 200, 2_000),
    "classes": (2, 10, 50),
}
# Ours by the engine that trains it, and what it is compared with.
METHODS = ("compiled", "torch", "CatBoost", "LightGBM", "XGBoost", "RF")
TEST_ROWS, INFORMATIVE = 2_000, 10


def measure_growth(rows: int, columns: int, classes: int, method: str, seed: int) -> dict[str, Any]:
    """Seconds, megabytes and accuracy of one fit."""
    ours = method in ("compiled", "torch")
    os.environ["NRS_ENGINE"] = "torch" if method == "torch" else ""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        rows + TEST_ROWS, columns, n_informative=INFORMATIVE, n_redundant=0, n_classes=classes,
        n_clusters_per_class=1, random_state=seed,
    )  # fmt: skip
    X = X.astype(np.float32)
    name = "NRS" if ours else method
    few = np.unique(np.concatenate([np.unique(y, return_index=True)[1], np.arange(200)]))
    warm = at_defaults(name, "classification", seed)
    warm = warm.set_params(epochs=1, preset="fast") if ours else warm
    warm.fit(X[few][:, : INFORMATIVE * 2], y[few])
    model = at_defaults(name, "classification", seed)
    before = _forget_peak()
    begin = time.process_time()
    model.fit(X[:rows], y[:rows])
    seconds = time.process_time() - begin
    found = {"fit_cpu_s": seconds, "megabytes": (_memory("VmHWM") - before) / 1024}
    answers = np.asarray(model.predict(X[rows:])).reshape(-1)
    found["accuracy"] = 100 * float(np.mean(answers == y[rows:]))
    return found | ({"engine": model.engine_} if ours else {})


def _forget_peak() -> int:
    """Let the peak of this process's memory begin anew; gives the memory in use (kB)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _memory("VmRSS")


def _memory(what: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def planned(axes: list[str], methods: list[str]) -> Iterator[tuple[str, dict[str, int], str]]:
    """The cells, the small ones first: axis, shape and method."""
    for axis in axes:
        for size in AXES[axis]:
            for method in methods:
                yield axis, BASE | {axis: size}, method


def summary(cells: list[dict[str, Any]]) -> str:
    """For each axis seconds, megabytes and accuracy of each method."""
    parts = []
    for axis in dict.fromkeys(cell["axis"] for cell in cells):
        own = [cell for cell in cells if cell["axis"] == axis]
        methods = list(dict.fromkeys(cell["method"] for cell in own))
        for what in ("fit_cpu_s", "megabytes", "accuracy"):
            rows: list[list[object]] = []
            for size in sorted({cell[axis] for cell in own}):
                known = {cell["method"]: cell[what] for cell in own if cell[axis] == size}
                rows.append([f"{size:,} {axis}", *[known.get(method) for method in methods]])
            parts.append(f"{what}\n\n{table([axis, *methods], rows)}")
    return "\n\n".join(parts)


def draw(cells: list[dict[str, Any]], path: Path) -> None:
    """Seconds and megabytes against each axis, one line per method."""
    from matplotlib.figure import Figure

    axes = list(dict.fromkeys(cell["axis"] for cell in cells))
    figure = Figure(figsize=(1 + 3.4 * len(axes), 6), dpi=130, layout="constrained")
    panels = figure.subplots(2, len(axes), squeeze=False, sharey="row")
    for row, (what, title) in enumerate(
        (("fit_cpu_s", "CPU time of a fit (s)"), ("megabytes", "memory above the data (MB)"))
    ):
        for axis, panel in zip(axes, panels[row], strict=True):
            for method in METHODS:
                own = [c for c in cells if (c["axis"], c["method"]) == (axis, method)]
                # Megabytes below 1 are noise.
                points = sorted((cell[axis], max(cell[what], 1e-2)) for cell in own)
                if points:
                    strong = method == "compiled"
                    panel.plot(*zip(*points, strict=True), marker="o", ms=3.5, label=method,
                               lw=2.2 if strong else 1.1, zorder=3 if strong else 2)  # fmt: skip
            panel.set(xscale="log", yscale="log", xlabel=axis)
            panel.set_xticks(AXES[axis], [f"{size:,}" for size in AXES[axis]])
            panel.minorticks_off()
            panel.grid(alpha=0.3)
        panels[row][0].set_ylabel(title)
    lines = panels[0][0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper center", ncols=len(METHODS), fontsize=8)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axes", nargs="*", default=list(AXES), choices=AXES)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--most-seconds", type=float, default=600.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--figure", type=Path)
    chosen = parser.parse_args()
    path = chosen.json
    cells = json.loads(path.read_text())["cells"] if path and path.exists() else []
    for axis, shape, method in planned(chosen.axes, chosen.methods):
        name = {"axis": axis, **shape, "method": method}
        smaller = [c for c in cells if (c["axis"], c["method"]) == (axis, method)]
        too_long = any(cell["fit_cpu_s"] > chosen.most_seconds for cell in smaller)
        if too_long or any(name.items() <= cell.items() for cell in cells):
            continue
        cells.append(name | in_plain_process(measure_growth, **shape, method=method, seed=0))
        if path:
            write_json(path, provenance(most_seconds=chosen.most_seconds) | {"cells": cells})
    print(summary(cells))
    if chosen.figure:
        draw(cells, chosen.figure)


if __name__ == "__main__":
    main()
