"""Several methods on the same folds of one table."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nrs.baselines.registry import Task, available, make, names
from nrs.files.read import LabelledTable
from nrs.files.scores import Scored

# What a table of results shows, by task.
METRICS = {
    "classification": ("accuracy", "log_loss", "roc_auc"),
    "regression": ("r2", "rmse", "mae"),
}


@dataclass
class Compared:
    """Scores of one method, a list of one value a fold for each metric.

    A score is NaN where a fold has none: without some class there is no ROC AUC. `problem` says
    why a method could not run; then there are no scores.
    """

    name: str
    scores: dict[str, list[float]] = field(default_factory=dict)
    fit_times: list[float] = field(default_factory=list)
    predict_times: list[float] = field(default_factory=list)
    problem: str | None = None

    def mean_and_std(self, metric: str) -> tuple[float, float]:
        """Over the folds that have the score; NaN if none has."""
        values = [value for value in self.scores[metric] if not math.isnan(value)]
        if not values:
            return math.nan, math.nan
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0

    @property
    def fit_seconds(self) -> float:
        return statistics.fmean(self.fit_times)

    @property
    def predict_seconds(self) -> float:
        return statistics.fmean(self.predict_times)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values, in which a score that there is not is None."""
        if self.problem is not None:
            return {"name": self.name, "problem": self.problem}
        means = {metric: self.mean_and_std(metric) for metric in self.scores}
        return {
            "name": self.name,
            "scores": {
                name: {"mean": _or_none(mean), "std": _or_none(std)}
                for name, (mean, std) in means.items()
            },
            "folds": {name: [*map(_or_none, values)] for name, values in self.scores.items()},
            "fit_seconds": self.fit_seconds,
            "predict_seconds": self.predict_seconds,
        }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def compare_methods(
    table: LabelledTable,
    methods: Sequence[str],
    *,
    folds: int = 5,
    seed: int = 0,
    on_fit: Callable[[str, int], None] | None = None,
) -> list[Compared]:
    """Cross-validate methods of :func:`nrs.baselines.names` on the same folds.

    NRS stands at its defaults, the others with the registry's settings (500 trees); nothing is
    tuned.

    Parameters
    ----------
    on_fit : called with the method and the fold before each fit.

    Returns
    -------
    list of Compared
        In the order of `methods`. A method whose package is missing says so.

    Raises
    ------
    ValueError
        For an unknown method, several targets, or fewer rows than folds.
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    unknown = [name for name in methods if name not in names()]
    if unknown or not methods:
        raise ValueError(
            f"methods must be among {', '.join(names())}; got {', '.join(unknown) or 'none'}"
        )
    if table.targets is not None:
        raise ValueError(
            f"Methods are compared on one target; got {table.target}. Name one and drop the others."
        )
    if len(table.truth) < 2 * folds:
        raise ValueError(
            f"{folds} folds need at least {2 * folds} rows; got {len(table.truth)}. "
            f"Use folds={max(len(table.truth) // 2, 2)} or fewer."
        )
    classes = table.task == "classification"
    counts = np.unique(table.truth, return_counts=True)[1] if classes else np.zeros(0)
    kind = StratifiedKFold if classes and counts.min() >= folds else KFold
    splits = list(kind(folds, shuffle=True, random_state=seed).split(table.truth, table.truth))
    found = [Compared(name) for name in methods]
    for one in found:
        can_run, why = available(one.name)
        if not can_run:
            one.problem = why
            continue
        for number, (kept, held) in enumerate(splits):
            if on_fit is not None:
                on_fit(one.name, number)
            _run(one, table, kept, held, seed)
    return found


def _run(one: Compared, table: LabelledTable, kept: Any, held: Any, seed: int) -> None:
    # The registry holds the paper's protocol; here NRS stands as a user gets it.
    ours: dict[str, Any] = {"preset": "default"} if one.name == "NRS" else {}
    if table.categorical:
        ours["categorical_features"] = table.categorical
    task: Task = "classification" if table.task == "classification" else "regression"
    model = make(one.name, task=task, seed=seed, **ours)
    begin = time.perf_counter()
    model.fit(table.features.take(kept), table.truth[kept])
    fitted = time.perf_counter()
    X, truth = table.features.take(held), table.truth[held]
    classes = np.asarray(model.classes_) if table.task == "classification" else None
    if classes is not None and hasattr(model, "predict_proba"):
        chances = model.predict_proba(X)
        scored = Scored("fold", held, truth, classes[chances.argmax(1)], chances, classes)
    else:
        scored = Scored("fold", held, truth, model.predict(X), None, classes)
    one.fit_times.append(fitted - begin)
    one.predict_times.append(time.perf_counter() - fitted)
    scores = scored.scores()
    for metric in METRICS[table.task]:
        one.scores.setdefault(metric, []).append(scores.get(metric, float("nan")))
