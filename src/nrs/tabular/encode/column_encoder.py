"""What every kind of column answers; one file per kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from nrs.tabular.encode.columns import Column, Kind, Summary

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph


class Statistics(Protocol):
    """What is counted of one column: one `add` in memory, many in a stream, a `merge` of processes.

    `encoder` takes the parameters of the table's encoder; `state` is JSON that `restore` reads.
    """

    def __init__(self, kind: Kind) -> None: ...
    def add(self, column: Column) -> Self: ...
    def merge(self, other: Any) -> None: ...
    def encoder(self, scale: str, max_levels: int) -> ColumnEncoder: ...
    def summary(self) -> Summary: ...
    def state(self) -> list[Any]: ...
    def restore(self, state: list[Any]) -> None: ...


@dataclass
class ColumnEncoder:
    """What was learned about one column: cells in, float32 features out.

    A kind is a dataclass of JSON values, which are its state; their defaults are those of a column
    without features. Methods here are those of a column whose cells are numbers in an ONNX file
    and whose features are 0 where nothing is known.
    """

    @cached_property
    def features(self) -> list[str]:
        """The end of each feature's name, after the name of the column."""
        raise NotImplementedError

    @property
    def neutral(self) -> list[float]:
        """Values of the features that stand for no particular cell."""
        return [0.0] * len(self.features)

    def write(self, column: Column, out: np.ndarray) -> None:
        """Write the features of a column into `out`, zeros of shape (n_rows, n_features)."""
        raise NotImplementedError

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
