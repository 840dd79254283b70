"""Dates: standardised time, and month, weekday and hour where they vary."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

import numpy as np

from nrs.tabular.encode.column_encoder import ColumnEncoder, Summary
from nrs.tabular.encode.columns import Column
from nrs.tabular.encode.number import (
    LIMIT,
    Moments,
    NumberStatistics,
    bound,
    far_from,
    moments,
    onnx_squash,
    squash,
)

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph

PARTS = ("month", "weekday", "hour")
DAY = 86_400
# Days of 400 years: the calendar repeats itself after them.
CYCLE = 146_097
# Before any date that NumPy knows in microseconds; whole cycles, so that months do not change.
EARLIEST = 1000 * CYCLE


@dataclass
class DateStatistics(NumberStatistics):
    """Moments of times in microseconds, and of their angles in year, week and day."""

    moments: Moments = field(default_factory=lambda: Moments.none(4))

    def add(self, column: Column) -> Self:
        present = column.values[~column.missing()]
        if len(present):
            ticks = present.astype(np.int64).astype(np.float64)
            # Each alone: sums over several columns at once would round in another order.
            found = [
                vars(moments(partial(iter, [(0, cells[:, None])]), 1)).values()
                for cells in (ticks, *turns(present).values())
            ]
            together = Moments(*map(np.concatenate, zip(*found, strict=True)))
            self.moments = self.moments.merge(together)
        self.moments.missing += len(column.values) - len(present)
        return self

    def encoder(self, scale: str, max_levels: int, sample: Column) -> DateEncoder:
        found = self.moments
        varies = found.high[1:] > found.low[1:]
        parts = [part for part, one in zip(PARTS, varies, strict=True) if one]
        missing = bool(found.missing[0] > 0 and found.seen[0] > 0)
        center, std = float(found.mean[0]), float(found.std[0])
        bounds: tuple[float | None, float | None] = (None, None)
        if std > 0:
            ticks = sample.values[~sample.missing()].astype(np.int64)
            bounds, center, std = bound(ticks, center, std, found.low[0], found.high[0])
        absent = float(found.missing[0] / max(1, found.missing[0] + found.seen[0]))
        far = far_from(float(found.low[0]), float(found.high[0])) if found.seen[0] else None
        return DateEncoder(center, std, parts, missing, *bounds, far, absent=absent)

    def summary(self) -> Summary:
        found = self.moments
        ends = np.array([found.low[0], found.high[0]]).astype("datetime64[us]")
        shown = " … ".join(np.datetime_as_string(ends, "D").tolist())
        return Summary(int(found.missing[0]), int(found.seen[0]), shown)


@dataclass
class DateEncoder(ColumnEncoder):
    """A date column: standardised time, and the parts of the year, week and day as sine and cosine.

    A missing cell is 0 everywhere but in the last feature, which is there if training had some.
    Times beyond ``low`` and ``high`` are squashed as numbers are.
    """

    # In microseconds; a scale of 0 means that no time varies.
    center: float = 0.0
    scale: float = 0.0
    # Those that vary in training.
    parts: list[str] = field(default_factory=list)
    missing: bool = False
    low: float | None = None
    high: float | None = None
    far: list[float] | None = None

    @cached_property
    def features(self) -> list[str]:
        waves = [f" ({part} {wave})" for part in self.parts for wave in ("sin", "cos")]
        return [""] * (self.scale > 0) + waves + [" (missing)"] * self.missing

    @property
    def growth(self) -> list[float]:
        return [1.0] * (self.scale > 0) + [math.nan] * 2 * len(self.parts) + [0.0] * self.missing

    def write(self, column: Column, out: np.ndarray, fold: np.ndarray | None = None) -> None:
        absent = column.missing()
        rows = np.flatnonzero(~absent)
        present = column.values[rows]
        timed = self.scale > 0
        if timed:
            ticks = present.astype(np.int64).astype(np.float64)
            out[rows, 0] = squash((ticks - self.center) / self.scale, *self._bounds)
        angles = turns(present)
        for at, part in enumerate(self.parts):
            wave = timed + 2 * at
            out[rows, wave], out[rows, wave + 1] = np.sin(angles[part]), np.cos(angles[part])
        if self.missing:
            out[:, -1] = absent

    @property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Where scaled times are bounded; those of earlier files are not."""
        if self.low is None or self.high is None:
            return np.array(-LIMIT), np.array(LIMIT)
        low, high = (np.array((b - self.center) / self.scale) for b in (self.low, self.high))
        return low, high

    def unusual(self, column: Column) -> tuple[int, int]:
        absent = column.missing()
        first, last = self.far or (-np.inf, np.inf)
        ticks = column.values[~absent].astype(np.int64).astype(np.float64)
        return int(((ticks < first) | (ticks > last)).sum()), int(absent.sum())

    def original(self, place: int, value: float) -> str:
        if place or not self.scale > 0:
            return f"{value:.3g}"
        try:
            since = timedelta(microseconds=value * self.scale + self.center)
            return (datetime(1970, 1, 1, tzinfo=UTC) + since).strftime("%Y-%m-%d")
        except OverflowError:
            return f"{value:.3g}"

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
            time = onnx_squash(graph, time, *self._bounds)
            features.append(graph.cast(time, np.float32))
        days = graph.op("Floor", graph.op("Div", seconds, graph.constant(float(DAY))))
        for part in self.parts:
            features += _onnx_waves(graph, part, seconds, days)
        zero = graph.constant(np.float32(0))
        features = [graph.op("Where", missing, zero, feature) for feature in features]
        if self.missing:
            features.append(graph.cast(missing, np.float32))
        return graph.concat(features)


