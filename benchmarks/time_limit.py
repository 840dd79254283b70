"""Is a time limit kept, and is the model better the more time it has?

    NRS_DATA=data/mixed python -m benchmarks.time_limit --json results/time_limit.json

The default fits tables in so many seconds at most, on one thread, after a first fit that loads what
Python loads. Seconds are those of the processor, for the limit too: on a busy machine the clock
would show what else runs. Measured are the seconds of a fit, and the out-of-bag log-loss or RMSE
(in deviations of the target): medians over the seeds. Finished cells of the JSON file are not
measured again.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from benchmarks.measure import measure_cells, table

SETS = ("sick", "telco", "nursery", "cal-housing")
LIMITS = (1.0, 3.0, 10.0, 30.0)


def measure_fit(name: str, limit: float, seed: int) -> dict[str, Any]:
    """Seconds, steps and out-of-bag loss of one fit."""
    # All clocks of this process show the processor's time.
    time.monotonic = time.process_time
    from nrs import NRSClassifier, NRSRegressor

    frame = pd.read_parquet(Path(os.environ.get("NRS_DATA", "data")) / f"{name}.parquet")
    X, y = frame.drop(columns="target"), frame["target"]
    numbers = y.dtype.kind == "f"
    kind = NRSRegressor if numbers else NRSClassifier
    y = y.to_numpy() if numbers else y.astype(str).to_numpy()
    kind(preset="fast", epochs=1, random_state=0, verbose=0).fit(X[:200], y[:200])
    begin = time.process_time()
    model = kind(time_limit=limit, random_state=seed, verbose=0).fit(X, y)
    found: dict[str, Any] = {"seconds": time.process_time() - begin}
    if numbers:
        loss = np.sqrt(np.mean((model.oob_prediction_ - y) ** 2)) / y.std()
    else:
        loss = log_loss(y, model.oob_decision_function_, labels=model.classes_)
    return found | {"loss": float(loss), "rounds": len(model.history_), "rows": len(y)}


def summary(cells: list[dict[str, Any]]) -> str:
    """Medians over the seeds of each set and limit."""
    shown = ["seconds", "rounds", "loss"]
    frame = pd.DataFrame(cells)
    medians = frame.groupby(["set", "limit"], sort=False)[shown].median().reset_index()
    return table(["set", "limit", *shown], medians.to_numpy().tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--limits", nargs="*", type=float, default=LIMITS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    planned = (
        ({"set": name, "limit": limit, "seed": seed}, measure_fit,
         {"name": name, "limit": limit, "seed": seed})
        for seed in range(chosen.seeds)
        for name in chosen.sets
        for limit in chosen.limits
    )  # fmt: skip
    cells = measure_cells(chosen.json, planned, seeds=chosen.seeds)
    print(summary(cells))


if __name__ == "__main__":
    main()
