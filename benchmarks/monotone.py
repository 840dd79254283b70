"""What does a monotone constraint cost where it is true?

    NRS_DATA=<folder of data sets> python -m benchmarks.monotone --json results/monotone.json

Each method is fitted at its defaults, without and with the constraint; the ratio of both test RMSEs
(of classes: log-losses) is what it costs. Generated tables have 2,000 training rows, eight columns
and a function of which some columns are truly monotone, with normal noise of a fifth of its
deviation; classes say whether the noisy value is above its median. Real tables are those of
`benchmarks.mixed`, at most 2,000 training rows, with constraints that make sense; nobody knows
whether they are true. Categories of real tables are given to peers as codes. Finished cells of the
JSON file are not measured again.

The design was chosen on other draws of four of the generated functions and on held-out parts of the
training rows of the real tables, with ``preset="fast"`` (`docs/inside.md`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from benchmarks import mixed
from benchmarks.measure import Planned, measure_cells, table

MOST_ROWS, N_TEST = 2_000, 5_000
Function = Callable[[np.ndarray], np.ndarray]
GENERATED: dict[str, tuple[Function, dict[int, int]]] = {
    "smooth": (
        lambda X: np.tanh(3 * X[:, 0]) + X[:, 1] ** 2 * (1 + X[:, 0]) + np.sin(3 * X[:, 2])
        - X[:, 3] + X[:, 4] * X[:, 5],
        {0: 1, 3: -1},
    ),
    "steps": (
        lambda X: (X[:, 0] > 0.2) * (1 + X[:, 1]) + np.floor(3 * X[:, 2]) / 3 * (X[:, 3] > 0)
        + np.sin(4 * X[:, 4]),
        {0: 1, 2: 1},
    ),
    "product": (
        lambda X: (X[:, 0] + 1) * np.sin(3 * X[:, 1]) ** 2
        + (X[:, 2] + 1) * (X[:, 3] + 1) * (X[:, 4] > 0) + np.cos(3 * X[:, 5]),
        {0: 1, 2: 1, 3: 1},
    ),
    "mostly": (
        lambda X: np.sqrt(1.01 + X[:, 0]) * np.exp(X[:, 1]) + np.maximum(X[:, 2], X[:, 3])
        + np.minimum(X[:, 4], X[:, 5]),
        {0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1},
    ),
}  # fmt: skip
REAL: dict[str, dict[str, int]] = {
    "cal-housing": {"medianIncome": 1},
    "diamonds": {"carat": 1},
    "ames": {"OverallQual": 1, "GrLivArea": 1, "LotArea": 1, "YearBuilt": 1},
    "abalone": {"Shell weight": 1, "Shucked weight": -1},
}
METHODS = ("NRS", "LightGBM", "XGBoost")


def read_set(name: str, task: str, seed: int) -> tuple[pd.DataFrame, np.ndarray, Any, Any, Any]:
    """Training and test rows, and the constraint."""
    if name in REAL:
        X, y, X_test, y_test = mixed.read(name, seed)
        return X[:MOST_ROWS], y[:MOST_ROWS], X_test, y_test, REAL[name]
    function, signs = GENERATED[name]
    rng = np.random.default_rng([seed, 100, *name.encode()])
    cells = rng.uniform(-1, 1, (MOST_ROWS + N_TEST, 8))
    y = function(cells)
    y = y + rng.normal(size=len(y)) * 0.2 * y.std()
    if task == "classification":
        y = (y > np.median(y)).astype(int)
    table_ = pd.DataFrame(cells, columns=[f"x{column}" for column in range(8)])
    named = {f"x{column}": sign for column, sign in signs.items()}
    return table_[:MOST_ROWS], y[:MOST_ROWS], table_[MOST_ROWS:], y[MOST_ROWS:], named


def measure_cost(name: str, task: str, method: str, preset: str, seed: int) -> dict[str, Any]:
    """Test errors without and with the constraint."""
    X, y, X_test, y_test, signs = read_set(name, task, seed)
    if method != "NRS":
        both = pd.concat([X, X_test])
        for column in both.columns[[not pd.api.types.is_numeric_dtype(t) for t in both.dtypes]]:
            both[column] = both[column].astype("category").cat.codes
        X, X_test = both[: len(X)], both[len(X) :]
    errors = []
    for chosen in ({}, signs):
        model = _model(method, task, preset, seed, chosen, list(X.columns)).fit(X, y)
        if task == "regression":
            errors.append(float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))))
        else:
            errors.append(float(log_loss(y_test, model.predict_proba(X_test))))
    return {"without": errors[0], "with": errors[1], "ratio": errors[1] / errors[0]}


def _model(
    method: str, task: str, preset: str, seed: int, signs: dict[str, int], columns: list[str]
) -> Any:
    place = 0 if task == "regression" else 1
    constraint = [signs.get(column, 0) for column in columns]
    if method == "NRS":
        from nrs import NRSClassifier, NRSRegressor

        kind = (NRSRegressor, NRSClassifier)[place]
        return kind(preset=preset, random_state=seed, verbose=0, monotone=signs)
    if method == "LightGBM":
        import lightgbm

        kind = (lightgbm.LGBMRegressor, lightgbm.LGBMClassifier)[place]
        return kind(random_state=seed, verbose=-1, n_jobs=1, monotone_constraints=constraint)
    import xgboost

    kind = (xgboost.XGBRegressor, xgboost.XGBClassifier)[place]
    return kind(random_state=seed, n_jobs=1, monotone_constraints=tuple(constraint))


def summary(cells: list[dict[str, Any]]) -> str:
    """Errors and ratios, means over seeds."""
    frame = pd.DataFrame(cells)
    keys = ["set", "task", "method", "preset"]
    means = frame.groupby(keys, sort=False)[["without", "with", "ratio"]].mean().reset_index()
    lines = table([*keys, "without", "with", "ratio"], means.to_numpy().tolist())
    of_methods = frame.groupby(["method", "preset"], sort=False)["ratio"].agg(["mean", "max"])
    return (
        lines
        + "\n\n"
        + table(
            ["method", "preset", "mean ratio", "largest"],
            of_methods.reset_index().to_numpy().tolist(),
        )
    )


def plan(preset: str, seeds: int) -> Iterator[Planned]:
    """Every set, task, method and seed."""
    cases = [(name, task) for name in GENERATED for task in ("regression", "classification")]
    cases += [(name, "regression") for name in REAL]
    for seed in range(seeds):
        for name, task in cases:
            for method in METHODS:
                used = preset if method == "NRS" else "default"
                key = {"set": name, "task": task, "method": method, "preset": used, "seed": seed}
                given = {"name": name, "task": task, "method": method, "preset": used}
                yield key, measure_cost, given | {"seed": seed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    print(summary(measure_cells(chosen.json, plan(chosen.preset, chosen.seeds), rows=MOST_ROWS)))


if __name__ == "__main__":
    main()
