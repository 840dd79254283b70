"""Does the page's order of columns agree with shuffling them on held-out rows?

    NRS_DATA=<folder> python -m benchmarks.importance --json results/importance.json

A model is fitted to 70 % of the rows of titanic, telco and ames of ``<folder>/mixed``. The page
shuffles columns among these rows, each scored by members that have not seen it. Compared is
scikit-learn's ``permutation_importance`` on the other 30 %, by log loss or squared error. The rank
correlation (Spearman) is that of both, each a mean over the seeds, of all columns; and of those
whose fall on held-out rows is more than two standard errors above 0. The fast measure,
``feature_importances_``, stands next to it. Asked for is 0.9.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
from scipy.stats import spearmanr
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

from benchmarks.measure import provenance, table, write_json
from nrs.datasets.folders import data_folders
from nrs.files.explained import explain_fitted
from nrs.files.fit import fit_table
from nrs.files.read import read_labelled

ASKED = 0.9
TABLES = {"titanic": "classification", "telco": "classification", "ames": "regression"}
REPEATS = 10


def measure(name: str, seed: int, preset: str) -> dict[str, np.ndarray]:
    """What a column is worth on out-of-bag rows, on held-out rows, and by the fast measure."""
    folders = [Path(folder) / "mixed" for folder in data_folders()]
    path = next(path for path in (one / f"{name}.parquet" for one in folders) if path.exists())
    rows = pyarrow.parquet.read_table(path)
    task = TABLES[name]
    labels = rows.column("target").to_numpy() if task == "classification" else None
    kept, held = train_test_split(
        np.arange(len(rows)), test_size=0.3, random_state=seed, stratify=labels
    )
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.parquet"
        pyarrow.parquet.write_table(rows.take(kept), part)
        fitted = fit_table(
            read_labelled(part, "target", task=task), seed=seed, preset=preset, verbose=0
        )
    explained = explain_fitted(fitted)
    assert explained.permutation is not None
    names = list(explained.permutation.columns)
    test = rows.take(held).to_pandas()
    scoring = "neg_log_loss" if task == "classification" else "neg_mean_squared_error"
    found = permutation_importance(
        fitted.model, test[names], test["target"], scoring=scoring, n_repeats=REPEATS,
        random_state=seed,
    )  # fmt: skip
    return {
        "columns": np.array(names),
        "page": np.nan_to_num(explained.permutation.increase),
        "held out": found.importances_mean,
        "fast": fitted.model.feature_importances_,
    }


def agreement(runs: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Rank correlations of the means over the seeds."""
    page, held, fast = (
        np.mean([one[key] for one in runs], axis=0) for key in ("page", "held out", "fast")
    )
    spread = np.std([one["held out"] for one in runs], axis=0, ddof=1) / len(runs) ** 0.5
    clear = held > 2 * spread
    order = np.argsort(-held)
    return {
        "columns": len(held),
        "all columns": float(spearmanr(page, held)[0]),
        "clear columns": int(clear.sum()),
        "of clear columns": float(spearmanr(page[clear], held[clear])[0]),
        "fast measure": float(spearmanr(fast, held)[0]),
        "held out": {
            runs[0]["columns"][k]: [float(held[k]), float(page[k])] for k in order[:10].tolist()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found = {}
    for name in chosen.tables:
        runs = [measure(name, seed, chosen.preset) for seed in range(chosen.seeds)]
        found[name] = agreement(runs)
        print(name, found[name], flush=True)
        if chosen.json:
            settings = {"preset": chosen.preset, "seeds": chosen.seeds, "repeats": REPEATS}
            write_json(chosen.json, provenance(**settings, asked=ASKED) | {"tables": found})
    names = ["all columns", "of clear columns", "fast measure"]
    lines = [[name, *(one[key] for key in names)] for name, one in found.items()]
    print(table(["table", *names], lines))


if __name__ == "__main__":
    main()
