"""Does the out-of-bag score say how well a model will do on later rows?

    NRS_DATA=data/messy python -m benchmarks.ordered --json results/ordered.json

Two tables of hourly measurements are split by date: the first 70 % of the rows train, the last
30 % test. A fit without ``time`` scores each row by members that saw its neighbours in time; a fit
with ``time`` by members that saw earlier rows only. Compared are both out-of-bag scores (R², and
RMSE in units of the target's deviation in the training rows) with the score of the same fit on the
test rows. Finished cells of the JSON file are not measured again.

The share of the first block, which has no score, was chosen among 1/8, 1/4, 1/3 and 1/2 on these
two tables, with seeds 0 and 1 of ``preset="fast"``.

- seoul: rented bicycles per hour, a year (``seoul.csv``).
- air quality: benzene in the air of an Italian city, by other instruments and sensors, a year
  (``AirQualityUCI.csv``); rows without the target are left out.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score

from benchmarks.measure import Planned, measure_cells, table

TRAINING = 0.7
SETS = ("seoul", "air quality")
PRESETS = ("fast", "default")


def read_set(name: str) -> tuple[pd.DataFrame, np.ndarray, pd.Series]:
    """Columns, target and time of a table, in order of time."""
    folder = Path(os.environ.get("NRS_DATA", "data"))
    if name == "seoul":
        frame = pd.read_csv(folder / "seoul.csv", encoding="utf-8-sig")
        day = pd.to_datetime(frame["date"], format="%d/%m/%Y")
        frame["date"] = day + pd.to_timedelta(frame["hour"], unit="h")
        target = "rented_bike_count"
    else:
        frame = pd.read_csv(folder / "AirQualityUCI.csv", sep=";", decimal=",")
        frame = frame.dropna(axis=1, how="all").dropna(how="all").replace(-200, np.nan)
        when = frame["Date"] + " " + frame["Time"]
        frame["date"] = pd.to_datetime(when, format="%d/%m/%Y %H.%M.%S")
        target = "C6H6(GT)"
        frame = frame.drop(columns=["Date", "Time"]).dropna(subset=[target])
    frame = frame.sort_values("date", kind="stable", ignore_index=True)
    return frame.drop(columns=target), frame[target].to_numpy(float), frame["date"]


def measure_fit(name: str, preset: str, seed: int, ordered: bool) -> dict[str, Any]:
    """Out-of-bag and test scores of one fit."""
    from nrs import NRSRegressor

    X, y, when = read_set(name)
    n_training = round(TRAINING * len(X))
    model = NRSRegressor(preset=preset, random_state=seed, verbose=0)
    begin = time.process_time()
    given = {"time": when[:n_training]} if ordered else {}
    model.fit(X[:n_training], y[:n_training], **given)
    seconds = time.process_time() - begin
    unit, scored = y[:n_training].std(), ~np.isnan(model.oob_prediction_)
    found: dict[str, Any] = {"rows": n_training, "seconds": seconds}
    for part, truth, answers in (
        ("out of bag", y[:n_training][scored], model.oob_prediction_[scored]),
        ("test", y[n_training:], model.predict(X[n_training:])),
    ):
        found[f"{part} R²"] = float(r2_score(truth, answers))
        found[f"{part} RMSE"] = float(np.sqrt(np.mean((truth - answers) ** 2)) / unit)
    return found


def summary(cells: list[dict[str, Any]]) -> str:
    """Means over the seeds, and how far the out-of-bag RMSE is from that of the test rows."""
    frame = pd.DataFrame(cells)
    frame["missed by"] = (frame["test RMSE"] / frame["out of bag RMSE"]).map(np.log).abs()
    shown = ["out of bag R²", "test R²", "out of bag RMSE", "test RMSE", "missed by", "seconds"]
    means = frame.groupby(["set", "preset", "folds"], sort=False)[shown].mean().reset_index()
    return table(["set", "preset", "folds", *shown], means.to_numpy().tolist())


def plan(presets: Sequence[str], seeds: int) -> Iterator[Planned]:
    """Every preset and seed on both tables, with random folds and in order of time."""
    for preset in presets:
        for seed in range(seeds):
            for name in SETS:
                for folds in ("random", "in order of time"):
                    fit = {"preset": preset, "seed": seed}
                    ordered = {"name": name, "ordered": folds != "random"}
                    yield {"set": name, "folds": folds} | fit, measure_fit, fit | ordered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--presets", nargs="*", default=PRESETS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    planned = plan(chosen.presets, chosen.seeds)
    cells = measure_cells(chosen.json, planned, seeds=chosen.seeds)
    print(summary(cells))


if __name__ == "__main__":
    main()
