"""From a table file to a fitted and judged model, for ``nrs fit`` and ``nrs tune``."""

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
from nrs.files.schema import (
    ColumnSummary,
    Task,
    check_task,
    describe_columns,
    guess_task,
    one_value,
    target_values,
)
from nrs.files.scores import Judged, judge, out_of_bag
from nrs.files.targets import (
    JudgedTargets,
    SeveralTargets,
    labelled_rows,
    target_names,
)
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.recipe import FORESTS
from nrs.tabular.regressor import NRSRegressor
from nrs.tabular.targets import check_labelled

if TYPE_CHECKING:
    from nrs.tabular.tune.search import TuneResult

# Part of the rows that judges a network which has no out-of-bag rows.
HELD_OUT = 0.1
# Fewer rows than this cannot spare any.
LEAST_ROWS = 50


@dataclass(frozen=True)
class LabelledTable:
    """A table with its target taken out.

    Attributes
    ----------
    source : str
        The file.
    features : pyarrow.Table
    truth : ndarray (n_rows,), or (n_rows, n_targets) of several, see :class:`SeveralTargets`
    rows : ndarray (n_rows,)
        Numbers of the rows in the file, from 0.
    target, task, why : str
        The target's name (several apart by commas), what is done with it, and what that was
        guessed from.
    columns : list of ColumnSummary
    categorical : list of str
    unlabelled : int
        Rows without a target, which were left out.
    several : SeveralTargets or None
        Where more than one column is predicted.
    """

    source: str
    features: Any
    truth: np.ndarray
    rows: np.ndarray
    target: str
    task: Task
    why: str
    columns: list[ColumnSummary]
    categorical: list[str]
    unlabelled: int
    several: SeveralTargets | None = None

    @property
    def n_rows(self) -> int:
        """Rows that a model is fitted to."""
        return len(self.truth)

    @property
    def in_memory(self) -> bool:
        """Whether ``features`` and ``truth`` are all rows, not a sample."""
        return True

    @property
    def fits_to(self) -> tuple[Any, ...]:
        """What the fit of an estimator takes."""
        return self.features, self.truth

    def target_values(self) -> str:
        """The values of the target in a few words."""
        return describe_target(self.truth, self.task)


def describe_target(truth: np.ndarray, task: Task) -> str:
    """The values of one target in a few words.

    Examples
    --------
    >>> describe_target(np.array([0.5, 3.0]), "regression")
    'from 0.5 to 3'
    """
    if task == "regression":
        return f"from {truth.min():g} to {truth.max():g}"
    labels, counts = np.unique(truth, return_counts=True)
    return counted_classes(labels.tolist(), counts.tolist())


def counted_classes(labels: Sequence[Any], counts: Sequence[int], most: int = 6) -> str:
    """Classes with the rows of each.

    Examples
    --------
    >>> counted_classes(["no", "yes"], [1540, 460])
    '2 classes: no (1,540), yes (460)'
    """
    pairs = list(zip(labels, counts, strict=True))
    shown = ", ".join(f"{label} ({count:,})" for label, count in pairs[:most])
    return f"{len(pairs)} classes: {shown}" + (", …" if len(pairs) > most else "")


@dataclass(frozen=True)
class FittedFile:
    """A model, the table it was fitted to, and how it was judged (None: nothing to judge by)."""

    model: Any
    table: LabelledTable
    judged: Judged | JudgedTargets | None
    seconds: float


