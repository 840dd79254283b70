"""How a cell of the ranking table is measured (paper, Section "Document Retrieval Datasets").

The ranking function is the paper's: one layer with a sigmoid output and a dropout of 0.01, after
NRS or not. Settings are chosen once for each dataset and method by NDCG@10 on validation queries,
from one grid for all of them; the epoch of every trial likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nrs.baselines import LambdaMARTRanker, MissingPeerError, UMartRanker, model_size
from nrs.datasets import Dataset
from nrs.paper.table import Cell, Found, Measured, NotHereError, Search, Subject
from nrs.paper.trial import Clock, best_of, device, load_or_reason
from nrs.ranking import NRSRanker, measure
from nrs.ranking.metrics import Discount

SEARCH_SEED = 42
# Names of the paper's table, and of `nrs.ranking.losses`.
LOSSES = {
    "RankNet": "ranknet",
    "ListNet": "listnet",
    "ApxNDCG": "approx_ndcg",
    "RankCosine": "rank_cosine",
    "WassRank": "wass_rank",
    "uRank": "urank",
    "LambdaRank": "lambdarank",
}
BOOSTED: dict[str, Any] = {"LambdaMART": LambdaMARTRanker, "uMart": UMartRanker}
# Metrics of a trial, in percent: by both discounts, which agree at rank 1.
METRICS: dict[str, tuple[int, Discount]] = {
    "ndcg@1": (1, "log2"),
    "ndcg@5": (5, "log2"),
    "ndcg@10": (10, "log2"),
    "ndcg@5 paper": (5, "paper"),
    "ndcg@10 paper": (10, "paper"),
}
# The folds that a trial is the mean of; other sets have one split.
FOLDS = {"MSLR-WEB10K": 5, "MSLR-WEB30K": 5, "MQ2008-5fold": 5}


@dataclass(frozen=True, kw_only=True)
class RankPlan:
    """The choices of the ranking table.

    Attributes
    ----------
    grid : settings to choose among, the same for every loss, with and without NRS.
    fixed : settings of every neural ranker.
    n_mul : of the rankers with NRS.
    rounds : most rounds of boosting; validation queries stop it.
    prefix : of the names of its searches.
    data : gives a fold of a dataset, with training, validation and test queries.
    """

    grid: tuple[Mapping[str, Any], ...] = ({"lr": 1e-3}, {"lr": 3e-3}, {"lr": 1e-2})
    fixed: Mapping[str, Any] = field(default_factory=lambda: {"epochs": 30, "patience": 8})
    n_mul: int = 2
    rounds: int = 500
    prefix: str = ""
    data: Callable[[str, int], Dataset] = field(default=lambda name, fold: split_of(name, fold))

    def searches(self, subject: Subject) -> tuple[Search, ...]:
        """Which search decides a subject's settings, if any."""
        if subject.method in BOOSTED or len(self.grid) == 1:
            return ()
        return (Search(f"{self.prefix}ranking", subject.dataset, subject.method),)

    def search(self, search: Search) -> dict[str, Any]:
        """Choose settings by the validation queries of each fold."""
        by_fold = [self._search(search.method, data) for data in self._folds(search.dataset)]
        if len(by_fold) == 1:
            return by_fold[0]
        return by_fold[0] | {key: [one[key] for one in by_fold] for key in ("chosen", "tried")}

    def _search(self, method: str, data: Dataset) -> dict[str, Any]:
        tried: list[dict[str, Any]] = []
        for choice in self.grid:
            model = self._estimator(method, SEARCH_SEED, data, choice)
            _fit(model, data)
            score = float(measure(_scores(model, data, "val"), data.y_val, data.qid_val))
            tried.append({"settings": dict(choice), "score": [100 * score]})
        return best_of(tried, ["validation NDCG@10 (log2)"])

    def measure(self, cell: Cell, found: Found) -> Measured:
        """Run one trial."""
        subject = cell.subject
        choices = self._choices(subject, found)
        scores: dict[str, list[float]] = {name: [] for name in METRICS}
        times: dict[str, float] = {}
        for data, choice in zip(self._folds(subject.dataset), choices, strict=True):
            model = self._estimator(subject.method, cell.seed, data, choice)
            with Clock("fit", times):
                _fit(model, data)
            with Clock("predict", times):
                predicted = _scores(model, data, "test")
            for name, (k, discount) in METRICS.items():
                found_here = measure(
                    predicted, data.y_test, data.qid_test, f"ndcg@{k}", discount=discount
                )
                scores[name].append(100 * float(found_here))
        folds = len(scores["ndcg@1"])
        return Measured(
            metrics={name: float(np.mean(values)) for name, values in scores.items()},
            parts=scores if folds > 1 else {},
            times=times,
            model_bytes=model_size(model),
            settings={
                "arguments": choices if folds > 1 else choice,
                "estimator": type(model).__name__,
                "used": _used(model),
            },
            data=_described(data, found_here.n_empty) | {"folds": folds if folds > 1 else None},
        )

    def _choices(self, subject: Subject, found: Found) -> list[dict[str, Any]]:
        """What was chosen for each fold."""
        n = FOLDS.get(subject.dataset, 1)
        if subject.method in BOOSTED:
            return [{}] * n
        for search in self.searches(subject):
            chosen = found[search]["chosen"]
            return list(chosen) if isinstance(chosen, list) else [chosen]
        return [dict(self.grid[0])] * n

    def _folds(self, dataset: str) -> Iterator[Dataset]:
        for fold in range(1, FOLDS.get(dataset, 1) + 1):
            yield self.data(dataset, fold)

    def _estimator(self, method: str, seed: int, data: Dataset, choice: Mapping[str, Any]) -> Any:
        if method in BOOSTED:
            return BOOSTED[method](self.rounds, random_state=seed)
        loss, _, nrs = method.partition("+")
        n_queries = len(np.unique(data.qid_train))  # type: ignore[arg-type]
        return NRSRanker(
            loss=LOSSES[loss],
            preset="paper",
            n_mul=self.n_mul if nrs else 0,
            # The paper takes one query a step; several of like length take a fraction of the time.
            batch_size=max(1, min(16, n_queries // 8)),
            random_state=seed,
            n_jobs=1,
            verbose=0,
            device=device(),
            **{**self.fixed, **choice},
        )


def split_of(dataset: str, fold: int) -> Dataset:
    """A fold with validation queries: the owner's, or a fifth of the training queries.

    Raises NotHereError if the data is not on this machine.
    """
    if dataset == "MQ2008-5fold":
        return rotated(split_of("MQ2008", 1), fold)
    data = load_or_reason(dataset, fold)
    if isinstance(data, str):
        raise NotHereError(data)
    return data if data.X_val is not None else hold_out(data)


def rotated(data: Dataset, fold: int) -> Dataset:
    """A fold of LETOR's rotation from the parts of fold 1: three fifths train, one validates.

    The queries of the training part, in the order of the file, are cut in three; with validation
    and test part they are the fifths S1 to S5. Fold k trains on S_k, S_{k+1} and S_{k+2}.
    """
    parts = {name: data.part(name) for name in ("train", "val", "test")}
    X, y, qid = (np.concatenate(arrays) for arrays in zip(*parts.values(), strict=True))
    queries_of = {name: np.asarray(queries) for name, (_, _, queries) in parts.items()}
    first = np.unique(queries_of["train"], return_index=True)[1]
    thirds = np.array_split(queries_of["train"][np.sort(first)], 3)
    fifths = [*thirds, queries_of["val"], queries_of["test"]]
    turned = [fifths[(fold - 1 + k) % 5] for k in range(5)]
    wanted = {"train": np.concatenate(turned[:3]), "val": turned[3], "test": turned[4]}
    arrays: dict[str, Any] = {}
    for part, queries in wanted.items():
        rows = np.isin(qid, queries)
        arrays |= {f"X_{part}": X[rows], f"y_{part}": y[rows], f"qid_{part}": qid[rows]}
    return replace(data, **arrays)


def hold_out(data: Dataset, fraction: float = 0.2) -> Dataset:
    """Take a part of the training queries for validation, always the same ones."""
    queries = np.unique(data.qid_train)  # type: ignore[arg-type]
    order = np.random.default_rng(SEARCH_SEED).permutation(len(queries))
    held = np.isin(data.qid_train, queries[order[: round(fraction * len(queries))]])  # type: ignore[arg-type]
    parts = {"train": ~held, "val": held}
    arrays = {
        f"{kind}_{part}": getattr(data, f"{kind}_train")[rows]
        for part, rows in parts.items()
        for kind in ("X", "y", "qid")
    }
    return replace(data, **arrays)


def _fit(model: Any, data: Dataset) -> None:
    try:
        model.fit(
            data.X_train, data.y_train, qid=data.qid_train,
            eval_set=(data.X_val, data.y_val, data.qid_val),
        )  # fmt: skip
    except MissingPeerError as error:
        raise NotHereError(str(error)) from None


def _scores(model: Any, data: Dataset, part: str) -> np.ndarray:
    X, _, qid = data.part(part)
    if isinstance(model, NRSRanker):
        return model.predict(X, qid=qid)
    scores: np.ndarray = model.predict(X)
    return scores


def _used(model: Any) -> dict[str, Any]:
    """All settings of a fitted ranker, and where it stopped."""
    if isinstance(model, NRSRanker):
        return model.recipe_.to_dict() | {"best_epoch": model.history_.best_epoch}
    parameters: dict[str, Any] = model.get_params(deep=False)
    return parameters | {"best_iteration": int(getattr(model.peer_, "best_iteration", 0))}


def _described(data: Dataset, n_empty: int) -> dict[str, Any]:
    counts = {
        f"queries_{part}": len(np.unique(data.part(part)[2]))  # type: ignore[arg-type]
        for part in ("train", "val", "test")
    }
    return {
        "n_train": len(data.X_train),
        "n_test": 0 if data.X_test is None else len(data.X_test),
        "n_features": data.n_features,
        **counts,
        "queries_test_without_relevant": n_empty,
        "empty": "skip",
    }
