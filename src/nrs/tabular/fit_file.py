"""From a table file to a fitted and judged model, for ``nrs fit``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nrs.datasets.table_file_errors import missing_columns
from nrs.datasets.table_files import read_table_file
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.judged import Judged, judge, out_of_bag
from nrs.tabular.regressor import NRSRegressor
from nrs.tabular.schema import (
    TASKS,
    ColumnSummary,
    Task,
    describe_columns,
    guess_task,
    target_values,
)

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
    truth : ndarray (n_rows,)
    rows : ndarray (n_rows,)
        Numbers of the rows in the file, from 0.
    target, task, why : str
        The target's name, what is done with it, and what that was guessed from.
    columns : list of ColumnSummary
    categorical : list of str
    unlabelled : int
        Rows without a target, which were left out.
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
        if self.task == "classification":
            labels, counts = np.unique(self.truth, return_counts=True)
            return counted_classes(labels.tolist(), counts.tolist())
        return f"from {self.truth.min():g} to {self.truth.max():g}"


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
    judged: Judged | None
    seconds: float


def read_labelled(
    source: str | os.PathLike[str],
    target: str,
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    encoding: str = "utf-8",
) -> LabelledTable:
    """Read a table and take its target out.

    Raises
    ------
    nrs.datasets.table_file_errors.TableFileError
        If the file cannot be read, or lacks one of the named columns.
    ValueError
        If the target cannot be used.
    """
    if task not in ("auto", *TASKS):
        raise ValueError(f"--task must be auto, {' or '.join(TASKS)}, however: {task!r}")
    table = read_table_file(source, as_text=list(categorical), encoding=encoding)
    name = "standard input" if os.fspath(source) == "-" else os.fspath(source)
    asked = [target, *drop, *categorical]
    unknown = [column for column in asked if column not in table.column_names]
    if unknown:
        raise missing_columns(name, unknown, table.column_names)
    labelled = table.column(target).is_valid()
    rows = np.flatnonzero(labelled.to_numpy(zero_copy_only=False))
    unlabelled = table.num_rows - len(rows)
    if unlabelled:
        table = table.filter(labelled)
    if table.num_rows < 2:
        raise ValueError(
            f"{name} must have at least two rows with a value of {target!r}, however: it has "
            f"{table.num_rows}; check the file"
        )
    guessed, why = guess_task(table.column(target))
    chosen: Task = guessed if task == "auto" else task  # type: ignore[assignment]
    truth = target_values(table.column(target), chosen)
    if len(np.unique(truth)) < 2:
        raise ValueError(
            f"the target {target!r} must have at least two values, however: all are "
            f"{truth[0].item()!r}; choose another --target"
        )
    features = table.drop_columns([target, *drop])
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
    )


def fit_table(table: LabelledTable, *, seed: int = 0, **settings: Any) -> FittedFile:
    """Fit a model to a labelled table and judge it by rows that it did not learn from.

    A forest is judged by its out-of-bag rows, a single network by a tenth that is held out.

    Parameters
    ----------
    settings : arguments of :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    """
    begin = time.perf_counter()
    estimator = NRSClassifier if table.task == "classification" else NRSRegressor
    model: Any = estimator(
        random_state=seed, categorical_features=table.categorical or None, **settings
    )
    judged: Judged | None = None
    single = table.in_memory and settings.get("preset") in ("single", "paper")
    if single and len(table.truth) >= LEAST_ROWS:
        kept, held = _hold_out(table.truth, seed)
        held_out = table.features.take(held), table.truth[held]
        # The paper's protocol chooses nothing by held-out rows.
        chooses = {"eval_set": held_out} if settings["preset"] == "single" else {}
        model.fit(table.features.take(kept), table.truth[kept], **chooses)
        judged = judge(model, *held_out, "held-out rows", held)
    else:
        model.fit(*table.fits_to)
        judged = out_of_bag(model, table.truth)
    seconds = time.perf_counter() - begin
    model._about = {
        "target": table.target,
        "task": table.task,
        "source": Path(table.source).name,
        "rows": table.n_rows,
        "judged_by": None if judged is None else judged.source,
        "scores": None if judged is None else judged.scores(),
        "seconds": round(seconds, 3),
    }
    return FittedFile(model, table, judged, seconds)


def _hold_out(truth: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import train_test_split

    labels = truth if truth.dtype.kind != "f" else None
    if labels is not None and np.unique(labels, return_counts=True)[1].min() < 2:
        labels = None
    size = max(round(HELD_OUT * len(truth)), 0 if labels is None else len(np.unique(labels)))
    kept, held = train_test_split(
        np.arange(len(truth)), test_size=size, random_state=seed, stratify=labels
    )
    return np.sort(kept), np.sort(held)
