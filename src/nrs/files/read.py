"""A table file split into features and target, read into memory or streamed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nrs.datasets.convert import Overrides, decisions, notes_of
from nrs.datasets.large_table import Table
from nrs.datasets.parts import is_parts
from nrs.datasets.reading import Decision
from nrs.datasets.table_file_errors import missing_columns
from nrs.datasets.table_files import read_table_file, stream_table_file
from nrs.files import targets as of_target
from nrs.files.queries import check_grades
from nrs.files.targets import TargetSummary, Task, check_task
from nrs.tabular.encode.column_encoder import Statistics
from nrs.tabular.encode.encoder import count, counted_kind, decide_text
from nrs.tabular.encode.table import read_table
from nrs.tabular.forest.folds import times_of
from nrs.tabular.predict_file import TargetColumns
from nrs.tabular.rows.table import TableSource
from nrs.tabular.targets import check_labelled

if TYPE_CHECKING:
    import pyarrow

# A Parquet file above this many bytes is not read into memory.
STREAM_BYTES = 1 << 30


@dataclass(frozen=True)
class ColumnSummary:
    """One column in a few words: its range or most frequent levels, and its missing cells."""

    name: str
    kind: str
    values: str
    missing: int

    @classmethod
    def of(cls, name: str, kind: str, statistics: Statistics) -> Self:
        """What was counted of a column."""
        found = statistics.summary()
        return cls(
            name, found.kind or kind, found.values if found.seen else "nothing", found.missing
        )

    @property
    def is_identifier(self) -> bool:
        """Whether it is different in every row, so that nothing can be learned from it."""
        return self.values == "all different"


@dataclass(frozen=True)
class LabelledTable:
    """A table split into features and target; of a streamed one the first three are a sample."""

    features: pyarrow.Table
    truth: np.ndarray  # (n_rows,), (n_rows, n_targets) as encode_targets has it, or bounds
    rows: np.ndarray  # numbers of the rows in the file, from 0
    n_rows: int  # that a model is fitted to
    source: str
    target: str  # several names are comma-separated
    task: Task
    why: str  # where the task comes from
    columns: list[ColumnSummary]
    summaries: list[TargetSummary]  # one per target
    categorical: list[str]
    unlabelled: int  # rows without a target, which were left out
    targets: TargetColumns | None = None  # where more than one column is predicted
    streamed: TableSource | None = None  # what is fitted to instead of rows in memory
    held: Table | None = None  # files of a streamed table that are kept apart
    # How columns of texts were read, and the target; what was left out of the file.
    readings: dict[str, Decision] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # Columns that are no features, by the argument of a fit that they are, such as "groups"; and
    # their values, which a stream reads itself.
    apart: dict[str, str] = field(default_factory=dict)
    given: dict[str, np.ndarray] = field(default_factory=dict)


def is_streamed(source: str) -> bool:
    """Whether a source should not be read into memory: several files, or a large Parquet file."""
    path = Path(source)
    parquet = path.suffix in (".parquet", ".pq") and path.is_file()
    return is_parts(source) or (parquet and path.stat().st_size > STREAM_BYTES)


def read_labelled(
    source: str | os.PathLike[str],
    target: str | Sequence[str],
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    encoding: str = "auto",
    sheet: str | None = None,
    overrides: Overrides | None = None,
    offset: str | None = None,
    groups: str | None = None,
    time: str | None = None,
    sample_weight: str | None = None,
    qid: str | None = None,
    bounds: bool = False,
) -> LabelledTable:
    """Read a table file and split it into features and target.

    The target "a,b" names two columns unless one is called that; so do columns to drop. The task
    "auto" is what the values ask for. `offset`, `groups`, `time` and `sample_weight` name columns
    for these arguments of a fit, which are no features; `qid` names the column of queries of a
    ranker, whose target holds grades. With `bounds` the target is the lower and the upper bound of
    times, of which the upper one may be missing. Raises ValueError if the file cannot be read or
    lacks a named column, or one cannot be used.
    """
    check_task(task)
    texts = list(categorical) if qid is None else [*categorical, qid]
    table = _read_whole(source, texts, encoding=encoding, sheet=sheet, overrides=overrides)
    notes = notes_of(table)
    name = "standard input" if os.fspath(source) == "-" else os.fspath(source)
    names = of_target.target_names(target, table.column_names)
    drop = of_target.split_names(drop, table.column_names)
    columns = _check_apart(
        {
            "offset": offset,
            "groups": groups,
            "time": time,
            "sample_weight": sample_weight,
            "qid": qid,
        },
        names,
        categorical,
    )
    _check_columns((*names, *drop, *categorical, *columns.values()), table.column_names, name)
    n_all = table.num_rows
    table, rows = of_target.labelled_rows(table, names[:1] if bounds else names)
    check_labelled(len(rows), ", ".join(names), name)
    summaries = [TargetSummary.of(table, one) for one in names]
    targets: TargetColumns | None = None
    chosen: Task
    if qid is not None:
        chosen, why = "ranking", f"as {qid!r} names queries"
        if len(names) > 1:
            raise ValueError(f"A ranker has one target; got {', '.join(names)}. Name one.")
        truth = of_target.target_values(table, names[0], chosen)
        check_grades(truth, names[0])
    else:
        targets, chosen, why, truth = _choose(table, names, summaries, task, bounds)
    # Arrow refuses to drop a column twice.
    features = table.drop_columns(list(dict.fromkeys([*names, *drop, *columns.values()])))
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
        readings=find_readings(table, list(categorical)),
        notes=notes,
        apart=columns,
        given={role: _values(table, role, column) for role, column in columns.items()},
    )


def _choose(
    table: pyarrow.Table, names: list[str], found: list[TargetSummary], task: str, bounds: bool
) -> tuple[TargetColumns | None, Task, str, np.ndarray]:
    """How a model predicts targets, its task and where that comes from, and their values."""
    if bounds:
        of_target.check_bounds(names)
        return None, "regression", "times known by bounds", of_target.bound_values(table, names)
    if len(names) > 1:
        targets, chosen, why = of_target.join_targets(found, task)
        return targets, chosen, why, of_target.encode_targets(table, targets)
    chosen, why = found[0].choose_task(task)
    return None, chosen, why, of_target.target_values(table, names[0], chosen)


def _read_whole(source: str | os.PathLike[str], texts: Sequence[str], **reading: Any) -> Any:
    """A file, or all parts of a table, in memory."""
    if not is_parts(source):
        return read_table_file(source, as_text=texts, **reading)
    import pyarrow

    columns = dict.fromkeys(Table(source).columns, "text")
    return pyarrow.concat_tables(stream_table_file(source, columns, **reading))


def scan_labelled(
    source: str | os.PathLike[str],
    target: str | Sequence[str],
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    offset: str | None = None,
    groups: str | None = None,
    time: str | None = None,
    sample_weight: str | None = None,
    bounds: bool = False,
    holdout: float | None = None,
    seed: int = 0,
) -> LabelledTable:
    """As :func:`read_labelled`, by one pass over files that need not fit in memory.

    With `holdout` some of the files are kept apart: about that share of the rows, drawn by `seed`.

    Raises ValueError where :func:`read_labelled` does, and for several targets of which some are
    missing in some rows.
    """
    check_task(task)
    table = Table(source)
    apart: list[str] = []
    if holdout is not None:
        if groups is not None or time is not None:
            raise ValueError(
                "holdout must stand without groups and time where a table is streamed, as it "
                "keeps whole files apart. Leave them out, or keep files apart for nrs evaluate."
            )
        kept, apart = hold_out_files(table, holdout, seed)
        table = Table(kept)
    names = of_target.target_names(target, table.columns)
    table = table.with_target(names)
    columns = _check_apart(
        {"offset": offset, "groups": groups, "time": time, "sample_weight": sample_weight},
        names,
        categorical,
    )
    # The source itself leaves the columns out that are no features.
    dropped = [
        one for one in of_target.split_names(drop, table.columns) if one not in columns.values()
    ]
    table = table.drop(dropped) if dropped else table
    _check_columns(categorical, table.columns, table.parts[0].path)
    surveyed = TableSource.of(table, list(categorical) or None, convert=True, **columns)
    summaries = [TargetSummary.of_stream(surveyed, place) for place in range(len(names))]
    for name, counted in zip(names, surveyed.labels, strict=True):
        if counted.missing and not (bounds and name == names[-1]):
            raise ValueError(
                f"Each row must have all targets; {name!r} is missing in {counted.missing:,} rows. "
                "Leave these out, or fit a model to each target."
            )
    sample, found = surveyed.sample.rows, surveyed.statistics.columns
    targets, chosen, why, truth = _choose(sample, names, summaries, task, bounds)
    return LabelledTable(
        source=str(source),
        features=sample.select(surveyed.names),
        truth=truth,
        rows=surveyed.numbers(surveyed.sample.places),
        n_rows=surveyed.n_rows,
        target=", ".join(names),
        task=chosen,
        why=why,
        columns=[ColumnSummary.of(k, *v) for k, v in zip(surveyed.names, found, strict=True)],
        summaries=summaries,
        targets=targets,
        categorical=list(categorical),
        unlabelled=surveyed.unlabelled,
        streamed=surveyed,
        held=Table(apart, names, table.columns) if apart else None,
        apart=columns,
        readings={
            surveyed.names[k]: Decision(plan) for k, plan in surveyed.statistics.plans.items()
        },
    )


def hold_out_files(table: Table, share: float, seed: int) -> tuple[list[str], list[str]]:
    """The files of a table to train on, and some to score on: those whose rows come near a share.

    Raises ValueError for a single file, and for files that are not on this machine.
    """
    paths = [part.path for part in table.parts]
    if len(paths) < 2 or "://" in str(table.source):
        raise ValueError(
            "holdout needs two files or more of a streamed table, on this machine, as it keeps "
            f"whole files apart; got {len(paths)} of {table.source}. Write the rows as several "
            "files, or keep some apart and score them with nrs evaluate."
        )
    order = np.random.default_rng(seed).permutation(len(paths))
    rows = np.array([sum(part.rows) for part in table.parts])[order]
    n_held = 1 + int(np.abs(np.cumsum(rows) / rows.sum() - share).argmin())
    held = set(order[: min(n_held, len(paths) - 1)].tolist())
    kept = [path for place, path in enumerate(paths) if place not in held]
    return kept, [paths[place] for place in sorted(held)]


def _check_apart(
    apart: Mapping[str, str | None], targets: Sequence[str], categorical: Sequence[str]
) -> dict[str, str]:
    """The columns that are no features, by the argument of a fit that they are."""
    found = {role: name for role, name in apart.items() if name is not None}
    if "groups" in found and "time" in found:
        raise ValueError(
            "groups and time cannot both decide which rows a member sees; leave one of them out"
        )
    for role, name in found.items():
        for use, others in (("a target", targets), ("categorical", categorical)):
            if name in others:
                raise ValueError(f"{role} must name a column of its own; {name!r} is {use}")
        if list(found.values()).count(name) > 1:
            raise ValueError(f"{role} must name a column of its own; {name!r} is named twice")
    return found


def _values(table: pyarrow.Table, role: str, name: str) -> np.ndarray:
    """A column as the argument of a fit that it is; raises ValueError if it cannot be that."""
    read = read_table(table.select([name]))
    if role == "time":
        return times_of(read.column(0), f"the column of times {name!r}")
    if role in ("groups", "qid"):
        groups = read.column(0, "category")
        if groups.missing().any():
            what = "groups" if role == "groups" else "queries"
            raise ValueError(f"the column of {what} {name!r} must have a value in every row")
        return np.asarray(groups.values)
    column = read.column(0)
    if column.kind != "number":
        raise ValueError(f"{role} must name a column of numbers; {name!r} holds {column.kind}s")
    values = column.values.astype(np.float64)
    wrong = ~(np.isfinite(values) & ((values >= 0) | (role != "sample_weight")))
    if wrong.any():
        wanted = "finite numbers" if role == "offset" else "finite numbers of at least 0"
        raise ValueError(
            f"{role} must name a column of {wanted} in every row; {name!r} holds "
            f"{values[wrong][0]:g}"
        )
    return values


def find_readings(table: pyarrow.Table, categorical: Sequence[str] = ()) -> dict[str, Decision]:
    """How columns of texts are read as numbers or dates, by their file's reader or by a model.

    >>> import pyarrow
    >>> found = find_readings(pyarrow.table({"kg": ["1,5", "2,25"], "name": ["a", "b"]}))
    >>> {name: one.plan.words() for name, one in found.items()}
    {'kg': 'numbers with a decimal comma'}
    """
    read = read_table(table, categorical_features=categorical or None, convert=True)
    found = {
        name: decide_text(read, k, read.column(k)) or Decision()
        for k, name in enumerate(table.column_names)
    }
    return {name: one for name, one in (found | decisions(table)).items() if one != Decision()}


def describe_readings(readings: Mapping[str, Decision]) -> list[str]:
    """What was converted, in a few lines, and how to say otherwise.

    >>> from nrs.datasets.reading import Plan
    >>> plan = Plan("number", ",", sentinels=(-200.0,))
    >>> lost = Decision(plan, lost=("12F",), n_lost=1, example="2,5", nothing=("?",))
    >>> for line in describe_readings({"CO": Decision(plan), "T": lost}):
    ...     line
    "numbers with a decimal comma: CO, T ('2,5' is 2.5)"
    '-200 means missing: CO, T'
    "'?' means missing: T"
    "'T': 1 cell such as '12F' is read as missing"
    """
    kinds: dict[str, list[str]] = {}
    nothing: dict[str, list[str]] = {}
    examples: dict[str, str] = {}
    said = []
    for name, one in readings.items():
        if one.plan is None:
            continue
        words = one.plan.words()
        converted = one.plan.reads_text and one.plan.kind != "category"
        if converted and (one.example or words != "numbers"):
            kinds.setdefault(words, []).append(name)
            if one.example:
                examples.setdefault(words, f" ({one.shown()})")
        for value in (*(f"{cell:g}" for cell in one.plan.sentinels), *map(repr, one.nothing)):
            nothing.setdefault(value, []).append(name)
        if one.lost:
            cells = "cell such as" if one.n_lost == 1 else "cells such as"
            are = "is" if one.n_lost == 1 else "are"
            shown = repr(one.lost[0][:40])
            said.append(f"{name!r}: {one.n_lost:,} {cells} {shown} {are} read as missing")
        if one.ambiguous:
            option = "dates" if one.plan.kind == "date" else "decimal"
            said.append(
                f"{name!r} allows two readings, and is read as {words}; otherwise use "
                f"{option}={one.ambiguous!r}"
            )
    listed = [
        f"{words}: {_listed(names)}{examples.get(words, '')}" for words, names in kinds.items()
    ]
    listed += [f"{value} means missing: {_listed(names)}" for value, names in nothing.items()]
    return listed + said


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def describe_columns(
    table: pyarrow.Table, categorical: Sequence[str] | None = None
) -> list[ColumnSummary]:
    """Describe each column of a table in memory.

    >>> import pyarrow
    >>> table = pyarrow.table({"rooms": [2, None, 3], "district": ["b", "a", "b"]})
    >>> [(one.name, one.kind, one.values, one.missing) for one in describe_columns(table)]
    [('rooms', 'number', '2 … 3', 1), ('district', 'category', 'b, a', 0)]
    """
    read, found = read_table(table, categorical_features=categorical, convert=True), []
    for index, name in enumerate(table.column_names):
        column = read.column(index)
        decision = decide_text(read, index, column)
        if decision is not None and decision.plan is not None:
            read.plans[index] = decision.plan
            column = read.column(index)
        counted = count(column, counted_kind(index, column.kind, read.declared, None))
        found.append(ColumnSummary.of(name, column.kind, counted))
    return found


def _check_columns(named: Sequence[str], columns: Sequence[str], source: str) -> None:
    unknown = [name for name in named if name not in columns]
    if unknown:
        raise missing_columns(source, unknown, columns)
