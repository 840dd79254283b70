"""Dates: standardised time, and month, weekday and hour where they vary."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.tabular.encode.column_encoder import ColumnEncoder
from nrs.tabular.encode.columns import Column, Kind, Summary
from nrs.tabular.encode.number import Moments, moments

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph

DAY = 86_400
# Days of 400 years: the calendar repeats itself after them.
CYCLE = 146_097
# Before any date that NumPy knows in microseconds; whole cycles, so that months do not change.
EARLIEST = 1000 * CYCLE


class DateStatistics:
    """Moments of times in microseconds, and the range of the angles in year, week and day."""

    def __init__(self, kind: Kind = "date") -> None:
        self.moments, self.missing = Moments.none(1), 0
        self.angles = np.tile([np.inf, -np.inf], (3, 1))

    def add(self, column: Column) -> None:
        present = column.values[~column.missing()]
        self.missing += len(column.values) - len(present)
        if len(present) == 0:
            return
        ticks = present.astype(np.int64).astype(np.float64)[:, None]
        found = moments(lambda: iter([(0, ticks)]), 1)
        self.moments = self.moments.merge(found)
        ranges = np.array([[angles.min(), angles.max()] for _, angles in turns(present)])
        self._widen(ranges)

    def merge(self, other: DateStatistics) -> None:
        self.moments, self.missing = self.moments.merge(other.moments), self.missing + other.missing
        self._widen(other.angles)

    def _widen(self, ranges: np.ndarray) -> None:
        low, high = self.angles.T
        self.angles = np.column_stack(
            [np.minimum(low, ranges[:, 0]), np.maximum(high, ranges[:, 1])]
        )

    def encoder(self, *, scale: str, max_levels: int) -> DateEncoder:
        _, seen, mean, std = self.moments.columns()[0]
        varies = (self.angles[:, 1] > self.angles[:, 0]).tolist()
        parts = [
            part for part, one in zip(("month", "weekday", "hour"), varies, strict=True) if one
        ]
        return DateEncoder(mean, std, parts, self.missing > 0 and seen > 0)

    def summary(self) -> Summary:
        ends = np.concatenate([self.moments.low, self.moments.high]).astype("datetime64[us]")
        shown = " … ".join(np.datetime_as_string(ends, "D").tolist())
        return Summary(self.missing, int(self.moments.seen[0]), shown)

    def state(self) -> list[Any]:
        arrays = [array.tolist() for array in vars(self.moments).values()]
        return [arrays, self.missing, self.angles.tolist()]

    def restore(self, state: list[Any]) -> None:
        arrays, self.missing, angles = state
        self.moments, self.angles = Moments(*map(np.array, arrays)), np.array(angles)


@dataclass
class DateEncoder(ColumnEncoder):
    """A date column: standardised time, and the parts of the year, week and day as sine and cosine.

    ``center`` and ``scale`` are in microseconds; a ``scale`` of 0 means that no time varies.
    ``parts`` are those that vary in training. A missing cell is 0 everywhere but in the last
    feature, which is there if training had missing cells.
    """

    center: float
    scale: float
    parts: list[str]
    missing: bool

    @classmethod
    def fit(cls, column: Column, *, scale: str, max_levels: int) -> DateEncoder:
        counted = DateStatistics(column.kind)
        counted.add(column)
        return counted.encoder(scale=scale, max_levels=max_levels)

    @classmethod
    def empty(cls) -> DateEncoder:
        return cls(center=0.0, scale=0.0, parts=[], missing=False)

    @cached_property
    def features(self) -> list[str]:
        waves = [f" ({part} {wave})" for part in self.parts for wave in ("sin", "cos")]
        return [""] * (self.scale > 0) + waves + [" (missing)"] * self.missing

    def write(self, column: Column, out: np.ndarray) -> None:
        absent = column.missing()
        rows = np.flatnonzero(~absent)
        present = column.values[rows]
        at = 0
        if self.scale > 0:
            out[rows, 0] = (present.astype(np.int64).astype(np.float64) - self.center) / self.scale
            at = 1
        for name, turn in turns(present):
            if name in self.parts:
                out[rows, at], out[rows, at + 1] = np.sin(turn), np.cos(turn)
                at += 2
        if self.missing:
            out[:, at] = absent

    def original(self, place: int, value: float) -> str:
        if place or not self.scale > 0:
            return f"{value:.3g}"
        start = datetime(1970, 1, 1, tzinfo=UTC)
        try:
            moment = start + timedelta(microseconds=value * self.scale + self.center)
        except OverflowError:
            return f"{value:.3g}"
        return moment.strftime("%Y-%m-%d")

    def onnx_cells(self, column: Column) -> np.ndarray:
        """Seconds since 1970-01-01 00:00 UTC."""
        seconds: np.ndarray = column.values.astype(np.int64) / 1e6
        seconds[column.missing()] = np.nan
        return seconds

    def to_onnx(self, graph: Graph, value: str) -> str:
        missing = graph.op("IsNaN", value)
        seconds = graph.op("Where", missing, graph.constant(0.0), value)
        features = []
        if self.scale > 0:
            time = graph.op("Mul", seconds, graph.constant(1e6))
            time = graph.op("Sub", time, graph.constant(self.center))
            time = graph.op("Div", time, graph.constant(self.scale))
            features.append(graph.cast(time, np.float32))
        days = graph.op("Floor", graph.op("Div", seconds, graph.constant(float(DAY))))
        for part in self.parts:
            features += _ONNX_PARTS[part](graph, seconds, days)
        zero = graph.constant(np.float32(0))
        features = [graph.op("Where", missing, zero, feature) for feature in features]
        if self.missing:
            features.append(graph.cast(missing, np.float32))
        return graph.concat(features)


def turns(dates: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Angle in the year (by month), the week (by day) and the day of each date, none missing."""
    months = dates.astype("datetime64[M]").astype(np.int64) % 12
    days = dates.astype("datetime64[D]")
    hours = (dates - days) / np.timedelta64(1, "D")
    # 1 January 1970 was a Thursday.
    weekdays = (days.astype(np.int64) + 3) % 7
    return [
        ("month", months * (2 * np.pi / 12)),
        ("weekday", weekdays * (2 * np.pi / 7)),
        ("hour", hours * (2 * np.pi)),
    ]


