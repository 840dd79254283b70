"""NDCG@10 of the default ranker, compared with rankers of LightGBM, XGBoost and CatBoost.

    NRS_DATA=<folder of data sets> python -m benchmarks.rankers --json results/rankers.json

MQ2008 (fold 1), the sample of MSLR and LightGBM's example, each with its official split. Every
method has its package's defaults and one thread, and sees the same training queries. "early" is a
peer with up to 2,000 rounds; validation queries choose the best by NDCG@10 and end the fit after 50
rounds without a better one. MQ2008 has validation queries, which no other method sees; elsewhere
they are a fifth of the training queries, drawn by the seed. The seed is also the method's own. NDCG
has gains 2^y - 1 and the discount 1 / log2(1 + rank); queries without relevant documents do not
count.

With ``--part validation`` the same is done without the test queries: a fifth of the training
queries takes their place. Finished cells of the JSON file are not measured again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.measure import Planned, here, measure_cells, table
from nrs.datasets import load
from nrs.ranking import NRSRanker, measure

SETS = ("MQ2008", "MSLR-sample", "LightGBM-rank")
PEERS = ("LightGBM", "XGBoost", "CatBoost")
METHODS = ("NRS", *(f"{peer}{early}" for peer in PEERS for early in ("", " early")))
ROUNDS, PATIENCE = 2_000, 50
# One in so many queries is held out where a set has no validation queries.
PART = 5


class Documents(NamedTuple):
    """Rows of whole queries; the rows of a query are together, as the peers want them."""

    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray

    def of(self, queries: np.ndarray) -> Documents:
        """The documents of some of the queries."""
        rows = np.isin(self.qid, queries)
        return Documents(self.X[rows], self.y[rows], self.qid[rows])

    def divided(self, seed: int) -> tuple[Documents, Documents]:
        """A fifth of the queries apart from the others."""
        queries = np.unique(self.qid)
        held_out = np.random.default_rng(seed).permutation(queries)[: len(queries) // PART]
        return self.of(np.setdiff1d(queries, held_out)), self.of(held_out)


def together(X: Any, y: Any, qid: Any) -> Documents:
    """Documents in the order of their queries."""
    order = np.argsort(qid, kind="stable")
    return Documents(np.asarray(X, np.float32)[order], np.asarray(y)[order], np.asarray(qid)[order])


def read_set(name: str, seed: int, part: str) -> tuple[Documents, Documents | None, Documents]:
    """Training queries, validation queries if the set has some, queries to score."""
    data = load(name)
    train = together(data.X_train, data.y_train, data.qid_train)
    if part == "validation":
        train, test = train.divided(1_000 + seed)
        return train, None, test
    validation = None
    if data.X_val is not None:
        validation = together(data.X_val, data.y_val, data.qid_val)
    return train, validation, together(data.X_test, data.y_test, data.qid_test)


def fit(method: str, seed: int, train: Documents, validation: Documents | None) -> Any:
    """A fitted ranker of a method."""
    if method == "NRS":
        model: Any = NRSRanker(random_state=seed, n_jobs=1, verbose=0)
        return model.fit(train.X, train.y, qid=train.qid)
    peer, _, early = method.partition(" ")
    given: dict[str, Any] = {}
    if early:
        if validation is None:
            train, validation = train.divided(seed)
        given = {"eval_set": [(validation.X, validation.y)]}
    if peer == "CatBoost":
        return _fit_catboost(seed, train, validation if early else None)
    if peer == "LightGBM":
        import lightgbm

        settings: dict[str, Any] = {"random_state": seed, "n_jobs": 1, "verbose": -1}
        if validation is not None and early:
            settings["n_estimators"] = ROUNDS
            given |= {"eval_group": [_lengths(validation)], "eval_at": [10]}
            given["callbacks"] = [lightgbm.early_stopping(PATIENCE, verbose=False)]
        model = lightgbm.LGBMRanker(**settings)
        return model.fit(train.X, train.y, group=_lengths(train), **given)
    import xgboost

    settings = {"random_state": seed, "n_jobs": 1}
    if validation is not None and early:
        settings |= {"n_estimators": ROUNDS, "early_stopping_rounds": PATIENCE}
        settings["eval_metric"] = "ndcg@10"
        given |= {"eval_qid": [validation.qid], "verbose": False}
    return xgboost.XGBRanker(**settings).fit(train.X, train.y, qid=train.qid, **given)


def _fit_catboost(seed: int, train: Documents, validation: Documents | None) -> Any:
    import catboost

    settings: dict[str, Any] = {"random_seed": seed, "thread_count": 1, "verbose": False}
    settings["allow_writing_files"] = False
    given: dict[str, Any] = {}
    if validation is not None:
        settings |= {"iterations": ROUNDS, "eval_metric": "NDCG:top=10;type=Exp"}
        given["eval_set"] = catboost.Pool(validation.X, validation.y, group_id=validation.qid)
        given["early_stopping_rounds"] = PATIENCE
    pool = catboost.Pool(train.X, train.y, group_id=train.qid)
    return catboost.CatBoostRanker(**settings).fit(pool, **given)


def _lengths(documents: Documents) -> np.ndarray:
    return np.unique(documents.qid, return_counts=True)[1]


def measure_fit(name: str, method: str, seed: int, part: str) -> dict[str, Any]:
    """NDCG at 1, 5 and 10 of the scored queries, and CPU seconds of the fit."""
    train, validation, test = read_set(name, seed, part)
    begin = time.process_time()
    model = fit(method, seed, train, validation)
    seconds = time.process_time() - begin
    scores = np.asarray(model.predict(test.X), dtype=np.float64)
    found = {k: float(measure(scores, test.y, test.qid, f"ndcg@{k}")) for k in (1, 5, 10)}
    return {f"ndcg@{k}": value for k, value in found.items()} | {"seconds": seconds}


def plan(seeds: int, part: str, sets: list[str], methods: list[str]) -> Iterator[Planned]:
    """Every method on every set, seed after seed."""
    for seed in range(seeds):
        for name in sets:
            for method in methods:
                cell = {"name": name, "method": method, "seed": seed, "part": part}
                yield cell, measure_fit, cell


def summary(cells: list[dict[str, Any]], part: str) -> str:
    """Mean NDCG@10 and its deviation over the seeds, ranks, and NRS less the best peer."""
    frame = pd.DataFrame([cell for cell in cells if cell["part"] == part])
    grouped = frame.groupby(["name", "method"], sort=False)["ndcg@10"]
    means, spread = grouped.mean().unstack(0), grouped.std().fillna(0.0).unstack(0)
    means = means.dropna()
    ranks = means.rank(ascending=False).mean(axis=1)
    seconds = frame.groupby("method")["seconds"].median()
    rows = [
        [method]
        + [f"{means.loc[method, name]:.3f} ± {spread.loc[method, name]:.3f}" for name in means]
        + [float(ranks[method]), float(seconds[method])]
        for method in means.index
    ]
    shown = table([f"NDCG@10, {part}", *means, "average rank", "median CPU s"], rows)
    if "NRS" not in means.index or len(means) == 1:
        return shown
    ahead = means.loc["NRS"] - means.drop("NRS").max()
    each = ", ".join(f"{name} {value:+.4f}" for name, value in ahead.items())
    return f"{shown}\n\nNRS less the best peer of each set: {each}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--part", choices=["test", "validation"], default="test")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    planned = plan(chosen.seeds, chosen.part, chosen.sets, chosen.methods)
    # Of the module: xgboost has packages of several names.
    peers = {peer: import_module(peer.lower()).__version__ for peer in PEERS if chosen.json}
    cells = measure_cells(chosen.json, planned, here, seeds=chosen.seeds, peers=peers)
    print(summary(cells, chosen.part))


if __name__ == "__main__":
    main()