def turns(dates: np.ndarray) -> dict[str, np.ndarray]:
    """Angle in the year (by month), the week (by day) and the day of each date, none missing."""
    days = dates.astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64) % 12
    # 1 January 1970 was a Thursday.
    weekdays = (days.astype(np.int64) + 3) % 7
    return {
        "month": months * (2 * np.pi / 12),
        "weekday": weekdays * (2 * np.pi / 7),
        "hour": (dates - days) / np.timedelta64(1, "D") * (2 * np.pi),
    }


def _onnx_waves(graph: Graph, part: str, seconds: str, days: str) -> list[str]:
    """Sine and cosine of the angle of a time in the year, week or day.

    Those of a month or weekday are looked up, bit-identical to the encoder's: bins may lie between
    values that differ in their last bit alone, such as 0 and sin(π).
    """
    if part == "hour":
        start = graph.op("Mul", days, graph.constant(float(DAY)))
        micros = graph.op("Mul", graph.op("Sub", seconds, start), graph.constant(1e6))
        of_day = graph.op("Div", graph.op("Round", micros), graph.constant(DAY * 1e6))
        turn = graph.op("Mul", of_day, graph.constant(2 * np.pi))
        return [graph.cast(graph.op(wave, turn), np.float32) for wave in ("Sin", "Cos")]
    day = graph.cast(days, np.int64)
    if part == "month":
        n, place = 12, _onnx_month(graph, day)
    else:
        # 1 January 1970 was a Thursday; the days so far must not be negative.
        n, place = 7, graph.integer("Mod", graph.integer("Add", day, EARLIEST * 7 + 3), 7)
    angles = np.arange(n) * (2 * np.pi / n)
    waves = (wave(angles).astype(np.float32) for wave in (np.sin, np.cos))
    return [graph.op("Gather", graph.constant(wave), place, axis=0) for wave in waves]


def _onnx_month(graph: Graph, days: str) -> str:
    """Months since January (0 to 11) of the day so many days after 1 January 1970.

    In years that begin on 1 March leap days come last, so that the months before them have the
    same lengths every year: (5·day + 2) / 153 counts them.
    """
    whole = graph.integer
    # 719468 days lie between 1 March of the year 0 and 1 January 1970.
    day = whole("Mod", whole("Add", days, 719_468 + EARLIEST), CYCLE)
    corrected = whole("Sub", day, whole("Div", day, 1460))
    corrected = whole("Add", corrected, whole("Div", day, 36_524))
    corrected = whole("Sub", corrected, whole("Div", day, 146_096))
    year = whole("Div", corrected, 365)
    before = whole("Add", whole("Mul", year, 365), whole("Div", year, 4))
    before = whole("Sub", before, whole("Div", year, 100))
    of_year = whole("Sub", day, before)
    from_march = whole("Div", whole("Add", whole("Mul", of_year, 5), 2), 153)
    return whole("Mod", whole("Add", from_march, 2), 12)
