"""Quantiles and counts, compared with boosting and a generalised linear model.

    NRS_DATA=<folder of data sets> python -m benchmarks.losses quantiles --json results/losses.json
    NRS_DATA=<folder of data sets> python -m benchmarks.losses counts --json results/losses.json
    python -m benchmarks.losses show --json results/losses.json

Every method is at its defaults, on one thread. *Quantiles*: the 5th, 50th and 95th percentile of
the target of five mixed tables (`mixed/`) and of the regression sets of `benchmarks.accuracy`; the
score is the mean pinball loss on test rows, divided by that of the training rows' quantiles. Ours
and CatBoost (`MultiQuantile`) fit one model, LightGBM and scikit-learn's HistGradientBoosting one
per quantile. *Counts*: hourly rentals of bicycles in two cities and three generated tables, one of
them with exposures; the score is the Poisson deviance, divided by that of the mean count. 70/30
splits, at most 2,000 training rows; a seed is that of the split and of the method.

With ``--part validation`` methods are compared on a held-out part of the training rows: nothing was
chosen on test rows. Finished cells of the JSON file are not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import train_test_split

from benchmarks.accuracy import REGRESSION
from benchmarks.measure import Planned, measure_cells, table
from benchmarks.peers import OnFrames, at_defaults

LEVELS = (0.05, 0.5, 0.95)
MIXED = ("abalone", "ames", "bike-hour", "cal-housing", "diamonds")
COUNTS = ("bike-hour", "seoul", "smooth", "thresholds", "exposures")
METHODS = {
    "quantiles": ("NRS", "LightGBM", "CatBoost", "HGB"),
    "counts": ("NRS", "LightGBM", "CatBoost", "HGB", "Poisson GLM"),
}
SECTIONS = {"quantiles": (*MIXED, *REGRESSION), "counts": COUNTS}
MOST_ROWS = 2_000
# Rows of a generated table.
GENERATED = 6_000
Data = tuple[pd.DataFrame, np.ndarray, np.ndarray | None]


def read_set(section: str, name: str) -> Data:
    """Columns, target and logarithms of the exposure of a set."""
    folder = Path(os.environ.get("NRS_DATA", "data"))
    if name == "seoul":
        frame = pd.read_csv(folder / "messy" / "seoul.csv", encoding="utf-8-sig")
        when = pd.to_datetime(frame["date"], format="%d/%m/%Y")
        # As numbers, which every method reads.
        frame["date"] = (when - when.min()).dt.days
        return frame.drop(columns="rented_bike_count"), frame["rented_bike_count"].to_numpy(), None
    if name in MIXED:
        frame = pd.read_parquet(folder / "mixed" / f"{name}.parquet")
        y = frame["target"].to_numpy(dtype=float)
        y = np.round(np.expm1(y)) if section == "counts" else y
        return frame.drop(columns="target"), y, None
    if section == "counts":
        return generated(name)
    from nrs.datasets import load

    data = load(name)
    X, y = (
        part if more is None else np.concatenate([part, more])
        for part, more in ((data.X_train, data.X_test), (data.y_train, data.y_test))
    )
    y = y if y.ndim == 1 else y[:, 0]
    columns = [f"x{number}" for number in range(X.shape[1])]
    return pd.DataFrame(np.asarray(X, dtype=float), columns=columns), y.astype(float), None


def generated(name: str) -> Data:
    """Counts whose rate is a function of ten columns, of which six matter."""
    rng = np.random.default_rng(len(name))
    X = rng.normal(size=(GENERATED, 10))
    a, b, c, d, e, f = X.T[:6]
    if name == "thresholds":
        log_rate = 1.0 * (a > 0.5) + 0.8 * ((b > 0) & (c > 0)) - 0.7 * (d > 1) + 0.5 * (e * f > 0)
    else:
        log_rate = 0.6 * np.sin(2 * a) + 0.4 * b * c + 0.3 * np.abs(d) + 0.2 * e - 0.1 * f**2
    exposure = rng.gamma(2.0, 1.0, GENERATED) + 0.1 if name == "exposures" else None
    rate = np.exp(log_rate) * (1.0 if exposure is None else exposure)
    frame = pd.DataFrame(X, columns=[f"x{number}" for number in range(10)])
    y = rng.poisson(rate).astype(float)
    return frame, y, None if exposure is None else np.log(exposure)


def measure_fit(section: str, name: str, method: str, seed: int, part: str) -> dict[str, Any]:
    """Loss on the rows of a part relative to a constant's, and CPU seconds to fit and predict."""
    X, y, offset = read_set(section, name)
    rows = np.arange(len(y))
    training, test = train_test_split(rows, test_size=0.3, random_state=seed)
    training = training[:MOST_ROWS]
    if part == "validation":
        training, test = train_test_split(training, test_size=0.3, random_state=seed)
    X_train, X_test = (X.iloc[kept].reset_index(drop=True) for kept in (training, test))
    truth = y[test]
    begin = time.process_time()
    if section == "quantiles":
        found = predict_quantiles(method, seed, X_train, y[training], X_test)
        constant = np.tile(np.quantile(y[training], LEVELS), (len(test), 1))
        own, usual = (mean_pinball(truth, each) for each in (found, constant))
        crossed = float((np.diff(found, axis=1) < 0).any(1).mean())
        more = {"crossing": crossed, "covered": float(np.mean(covered(truth, found)))}
    else:
        offsets = [None if offset is None else offset[kept] for kept in (training, test)]
        counts = predict_counts(method, seed, X_train, y[training], X_test, *offsets)
        exposures = [np.ones(len(kept)) for kept in (training, test)]
        if offset is not None:
            exposures = [np.exp(one) for one in offsets if one is not None]
        usual = y[training].sum() / exposures[0].sum() * exposures[1]
        own, usual = (
            mean_poisson_deviance(truth, np.maximum(each, 1e-9)) for each in (counts, usual)
        )
        more = {"rows": len(training)}
    seconds = time.process_time() - begin
    return {"loss": own / usual, "raw": own, "seconds": seconds, **more}


