"""From a table in many files to a fitted and judged model, for ``nrs fit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nrs.datasets.large_table import Table
from nrs.datasets.parts import is_parts
from nrs.datasets.table_file_errors import missing_columns
from nrs.files.fit import LabelledTable, counted_classes
from nrs.files.schema import (
    MOST_CLASSES,
    ColumnSummary,
    Task,
    check_task,
    level_summary,
    one_value,
)
from nrs.files.targets import target_names
from nrs.tabular.encode.columns import PLURAL
from nrs.tabular.encode.survey import Survey
from nrs.tabular.encode.survey_merge import survey_together
from nrs.tabular.rows.sample import split_places
from nrs.tabular.rows.table_fit import Surveyed, make_target
from nrs.tabular.targets import check_labelled

# A Parquet file above this many bytes is not read into memory.
STREAM_BYTES = 1 << 30


@dataclass(frozen=True)
class StreamedTable(LabelledTable):
    """A table in files: ``features``, ``truth`` and ``rows`` are those of a sample."""

    surveyed: Surveyed = field(kw_only=True)

    @property
    def n_rows(self) -> int:
        return self.surveyed.survey.n_rows

    @property
    def in_memory(self) -> bool:
        return False

    @property
    def fits_to(self) -> tuple[Any, ...]:
        return (self.surveyed,)

    def target_values(self) -> str:
        survey = self.surveyed.survey
        if self.task == "classification":
            assert survey.labels is not None
            labels = sorted(survey.labels)
            return counted_classes(labels, [survey.labels[label] for label in labels])
        low, high = _range(survey, len(survey.names))
        return f"from {low:g} to {high:g}"


def is_streamed(source: str) -> bool:
    """Whether a source is better not read into memory: several files, or a large Parquet file."""
    if is_parts(source):
        return True
    path = Path(source)
    large = path.suffix in (".parquet", ".pq") and path.is_file()
    return large and path.stat().st_size > STREAM_BYTES


def survey_parts(
    source: Any,
    target: str | Sequence[str],
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> StreamedTable:
    """Pass over a table in files, and tell what it holds.

    Raises
    ------
    nrs.datasets.table_file_errors.TableFileError
        If a file cannot be used, or lacks one of the named columns.
    ValueError
        If the target cannot be used.
    """
    check_task(task)
    table = Table(source)
    names = target_names(target, table.columns)
    if len(names) > 1:
        raise ValueError(
            f"a table in files is fitted to one target, however: {', '.join(names)}; name one, or "
            "read the rows into memory"
        )
    (target,) = names
    table = table.with_target(target)
    table = table.drop(drop) if drop else table
    unknown = [name for name in categorical if name not in table.columns]
    if unknown:
        raise missing_columns(table.parts[0].path, unknown, table.columns)
    survey = survey_together(table, list(categorical) or None)
    check_labelled(survey.n_rows, target, str(source))
    guessed, why = _guess_task(survey)
    chosen: Task = guessed if task == "auto" else task  # type: ignore[assignment]
    learned = make_target(survey, classes=chosen == "classification")
    if (survey.labels is not None and len(survey.labels) < 2) or learned.n_outputs == 0:
        raise one_value(target, next(iter(survey.labels or ["missing"])))
    sample = survey.sample.rows
    parts, rows = split_places(survey.sample.places)
    before = np.cumsum([0, *(sum(part.rows) for part in table.parts)])
    return StreamedTable(
        source=str(source),
        features=sample.select(table.columns),
        truth=_truth(sample.column(target), learned),
        rows=before[parts] + rows,
        target=target,
        task=chosen,
        why=f"guessed: {why}" if task == "auto" else "as asked",
        columns=describe_survey(survey),
        categorical=list(categorical),
        unlabelled=survey.unlabelled,
        surveyed=Surveyed(table, survey),
    )


def describe_survey(survey: Survey) -> list[ColumnSummary]:
    """What each column was understood as, from all rows."""
    found = []
    for index, (name, kind) in enumerate(zip(survey.names, survey.kinds, strict=True)):
        n_values = None
        if kind == "category":
            tally = survey.levels[index]
            missing, seen = tally.missing, sum(tally.counts.values())
            n_values = len(tally.counts)
            texts = sorted(tally.counts)
            values = level_summary(texts, np.array([tally.counts[text] for text in texts]))
        else:
            absent, present, mean, _ = survey.column_moments(survey.counted.index(index))
            missing, seen = int(absent), int(present)
            if kind == "boolean":
                values = f"{100 * mean:.0f} % true"
            elif seen:
                low, high = _range(survey, index)
                values = f"{low:.6g} … {high:.6g}"
                if kind == "date":
                    days = np.array([low, high]).astype("datetime64[us]")
                    values = " … ".join(np.datetime_as_string(days, "D").tolist())
        found.append(ColumnSummary(name, kind, values if seen else "nothing", n_values, missing))
    return found


def _range(survey: Survey, index: int) -> tuple[float, float]:
    """The least and the greatest value of a counted column."""
    if index not in survey.sketches:
        return 0.0, 1.0
    return survey.sketches[index].low, survey.sketches[index].high


def _guess_task(survey: Survey) -> tuple[Task, str]:
    """As :func:`nrs.files.schema.guess_task`, for all rows."""
    kind, labels = survey.target_kind, survey.labels
    if kind in ("category", "boolean"):
        return "classification", f"its values are {PLURAL[kind]}"
    if labels is not None and survey.whole and len(labels) <= min(MOST_CLASSES, survey.n_rows):
        return "classification", f"it has {len(labels)} different whole numbers"
    if labels is None:
        return "regression", "it has very many different numbers"
    return "regression", f"it has {len(labels):,} different numbers"


def _truth(column: Any, target: Any) -> np.ndarray:
    from nrs.files.schema import target_values

    if not hasattr(target, "classes"):
        return target_values(column, "regression")
    return target_values(column, "classification").astype(target.classes.dtype)
