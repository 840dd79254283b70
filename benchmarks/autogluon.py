"""How `preset="best"` compares with AutoGluon within the same time, on ten mixed tables.

    python -m venv ag && ag/bin/pip install torch==2.13.0 torchvision==0.28.0 \\
        "autogluon.tabular[lightgbm,catboost,xgboost,fastai]==1.6.3"
    NRS_DATA=<folder> python -m benchmarks.autogluon run --python ag/bin/python --limits 60,300
    python -m benchmarks.autogluon show

AutoGluon wants pandas 2, so it has an environment of its own; the two talk through files. All get
the same rows as in `benchmarks.mixed`, one CPU, and the same limit in seconds of the clock. Run it
on a machine that does nothing else: the CPU seconds that are printed must be near those of the
clock. AutoGluon optimizes what is compared, log-loss or RMSE. "medium" is its ``medium_quality``;
"bagged" is ``best_quality``: bagged and stacked models of its portfolio, none of them pretrained.

The ten sets were named before any of this was run: three of up to 1,000 rows, four of up to 7,000,
one capped at 10,000, and two with numbers; with many levels, many classes and missing cells among
them. They are development sets. Cells are kept in ``results/autogluon.json``; a run that was
stopped resumes.
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
from sklearn.metrics import root_mean_squared_error

from benchmarks import mixed
from benchmarks.accuracy import of_probabilities
from benchmarks.measure import PLAIN, provenance, table
from nrs._util.atomic import atomic_write

SETS = (
    "bands", "eucalyptus", "titanic", "car", "attrition", "sick", "telco", "coupon", "ames",
    "cal-housing",
)  # fmt: skip
NRS = "NRS best"
PRESETS = {"AutoGluon medium": "medium_quality", "AutoGluon bagged": "best_quality"}
METHODS = (NRS, *PRESETS)
FIT = Path(__file__).with_name("autogluon_fit.py")


def measure(name: str, method: str, limit: float, seed: int, python: str) -> dict[str, Any]:
    """Fit a method within `limit` seconds, and measure it on the test rows.

    Raises
    ------
    RuntimeError
        If AutoGluon fails; the message ends with what it wrote.
    """
    X, y, X_test, y_test = mixed.read(name, seed)
    n_classes = len(np.unique(y)) if name in mixed.CLASSES else None
    if method == NRS:
        answers, found = _ours(X, y, X_test, n_classes, limit, seed)
    else:
        request = {"n_classes": n_classes, "time_limit": limit, "presets": PRESETS[method]}
        answers, found = _theirs(X, y, X_test, request, python)
    if n_classes is None:
        metrics = {"rmse": float(root_mean_squared_error(y_test, answers.reshape(-1)))}
    else:
        metrics = of_probabilities(answers, y, y_test, mixed.MIN_PROBABILITY)
    return {"metrics": metrics, "load_average": os.getloadavg()[0]} | found


def _ours(
    X: Any, y: np.ndarray, X_test: Any, n_classes: int | None, limit: float, seed: int
) -> tuple[np.ndarray, dict[str, Any]]:
    import nrs

    kind: Any = nrs.NRSRegressor if n_classes is None else nrs.NRSClassifier
    model = kind(preset="best", time_limit=limit, random_state=seed, verbose=0, n_jobs=1)
    begin, begin_cpu = time.monotonic(), time.process_time()
    model.fit(X, y)
    times = {"fit_s": time.monotonic() - begin, "fit_cpu_s": time.process_time() - begin_cpu}
    begin_cpu = time.process_time()
    answers = model.predict(X_test) if n_classes is None else model.predict_proba(X_test)
    times["predict_cpu_s"] = time.process_time() - begin_cpu
    return np.asarray(answers, dtype=np.float64), {"times": times}


def _theirs(
    X: Any, y: np.ndarray, X_test: Any, request: dict[str, Any], python: str
) -> tuple[np.ndarray, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        X.assign(target=y).to_parquet(folder / "train.parquet", index=False)
        X_test.to_parquet(folder / "test.parquet", index=False)
        (folder / "request.json").write_text(json.dumps(request))
        # Isolated: this folder must not hide the package of the same name.
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [python, "-P", str(FIT), made],
            env=kept | PLAIN, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"AutoGluon failed with {python}:\n{done.stderr[-2000:]}")
        return np.load(folder / "answers.npy"), json.loads((folder / "answer.json").read_text())


def run(
    path: Path, names: list[str], methods: list[str], limits: list[float], seeds: int, python: str
) -> None:
    """Measure what is not in the file yet; methods take turns on a set."""
    report = json.loads(path.read_text()) if path.exists() else {"cells": []}
    cells = report["cells"]
    done = {(cell["set"], cell["method"], cell["limit"], cell["seed"]) for cell in cells}
    for limit in limits:
        for seed in range(seeds):
            for name in names:
                for method in methods:
                    key = {"set": name, "method": method, "limit": limit, "seed": seed}
                    if tuple(key.values()) in done:
                        continue
                    cells.append(key | measure(name, method, limit, seed, python))
                    origin = provenance(seeds=seeds)
                    if python:
                        # Where the other environment lies is of no use elsewhere.
                        origin["command"] = origin["command"].replace(python, "ag/bin/python")
                    with atomic_write(path) as file:
                        file.write(
                            (json.dumps(origin | {"cells": cells}, indent=1) + "\n").encode()
                        )
                    print(f"{limit:g} s {name} {method} {seed}", file=sys.stderr, flush=True)


def summary(path: Path) -> str:
    """Markdown: log-loss or RMSE by limit, set and method, wins, times; empty if nothing ran."""
    cells = json.loads(path.read_text())["cells"] if path.exists() else []
    parts = []
    for limit in sorted({cell["limit"] for cell in cells}):
        of_limit = [cell for cell in cells if cell["limit"] == limit]
        found = {
            method: {
                name: value
                for name in SETS
                if (value := _error(of_limit, name, method)) is not None
            }
            for method in METHODS
        }
        rows: list[list[object]] = [
            [name, *(f"{found[m][name]:.4f}" if name in found[m] else "–" for m in METHODS)]
            for name in SETS
            if any(name in by_set for by_set in found.values())
        ]
        rows.append([f"{NRS} wins/loses", "", *(_against(found, m) for m in PRESETS)])
        for label, measured in (("fit, seconds", "fit_s"), ("fit, CPU seconds", "fit_cpu_s")):
            times = {
                m: [c["times"][measured] for c in of_limit if c["method"] == m] for m in METHODS
            }
            shown = (f"{np.median(times[m]):.1f}" if times[m] else "–" for m in METHODS)
            rows.append([f"median {label}", *shown])
        parts.append(
            f"### Within {limit:g} seconds\n\n{table(['log-loss or RMSE', *METHODS], rows)}\n"
        )
    if not parts:
        return ""
    head = (
        '## Compared with AutoGluon\n\n`preset="best"` and AutoGluon 1.6 within the same time on '
        "one CPU, on ten mixed tables (development sets), by `python -m benchmarks.autogluon run`; "
        "that file has the rules.\n"
    )
    return "\n".join([head, *parts])


def _error(cells: list[dict[str, Any]], name: str, method: str) -> float | None:
    """The mean log-loss or RMSE over the seeds."""
    metric = "log_loss" if name in mixed.CLASSES else "rmse"
    values = [
        cell["metrics"][metric] for cell in cells if (cell["set"], cell["method"]) == (name, method)
    ]
    return float(np.mean(values)) if values else None


def _against(found: dict[str, dict[str, float]], method: str) -> str:
    both = [name for name in found[method] if name in found[NRS]]
    wins = sum(found[NRS][name] < found[method][name] for name in both)
    return f"{wins}/{sum(found[NRS][name] > found[method][name] for name in both)}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("command", choices=["run", "show"])
    parser.add_argument("--python", help="the Python of AutoGluon's environment")
    parser.add_argument("--limits", default="60,300", help="seconds of a fit, comma-separated")
    parser.add_argument("--datasets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("results/autogluon.json"))
    given = parser.parse_args(arguments)
    if given.command == "run":
        methods = given.methods.split(",")
        if given.python is None and methods != [NRS]:
            parser.error("run needs --python, the Python of an environment with AutoGluon")
        limits = [float(limit) for limit in given.limits.split(",")]
        run(given.json, given.datasets.split(","), methods, limits, given.seeds, given.python)
    print(summary(given.json))


if __name__ == "__main__":
    main()