def read_labelled(
    source: str | os.PathLike[str],
    target: str | Sequence[str],
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    encoding: str = "utf-8",
) -> LabelledTable:
    """Read a table and take its target out.

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
    targets = target_names(target, table.column_names)
    asked = [*targets, *drop, *categorical]
    unknown = [column for column in asked if column not in table.column_names]
    if unknown:
        raise missing_columns(name, unknown, table.column_names)
    target = ", ".join(targets)
    labelled = labelled_rows(table, targets)
    rows = np.flatnonzero(labelled.to_numpy(zero_copy_only=False))
    unlabelled = table.num_rows - len(rows)
    if unlabelled:
        table = table.filter(labelled)
    check_labelled(table.num_rows, target, name)
    several: SeveralTargets | None = None
    if len(targets) > 1:
        several, why = SeveralTargets.of(table, targets, task)
        chosen, truth = several.task, several.encode(table)
    else:
        chosen, why, truth = _one_target(table.column(target), target, task)
    # Arrow refuses to drop a column twice.
    features = table.drop_columns(list(dict.fromkeys([*targets, *drop])))
    if features.num_columns == 0:
        raise ValueError(
            f"{name} must have columns beside the target, however: none is left; drop fewer"
        )
    return LabelledTable(
        source=name,
        features=features,
        truth=truth,
        rows=rows,
        target=target,
        task=chosen,
        why=f"guessed: {why}" if task == "auto" else "as asked",
        columns=describe_columns(features, list(categorical) or None),
        categorical=list(categorical),
        unlabelled=unlabelled,
        several=several,
    )


def _one_target(column: Any, name: str, task: str) -> tuple[Task, str, np.ndarray]:
    guessed, why = guess_task(column)
    chosen: Task = guessed if task == "auto" else task  # type: ignore[assignment]
    truth = target_values(column, chosen)
    if len(np.unique(truth)) < 2:
        raise one_value(name, truth[0].item())
    return chosen, why, truth


def fit_table(table: LabelledTable, *, seed: int = 0, **settings: Any) -> FittedFile:
    """Fit a model to a labelled table and judge it by rows that it did not learn from.

    A forest is judged by its out-of-bag rows, a single network by a tenth that is held out.

    Parameters
    ----------
    settings : arguments of :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    """
    begin = time.perf_counter()
    model = _estimator(table, seed, settings)
    several = table.several
    judged: Judged | JudgedTargets | None = None
    single = table.in_memory and settings.get("preset") in ("single", "paper")
    if single and len(table.truth) >= LEAST_ROWS:
        kept, held = _hold_out(table.truth, seed)
        held_out = table.features.take(held), table.truth[held]
        # The paper's protocol chooses nothing by held-out rows.
        chooses = {"eval_set": held_out} if settings["preset"] == "single" else {}
        model.fit(table.features.take(kept), table.truth[kept], **chooses)
        judged = judge(model, *held_out, "held-out rows", held, several)
    else:
        model.fit(*table.fits_to)
        judged = out_of_bag(model, table.truth, several)
    return _fitted(model, table, judged, time.perf_counter() - begin)


def tune_table(
    table: LabelledTable,
    *,
    seed: int = 0,
    preset: str = "default",
    **search: Any,
) -> tuple[FittedFile, TuneResult]:
    """Search the settings of a forest for a labelled table, and judge the best by out-of-bag rows.

    Parameters
    ----------
    search : arguments of :func:`nrs.tune`.

    Raises
    ------
    ValueError
        If the preset is no forest, or :func:`nrs.tune` complains.
    """
    from nrs.tabular.tune.search import tune

    if preset not in FORESTS:
        raise ValueError(f"the preset of a search must be among {FORESTS}, however: {preset!r}")
    begin = time.perf_counter()
    model = _estimator(table, seed, {"preset": preset})
    found = tune(model, table.features, table.truth, **search)
    best = found.best_estimator_
    judged = out_of_bag(best, table.truth, table.several)
    fitted = _fitted(best, table, judged, time.perf_counter() - begin)
    best.about_ |= {"trials": len(found.trials_), "params": found.best_params_}
    return fitted, found


def _estimator(table: LabelledTable, seed: int, settings: dict[str, Any]) -> Any:
    kind = NRSClassifier if table.task == "classification" else NRSRegressor
    return kind(random_state=seed, categorical_features=table.categorical or None, **settings)


def _fitted(
    model: Any, table: LabelledTable, judged: Judged | JudgedTargets | None, seconds: float
) -> FittedFile:
    """Note beside a model what it was fitted to and how well."""
    several = table.several
    model.about_ = {
        "target": table.target if several is None else several.names,
        "task": table.task,
        "source": Path(table.source).name,
        "rows": table.n_rows,
        "judged_by": None if judged is None else judged.source,
        "scores": None if judged is None else judged.scores(),
        "seconds": round(seconds, 3),
    }
    if several is not None:
        model.about_["labels"] = several.labels
        if isinstance(judged, JudgedTargets):
            model.about_["scores_by_target"] = judged.scores_by_target()
    return FittedFile(model, table, judged, seconds)


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
