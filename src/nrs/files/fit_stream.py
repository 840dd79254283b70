"""A labelled table in files that need not fit in memory, for ``nrs fit``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nrs.datasets.large_table import Table
from nrs.datasets.parts import is_parts
from nrs.datasets.table_file_errors import missing_columns
from nrs.files.fit import LabelledTable
from nrs.files.schema import ColumnSummary
from nrs.files.targets import TargetSummary, check_task, target_names, target_values
from nrs.tabular.rows.table import TableSource

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
    surveyed = TableSource.of(table, list(categorical) or None)
    summary = _target(surveyed)
    chosen, why = summary.choose_task(task)
    sample = surveyed.sample.rows
    return LabelledTable(
        source=str(source),
        features=sample.select(table.columns),
        truth=target_values(sample, names[0], chosen),
        rows=surveyed.numbers(surveyed.sample.places),
        n_rows=surveyed.n_rows,
        target=names[0],
        task=chosen,
        why=why,
        columns=[
            ColumnSummary.of(name, kind, column)
            for name, (kind, column) in zip(
                surveyed.names, surveyed.statistics.columns, strict=True
            )
        ],
        summaries=[summary],
        categorical=list(categorical),
        unlabelled=surveyed.unlabelled,
        streamed=surveyed,
    )


def _target(surveyed: TableSource) -> TargetSummary:
    """What the pass found of the target, in all rows."""
    labels = surveyed.labels
    low, high = (float(end[0]) for end in (labels.numbers.moments.low, labels.numbers.moments.high))
    limits = (0.0, 1.0) if labels.kind in ("boolean", "category") else (low, high)
    if labels.counts is None:
        return TargetSummary(surveyed.target, labels.kind, None, None, limits)
    found = sorted(labels.counts)
    counts = np.array([labels.counts[label] for label in found])
    return TargetSummary(surveyed.target, labels.kind, np.array(found), counts, limits)
