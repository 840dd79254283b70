"""The compiled engine compared with torch, and both with trees: time and accuracy.

    NRS_DATA=<folder> python -m benchmarks.engine --json results/engine.json

Every method is at its defaults, on one thread, and each fit has a process of its own, in which a
short fit has loaded what Python loads. Methods take turns: the seeds are the outer loop, then the
tables. Measured are CPU seconds of a fit, of a prediction of at least 1,000 test rows (drawn with
replacement), of one row, and of a fresh process that loads the model (others than ours from a
pickle) and predicts one row; medians of several; accuracy and log-loss, or RMSE, on test rows. The
tables and their splits are those of `benchmarks.accuracy`: 70/30 by class, or the source's own, and
at most 10,000 training rows. Finished cells of the JSON file are not measured again. The table
shows medians over the seeds.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import measure_cells, table

MIXED = ("titanic", "attrition", "cmc", "phoneme", "telco", "nursery", "cal-housing", "abalone")
NUMBERS = ("german", "segment", "dna", "satimage", "letter", "connect-4", "ijcnn1")
# Ours by the engine that trains it, and what it is compared with.
METHODS = ("compiled", "torch", "CatBoost", "LightGBM", "XGBoost", "RF")
BATCH_ROWS, TURNS, COLD_STARTS = 1_000, 9, 3
# A process that predicts one row; it prints its CPU seconds.
COLD = """
import pickle, resource, sys
import pandas
model, rows, kind = sys.argv[1:]
if kind:
    import nrs
    loaded = getattr(nrs, kind).load(model)
else:
    with open(model, "rb") as file:
        loaded = pickle.load(file)
loaded.predict(pandas.read_pickle(rows))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def measure_fit(name: str, method: str, seed: int) -> dict[str, Any]:
    """Seconds and scores of one fit and its predictions."""
    ours = method in ("compiled", "torch")
    os.environ["NRS_ENGINE"] = "torch" if method == "torch" else ""
    from benchmarks import accuracy, mixed
    from benchmarks.peers import at_defaults_on_frames

    if name in MIXED:
        task = "classification" if name in mixed.CLASSES else "regression"
        X, y, X_test, y_test = mixed.read(name, seed)
    else:
        import pandas

        task = "classification"
        X, y, X_test, y_test = accuracy.read(name, seed)
        X, X_test = pandas.DataFrame(X), pandas.DataFrame(X_test)
        X.columns = X_test.columns = [f"x{number}" for number in X.columns]
    settings = {"epochs": 1, "preset": "fast"} if ours else {}
    warm = at_defaults_on_frames("NRS" if ours else method, task, seed)
    rows = np.unique(
        np.concatenate([np.unique(y, return_index=True)[1][:200], np.arange(min(200, len(y)))])
    )
    (warm.set_params(**settings) if ours else warm).fit(X.iloc[rows], y[rows])

    model = at_defaults_on_frames("NRS" if ours else method, task, seed)
    begin = time.process_time()
    model.fit(X, y)
    found: dict[str, Any] = {"fit_cpu_s": time.process_time() - begin}
    answer = model.predict_proba if task == "classification" else model.predict
    answers = np.asarray(answer(X_test), dtype=np.float64)
    n = max(BATCH_ROWS, len(X_test))
    many = X_test.iloc[np.random.default_rng(0).integers(0, len(X_test), n)]
    found["predict_rows"] = n
    found["predict_cpu_s"] = _median(lambda: answer(many))
    found["one_row_cpu_s"] = _median(lambda: answer(X_test.iloc[:1]))
    found["cold_cpu_s"] = _cold(model, X_test.iloc[:1], ours=ours)
    if task == "classification":
        found |= accuracy.of_probabilities(answers, y, y_test, mixed.MIN_PROBABILITY)
    else:
        found["rmse"] = float(np.sqrt(np.mean((answers.reshape(-1) - y_test) ** 2)))
    if ours:
        found["engine"] = model.engine_
    return found | {"train_rows": len(X), "columns": X.shape[1]}


def _median(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(TURNS):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def _cold(model: Any, row: Any, *, ours: bool) -> float:
    """CPU seconds of a process that imports what it needs, loads a model and predicts one row."""
    with tempfile.TemporaryDirectory() as folder:
        path, rows = Path(folder) / "model", Path(folder) / "row"
        model.save(path) if ours else path.write_bytes(pickle.dumps(model))
        row.to_pickle(rows)
        kind = type(model).__name__ if ours else ""
        command = [sys.executable, "-W", "ignore", "-c", COLD, str(path), str(rows), kind]
        settings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        return statistics.median(
            float(subprocess.run(command, env=settings, check=True, capture_output=True).stdout)
            for _ in range(COLD_STARTS)
        )


def summary(cells: list[dict[str, Any]]) -> str:
    """Of each table: seconds of the engine, and how many times as long the others take."""
    sets = list(dict.fromkeys(cell["set"] for cell in cells))

    def value(name: str, method: str, what: str) -> float | None:
        known = [c[what] for c in cells if (c["set"], c["method"]) == (name, method) and what in c]
        return statistics.median(known) if known else None

    def times(name: str, method: str, what: str) -> float | None:
        other, own = value(name, method, what), value(name, "compiled", what)
        return None if other is None or own is None else other / own

    rows: list[list[object]] = []
    for name in sets:
        row: list[object] = [name, value(name, "compiled", "fit_cpu_s")]
        row += [times(name, method, "fit_cpu_s") for method in METHODS[1:]]
        row += [times(name, method, "predict_cpu_s") for method in METHODS[1:]]
        row += [times(name, method, "one_row_cpu_s") for method in METHODS[1:]]
        row += [times(name, method, "cold_cpu_s") for method in METHODS[1:]]
        measure = "rmse" if value(name, "compiled", "rmse") is not None else "log_loss"
        row += [value(name, method, measure) for method in METHODS]
        rows.append(row)
    kinds = ("fit", "predict", "one row", "cold start")
    heads = [f"{kind}: {other}" for kind in kinds for other in METHODS[1:]]
    columns = ["table", "fit (s)", *heads, *[f"loss: {method}" for method in METHODS]]
    known = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    middle: list[object] = ["median", None]
    ratios = known[2 : 2 + len(heads)]
    middle += [statistics.median(map(float, column)) if column else None for column in ratios]  # type: ignore[arg-type]
    return table(columns, [*rows, [*middle, *[None] * len(METHODS)]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=MIXED + NUMBERS)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    planned = (
        ({"set": name, "method": method, "seed": seed}, measure_fit,
         {"name": name, "method": method, "seed": seed})
        for seed in range(chosen.seeds)
        for name in chosen.sets
        for method in chosen.methods
    )  # fmt: skip
    print(summary(measure_cells(chosen.json, planned, seeds=chosen.seeds)))


if __name__ == "__main__":
    main()
