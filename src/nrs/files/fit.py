"""A model fitted to a labelled table and scored, for ``nrs fit`` and ``nrs tune``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nrs.files.check import Finding
from nrs.files.read import LabelledTable
from nrs.files.scores import AnyScored, ScoredTargets, model_outputs, score_oob, score_outputs
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.recipe import FORESTS
from nrs.tabular.regressor import NRSRegressor

if TYPE_CHECKING:
    from nrs.tabular.tune.search import TuneResult
    from nrs.tabular.types import TableModel

# Share of the rows that scores a network without out-of-bag rows.
HELD_OUT = 0.1
# Fewer rows than this cannot spare any.
MIN_ROWS = 50


@dataclass(frozen=True)
class FittedFile:
    """A model, the table it was fitted to, and its scores (None: no rows to score it on)."""

    model: TableModel
    table: LabelledTable
    scored: AnyScored | None
    seconds: float
    # What a user should know of the table.
    findings: Sequence[Finding] = ()

    @property
    def about(self) -> dict[str, Any]:
        """What travels with the model: what it was fitted to, and its scores."""
        return self.model.about_ or {}


def fit_table(table: LabelledTable, *, seed: int = 0, **settings: Any) -> FittedFile:
    """Fit a model of these settings to a labelled table and score it on rows not trained on.

    A forest is scored on its out-of-bag rows, a single network on a tenth that is held out.
    """
    begin = time.perf_counter()
    model = _estimator(table, seed, settings)
    single = table.streamed is None and settings.get("preset") in ("single", "paper")
    if single and table.n_rows >= MIN_ROWS:
        kept, held = _hold_out(table.truth, seed)
        X, truth = table.features.take(held), table.truth[held]
        # The paper's protocol chooses nothing by held-out rows.
        apart = [] if table.offsets is None else [table.offsets[held]]
        stopping: Any = {}
        if settings["preset"] == "single":
            stopping["eval_set"] = (X, truth, *apart)
        if table.offsets is not None:
            stopping["offset"] = table.offsets[kept]
        model.fit(table.features.take(kept), table.truth[kept], **stopping)
        outputs = model_outputs(model, X, added=apart)
        scored: AnyScored | None = score_outputs(
            model, outputs, truth, "held-out rows", held, table.targets
        )
    else:
        if table.streamed is None:
            model.fit(table.features, table.truth, offset=table.offsets)
        else:
            model.fit(table.streamed)
        scored = score_oob(model, table.truth, table.targets)
    return _fitted(model, table, scored, begin)


def tune_table(
    table: LabelledTable, *, seed: int = 0, preset: str = "default", **search: Any
) -> tuple[FittedFile, TuneResult]:
    """Search the settings of a forest for a labelled table; score the best on out-of-bag rows.

    `search` are arguments of :func:`nrs.tune`, which raises ValueError for bad ones.
    """
    from nrs.tabular.tune.search import tune

    if preset not in FORESTS:
        raise ValueError(f"preset must be one of {FORESTS} to be tuned; got {preset!r}")
    begin = time.perf_counter()
    model = _estimator(table, seed, {"preset": preset})
    found = tune(model, table.features, table.truth, **search)
    best = cast("TableModel", found.best_estimator_)
    scored = score_oob(best, table.truth, table.targets)
    tried = {"trials": len(found.trials_), "params": found.best_params_}
    return _fitted(best, table, scored, begin, **tried), found


def _estimator(table: LabelledTable, seed: int, settings: dict[str, Any]) -> TableModel:
    kind = NRSClassifier if table.task == "classification" else NRSRegressor
    return kind(random_state=seed, categorical_features=table.categorical or None, **settings)


def _fitted(
    model: TableModel, table: LabelledTable, scored: AnyScored | None, begin: float, **more: Any
) -> FittedFile:
    """Record in a model what it was fitted to and its scores."""
    seconds = time.perf_counter() - begin
    about: dict[str, Any] = {
        "target": table.target if table.targets is None else table.targets.names,
        "task": table.task,
        "source": Path(table.source).name,
        "rows": table.n_rows,
        "scored_on": None if scored is None else scored.source,
        "scores": None if scored is None else scored.scores(),
        "seconds": round(seconds, 3),
    }
    plans = {
        name: table.readings[name].plan
        for name in (table.targets.names if table.targets else [table.target])
        if name in table.readings
    }
    # How the target's cells are read where a file has them as texts.
    reading = {name: plan.to_dict() for name, plan in plans.items() if plan is not None}
    if reading:
        about["reading"] = reading
    if table.offset is not None:
        about["offset"] = table.offset
    if table.targets is not None:
        about["labels"] = table.targets.labels
    if isinstance(scored, ScoredTargets):
        about["scores_by_target"] = scored.scores_by_target()
    model.about_ = about | more
    return FittedFile(model, table, scored, seconds)


def _hold_out(truth: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import train_test_split

    counts = np.unique(truth, return_counts=True)[1]
    classes = truth.ndim == 1 and truth.dtype.kind != "f" and counts.min() > 1
    size = max(round(HELD_OUT * len(truth)), len(counts) if classes else 0)
    rows, labels = np.arange(len(truth)), truth if classes else None
    kept, held = train_test_split(rows, test_size=size, random_state=seed, stratify=labels)
    return np.sort(kept), np.sort(held)