def covered(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Whether rows are between their outer quantiles."""
    return (truth >= found[:, 0]) & (truth <= found[:, -1])


def mean_pinball(truth: np.ndarray, found: np.ndarray) -> float:
    """Mean over the levels of the pinball loss."""
    each = zip(found.T, LEVELS, strict=True)
    return float(np.mean([mean_pinball_loss(truth, one, alpha=level) for one, level in each]))


def predict_quantiles(
    method: str, seed: int, X: pd.DataFrame, y: np.ndarray, X_test: pd.DataFrame
) -> np.ndarray:
    """Quantiles of the test rows, (n, levels), by one model or one per level."""
    if method == "NRS":
        model = at_defaults(method, "regression", seed).set_params(quantiles=LEVELS)
        found: np.ndarray = model.fit(X, y).predict_quantiles(X_test)
        return found
    if method == "CatBoost":
        model = at_defaults(method, "regression", seed)
        levels = ",".join(map(str, LEVELS))
        model.set_params(loss_function=f"MultiQuantile:alpha={levels}")
        return OnFrames(method, model).fit(X, y).predict(X_test)
    columns = []
    for level in LEVELS:
        model = at_defaults(method, "regression", seed)
        if method == "LightGBM":
            model.set_params(objective="quantile", alpha=level)
        else:
            model.set_params(loss="quantile", quantile=level, categorical_features="from_dtype")
        columns.append(OnFrames(method, model).fit(X, y).predict(X_test))
    return np.column_stack(columns)


def predict_counts(
    method: str,
    seed: int,
    X: pd.DataFrame,
    y: np.ndarray,
    X_test: pd.DataFrame,
    offset: np.ndarray | None,
    offset_test: np.ndarray | None,
) -> np.ndarray:
    """Expected counts of the test rows; methods without offsets fit rates with weights."""
    if method == "NRS":
        model = at_defaults(method, "regression", seed).set_params(loss="poisson")
        model.fit(X, y, offset=offset)
        found: np.ndarray = model.predict(X_test, offset=offset_test)
        return found
    weight = None if offset is None else np.exp(offset)
    rates = y if weight is None else y / weight
    if method == "Poisson GLM":
        model = poisson_glm(X).fit(X, rates, poissonregressor__sample_weight=weight)
    else:
        model = at_defaults(method, "regression", seed)
        named = {
            "LightGBM": {"objective": "poisson"},
            "CatBoost": {"loss_function": "Poisson"},
            "HGB": {"loss": "poisson", "categorical_features": "from_dtype"},
        }
        model.set_params(**named[method])
        model = Weighted(method, model, weight).fit(X, rates)
    predicted = model.predict(X_test)
    return predicted if offset_test is None else predicted * np.exp(offset_test)


class Weighted(OnFrames):
    """A peer that is fitted with weights."""

    def __init__(self, method: str, model: Any, weight: np.ndarray | None) -> None:
        super().__init__(method, _Weighing(model, weight))


class _Weighing:
    """A model whose fit has these weights."""

    def __init__(self, model: Any, weight: np.ndarray | None) -> None:
        self.model, self.weight = model, weight

    def fit(self, X: Any, y: Any, **given: Any) -> None:
        self.model.fit(X, y, sample_weight=self.weight, **given)

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict(X))


def poisson_glm(X: pd.DataFrame) -> Any:
    """scikit-learn's PoissonRegressor on standardised numbers and 0/1 columns of categories."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import PoissonRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = list(X.select_dtypes("number"))
    others = [name for name in X if name not in numbers]
    encode = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), others),
    )
    return make_pipeline(encode, PoissonRegressor(max_iter=1000))


