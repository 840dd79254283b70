"""Fit a model to a small table and write what the page reads: model.onnx and model.json.

    python examples/browser/make_model.py [folder]

The table is made here: which loans are paid back, by income, debt, age, job and home, with missing
cells, so that the page shows numbers, a truth value and categories.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from nrs import NRSClassifier
from nrs.tabular.export import onnx_schema


def loans(n: int = 1500) -> tuple[pd.DataFrame, np.ndarray]:
    """Make the table and the answers."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": np.round(rng.lognormal(10.3, 0.4, n), -2),
            "debt": np.round(rng.gamma(2, 6000, n), -2),
            "age": rng.integers(19, 75, n).astype(float),
            "job": rng.choice(["clerk", "nurse", "driver", "engineer", "student"], n),
            "home": rng.choice(["owned", "rented"], n),
            "guarantor": rng.random(n) < 0.3,
        }
    )
    safety = table["income"] / 15_000 - table["debt"] / 9_000 + (table["home"] == "owned") * 0.8
    safety += (table["job"] == "nurse") * 0.7 - (table["job"] == "student") * 0.9
    safety += table["guarantor"] * 0.8 + rng.normal(0, 0.6, n)
    table.loc[rng.random(n) < 0.05, "income"] = np.nan
    table.loc[rng.random(n) < 0.05, "job"] = None
    return table, np.where(safety > safety.median(), "paid back", "defaulted")


def main(folder: Path) -> NRSClassifier:
    table, answers = loans()
    model = NRSClassifier(preset="fast", random_state=0).fit(table, answers)
    model.to_onnx(folder / "model.onnx")
    schema = onnx_schema(model)
    # What the fields of the page show at first: a usual row.
    for column in schema["columns"]:
        cells = table[column["name"]].dropna()
        usual = cells.median() if column["type"] == "double" else cells.mode()[0]
        column["usual"] = usual if isinstance(usual, str) else float(usual)
    (folder / "model.json").write_text(json.dumps(schema, indent=1), encoding="utf-8")
    print(f"out-of-bag accuracy {model.oob_score_:.3f}; wrote model.onnx and model.json")
    return model


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
