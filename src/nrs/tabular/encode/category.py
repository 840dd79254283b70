"""Categories: a 0/1 feature per level; of many levels also frequency and means of the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nrs.tabular.encode.column_encoder import ColumnEncoder, Summary
from nrs.tabular.encode.columns import Column, Kind, is_code
from nrs.tabular.encode.level_means import LevelMeans

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph

# A column of more levels than this identifies rows; nor would it fit a model.
MAX_LEVELS = 1_000_000
# Rows per level, on average, from which on the mean of a level's targets tells something; the most
# frequent levels have one.
MIN_MEAN_ROWS, MAX_MEANS = 4, 20_000
# Texts that differ in more rows than this, and in all, are not counted out.
MAX_SHOWN = 20


@dataclass
class CategoryStatistics:
    """Rows of each text of a category column, and rows without one."""

    kind: Kind = "category"
    counts: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    # What the cells were before they became texts.
    held: set[str] = field(default_factory=set)

    def add(self, column: Column) -> Self:
        missing, *rows = np.bincount(column.values + 1, minlength=len(column.levels) + 1).tolist()
        self._count({text: n for text, n in zip(column.levels, rows, strict=True) if n}, missing)
        self.held |= {kind for kind, n in zip(column.kinds, rows, strict=True) if n}
        return self

    def merge(self, other: CategoryStatistics) -> None:
        self._count(other.counts, other.missing)
        self.held |= other.held

    def _count(self, counts: Mapping[str, int], missing: int) -> None:
        self.counts.update(counts)
        self.missing += missing
        self._limit(counts)

    def _limit(self, counts: Mapping[str, int]) -> None:
        """Refuse a category of too many levels, after these counts were added."""
        if len(self.counts) > MAX_LEVELS:
            expected = f"a category must have at most {MAX_LEVELS:,} different texts"
            raise ValueError(f"{expected}. With more it looks like an ID: leave it out.")

    def encoder(self, scale: str, max_levels: int, sample: Column) -> ColumnEncoder:
        levels = sorted(self.counts)
        counts = np.array([self.counts[level] for level in levels], dtype=np.int64)
        own = np.arange(len(levels))
        many = len(levels) > max_levels
        mean = std = 0.0
        if many:
            # The levels are sorted, so a stable sort by count breaks ties by text.
            most = np.argsort(-counts, kind="stable")[:max_levels]
            # A level of one row teaches nothing but that row, so it gets no feature among many.
            own = np.sort(most[counts[most] > 1])
            each, share = np.log1p(counts), counts / counts.sum()
            mean = float(share @ each)
            # Over equal counts rounding would leave a few units in the last place.
            if np.ptp(counts) > 0:
                std = float(np.sqrt(share @ (each - mean) ** 2))
        held = set(self.held)
        if levels and held == {"text"} and all(map(is_code, levels)):
            # Codes are texts in one file and numbers in the next.
            held.add("number")
        places = [*own, *np.setdiff1d(np.arange(len(levels)), own)]
        missing = self.missing > 0
        return CategoryEncoder(
            levels=[levels[place] for place in places],
            n_own=len(own),
            missing=missing,
            other=0 < len(own) < len(levels),
            binary=not many and len(own) + missing == 2,
            counts=counts[places].tolist() if std > 0 else [],
            frequency_mean=mean,
            frequency_std=std,
            held=sorted(held),
            absent=self.missing / max(1, self.missing + int(counts.sum())),
        )

    def summary(self) -> Summary:
        n, total = len(self.counts), self.counts.total()
        if n == total > MAX_SHOWN:
            return Summary(self.missing, total, "all different")
        shown = ", ".join(sorted(self.counts, key=lambda text: (-self.counts[text], text))[:4])
        return Summary(self.missing, total, shown + (f" and {n - 4} more" if n > 4 else ""))

    def state(self) -> list[Any]:
        return [list(self.counts.items()), self.missing, sorted(self.held)]

    def restore(self, state: list[Any]) -> None:
        self.counts, self.missing, self.held = Counter(dict(state[0])), state[1], set(state[2])


@dataclass
class CategoryEncoder(ColumnEncoder):
    """One-hot features of a category column, left at 0 and 1."""

    # Levels seen in training: those with a feature of their own, then the others.
    levels: list[str] = field(default_factory=list)
    n_own: int = 0
    # Whether training had missing cells: then they are a level, with its own feature.
    missing: bool = False
    # Whether the levels after the first ``n_own`` share a feature.
    other: bool = False
    # Two levels in all share one feature; a cell of neither is 0.5.
    binary: bool = False
    # Rows of each level where their frequency is a feature, and the moments of log(1 + rows).
    counts: list[int] = field(default_factory=list)
    frequency_mean: float = 0.0
    frequency_std: float = 0.0
    # What the cells were in training before they became texts; empty in earlier files.
    held: list[str] = field(default_factory=list)
    # Means of the target by level, in forests.
    means: LevelMeans | None = None
    # Levels that came with `partial_fit`. The first have a feature of their own, after all others,
    # and else are encoded as unseen; the rest are among the levels that share one.
    later: list[str] = field(default_factory=list)
    n_later_own: int = 0

    def __post_init__(self) -> None:
        self._place = {level: place for place, level in enumerate(self.levels)}
        # After the places of missing cells and of levels not seen.
        later = enumerate(self.later, len(self.levels) + 2)
        self._place |= {level: place for place, level in later}
        if isinstance(self.means, dict):
            self.means = LevelMeans(**self.means)
        of_means = [] if self.means is None else self.means.variants
        self.variants = [*of_means, *[-1] * self.n_later_own]  # type: ignore[misc]

    @cached_property
    def features(self) -> list[str]:
        own = [f"={level}" for level in self.levels[: self.n_own]]
        own += ["=(other)"] * self.other + ["=(missing)"] * self.missing
        if self.binary:
            own = own[1:]
        elif len(self.levels) + self.missing == 1:
            own = []
        own += [" (log frequency)"] * bool(self.counts)
        own += [" (target mean)"] * (len(self.variants) - self.n_later_own)
        return own + [f"={level}" for level in self.later[: self.n_later_own]]

    def common_levels(self, most: int = MAX_MEANS) -> np.ndarray:
        """Places of the levels whose targets have a mean; none of few levels, or of rare ones.

        At most so many; what is missing is a level too.
        """
        # Without counts all levels are equally frequent.
        counts = np.array(self.counts or [MIN_MEAN_ROWS] * len(self.levels))
        if not self.other or counts.mean() < MIN_MEAN_ROWS:
            return np.arange(0)
        often = np.argsort(-counts, kind="stable")[: min(most, MAX_MEANS)]
        places = np.sort(often[counts[often] > 1])
        return np.append(places, len(self.levels)) if self.missing else places

    def with_levels(self, column: Column, max_levels: int) -> CategoryEncoder:
        """Add the levels of more rows that are new; itself if there are none.

        Each gets a feature as long as no more than `max_levels` have one. The others join the
        levels that share a feature, or stay unseen where there is none.
        """
        used = np.bincount(column.values + 1, minlength=len(column.levels) + 1)[1:] > 0
        cells = zip(column.levels, self._is_foreign(column), used, strict=True)
        new = sorted(
            level
            for level, foreign, is_used in cells
            if is_used and not foreign and level not in self._place
        )
        n_own = min(len(new), max(0, max_levels - self.n_own - self.n_later_own))
        room = MAX_LEVELS - len(self._place) if self.other else n_own
        # A column that was constant in training is not known, and may still be.
        if not new[:room] or len(self._place) + len(new) < 2:
            return self
        later = [*self.later, *new[:room]]
        return replace(self, later=later, n_later_own=self.n_later_own + n_own)

    @property
    def neutral(self) -> list[float]:
        first = [0.5 if self.binary else 0.0] * (len(self.features) - self.n_later_own)
        return first + [0.0] * self.n_later_own

    def place(self, column: Column) -> np.ndarray:
        """The level of each cell by its place: of training, missing, not seen, later ones."""
        n_levels = len(self.levels)
        of_level = [self._place.get(level, n_levels + 1) for level in column.levels]
        of_missing = n_levels if self.missing else n_levels + 1
        return np.array([*of_level, of_missing], dtype=np.int64)[column.values]

    def write(self, column: Column, out: np.ndarray, fold: np.ndarray | None = None) -> None:
        self._refuse_other_kinds(column)
        n_levels, place = len(self.levels), self.place(column)
        first = n_levels + 2
        out, later = np.split(out, [out.shape[1] - self.n_later_own], axis=1)
        rows = np.flatnonzero((place >= first) & (place < first + self.n_later_own))
        later[rows, place[rows] - first] = 1.0
        if self.means is not None:
            own = out.shape[1] - len(self.means.variants)
            self.means.write(place, out[:, own:], fold)
            out = out[:, :own]
        hot = np.full(first + len(self.later), -1, dtype=np.int64)
        hot[: self.n_own] = np.arange(self.n_own)
        if self.other:
            hot[self.n_own : n_levels] = self.n_own
            hot[first + self.n_later_own :] = self.n_own
        if self.missing:
            hot[n_levels] = self.n_own + self.other
        if self.binary:
            out[:, 0] = np.where(hot < 0, 0.5, hot)[place]
            return
        n_hot = out.shape[1] - bool(self.counts)
        if n_hot:
            feature = hot[place]
            rows = np.flatnonzero(feature >= 0)
            out[rows, feature[rows]] = 1.0
        if self.counts:
            # A missing cell has no frequency, so it takes the mean: 0.
            others = [self.frequency_mean, *[0.0] * (1 + len(self.later))]
            logs = np.append(np.log1p(self.counts), others)
            out[:, n_hot] = ((logs - self.frequency_mean) / self.frequency_std)[place]

    def _is_foreign(self, column: Column) -> list[bool]:
        """Which texts are no level and were no texts where training had texts, and so on."""
        return [
            bool(self.held)
            and text not in self._place
            and kind not in self.held
            and not (kind == "text" and "number" in self.held and is_code(text))
            for text, kind in zip(column.levels, column.kinds, strict=True)
        ]

    def _refuse_other_kinds(self, column: Column) -> None:
        """Raise ValueError if a cell is such a text."""
        wrong = np.array([*self._is_foreign(column), False])[column.values]
        if wrong.any():
            row = int(np.argmax(wrong))
            level = column.values[row]
            held, kind = " or ".join(self.held), column.kinds[level]
            raise ValueError(
                f"it held cells of kind {held} when the encoder was fitted, but now holds a {kind} "
                f"(row {row}: {column.levels[level]}): convert the column, or fit again"
            )

    def unusual(self, column: Column) -> tuple[int, int]:
        known = np.array([*(level in self._place for level in column.levels), False])
        return 0, int((~known[column.values]).sum())

    def onnx_schema(self) -> dict[str, Any]:
        levels = [*self.levels, *self.later]
        return {"type": "string", "missing": missing_text(levels), "levels": levels}

    def onnx_cells(self, column: Column) -> np.ndarray:
        missing = missing_text([*self.levels, *self.later])
        levels = np.array([*column.levels, missing], dtype=object)
        return np.asarray(levels[column.values])

    def to_onnx(self, graph: Graph, value: str) -> str:
        """Look up the row of features of a level; levels with equal rows share one."""
        levels = [*self.levels, *self.later]
        known, n_levels = [*levels, missing_text(levels)], len(levels)
        # Every level, then missing, then a text that is none of them.
        codes = np.array([*range(n_levels), -1, n_levels], dtype=np.int32)
        features = np.zeros((n_levels + 2, len(self.features)), dtype=np.float32)
        self.write(Column("category", codes, tuple(known)), features)
        rows, places = np.unique(features, axis=0, return_inverse=True)
        *of_known, unseen = places.reshape(-1).tolist()
        lookup = {"keys_strings": known, "values_int64s": of_known, "default_int64": unseen}
        place = graph.op("LabelEncoder", value, domain="ai.onnx.ml", **lookup)
        return graph.op("Gather", graph.constant(rows), graph.reshape(place, -1), axis=0)


def missing_text(levels: Sequence[str]) -> str:
    """The text that stands for a missing category: none of the levels, ``""`` if it can be."""
    text = ""
    while text in levels:
        text = f"({text})" if text else "(missing)"
    return text
