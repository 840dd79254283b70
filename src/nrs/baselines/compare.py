"""Several methods on the same folds of one table, each as its users would fit it."""

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

# Boosting as its users have it: early stopping, the package's own categories.
STOPPED = ("XGBoost", "LightGBM", "CatBoost")
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
    settings: dict[str, Any] = field(default_factory=dict)
    rounds: list[int] = field(default_factory=list)

    def how(self) -> str:
        """Its settings in a few words.

        >>> Compared("LightGBM", rounds=[90, 110]).how()
        '100 rounds'
        """
        if self.name == "NRS":
            return "defaults"
        if self.name in STOPPED:
            return f"{statistics.fmean(self.rounds):.0f} rounds" if self.rounds else "100 rounds"
        trees = self.settings.get("n_estimators", self.settings.get("n_trees"))
        return f"{trees} trees" if trees is not None else "the paper's"

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
            "settings": self.settings,
            "rounds": self.rounds,
        }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


# Where the package of a method is looked up.
_PACKAGED = {"XGBoost": "GBDT"}


def known_methods() -> list[str]:
    """Names of the methods that can be compared.

    >>> known_methods()[:2]
    ['NRS', 'XGBoost']
    """
    return ["NRS", *STOPPED, *(name for name in names() if name not in ("NRS", *STOPPED))]


def usual_methods() -> list[str]:
    """NRS, a random forest, and the boosting packages that are installed."""
    return ["NRS", "RF", *(one for one in STOPPED if available(_PACKAGED.get(one, one))[0])]


def compare_methods(
    table: LabelledTable,
    methods: Sequence[str],
    *,
    folds: int = 5,
    seed: int = 0,
    on_fit: Callable[[str, int], None] | None = None,
) -> list[Compared]:
    """Cross-validate methods on the same folds, each with one thread.

    NRS stands at its defaults; XGBoost, LightGBM and CatBoost with early stopping on a tenth of the
    training rows, and their own categories; the others with the registry's settings (500 trees).
    Nothing is tuned.

    Parameters
    ----------
    methods : names of :func:`known_methods`.
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

    unknown = [name for name in methods if name not in known_methods()]
    if unknown or not methods:
        named = ", ".join(unknown) or "none"
        raise ValueError(f"methods must be among {', '.join(known_methods())}; got {named}")
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
        can_run, why = available(_PACKAGED.get(one.name, one.name))
        if not can_run:
            one.problem = why
            continue
        for number, (kept, held) in enumerate(splits):
            if on_fit is not None:
                on_fit(one.name, number)
            _run(one, table, kept, held, seed)
    return found


def _made(name: str, table: LabelledTable, seed: int) -> Any:
    """An unfitted estimator of a method, as its users have it."""
    task: Task = "classification" if table.task == "classification" else "regression"
    given: dict[str, Any] = {}
    if table.categorical:
        given["categorical_features"] = table.categorical
    if name in STOPPED:
        from nrs.baselines import stopped

        kind = "Classifier" if task == "classification" else "Regressor"
        return getattr(stopped, name + kind)(random_state=seed, **given)
    # The registry holds the paper's protocol; here NRS stands as a user gets it.
    if name == "NRS":
        given["preset"] = "default"
    return make(name, task=task, seed=seed, **given)


def _settings_of(model: Any) -> dict[str, Any]:
    """What an estimator was asked for, as JSON values."""
    left_out = ("categorical_features", "callbacks", "verbose", "options", "device")
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in left_out and isinstance(value, (str, int, float))
    }


def _run(one: Compared, table: LabelledTable, kept: Any, held: Any, seed: int) -> None:
    model = _made(one.name, table, seed)
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
    one.settings = _settings_of(model)
    if getattr(model, "rounds_", None) is not None:
        one.rounds.append(model.rounds_)
    one.fit_times.append(fitted - begin)
    one.predict_times.append(time.perf_counter() - fitted)
    scores = scored.scores()
    for metric in METRICS[table.task]:
        one.scores.setdefault(metric, []).append(scores.get(metric, float("nan")))
