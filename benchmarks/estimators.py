"""How long the default estimator fits and predicts, beside forests, boosting and tabular networks.

    NRS_DATA=<folder with letter.npz, satimage.npz, a9a.npz, covtype.npz> \\
        python -m benchmarks.estimators --json results/estimators.json

Every cell (data set × method) runs in a fresh process with one thread and is measured in CPU
seconds; peers are at their defaults. Cells that are already in the JSON file are kept, so a run
that was stopped goes on; `--again NRS` measures a method anew. Where a method needs more than
`--limit` seconds to fit (15 minutes), every method gets 20,000 training rows of that data set
instead; a method that passes the limit even so is shown with the limit as a lower bound.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import (
    ChildError,
    in_fresh_process,
    interleaved,
    provenance,
    table,
    write_json,
)
from benchmarks.peers import at_defaults

SEED = 0
LIMIT = 900
OVER_LIMIT = 75  # exit code of a cell that was stopped
FEWER_ROWS = 20_000
COVTYPE_ROWS = 100_000
PREDICT_ROWS = (1, 1_000, 100_000)


# By the names of the results: those of benchmarks.peers.
METHODS = {
    "NRS": "NRS",
    "RandomForest(500)": "RF",
    "LightGBM": "LightGBM",
    "CatBoost": "CatBoost",
    "RealMLP": "RealMLP",
    "TabM": "TabM",
}
DATASETS = ("satimage", "letter", "a9a", "covtype")


def load(name: str, rows: int | None) -> tuple[np.ndarray, ...]:
    """Training and test part of a data set; `rows` limits the training part."""
    if name == "synthetic":
        from sklearn.datasets import make_classification

        X, y = make_classification(600, 8, n_informative=5, random_state=SEED)
        return X[:400].astype(np.float32), y[:400], X[400:].astype(np.float32), y[400:]
    folder = os.environ.get("NRS_DATA")
    if folder is None:
        sys.exit("set NRS_DATA to the folder that holds letter.npz, satimage.npz, …")
    with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as file:
        if "X_train" in file:
            parts = [file[key] for key in ("X_train", "y_train", "X_test", "y_test")]
        else:
            order = np.random.default_rng(SEED).permutation(len(file["y"]))
            train, test = order[:COVTYPE_ROWS], order[COVTYPE_ROWS : COVTYPE_ROWS + 50_000]
            X, y = file["X"], file["y"]
            parts = [X[train], y[train], X[test], y[test]]
    X, y, X_test, y_test = parts
    if rows is not None and rows < len(y):
        chosen = np.random.default_rng(SEED).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    return X.astype(np.float32), y.astype(np.int64), X_test.astype(np.float32), y_test


def measure_cell(dataset: str, method: str, rows: int | None, limit: float) -> dict[str, Any]:
    """Fit, score and time one method on one data set; runs in a process of its own."""
    import torch

    torch.set_num_threads(1)
    X, y, X_test, y_test = load(dataset, rows)
    # The peers want labels 0, 1, …
    labels, y = np.unique(y, return_inverse=True)
    y_test = np.searchsorted(labels, y_test)
    model = at_defaults(METHODS[method], "classification", SEED)
    finished = _stop_after(limit)
    start = time.process_time()
    model.fit(X, y)
    fit = time.process_time() - start
    finished.set()
    accuracy = float((np.asarray(model.predict(X_test)).reshape(-1) == y_test).mean())
    predict = {}
    for count in PREDICT_ROWS:
        tiled = np.ascontiguousarray(np.resize(X_test, (count, X_test.shape[1])))
        candidates = {"predict": partial(model.predict_proba, tiled)}
        predict[str(count)] = interleaved(candidates, seconds=1.0, at_least=1)["predict"]
    return {
        "dataset": dataset, "method": method, "train_rows": len(y), "fit_seconds": fit,
        "predict_seconds": predict, "accuracy": accuracy,
    }  # fmt: skip


def _stop_after(seconds: float) -> threading.Event:
    """End this process once it has used so much CPU time, unless the event is set before."""
    finished = threading.Event()

    def watch() -> None:
        start = time.process_time()
        while not finished.wait(2):
            if time.process_time() - start > seconds:
                os._exit(OVER_LIMIT)

    threading.Thread(target=watch, daemon=True).start()
    return finished


def cell_or_bound(dataset: str, method: str, rows: int | None, limit: float) -> dict[str, Any]:
    """The measured cell, or the limit as a lower bound of its time to fit."""
    try:
        return in_fresh_process(
            measure_cell, dataset=dataset, method=method, rows=rows, limit=limit
        )
    except ChildError as error:
        if error.code != OVER_LIMIT:
            raise
    train_rows = len(load(dataset, rows)[1])
    return {
        "dataset": dataset, "method": method, "train_rows": train_rows, "fit_seconds": limit,
        "over_limit": True, "predict_seconds": {}, "accuracy": None,
    }  # fmt: skip


def run(
    datasets: Sequence[str],
    methods: Sequence[str],
    path: Path | None = None,
    *,
    again: Sequence[str] = (),
    rows: int | None = None,
    limit: float = LIMIT,
) -> dict[str, Any]:
    """Measure what is missing, writing every cell as it comes."""
    report: dict[str, Any] = {"cells": []}
    if path is not None and path.exists():
        report = json.loads(path.read_text(encoding="utf-8"))
    kept = [c for c in report["cells"] if c["method"] not in again]
    report = {"provenance": provenance(seed=SEED, limit=limit, rows=rows), "cells": kept}
    for dataset in datasets:
        # The slowest first: whether it keeps the limit decides the rows of all.
        for method in sorted(methods, key=lambda name: -list(METHODS).index(name)):
            cells = [c for c in report["cells"] if c["dataset"] == dataset]
            if any(c["method"] == method for c in cells):
                continue
            most = min((c["train_rows"] for c in cells), default=rows)
            cell = cell_or_bound(dataset, method, most, limit)
            if cell.get("over_limit") and cell["train_rows"] > FEWER_ROWS:
                cell = cell_or_bound(dataset, method, FEWER_ROWS, limit)
                report["cells"] = [c for c in report["cells"] if c["dataset"] != dataset]
            print(f"{dataset} {method}: fit {cell['fit_seconds']:.1f} s", file=sys.stderr)
            report["cells"].append(cell)
            if path is not None:
                write_json(path, report)
    return report


def tables(report: dict[str, Any]) -> str:
    """CPU seconds to fit and to predict, and accuracy, a row a method."""
    cells = {(c["dataset"], c["method"]): c for c in report["cells"]}
    datasets = list(dict.fromkeys(dataset for dataset, _ in cells))
    methods = [name for name in METHODS if any(name == method for _, method in cells)]
    heads = []
    for dataset in datasets:
        rows = {c["train_rows"] for c in report["cells"] if c["dataset"] == dataset}
        heads.append(f"{dataset} ({'/'.join(f'{r:,}' for r in sorted(rows))} rows)")

    def rows_of(value: Callable[[dict[str, Any]], object]) -> list[list[object]]:
        return [
            [m, *(value(cells[d, m]) if (d, m) in cells else None for d in datasets)]
            for m in methods
        ]

    def fit(cell: dict[str, Any]) -> str:
        return f"{'> ' if cell.get('over_limit') else ''}{cell['fit_seconds']:.1f}"

    def speed(cell: dict[str, Any], count: int) -> float | None:
        seconds = cell["predict_seconds"].get(str(count))
        return None if seconds is None else float(round(count / seconds))

    def accuracy(cell: dict[str, Any]) -> float | None:
        return None if cell["accuracy"] is None else round(100 * cell["accuracy"], 2)

    parts = ["Fit, CPU seconds", table(["method", *heads], rows_of(fit))]
    for count in PREDICT_ROWS:
        by_row = rows_of(partial(speed, count=count))
        parts += [f"Predict {count:,} rows, rows a CPU second", table(["method", *heads], by_row)]
    parts += ["Accuracy on the test part, %", table(["method", *heads], rows_of(accuracy))]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--again", default="", help="methods to measure anew")
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds of a fit")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = run(
        options.datasets.split(","),
        options.methods.split(","),
        options.json,
        again=options.again.split(","),
        rows=options.rows,
        limit=options.limit,
    )
    print(tables(report))


if __name__ == "__main__":
    main()
