"""From a table file to a fitted and scored model, for ``nrs fit`` and ``nrs tune``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.datasets.table_file_errors import missing_columns
from nrs.datasets.table_files import read_table_file
from nrs.files.schema import ColumnSummary, describe_columns
from nrs.files.scores import (
    AnyScored,
    ScoredTargets,
    model_outputs,
    score_out_of_bag,
    score_outputs,
)
from nrs.files.targets import (
    TargetSummary,
    Task,
    check_task,
    encode_targets,
    join_targets,
    labelled_rows,
    target_names,
    target_values,
)
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.predict_file import TableModel, TargetColumns
from nrs.tabular.recipe import FORESTS
from nrs.tabular.regressor import NRSRegressor
from nrs.tabular.targets import check_labelled

if TYPE_CHECKING:
    import pyarrow

    from nrs.tabular.tune.search import TuneResult

# Share of the rows that scores a network without out-of-bag rows.
HELD_OUT = 0.1
# Fewer rows than this cannot spare any.
MIN_ROWS = 50


@dataclass(frozen=True)
class LabelledTable:
    """A table split into features and target.

    Attributes
    ----------
    source : str
        The file.
    features : pyarrow.Table
    truth : ndarray (n_rows,), or (n_rows, n_targets) of several, see :func:`encode_targets`
    rows : ndarray (n_rows,)
        Numbers of the rows in the file, from 0.
    n_rows : int
        Rows that a model is fitted to. Of a streamed table the three above are a sample of them.
    target, task, why : str
        The name of the target (several: comma-separated), the task, and where the task comes from.
    columns : list of ColumnSummary
    summaries : list of TargetSummary
        One per target.
    categorical : list of str
    unlabelled : int
        Rows without a target, which were left out.
    targets : TargetColumns or None
        Where more than one column is predicted.
    streamed : object, optional
        What an estimator fits to instead of rows in memory, see :mod:`nrs.files.fit_stream`.
    """

    source: str
    features: pyarrow.Table
    truth: np.ndarray
    rows: np.ndarray
    n_rows: int
    target: str
    task: Task
    why: str
    columns: list[ColumnSummary]
    summaries: list[TargetSummary]
    categorical: list[str]
    unlabelled: int
    targets: TargetColumns | None = None
    streamed: object | None = None

    @property
    def fits_to(self) -> tuple[Any, ...]:
        """The arguments of an estimator's fit."""
        return (self.features, self.truth) if self.streamed is None else (self.streamed,)


@dataclass(frozen=True)
class FittedFile:
    """A model, the table it was fitted to, and its scores (None: no rows to score it on)."""

    model: TableModel
    table: LabelledTable
    scored: AnyScored | None
    seconds: float

    @property
    def about(self) -> dict[str, Any]:
        """What travels with the model: what it was fitted to, and its scores."""
        return self.model.about_ or {}


def read_labelled(
    source: str | os.PathLike[str],
    target: str | Sequence[str],
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    encoding: str = "utf-8",
) -> LabelledTable:
    """Read a table file and split it into features and target.

    Parameters
    ----------
    target : str or sequence of str
        A column, or several; "a,b" names two unless a column is called that.

    Raises
    ------
    nrs.datasets.table_file_errors.TableFileError
        If the file cannot be read, or lacks one of the named columns.
    ValueError
        If the target cannot be used.
    """
    check_task(task)
    table = read_table_file(source, as_text=list(categorical), encoding=encoding)
    name = "standard input" if os.fspath(source) == "-" else os.fspath(source)
    names = target_names(target, table.column_names)
    unknown = [c for c in (*names, *drop, *categorical) if c not in table.column_names]
    if unknown:
        raise missing_columns(name, unknown, table.column_names)
    n_all = table.num_rows
    table, rows = labelled_rows(table, names)
    check_labelled(len(rows), ", ".join(names), name)
    summaries = [TargetSummary.of(table, one) for one in names]
    targets: TargetColumns | None = None
    if len(names) > 1:
        targets, chosen, why = join_targets(summaries, task)
        truth = encode_targets(table, targets)
    else:
        chosen, why = summaries[0].choose_task(task)
        truth = target_values(table, names[0], chosen)
    # Arrow refuses to drop a column twice.
    features = table.drop_columns(list(dict.fromkeys([*names, *drop])))
    if features.num_columns == 0:
        raise ValueError(f"{name} has no columns left besides the target; drop fewer columns")
    return LabelledTable(
        source=name,
        features=features,
        truth=truth,
        rows=rows,
        n_rows=len(truth),
        target=", ".join(names),
        task=chosen,
        why=why,
        columns=describe_columns(features, list(categorical) or None),
        summaries=summaries,
        categorical=list(categorical),
        unlabelled=n_all - len(rows),
        targets=targets,
    )