def _onnx_month(graph: Graph, seconds: str, days: str) -> list[str]:
    """Months since January (0 to 11) of the day so many days after 1 January 1970.

    In years that begin on 1 March leap days come last, so that the months before them have the
    same lengths every year: (5·day + 2) / 153 counts them.
    """
    whole = graph.integer
    # 719468 days lie between 1 March of the year 0 and 1 January 1970.
    since = whole("Add", graph.cast(days, np.int64), 719_468 + EARLIEST)
    day = whole("Mod", since, CYCLE)
    corrected = whole("Sub", day, whole("Div", day, 1460))
    corrected = whole("Add", corrected, whole("Div", day, 36_524))
    corrected = whole("Sub", corrected, whole("Div", day, 146_096))
    year = whole("Div", corrected, 365)
    before = whole("Add", whole("Mul", year, 365), whole("Div", year, 4))
    before = whole("Sub", before, whole("Div", year, 100))
    of_year = whole("Sub", day, before)
    from_march = whole("Div", whole("Add", whole("Mul", of_year, 5), 2), 153)
    return _onnx_waves(graph, whole("Mod", whole("Add", from_march, 2), 12), 12)


def _onnx_weekday(graph: Graph, seconds: str, days: str) -> list[str]:
    # 1 January 1970 was a Thursday; the days so far must not be negative.
    since = graph.integer("Add", graph.cast(days, np.int64), EARLIEST * 7 + 3)
    return _onnx_waves(graph, graph.integer("Mod", since, 7), 7)


def _onnx_hour(graph: Graph, seconds: str, days: str) -> list[str]:
    start = graph.op("Mul", days, graph.constant(float(DAY)))
    micros = graph.op("Mul", graph.op("Sub", seconds, start), graph.constant(1e6))
    of_day = graph.op("Div", graph.op("Round", micros), graph.constant(DAY * 1e6))
    turn = graph.op("Mul", of_day, graph.constant(2 * np.pi))
    return [graph.cast(graph.op(wave, turn), np.float32) for wave in ("Sin", "Cos")]


_ONNX_PARTS = {"month": _onnx_month, "weekday": _onnx_weekday, "hour": _onnx_hour}


def _onnx_waves(graph: Graph, part: str, parts: int) -> list[str]:
    """Sine and cosine of one of so many equal parts of a turn, bit-identical to the encoder's.

    Bins may lie between values that differ in their last bit alone: 0 and sin(π).
    """
    turn = np.arange(parts) * (2 * np.pi / parts)
    return [
        graph.op("Gather", graph.constant(wave(turn).astype(np.float32)), part, axis=0)
        for wave in (np.sin, np.cos)
    ]
