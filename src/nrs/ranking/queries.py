"""Which rows belong to which query, and rows of queries as padded tensors."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.encode.columns import labels_as_array, missing_cells
from nrs.tabular.types import ArrayLike

# The query of each row, or the name of the column that holds it.
Qid: TypeAlias = ArrayLike | str | None


class Queries(NamedTuple):
    """Rows grouped by query, queries in the order of their first row.

    order : (n_rows,) rows, those of a query together and in their order.
    starts : (n_queries,) where each query begins in `order`.
    lengths : (n_queries,) documents of each query.
    """

    order: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def rows(self, chosen: np.ndarray) -> np.ndarray:
        """The rows of these queries, one query after the other.

        Examples
        --------
        >>> group_queries(["b", "a", "b"]).rows(np.array([1, 0])).tolist()
        [1, 0, 2]
        """
        return self.order[_ranges(self.starts[chosen], self.lengths[chosen])]

    def numbers(self) -> np.ndarray:
        """The number of each row's query, (n_rows,), where the queries are all of a table.

        Examples
        --------
        >>> group_queries(["b", "a", "b"]).numbers().tolist()
        [0, 1, 0]
        """
        numbers: np.ndarray = np.empty(len(self.order), dtype=np.int64)
        numbers[self.order] = np.repeat(np.arange(len(self)), self.lengths)
        return numbers

    def part(self, chosen: np.ndarray) -> Queries:
        """Some of the queries, with their rows of the same table."""
        lengths = self.lengths[chosen]
        return Queries(self.rows(chosen), np.cumsum(lengths) - lengths, lengths)


def group_queries(qid: Any, n_rows: int | None = None) -> Queries:
    """Group rows by their query; they need not be together, nor their numbers ascend.

    Parameters
    ----------
    qid : array (n_rows,) of integers or strings
    n_rows : int, optional
        How many there must be.

    Raises
    ------
    ValueError
        If `qid` is absent, empty, not one-dimensional, has another length, or a missing value.

    Examples
    --------
    >>> group_queries([7, 3, 7])
    Queries(order=array([0, 2, 1]), starts=array([0, 2]), lengths=array([2, 1]))
    """
    codes = read_qid(qid, n_rows)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    # Numbers in the order of first appearance, whatever the ids are.
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    number = place[inverse.reshape(-1)]
    lengths = np.bincount(number)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return Queries(np.argsort(number, kind="stable"), starts, lengths)


def read_qid(qid: Any, n_rows: int | None = None) -> np.ndarray:
    """The query of each row as an array, checked."""
    if qid is None:
        raise ValueError(
            "qid must name the query of each row; got qid=None. Pass an array with one entry per "
            "row, or the name of a column of X."
        )
    codes = labels_as_array(qid)
    if codes.ndim != 1:
        raise ValueError(f"qid must have one entry per row; its shape is {codes.shape}")
    if n_rows is not None and len(codes) != n_rows:
        raise ValueError(
            f"qid must have as many entries as X has rows; got {len(codes)} entries and {n_rows} "
            "rows. Were rows filtered from one and not from the other?"
        )
    if len(codes) == 0:
        raise ValueError("qid must have at least one entry; it is empty")
    missing = missing_cells(codes)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(f"qid must name a query for every row; row {row} has none")
    return codes.astype(str) if codes.dtype.kind == "O" else codes


def read_eval_set(eval_set: Any, *, qid_in_x: bool = False) -> tuple[Any, Any, Any]:
    """The three parts of an ``eval_set``; two where the queries are a column of X.

    Raises
    ------
    ValueError
        If it has other parts.
    """
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if isinstance(eval_set, (tuple, list)) and len(eval_set) == 2 and qid_in_x:
        eval_set = (*eval_set, None)
    if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 3:
        size = f" of {len(eval_set)}" if hasattr(eval_set, "__len__") else ""
        raise ValueError(
            "eval_set must be a triple (X, y, qid) of held-out queries; got "
            f"{type(eval_set).__name__}{size}"
        )
    X, y, qid = eval_set
    return X, y, qid


def column_names(X: Any) -> list[str] | None:
    """The columns of a pandas, polars or pyarrow table; None for what has no names."""
    if hasattr(X, "columns") and hasattr(X, "shape"):
        names = getattr(X, "column_names", X.columns)  # pyarrow has both, polars and pandas one
        return list(names)
    return None


def without_column(X: Any, name: str) -> Any:
    """A table without one of its columns."""
    if hasattr(X, "drop_columns"):  # pyarrow
        return X.drop_columns([name])
    return X.drop(columns=name) if hasattr(X, "iloc") else X.drop(name)


def slots(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each document in a rectangle of queries, (n_documents,) each.

    Examples
    --------
    >>> [part.tolist() for part in slots(np.array([2, 1]))]
    [[0, 0, 1], [0, 1, 0]]
    """
    return np.repeat(np.arange(len(lengths)), lengths), _ranges(np.zeros_like(lengths), lengths)


def pad_queries(qid: Any, **columns: Any) -> tuple[dict[str, Tensor], Tensor]:
    """Columns of rows as padded tensors ``(queries, documents)`` in float64, and their mask.

    Raises
    ------
    ValueError
        If a column has not as many entries as `qid`.

    Examples
    --------
    >>> padded, mask = pad_queries([1, 2, 1], labels=[0, 1, 2])
    >>> padded["labels"].tolist(), mask.tolist()
    ([[0.0, 2.0], [1.0, 0.0]], [[True, True], [True, False]])
    """
    queries = group_queries(qid)
    row, column = slots(queries.lengths)
    shape = (len(queries), int(queries.lengths.max()))
    padded = {}
    for name, values in columns.items():
        given = labels_as_array(values)
        if given.shape != (len(queries.order),):
            raise ValueError(
                f"{name} must have one entry per row; its shape is {given.shape}, and qid has "
                f"{len(queries.order)} entries"
            )
        out = np.zeros(shape)
        out[row, column] = given[queries.order]
        padded[name] = torch.from_numpy(out)
    mask = np.zeros(shape, dtype=bool)
    mask[row, column] = True
    return padded, torch.from_numpy(mask)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, … lengths[0] of them, then those of the next."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
