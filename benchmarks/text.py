"""What a column of free text adds: NRS beside TF-IDF with logistic regression, and CatBoost.

    python -m benchmarks.text --json results/text.json

Packages of Debian's index (``apt-cache dumpavail``): their one-line description, sizes, numbers of
dependencies, priority and architecture; the class is the section, of the 20 largest. Accuracy and
log-loss on 4,000 test rows after 4,000 (and 1,000) training rows, drawn anew for each seed.

Finished cells of the JSON file are not measured again: a run that was stopped resumes. Every method
is at its defaults, on one thread. CatBoost is told which columns are text and categories; NRS finds
out. Logistic regression (C = 10, as in ``nrs paper run sparse_text``) gets the TF-IDF of words and
pairs of words, standardised numbers and one-hot categories. "NRS without text" does not see the
description.
"""

from __future__ import annotations

import argparse
import re
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.measure import measure_cells, table
from benchmarks.peers import at_defaults
from nrs.paper.sparse_text import CLASSES, ROWS, package_index

TEXT, CATEGORIES = "description", ["priority", "architecture", "multi_arch"]
NUMBERS = ["installed_size", "download_size", "n_depends", "n_suggests"]
METHODS = ("NRS", "NRS fast", "TF-IDF + LR", "CatBoost", "NRS fast without text")
TRAINING = (ROWS, 1_000)


@cache
def packages() -> tuple[pd.DataFrame, np.ndarray]:
    """One row per package, and its section."""
    rows = []
    for stanza in package_index().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.+)$", stanza, re.MULTILINE))
        if "Description" in fields and "Section" in fields:
            rows.append(
                {
                    TEXT: fields["Description"],
                    "installed_size": float(fields.get("Installed-Size", "nan")),
                    "download_size": float(fields.get("Size", "nan")),
                    "n_depends": _count(fields.get("Depends")),
                    "n_suggests": _count(fields.get("Suggests")),
                    "priority": fields.get("Priority"),
                    "architecture": fields.get("Architecture"),
                    "multi_arch": fields.get("Multi-Arch"),
                    "section": fields["Section"].rpartition("/")[2],
                }
            )
    frame = pd.DataFrame(rows)
    largest = frame["section"].value_counts().index[:CLASSES]
    frame = frame[frame["section"].isin(largest)].reset_index(drop=True)
    return frame.drop(columns="section"), frame["section"].to_numpy(str)


def _count(names: str | None) -> int:
    return 0 if names is None else 1 + names.count(",")


def make(method: str, seed: int) -> Any:
    """An unfitted model of a frame."""
    if method != "TF-IDF + LR":
        return at_defaults(method.removesuffix(" without text"), "classification", seed)
    columns = make_column_transformer(
        (TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), TEXT),
        (StandardScaler(), NUMBERS),
        (OneHotEncoder(handle_unknown="ignore"), CATEGORIES),
    )
    return make_pipeline(columns, LogisticRegression(C=10.0, max_iter=1_000))


def measure(method: str, seed: int, rows: int) -> dict[str, Any]:
    """Accuracy and log-loss on test rows; CPU seconds of the fit."""
    X, y = packages()
    train, test, y_train, y_test = train_test_split(
        X, y, train_size=rows, test_size=ROWS, random_state=seed, stratify=y
    )
    given: dict[str, Any] = {}
    if method == "CatBoost":
        given = {"text_features": [TEXT], "cat_features": CATEGORIES}
        train, test = (part.fillna(dict.fromkeys(CATEGORIES, "")) for part in (train, test))
    elif method == "TF-IDF + LR":
        train, test = (part.fillna(train[NUMBERS].mean()) for part in (train, test))
    elif method.endswith("without text"):
        train, test = train.drop(columns=TEXT), test.drop(columns=TEXT)
    model = make(method, seed)
    begin = time.process_time()
    model.fit(train, y_train, **given)
    seconds = time.process_time() - begin
    odds = model.predict_proba(test)
    found = {
        "accuracy": accuracy_score(y_test, model.classes_[odds.argmax(1)]),
        "log-loss": log_loss(y_test, odds.astype(float)),
        "seconds": seconds,
    }
    if method.startswith("NRS"):
        found["accuracy out of bag"] = float(model.oob_score_)
        columns = zip(train.columns, model.feature_importances_, strict=True)
        found["importances"] = {name: round(float(value), 4) for name, value in columns}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    named = (
        {"rows": rows, "method": method, "seed": seed}
        for rows in TRAINING
        for seed in range(chosen.seeds)
        for method in chosen.methods
    )
    written = ("catboost", "scikit-learn") if chosen.json else ()
    peers = {name: version(name) for name in written}
    cells = measure_cells(
        chosen.json, ((name, measure, name) for name in named), seeds=chosen.seeds, peers=peers
    )
    print(summary(cells))


def summary(cells: list[dict[str, Any]]) -> str:
    """The mean of each method after each number of training rows, as a table."""
    scores = ["accuracy", "log-loss", "seconds"]
    means = pd.DataFrame(cells).groupby(["rows", "method"], sort=False)[scores].mean()
    return table(
        ["training rows", "method", "accuracy", "log-loss", "CPU s"],
        means.reset_index().to_numpy().tolist(),
    )


if __name__ == "__main__":
    main()
