"""What one pass over a table learns, in bounded memory, and how two such passes become one.

Counts, means, standard deviations and the rows of each category are exact; quantiles are those of
:mod:`nrs.tabular.encode.sketch`. A survey holds plain numbers, arrays and an Arrow table, so that
one made by another process can be sent here and merged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from nrs.datasets.large_table import Chunk, Table
from nrs.tabular.encode.category import CategoryEncoder
from nrs.tabular.encode.columns import Column, Kind
from nrs.tabular.encode.date import DateEncoder, turns
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.number import Moments, moments
from nrs.tabular.encode.sketch import QuantileSketch
from nrs.tabular.encode.table import categorical_columns, read_table
from nrs.tabular.rows.sample import RowSample, row_places

# A column of more levels than this tells rows apart, not kinds of rows; nor would it fit a model.
MOST_LEVELS = 1_000_000
# Different values of a target beyond which it is not one of classes.
MOST_LABELS = 10_000
_COUNTED: tuple[Kind, ...] = ("number", "boolean", "duration", "date")


@dataclass
class Levels:
    """How many rows each text of a category column has, and how many have none."""

    counts: Counter[str]
    missing: int = 0


class Survey:
    """What is known of the columns, the target and the rows that were added so far.

    Attributes
    ----------
    names, kinds : list of str
        Of the columns.
    target, target_kind : str
    n_rows, unlabelled : int
        Rows with a value of the target, and rows without, which are left out.
    moments : Moments
        Of the columns in ``counted``, in their order.
    sketches : dict of column to QuantileSketch
        Of numbers, durations (seconds) and dates (microseconds).
    levels : dict of column to Levels
    labels : Counter or None
        Rows of each value of the target; None if there are more than 10,000 values.
    sample : RowSample
        Some of the rows as they are.

    Column ``len(names)`` is the target, where it is a number.
    """

    def __init__(self, names: list[str], kinds: list[Kind], target: str, target_kind: Kind) -> None:
        self.names, self.kinds = names, kinds
        self.target, self.target_kind = target, target_kind
        every = [*kinds, target_kind]
        self.counted = [place for place, kind in enumerate(every) if kind in _COUNTED]
        self.n_rows = self.unlabelled = 0
        self.moments = Moments.none(len(self.counted))
        self.sketches = {k: QuantileSketch() for k in self.counted if every[k] != "boolean"}
        self.levels = {k: Levels(Counter()) for k, kind in enumerate(kinds) if kind == "category"}
        # Least and greatest angle in the year, the week and the day.
        self.turns = {k: _no_turns() for k, kind in enumerate(kinds) if kind == "date"}
        self.labels: Counter[Any] | None = Counter()
        self.whole = True
        self.sample = RowSample()

    def add(self, batch: Any, places: np.ndarray) -> None:
        """Add the rows of a record batch of the columns and the target, all with a target.

        Raises
        ------
        ValueError
            If a number is infinite, or a category has too many levels.
        """
        table = read_table(batch.select([*self.names, self.target]))
        self.n_rows += table.n_rows
        block = np.empty((len(self.counted), table.n_rows))
        at = 0
        for index, kind in enumerate([*self.kinds, self.target_kind]):
            column = table.column(index, kind)
            if kind in _COUNTED:
                block[at] = _as_numbers(column)
                if index in self.sketches:
                    present = block[at] if not np.isnan(block[at]).any() else _present(block[at])
                    self.sketches[index].add(present)
                at += 1
            if index == len(self.names):
                self._add_labels(column)
            elif kind == "category":
                self._add_levels(index, column)
            elif kind == "date":
                dates = column.values[~column.missing()]
                for place, (_, angles) in enumerate(turns(dates) if len(dates) else []):
                    low, high = self.turns[index][place]
                    self.turns[index][place] = min(low, angles.min()), max(high, angles.max())
        learned = moments(lambda: iter([(0, block.T)]), len(block), lambda row, place: None)
        self.moments = self.moments.merge(learned)
        self.sample.add(batch, places)

    def merge(self, other: Survey) -> Survey:
        """What one pass over the rows of both would have learned; neither changes."""
        merged = Survey(self.names, self.kinds, self.target, self.target_kind)
        merged.n_rows = self.n_rows + other.n_rows
        merged.unlabelled = self.unlabelled + other.unlabelled
        merged.moments = self.moments.merge(other.moments)
        merged.sketches = {k: one.merge(other.sketches[k]) for k, one in self.sketches.items()}
        for index, one in self.levels.items():
            there = other.levels[index]
            merged.levels[index] = Levels(one.counts + there.counts, one.missing + there.missing)
            self._check_levels(index, merged.levels[index])
        for index, angles in self.turns.items():
            both = np.stack([angles, other.turns[index]])
            merged.turns[index] = np.stack([both[..., 0].min(0), both[..., 1].max(0)], axis=1)
        merged.whole = self.whole and other.whole
        merged.labels = None
        if self.labels is not None and other.labels is not None:
            merged.labels = self.labels + other.labels
            merged._bound_labels()
        merged.sample = self.sample.merge(other.sample)
        return merged

    def encoder(self, categorical_features: Any, scale: str, max_levels: int = 64) -> TableEncoder:
        """The encoder that a fit in memory to the same rows would have made."""
        numbers, encoders = {}, {}
        for place, index in enumerate(self.counted):
            if index == len(self.names):
                continue
            missing, seen, mean, std = self.column_moments(place)
            if self.kinds[index] != "date":
                numbers[index] = (missing, seen, mean, std)
                continue
            varying = [
                part
                for part, (low, high) in zip(_PARTS, self.turns[index].tolist(), strict=True)
                if high > low
            ]
            encoders[index] = DateEncoder(mean, std, varying, missing > 0 and seen > 0)
        found: dict[int, CategoryEncoder | DateEncoder] = dict(encoders)
        for index, tally in self.levels.items():
            texts = sorted(tally.counts)
            counts = np.array([tally.counts[text] for text in texts], dtype=np.int64)
            found[index] = CategoryEncoder.of_counts(texts, counts, tally.missing, max_levels)
        encoder = TableEncoder(categorical_features, scale=cast(Any, scale), max_levels=max_levels)
        return encoder.fit_learned(self.names, self.kinds, numbers, found)

    def column_moments(self, place: int) -> tuple[float, float, float, float]:
        """Missing cells, other cells, mean and standard deviation of a counted column."""
        found = self.moments
        entry = (found.missing[place], found.seen[place], found.mean[place], found.std[place])
        missing, seen, mean, std = map(float, entry)
        return missing, seen, mean, std

    def _add_levels(self, index: int, column: Column) -> None:
        rows = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
        tally = self.levels[index]
        tally.missing += int(rows[0])
        for text, count in zip(column.levels, rows[1:].tolist(), strict=True):
            if count:
                tally.counts[text] += count
        self._check_levels(index, tally)

    def _check_levels(self, index: int, tally: Levels) -> None:
        if len(tally.counts) > MOST_LEVELS:
            raise ValueError(
                f"column {self.names[index]!r} must have at most {MOST_LEVELS:,} different texts, "
                "however: it has more, so that it tells rows apart; leave it out with columns=[…] "
                "or --drop"
            )

    def _add_labels(self, column: Column) -> None:
        if self.labels is None:
            return
        if column.kind == "category":
            rows = np.bincount(column.values, minlength=len(column.levels)).tolist()
            found = zip(column.levels, rows, strict=True)
        else:
            values, counts = np.unique(column.values, return_counts=True)
            if column.kind == "boolean":
                values = values.astype(bool)
            elif (values == np.floor(values)).all():
                values = values.astype(np.int64)
            else:
                self.whole = False
            found = zip(values.tolist(), counts.tolist(), strict=True)
        for label, count in found:
            self.labels[label] += count
        self._bound_labels()

    def _bound_labels(self) -> None:
        if self.labels is not None and len(self.labels) > MOST_LABELS:
            self.labels = None


_PARTS = ("month", "weekday", "hour")


def survey_table(
    table: Table, categorical_features: Any = None, *, shard: tuple[int, int] = (0, 1)
) -> Survey:
    """Pass over a table once.

    Parameters
    ----------
    table : Table, with a target
    categorical_features : names, indices or mask, optional
        Columns to take as categories whatever their type.
    shard : (rank, size)
        Which of so many parts of the row groups to read; the surveys of all of them merge.

    Raises
    ------
    nrs.datasets.table_file_errors.TableFileError
        If a file cannot be read, or a value cannot be used; with the name of the file.
    """
    survey = begin_survey(table, categorical_features)
    rank, size = shard
    for chunk in table.chunks(table.groups[rank::size]):
        kept, places = labelled_rows(chunk, survey.target)
        survey.unlabelled += chunk.batch.num_rows - len(places)
        if len(places):
            with table.naming(chunk):
                survey.add(kept, places)
    return survey


def begin_survey(table: Table, categorical_features: Any = None) -> Survey:
    """A survey of no rows yet.

    Raises
    ------
    ValueError
        If the table has no target, or the target holds dates.
    """
    if table.target is None:
        raise ValueError(
            "a table to fit to needs a target, however: it has none; use Table(…, target='name')"
        )
    kind = table.kinds[table.target]
    if kind in ("date", "duration"):
        raise ValueError(
            f"the target must hold numbers or classes, however: {table.target!r} holds a {kind}; "
            "turn it into a number, such as days"
        )
    first = read_table(table.head(1).select(table.columns))
    declared = categorical_columns(categorical_features, first)
    kinds = [
        cast(Kind, "category" if place in declared else table.kinds[name])
        for place, name in enumerate(table.columns)
    ]
    return Survey(list(table.columns), kinds, table.target, cast(Kind, kind))


def labelled_rows(chunk: Chunk, target: str) -> tuple[Any, np.ndarray]:
    """The rows of a chunk with a value of the target, and where they are."""
    from pyarrow import compute

    batch = chunk.batch
    rows = np.arange(chunk.first, chunk.first + batch.num_rows)
    missing = compute.is_null(batch.column(target), nan_is_null=True)
    if compute.any(missing).as_py():
        batch = batch.filter(compute.invert(missing))
        rows = rows[~missing.to_numpy(zero_copy_only=False)]
    return batch, row_places(chunk.part, rows)


def _as_numbers(column: Column) -> np.ndarray:
    if column.kind != "date":
        return column.values
    ticks = column.values.astype(np.int64).astype(np.float64)
    ticks[column.missing()] = np.nan
    return ticks


def _present(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def _no_turns() -> np.ndarray:
    return np.tile([np.inf, -np.inf], (len(_PARTS), 1))