def fit_table(table: LabelledTable, *, seed: int = 0, **settings: Any) -> FittedFile:
    """Fit a model to a labelled table and score it on rows that it was not trained on.

    A forest is scored on its out-of-bag rows, a single network on a tenth that is held out.

    Parameters
    ----------
    settings : arguments of :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    """
    begin = time.perf_counter()
    model = _estimator(table, seed, settings)
    single = table.streamed is None and settings.get("preset") in ("single", "paper")
    if single and table.n_rows >= MIN_ROWS:
        kept, held = _hold_out(table.truth, seed)
        X, truth = table.features.take(held), table.truth[held]
        # The paper's protocol chooses nothing by held-out rows.
        stopping = {"eval_set": (X, truth)} if settings["preset"] == "single" else {}
        model.fit(table.features.take(kept), table.truth[kept], **stopping)
        outputs = model_outputs(model, X)
        scored: AnyScored | None = score_outputs(
            model, outputs, truth, "held-out rows", held, table.targets
        )
    else:
        model.fit(*table.fits_to)
        scored = score_out_of_bag(model, table.truth, table.targets)
    return _fitted(model, table, scored, time.perf_counter() - begin)


def tune_table(
    table: LabelledTable, *, seed: int = 0, preset: str = "default", **search: Any
) -> tuple[FittedFile, TuneResult]:
    """Search the settings of a forest for a labelled table; score the best on out-of-bag rows.

    Parameters
    ----------
    search : arguments of :func:`nrs.tune`.

    Raises
    ------
    ValueError
        If the preset is not a forest, or :func:`nrs.tune` refuses an argument.
    """
    from nrs.tabular.tune.search import tune

    if preset not in FORESTS:
        raise ValueError(f"preset must be one of {FORESTS} to be tuned; got {preset!r}")
    begin = time.perf_counter()
    model = _estimator(table, seed, {"preset": preset})
    found = tune(model, table.features, table.truth, **search)
    best = found.best_estimator_
    scored = score_out_of_bag(best, table.truth, table.targets)
    fitted = _fitted(best, table, scored, time.perf_counter() - begin)
    best.about_ |= {"trials": len(found.trials_), "params": found.best_params_}
    return fitted, found


def _estimator(table: LabelledTable, seed: int, settings: dict[str, Any]) -> TableModel:
    kind = NRSClassifier if table.task == "classification" else NRSRegressor
    return kind(random_state=seed, categorical_features=table.categorical or None, **settings)


def _fitted(
    model: TableModel, table: LabelledTable, scored: AnyScored | None, seconds: float
) -> FittedFile:
    """Record in a model what it was fitted to and its scores."""
    model.about_ = {
        "target": table.target if table.targets is None else table.targets.names,
        "task": table.task,
        "source": Path(table.source).name,
        "rows": table.n_rows,
        "scored_on": None if scored is None else scored.source,
        "scores": None if scored is None else scored.scores(),
        "seconds": round(seconds, 3),
    }
    if table.targets is not None:
        model.about_["labels"] = table.targets.labels
    if isinstance(scored, ScoredTargets):
        model.about_["scores_by_target"] = scored.scores_by_target()
    return FittedFile(model, table, scored, seconds)


def _hold_out(truth: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import train_test_split

    labels = truth if truth.dtype.kind != "f" and truth.ndim == 1 else None
    if labels is not None and np.unique(labels, return_counts=True)[1].min() < 2:
        labels = None
    size = max(round(HELD_OUT * len(truth)), 0 if labels is None else len(np.unique(labels)))
    kept, held = train_test_split(
        np.arange(len(truth)), test_size=size, random_state=seed, stratify=labels
    )
    return np.sort(kept), np.sort(held)
