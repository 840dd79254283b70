"""A labelled table in files that need not fit in memory, for ``nrs fit``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nrs.datasets.large_table import Table
from nrs.datasets.parts import is_parts
from nrs.datasets.table_file_errors import missing_columns
from nrs.files.fit import LabelledTable
from nrs.files.schema import ColumnSummary, summarize
from nrs.files.targets import TargetSummary, check_task, target_names, target_values
from nrs.tabular.encode.survey import Survey
from nrs.tabular.encode.survey_merge import survey_together
from nrs.tabular.rows.sample import split_places
from nrs.tabular.rows.table_fit import Surveyed
from nrs.tabular.targets import check_labelled

# A Parquet file above this many bytes is not read into memory.
STREAM_BYTES = 1 << 30


def is_streamed(source: str) -> bool:
    """Whether a source should not be read into memory: several files, or a large Parquet file."""
    if is_parts(source):
        return True
    path = Path(source)
    large = path.suffix in (".parquet", ".pq") and path.is_file()
    return large and path.stat().st_size > STREAM_BYTES


def scan_labelled(
    source: str | Path,
    target: str | Sequence[str],
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> LabelledTable:
    """As :func:`nrs.files.fit.read_labelled`, by one pass over files that need not fit in memory.

    Raises ValueError for more than one target, and what :func:`~nrs.files.fit.read_labelled` does.
    """
    check_task(task)
    table = Table(source)
    names = target_names(target, table.columns)
    if len(names) > 1:
        raise ValueError(
            f"A streamed table can have only one target; got {', '.join(names)}. Choose one, or "
            "read the rows into memory."
        )
    table = table.with_target(names[0])
    table = table.drop(drop) if drop else table
    unknown = [name for name in categorical if name not in table.columns]
    if unknown:
        raise missing_columns(table.parts[0].path, unknown, table.columns)
    survey = survey_together(table, list(categorical) or None)
    check_labelled(survey.n_rows, names[0], str(source))
    summary = _target(survey)
    chosen, why = summary.choose_task(task)
    sample = survey.sample.rows
    parts, rows = split_places(survey.sample.places)
    before = np.cumsum([0, *(sum(part.rows) for part in table.parts)])
    return LabelledTable(
        source=str(source),
        features=sample.select(table.columns),
        truth=target_values(sample, names[0], chosen),
        rows=before[parts] + rows,
        n_rows=survey.n_rows,
        target=names[0],
        task=chosen,
        why=why,
        columns=_columns(survey),
        summaries=[summary],
        categorical=list(categorical),
        unlabelled=survey.unlabelled,
        streamed=Surveyed(table, survey),
    )


def _target(survey: Survey) -> TargetSummary:
    """What the pass found of the target, in all rows."""
    limits = _limits(survey, len(survey.names)) or (0.0, 1.0)
    if survey.labels is None:
        return TargetSummary(survey.target, survey.target_kind, None, None, limits)
    labels = sorted(survey.labels)
    counts = np.array([survey.labels[label] for label in labels])
    return TargetSummary(survey.target, survey.target_kind, np.array(labels), counts, limits)


def _columns(survey: Survey) -> list[ColumnSummary]:
    """What the pass found of each column, in all rows."""
    found = []
    for index, (name, kind) in enumerate(zip(survey.names, survey.kinds, strict=True)):
        if kind == "category":
            tally = survey.levels[index]
            levels = {text: tally.counts[text] for text in sorted(tally.counts)}
            found.append(summarize(name, kind, tally.missing, levels=levels))
            continue
        missing, seen, share, _ = survey.column_moments(survey.counted.index(index))
        limits = (_limits(survey, index) or (0.0, 1.0)) if seen else None
        found.append(summarize(name, kind, int(missing), limits=limits, share=share))
    return found


def _limits(survey: Survey, index: int) -> tuple[float, float] | None:
    """The least and the greatest value of a column of numbers or dates."""
    sketch = survey.sketches.get(index)
    return None if sketch is None else (sketch.low, sketch.high)
