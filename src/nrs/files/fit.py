"""A model fitted to a labelled table and scored, for ``nrs fit`` and ``nrs tune``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nrs.datasets.large_table import Table
from nrs.files.check import Finding
from nrs.files.read import LabelledTable
from nrs.files.scores import AnyScored, ScoredTargets, model_outputs, score_oob, score_outputs
from nrs.files.targets import bound_values, encode_targets, target_values
from nrs.ranking import NRSRanker
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.encode.drift import TRAINING_ROWS
from nrs.tabular.predict_file import offset_column
from nrs.tabular.recipe import FORESTS
from nrs.tabular.regressor import NRSRegressor
from nrs.tabular.rows.sample import split_places
from nrs.tabular.rows.stream import labelled_rows
from nrs.tabular.targets.survival import SurvivalTarget

if TYPE_CHECKING:
    from nrs.tabular.tune.search import TuneResult
    from nrs.tabular.types import TableModel

# Networks without out-of-bag rows, and the share of the rows that scores them.
SINGLE = ("single", "paper")
HELD_OUT = 0.1
# Fewer rows than this cannot spare any.
MIN_ROWS = 50
# Rows of files that were kept apart that score a model.
MAX_HELD_ROWS = 200_000
# Settings that a ranker does not have.
_OF_ESTIMATORS = ("divide", "monotone", "class_weight", "threshold", "quantiles")


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


def fit_table(
    table: LabelledTable, *, seed: int = 0, holdout: float | None = None, **settings: Any
) -> FittedFile:
    """Fit a model of these settings to a labelled table and score it on rows not trained on.

    A forest is scored on its out-of-bag rows, a single network on a tenth that is held out; with
    `holdout` both on that share of the rows: the latest of a table with times, of one with groups
    or queries all rows of that share of them. A streamed table knows which of its files are held
    out.

    Raises ValueError if the table cannot be used with these settings.
    """
    begin = time.perf_counter()
    check_holdout(holdout)
    model = _estimator(table, seed, settings)
    single = table.streamed is None and settings.get("preset") in SINGLE
    scored: AnyScored | None
    shown = table
    if table.held is not None:
        model.fit(table.streamed)
        scored, shown = _score_files(model, table, table.held)
    elif holdout is not None or (single and table.n_rows >= MIN_ROWS):
        scored = _fit_part(model, table, holdout, seed, settings.get("preset"))
    else:
        if table.streamed is None:
            given: Any = _arguments(table)
            model.fit(_features(table), table.truth, **given)
        else:
            model.fit(table.streamed)
        scored = score_oob(model, table.truth, table.targets, table.given.get("qid"))
    fitted = _fitted(model, table, scored, begin, **({"holdout": holdout} if holdout else {}))
    return replace(fitted, table=shown)


def check_holdout(holdout: float | None) -> None:
    """Refuse a share of rows that cannot be held out.

    Raises ValueError.
    """
    if holdout is None:
        return
    if not 0 < holdout < 1:
        raise ValueError(f"holdout must be above 0 and below 1, such as 0.2; got {holdout:g}")


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
    for name in ("class_weight", "threshold") if table.task != "classification" else ():
        if settings.get(name) is not None:
            raise ValueError(
                f"{name} needs classes, and {table.target!r} is predicted as a number. Leave it "
                "out, or use task='classification'."
            )
    if table.task == "ranking":
        # What all models of tables have is what is asked of it.
        own = {name: value for name, value in settings.items() if name not in _OF_ESTIMATORS}
        ranker = NRSRanker(random_state=seed, categorical_features=table.categorical, **own)
        return cast("TableModel", ranker)
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
    about |= table.apart
    if table.targets is not None:
        about["labels"] = table.targets.labels
    if isinstance(scored, ScoredTargets):
        about["scores_by_target"] = scored.scores_by_target()
    model.about_ = about | more
    some = np.arange(0, len(table.features), -(-len(table.features) // TRAINING_ROWS))
    model.encoder_.learn_profile(table.features.take(some))
    return FittedFile(model, table, scored, seconds)


def _fit_part(
    model: TableModel, table: LabelledTable, holdout: float | None, seed: int, preset: str | None
) -> AnyScored:
    """Fit to a part of the rows and score the model on the others."""
    kept, held = _hold_out(table, np.arange(table.n_rows), holdout or HELD_OUT, seed)
    given, stopping = _arguments(table, kept), {}
    if preset in SINGLE:
        # One network has no folds: groups and times say only which rows are held out.
        given = {role: values for role, values in given.items() if role not in ("groups", "time")}
    # The paper's protocol chooses nothing by held-out rows.
    if preset == "single":
        stop = held
        if holdout is not None:
            # Rows that choose the epoch cannot score it, too.
            kept, stop = _hold_out(table, kept, HELD_OUT, seed)
        stopping["eval_set"] = (_features(table, stop), table.truth[stop], *_added(table, stop))
    model.fit(_features(table, kept), table.truth[kept], **given, **stopping)
    outputs = model_outputs(model, _features(table, held), added=_added(table, held))
    qid = table.given["qid"][held] if "qid" in table.given else None
    return score_outputs(
        model, outputs, table.truth[held], "held-out rows", held, table.targets, qid
    )


def _score_files(
    model: TableModel, table: LabelledTable, held: Table
) -> tuple[AnyScored, LabelledTable]:
    """Score a model on files that were kept apart; also the table with their rows in its place.

    Of many rows equally many per file.
    """
    import pyarrow

    names = held.targets
    most, found = MAX_HELD_ROWS // len(held.parts), []
    seen = dict.fromkeys(range(len(held.parts)), 0)
    for chunk in held.chunks():
        # A time may have no upper bound.
        batch, places = labelled_rows(chunk, names[:1] if _bounds(model) else names)
        left = most - seen[chunk.part]
        if left > 0 and len(places):
            found.append((pyarrow.Table.from_batches([batch.slice(0, left)]), places[:left]))
            seen[chunk.part] += min(left, len(places))
    if not found:
        raise ValueError(f"The files that were held out have no value of {', '.join(names)}")
    rows = pyarrow.concat_tables([part for part, _ in found])
    numbers = split_places(np.concatenate([places for _, places in found]))[1]
    if table.targets is not None:
        truth = encode_targets(rows, table.targets)
    elif _bounds(model):
        truth = bound_values(rows, names)
    else:
        truth = target_values(rows, names[0], table.task, getattr(model, "classes_", None))
    features = rows.select(list(table.streamed.names)) if table.streamed else rows
    added = [rows.column(name) for name in offset_column(model)]
    outputs, every = model_outputs(model, features, added=added), np.arange(len(truth))
    scored = score_outputs(model, outputs, truth, "held-out rows", every, table.targets)
    return scored, replace(table, features=features, truth=truth, rows=numbers)


def _bounds(model: TableModel) -> bool:
    """Whether the target are times between two bounds."""
    return bool(model.target_.kind == SurvivalTarget.kind)


def _features(table: LabelledTable, rows: np.ndarray | None = None) -> Any:
    """The columns of some rows that a model takes: its features, and the queries of a ranker."""
    found = table.features
    if "qid" in table.given:
        found = found.append_column(table.apart["qid"], [table.given["qid"]])
    return found if rows is None else found.take(rows)


def _arguments(table: LabelledTable, rows: np.ndarray | None = None) -> dict[str, Any]:
    """What a fit takes besides features and truth, by its arguments."""
    given: dict[str, Any] = {
        role: values if rows is None else values[rows] for role, values in table.given.items()
    }
    # A column of the features.
    return given | ({"qid": table.apart["qid"]} if "qid" in given else {})


def _added(table: LabelledTable, rows: np.ndarray) -> list[np.ndarray]:
    """The offsets of rows, if there are any."""
    return [table.given["offset"][rows]] if "offset" in table.given else []


def _hold_out(
    table: LabelledTable, rows: np.ndarray, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Some of the rows to train on, and a share of them to score: both ascending."""
    size = round(share * len(rows))
    if min(size, len(rows) - size) < 2:
        raise ValueError(
            f"holdout={share:g} of {len(rows)} rows leaves too few to train or to score on; use "
            "more rows, or another share"
        )
    if "time" in table.given:
        times = table.given["time"][rows]
        # Rows of equal time stay together.
        start = np.sort(times)[-size]
        held = times >= start if (times < start).any() else times > start
    elif "groups" in table.given or "qid" in table.given:
        together = table.given["groups" if "groups" in table.given else "qid"]
        held = _in_held_group(together[rows], share, seed)
    else:
        held = _drawn(table.truth[rows], size, seed)
    if not held.any():
        role = next(one for one in ("time", "groups", "qid") if one in table.given)
        raise ValueError(f"{role} must name a column of at least 2 different values")
    return rows[~held], rows[held]


def _in_held_group(groups: np.ndarray, share: float, seed: int) -> np.ndarray:
    from sklearn.model_selection import GroupShuffleSplit

    if (groups == groups[0]).all():
        return np.zeros(len(groups), dtype=bool)
    splitter = GroupShuffleSplit(1, test_size=share, random_state=seed)
    held = np.zeros(len(groups), dtype=bool)
    held[next(splitter.split(groups, groups=groups))[1]] = True
    return held


def _drawn(truth: np.ndarray, size: int, seed: int) -> np.ndarray:
    from sklearn.model_selection import train_test_split

    counts = np.unique(truth, return_counts=True)[1]
    classes = truth.ndim == 1 and truth.dtype.kind != "f" and counts.min() > 1
    size = max(size, len(counts)) if classes else size
    labels = truth if classes and len(truth) - size >= len(counts) else None
    rows = np.arange(len(truth))
    held = np.zeros(len(truth), dtype=bool)
    held[train_test_split(rows, test_size=size, random_state=seed, stratify=labels)[1]] = True
    return held
