"""How much a few wild cells harm a model.

    NRS_DATA=<folder of data sets> python -m benchmarks.wild --json results/wild.json

Of every number column one training cell in a thousand is replaced by any finite float64, drawn by
its bits: every magnitude is as likely as any other. The test rows stay as they are. Twenty real
tables of at least 1,000 rows, five seeds each, split 70/30, at most 5,000 training rows. Allowed
are 2 points of accuracy, or 10 % of the root mean squared error, on average over the seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.measure import provenance, table, write_json
from nrs import NRSClassifier, NRSRegressor
from nrs.datasets.folders import data_folders

REGRESSION = ("abalone", "ames", "bike-hour", "cal-housing", "diamonds")
CLASSES = (
    "attrition", "cmc", "coupon", "electricity", "hr-left", "magic", "page-blocks", "pc1",
    "phoneme", "satimage", "segment", "sick", "stroke", "telco", "texture",
)  # fmt: skip
SHARE = 0.001
MAX_ROWS = 5_000
MAX_POINTS, MAX_ERROR = 2.0, 10.0


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A table and its target, from ``mixed/NAME.parquet`` or ``NAME.npz``."""
    for folder in map(Path, data_folders()):
        if (folder / "mixed" / f"{name}.parquet").exists():
            frame = pd.read_parquet(folder / "mixed" / f"{name}.parquet")
            return frame.drop(columns="target"), frame["target"].to_numpy()
        if (folder / f"{name}.npz").exists():
            with np.load(folder / f"{name}.npz", allow_pickle=False) as found:
                parts = ("X_train", "X_test") if "X_train" in found else ("X",)
                X = np.concatenate([found[part] for part in parts]).astype(np.float64)
                y = np.concatenate([found[part.replace("X", "y")] for part in parts])
            return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])]), y
    raise FileNotFoundError(f"{name} is not in the folders of NRS_DATA")


def spoil(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """A copy with wild cells in every number column."""
    spoilt = frame.copy()
    for name in frame.select_dtypes("number"):
        cells = frame[name].to_numpy(np.float64, na_value=np.nan).copy()
        rows = rng.choice(len(cells), max(1, round(SHARE * len(cells))), replace=False)
        wild = rng.integers(0, 2**64, size=4 * len(rows), dtype=np.uint64).view(np.float64)
        cells[rows] = wild[np.isfinite(wild)][: len(rows)]
        spoilt[name] = cells
    return spoilt


def scores(name: str, seed: int, preset: str) -> tuple[float, float]:
    """Accuracy in points, or RMSE, on the test rows: without and with wild training cells."""
    X, y = load(name)
    regression = name in REGRESSION
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=None if regression else y
    )
    train, y_train = train.iloc[:MAX_ROWS], y_train[:MAX_ROWS]
    found = []
    for rows in (train, spoil(train, np.random.default_rng(seed))):
        kind = NRSRegressor if regression else NRSClassifier
        model = kind(preset=preset, random_state=seed, verbose=0).fit(rows, y_train)
        answers = model.predict(test)
        if regression:
            found.append(float(np.sqrt(np.mean((answers - y_test) ** 2))))
        else:
            found.append(100 * float(np.mean(answers == y_test)))
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=[*CLASSES, *REGRESSION])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows: list[list[Any]] = []
    for name in chosen.sets:
        each = np.array([scores(name, seed, chosen.preset) for seed in range(chosen.seeds)])
        clean, wild = each.mean(0)
        regression = name in REGRESSION
        harm = 100 * (wild / clean - 1) if regression else clean - wild
        allowed = MAX_ERROR if regression else MAX_POINTS
        unit = "RMSE, %" if regression else "points"
        rows.append([name, unit, clean, wild, harm, bool(harm < allowed)])
        print(table(["set", "unit of harm", "clean", "wild", "harm", "allowed"], rows[-1:]))
        if chosen.json:
            settings = {"preset": chosen.preset, "seeds": chosen.seeds, "share": SHARE}
            names = ("set", "unit", "clean", "wild", "harm", "allowed")
            report = {"sets": [dict(zip(names, row, strict=True)) for row in rows]}
            write_json(chosen.json, provenance(**settings) | report)
    print(f"{sum(row[-1] for row in rows)} of {len(rows)} sets within the bounds")


if __name__ == "__main__":
    main()
