"""Do 90 % intervals and sets cover, how wide are they, and is it so everywhere?

    NRS_DATA=<folder of data sets> python -m benchmarks.intervals --json results/intervals.json

Test rows are those of `benchmarks.mixed` and `benchmarks.accuracy`, of which at most 2,000 training
rows are kept here; ``ames-raw`` is ames with the prices themselves. Of numbers: the share of test
rows that their interval holds, in all and by quartile of the prediction, for intervals as they are
and for those of one width that out-of-bag errors of the same fit give (``constant``); how wide they
are, and how wide both are where the constant one covers as many test rows (``equal coverage``); and
the interval score (Gneiting & Raftery, 2007), which counts both. Ratios are to the constant width.
Of classes: coverage and mean size of prediction sets, beside those of the most probable classes
whose probabilities sum to 0.9 (``plain``). Finished cells of the JSON file are not measured again.

How scales and sets are made was chosen on held-out parts of the training rows of these sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import accuracy, mixed
from benchmarks.measure import Planned, measure_cells, table

LEVEL, MOST_ROWS = 0.9, 2_000
NUMBERS = ("ames-raw", *mixed.NUMBERS, *accuracy.REGRESSION)
CLASSES = (
    "titanic", "cmc", "car", "stroke", "telco", "eucalyptus", "soybean", "phoneme", "page-blocks",
    "texture", "kr-vs-k", "nursery", "magic", "electricity", "attrition", "german", "yeast",
    "satimage", "letter", "segment",
)  # fmt: skip


def read_set(name: str, seed: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training and test rows."""
    if name.removesuffix("-raw") in (*mixed.NUMBERS, *mixed.CLASSES):
        X, y, X_test, y_test = mixed.read(name.removesuffix("-raw"), seed)
        if name.endswith("-raw"):
            y, y_test = np.exp(y), np.exp(y_test)
    else:
        X, y, X_test, y_test = accuracy.read(name, seed)
    kept = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    return (X.iloc[kept] if hasattr(X, "iloc") else X[kept]), y[kept], X_test, y_test


def interval_score(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> float:
    """The width, and how far rows are missed, each as much as its probability."""
    missed = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - LEVEL) * missed))


def measure_numbers(name: str, preset: str, seed: int) -> dict[str, Any]:
    """Coverage, width and score of the intervals of a fit, beside those of one width."""
    from nrs import NRSRegressor

    X, y, X_test, y_test = read_set(name, seed)
    model = NRSRegressor(preset=preset, random_state=seed, verbose=0).fit(X, y)
    predicted, deviation = model.predict(X_test, return_std=True)
    low, high = model.predict_interval(X_test, LEVEL)
    errors = np.sort(np.abs(model.oob_prediction_ - y))
    reach = errors[min(len(y) - 1, int(np.ceil(LEVEL * (len(y) + 1))) - 1)]
    quartile = np.searchsorted(np.quantile(predicted, [0.25, 0.5, 0.75]), predicted, "right")
    found: dict[str, Any] = {"n_train": len(y), "n_test": len(y_test)}
    for kind, ends in (("", (low, high)), ("constant ", (predicted - reach, predicted + reach))):
        right = (ends[0] <= y_test) & (y_test <= ends[1])
        found[f"{kind}coverage"] = float(right.mean())
        found |= {f"{kind}Q{k + 1}": float(right[quartile == k].mean()) for k in range(4)}
        found[f"{kind}width"] = float(np.mean(ends[1] - ends[0]))
        found[f"{kind}score"] = interval_score(*ends, y_test)
    even = 2 * np.quantile(np.abs(y_test - predicted), found["coverage"])
    found["width ratio"] = found["width"] / found["constant width"]
    found["width ratio at equal coverage"] = found["width"] / max(float(even), 1e-300)
    found["score ratio"] = found["score"] / found["constant score"]
    found["variance of standardised errors"] = float(
        np.mean(((y_test - predicted) / np.maximum(deviation, 1e-300)) ** 2)
    )
    return found


def measure_classes(name: str, preset: str, seed: int) -> dict[str, Any]:
    """Coverage and size of the prediction sets of a fit."""
    from nrs import NRSClassifier

    X, y, X_test, y_test = read_set(name, seed)
    model = NRSClassifier(preset=preset, random_state=seed, verbose=0).fit(X, y)
    known = np.isin(y_test, model.classes_)
    X_test, y_test = (X_test[known], y_test[known])
    place = np.searchsorted(model.classes_, y_test)
    sets, chances = model.predict_set(X_test, LEVEL), model.predict_proba(X_test)
    order = np.argsort(-chances, axis=1)
    before = np.cumsum(np.take_along_axis(chances, order, 1), 1)
    plain = np.zeros_like(sets)
    plain_sorted = np.column_stack([np.ones(len(before), bool), before[:, :-1] < LEVEL])
    np.put_along_axis(plain, order, plain_sorted, 1)
    rows = np.arange(len(place))
    return {
        "n_train": len(y), "n_test": len(y_test), "n_classes": len(model.classes_),
        "accuracy": float((model.predict(X_test) == y_test).mean()),
        "coverage": float(sets[rows, place].mean()), "size": float(sets.sum(1).mean()),
        "empty": float((~sets.any(1)).mean()),
        "plain coverage": float(plain[rows, place].mean()),
        "plain size": float(plain.sum(1).mean()),
    }  # fmt: skip


def summary(cells: list[dict[str, Any]]) -> str:
    """Each set, the means over sets, and coverage by quartile pooled over sets."""
    shown = []
    for kind, columns in (
        ("numbers", ["coverage", "Q1", "Q2", "Q3", "Q4", "constant coverage", "constant Q1",
                     "constant Q4", "width ratio", "width ratio at equal coverage", "score ratio",
                     "variance of standardised errors"]),
        ("classes", ["n_classes", "accuracy", "coverage", "size", "plain coverage", "plain size"]),
    ):  # fmt: skip
        frame = pd.DataFrame([cell for cell in cells if cell["kind"] == kind])
        if len(frame):
            for preset, own in frame.groupby("preset", sort=False):
                means = own.groupby("set", sort=False)[columns].mean()
                means.loc["mean"] = means.mean()
                shown.append(f"{kind}, preset {preset!r}, {own['seed'].nunique()} seeds")
                shown.append(table(["set", *columns], means.reset_index().to_numpy().tolist()))
    return "\n\n".join(shown)


def plan(names: Sequence[str], preset: str, seeds: int) -> Iterator[Planned]:
    """Every set and seed."""
    for seed in range(seeds):
        for name in names:
            kind, measure = ("numbers", measure_numbers)
            if name in CLASSES:
                kind, measure = ("classes", measure_classes)
            fit = {"preset": preset, "seed": seed}
            yield {"kind": kind, "set": name} | fit, measure, {"name": name} | fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=(*NUMBERS, *CLASSES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    planned = plan(chosen.sets, chosen.preset, chosen.seeds)
    print(summary(measure_cells(chosen.json, planned, rows=MOST_ROWS)))


if __name__ == "__main__":
    main()
