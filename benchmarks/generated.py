"""What categories of many levels, and wide tables that are mostly noise, cost in accuracy.

    python -m benchmarks.generated --json results/generated.json

- levels: 14,000 training rows, a column of 1,500 levels with an effect each, five numbers, two
  classes. AUC on 6,000 test rows, and out of bag.
- wide: 3,000 training rows of ``make_classification``, of whose columns a few matter.
  Accuracy on 2,000 test rows.

Finished cells of the JSON file are not measured again: a run that was stopped resumes. Every method
is at its defaults, on one thread; CatBoost is told which column is a category, others
than NRS and CatBoost get it as pandas' categories.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.metrics import accuracy_score, roc_auc_score

from benchmarks.measure import Planned, measure_cells, table
from benchmarks.peers import at_defaults

N_LEVELS, N_TRAINING, N_TEST = 1_500, 14_000, 6_000
# Columns, those that matter, and seeds.
WIDE = ((200, 15, 3), (200, 50, 3), (2_000, 15, 3), (2_000, 50, 3), (10_000, 15, 2))
METHODS = ("NRS", "NRS fast", "CatBoost", "LightGBM", "RF")


def draw_levels(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose class depends on the level of a store, and on three numbers."""
    rng = np.random.default_rng(seed)
    n_rows = N_TRAINING + N_TEST
    effect, level = rng.normal(0, 1.7, N_LEVELS), rng.integers(0, N_LEVELS, n_rows)
    x = rng.normal(size=(n_rows, 5))
    odds = effect[level] + 0.5 * x[:, 0] - 0.4 * x[:, 1] * x[:, 2]
    frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(5)])
    frame["store"] = [f"store {k}" for k in level]
    return frame, (rng.random(n_rows) < 1 / (1 + np.exp(-odds))).astype(int)


def measure_levels(method: str, seed: int) -> dict[str, Any]:
    """AUC on test rows and, of NRS, out of bag; CPU seconds of the fit."""
    frame, y = draw_levels(seed)
    model = at_defaults(method, "classification", seed)
    given = {"cat_features": ["store"]} if method == "CatBoost" else {}
    if method == "LightGBM":
        frame["store"] = frame["store"].astype("category")
    elif method == "RF":
        frame["store"] = frame["store"].astype("category").cat.codes
    begin = time.process_time()
    model.fit(frame[:N_TRAINING], y[:N_TRAINING], **given)
    found = {"seconds": time.process_time() - begin}
    answers = model.predict_proba(frame[N_TRAINING:])[:, 1]
    found["auc"] = float(roc_auc_score(y[N_TRAINING:], answers))
    if method.startswith("NRS"):
        out_of_bag = model.oob_decision_function_[:, 1]
        found["auc out of bag"] = float(roc_auc_score(y[:N_TRAINING], out_of_bag))
    return found


def measure_wide(method: str, seed: int, columns: int, informative: int) -> dict[str, Any]:
    """Accuracy on test rows; CPU seconds of the fit."""
    X, y = make_classification(
        5_000, columns, n_informative=informative, n_redundant=0, random_state=seed
    )
    model = at_defaults(method, "classification", seed)
    begin = time.process_time()
    model.fit(X[:3_000], y[:3_000])
    seconds = time.process_time() - begin
    return {"accuracy": accuracy_score(y[3_000:], model.predict(X[3_000:])), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="at most so many of each set")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    planned = plan(chosen.methods, chosen.seeds)
    cells = measure_cells(chosen.json, planned, seeds=chosen.seeds)
    print(summary(cells))


def plan(methods: Sequence[str], seeds: int) -> Iterator[Planned]:
    """Every method on every set, as often as the set allows."""
    sets: list[tuple[str, Any, dict[str, int], int]] = [("1,500 levels", measure_levels, {}, seeds)]
    for columns, informative, most in WIDE:
        name = f"{columns:,} columns, {informative} matter"
        shape = {"columns": columns, "informative": informative}
        sets.append((name, measure_wide, shape, min(seeds, most)))
    for name, measure, shape, trials in sets:
        for method in methods:
            for seed in range(trials):
                who = {"method": method, "seed": seed}
                yield {"set": name} | who, measure, who | shape


def summary(cells: list[dict[str, Any]]) -> str:
    """The mean of each method on each set, as a table."""
    frame = pd.DataFrame(cells)
    frame["score"] = frame["auc"].fillna(frame.get("accuracy"))
    means = frame.groupby(["set", "method"], sort=False)[["score", "seconds"]].mean().reset_index()
    rows = means.to_numpy().tolist()
    return table(["set", "method", "AUC or accuracy", "CPU s"], rows)


if __name__ == "__main__":
    main()
