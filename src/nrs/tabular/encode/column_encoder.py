"""What every kind of column answers; one file per kind."""

from __future__ import annotations

import inspect
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from nrs.tabular.encode.columns import Column, Kind
from nrs.tabular.encode.drift import DriftCount

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph


class Summary(NamedTuple):
    """A column in a few words: missing and other cells, what is in these, and their kind."""

    missing: int
    seen: int
    values: str
    # Where the cells say more than their type.
    kind: Kind | None = None


class ColumnWarning(UserWarning):
    """Rows to predict differ from the training rows in a way that makes their answers doubtful."""


# Columns that a warning names, and rows below which "most cells" means nothing.
MAX_NAMED, MIN_ROWS = 5, 20


class Watch:
    """What is unusual about rows to predict, counted by column while they are encoded.

    With `drift` also how they are spread, where the encoder knows how the training rows were.
    """

    def __init__(self, *, drift: bool = False) -> None:
        self.n_rows = 0
        self.drift = DriftCount() if drift else None
        self.far: Counter[int] = Counter()
        self.unknown: Counter[int] = Counter()

    def add(self, columns: Iterable[int], far: Iterable[int], unknown: Iterable[int]) -> None:
        """Count cells far beyond the training range, and cells that are missing or unseen."""
        for column, beyond, nothing in zip(columns, far, unknown, strict=True):
            self.far[column] += beyond
            self.unknown[column] += nothing

    def warn(self, names: Sequence[str], absent: Sequence[float | None]) -> None:
        """Say once what was found; `absent` is the share of missing cells in training."""
        if self.far.total():
            named = _named(names, +self.far)
            warnings.warn(
                f"Cells far beyond the training range, whose answers are doubtful: {named}",
                ColumnWarning,
                stacklevel=outside(),
            )
        lost: Counter[int] = Counter()
        for column, count in self.unknown.items():
            before = absent[column]
            if (
                before is not None
                and self.n_rows >= MIN_ROWS
                and before < 0.5 < count / self.n_rows
            ):
                lost[column] = count
        if lost:
            warnings.warn(
                f"Most cells are missing or unseen in training, of {self.n_rows} rows: "
                f"{_named(names, lost)}. Check the spelling and type of these columns.",
                ColumnWarning,
                stacklevel=outside(),
            )


def outside() -> int:
    """How many calls up the package was called, whichever of its methods that was."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("nrs."):
        level, frame = level + 1, frame.f_back
    return level


def _named(names: Sequence[str], counts: Counter[int]) -> str:
    shown = [f"{count} in {names[column]!r}" for column, count in counts.most_common(MAX_NAMED)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more columns" if more else "")


class Statistics(Protocol):
    """What is counted of one column: one `add` in memory, many in a stream, a `merge` of processes.

    `encoder` takes the parameters of the table's encoder and the column, or a sample of a column
    that is not in memory; `state` is JSON that `restore` reads.
    """

    def __init__(self, kind: Kind) -> None: ...
    def add(self, column: Column) -> Self: ...
    def merge(self, other: Any) -> None: ...
    def encoder(self, scale: str, max_levels: int, sample: Column) -> ColumnEncoder: ...
    def summary(self) -> Summary: ...
    def state(self) -> list[Any]: ...
    def restore(self, state: list[Any]) -> None: ...


@dataclass
class ColumnEncoder:
    """What was learned about one column: cells in, float32 features out.

    A kind is a dataclass of JSON values, which are its state; their defaults are those of a column
    without features. By default cells are numbers in an ONNX file, and neutral features are 0.
    """

    # Share of the training cells that are missing; None of earlier files.
    absent: float | None = field(default=None, kw_only=True)
    # Of the last features: the fold whose members alone read each.
    variants: ClassVar[Sequence[int]] = ()
    # Whether forests may cut the features into bins.
    binned: ClassVar[bool] = True

    @cached_property
    def features(self) -> list[str]:
        """The end of each feature's name, after the name of the column."""
        raise NotImplementedError

    @property
    def neutral(self) -> list[float]:
        """Values of the features that stand for no particular cell."""
        return [0.0] * len(self.features)

    @property
    def growth(self) -> list[float]:
        """How each feature moves while cells that are present grow: 1 up, 0 not, NaN to and fro."""
        return [math.nan] * len(self.features)

    def write(self, column: Column, out: np.ndarray, fold: np.ndarray | None = None) -> None:
        """Write the features of a column into `out`, zeros of shape (n_rows, n_features).

        In training with the `fold` of each row.
        """
        raise NotImplementedError

    def unusual(self, column: Column) -> tuple[int, int]:
        """How many cells are far beyond the training range, and how many missing or unseen."""
        return 0, int(column.missing().sum())

    def original(self, place: int, value: float) -> str:
        """The value of a feature in the words and units of the table, where it has them."""
        return f"{value:.3g}"

    def onnx_schema(self) -> dict[str, Any]:
        """How an ONNX file takes a cell: ``type``, and ``missing``, which stands for no cell."""
        return {"type": "double", "missing": "NaN"}

    def onnx_cells(self, column: Column) -> np.ndarray:
        """The cells as an ONNX file takes them, shape (n_rows,)."""
        return column.values.astype(np.float64)

    def to_onnx(self, graph: Graph, value: str) -> str:
        """Add the encoding of (rows, 1) cells; returns the name of its (rows, n_features) value."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON values; the arguments of an equal encoder."""
        return asdict(self)
