"""Tables as people have them: strings, missing cells, rare classes. A section of `accuracy`.

    NRS_DATA=<folder> python -m benchmarks.accuracy run --section mixed --methods "NRS,NRS fast"
    NRS_DATA=<folder> python -m benchmarks.accuracy run --section mixed --methods LightGBM,CatBoost
    python -m benchmarks.accuracy show --out results/accuracy

The tables are ``<folder>/mixed/<name>.parquet``, every column as at the source, the label in
``target``. Rows are split 70/30, stratified by class, then at most 10,000 training rows remain, for
every method alike; the seed is that of the split and of the method. Cells are files under
``results/paper/mixed/``.

Every method is at its defaults and reads categories as its package offers (`benchmarks.peers`).
Probabilities are kept at 1e-6 or more. NRS cells hold the multiply-adds of their fit
(`benchmarks.cost`).

All of these are development sets: the recipe was chosen on held-out parts of their training rows.
What they show is how well it was developed, not how it does elsewhere.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from benchmarks import accuracy
from benchmarks.cost import counting
from benchmarks.peers import at_defaults_on_frames
from nrs.datasets.folders import search_folders
from nrs.paper.table import Cell, Found, Measured, NotHereError, Printed, Subject, Table

if TYPE_CHECKING:
    from pandas import DataFrame

CLASSES = (
    "autos", "ecoli", "primary.tumor", "libras", "dermatology", "colic", "arrhythmia", "loan",
    "bands", "soybean", "myocardial", "eucalyptus", "titanic", "anneal", "oil-spill",
    "tic-tac-toe", "pc1", "attrition", "cmc", "car", "kr.vs.kp", "sick", "stroke", "phoneme",
    "page-blocks", "texture", "telco", "coupon", "nursery", "hr-left", "magic", "kr-vs-k",
    "electricity",
)  # fmt: skip
NUMBERS = ("abalone", "ames", "bike-hour", "cal-housing", "diamonds")
METHODS = (
    "NRS", "NRS fast", "NRS best", "CatBoost", "LightGBM", "XGBoost", "HGB", "RF", "RealMLP",
    "TabM",
)  # fmt: skip
MIN_PROBABILITY = 1e-6


def read(name: str, seed: int) -> tuple[DataFrame, np.ndarray, DataFrame, np.ndarray]:
    """Training and test rows; classes counted from 0.

    Raises
    ------
    NotHereError
        If no folder of ``NRS_DATA`` has the table, or pandas is not installed.
    """
    folders = [folder / "mixed" for folder in search_folders()]
    found = [path for path in (folder / f"{name}.parquet" for folder in folders) if path.exists()]
    if not found:
        looked = ", ".join(map(str, folders))
        raise NotHereError(f"{name}.parquet not found in {looked}; set NRS_DATA to its folder")
    try:
        import pandas

        table = pandas.read_parquet(found[0])
    except ImportError as error:
        raise NotHereError(f"mixed tables need pandas and pyarrow: {error}") from None
    y = table.pop("target").to_numpy()
    if name in CLASSES:
        y = np.unique(y, return_inverse=True)[1]
    X, X_test, y, y_test = train_test_split(
        table, y, test_size=0.3, random_state=seed, stratify=_strata(name, y)
    )
    if len(X) > accuracy.MOST_ROWS:
        X, _, y, _ = train_test_split(
            X, y, train_size=accuracy.MOST_ROWS, random_state=seed, stratify=_strata(name, y)
        )
    return X, y, X_test, y_test


def _strata(name: str, y: np.ndarray) -> np.ndarray | None:
    return y if name in CLASSES else None


def measure(cell: Cell, found: Found) -> Measured:
    """Fit a method, and measure it on the test rows."""
    name, method = cell.subject.dataset, cell.subject.method
    task = "classification" if name in CLASSES else "regression"
    X, y, X_test, y_test = read(name, cell.seed)
    model = at_defaults_on_frames(method, task, cell.seed)
    times: dict[str, float] = {}
    data: dict[str, Any] = {"n_train": len(X), "n_test": len(X_test), "n_features": X.shape[1]}
    with counting() as done:
        begin = time.process_time()
        model.fit(X, y)
        times["fit_cpu_s"] = time.process_time() - begin
    if method.startswith("NRS"):
        data["multiply_adds"] = done.total
    begin = time.process_time()
    answers = model.predict_proba(X_test) if task == "classification" else model.predict(X_test)
    times["predict_cpu_s"] = time.process_time() - begin
    answers = np.asarray(answers, dtype=np.float64)
    if task == "classification":
        metrics = accuracy.of_probabilities(answers, y, y_test, MIN_PROBABILITY)
    else:
        metrics = {"rmse": float(root_mean_squared_error(y_test, answers.reshape(-1)))}
    return Measured(
        metrics=metrics,
        times=times,
        data=data,
        settings={"estimator": type(getattr(model, "model", model)).__name__},
    )


TABLE = Table(
    name="mixed",
    title="Accuracy of methods at their defaults on mixed tables",
    finding="",
    protocol=__doc__ or "",
    printed=tuple(
        Printed(name, method, Subject("mixed", name, method), metric=metric)
        for names, metric in ((CLASSES, "accuracy"), (NUMBERS, "rmse"))
        for name in names
        for method in METHODS
    ),
    measure=measure,
    trials=accuracy.SEEDS,
    reference="NRS",
    lower_is_better=frozenset({"rmse"}),
)