def plan(sections: list[str], seeds: int, part: str, sets: list[str] | None) -> Iterator[Planned]:
    """Every method on every set, seed after seed."""
    for seed in range(seeds):
        for section in sections:
            for name in SECTIONS[section]:
                for method in METHODS[section]:
                    if sets and name not in sets:
                        continue
                    cell = {"section": section, "name": name, "method": method}
                    cell |= {"seed": seed, "part": part}
                    yield cell, measure_fit, cell


def summary(cells: list[dict[str, Any]], section: str) -> str:
    """Mean relative loss of each set, and ranks."""
    frame = pd.DataFrame([cell for cell in cells if cell["section"] == section])
    means = frame.pivot_table(index="name", columns="method", values="loss", sort=False)
    means = means.dropna()
    ranks = means.rank(axis=1).mean()
    seconds = frame.groupby("method")["seconds"].median()
    rows = [[name, *means.loc[name]] for name in means.index]
    rows += [["average rank", *ranks], ["median seconds", *seconds[means.columns]]]
    if section == "quantiles":
        extra = frame.groupby("method")[["covered", "crossing"]].mean().T[means.columns]
        rows += [["between 5 % and 95 %", *extra.loc["covered"]]]
        rows += [["rows whose quantiles cross", *extra.loc["crossing"]]]
    return table([section, *means.columns], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", choices=[*SECTIONS, "show"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--part", choices=["test", "validation"], default="test")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    sections = [*SECTIONS] if chosen.section == "show" else [chosen.section]
    if chosen.section == "show":
        cells = json.loads(chosen.json.read_text())["cells"]
    else:
        planned = plan(sections, chosen.seeds, chosen.part, chosen.sets)
        cells = measure_cells(chosen.json, planned, seeds=chosen.seeds)
    for section in sections:
        print(summary(cells, section), end="\n\n")


if __name__ == "__main__":
    main()
