"""Which rows belong to which query, and rows of queries as padded tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nrs._util.lazy import torch
from nrs.tabular.encode.columns import labels_as_array, missing_cells
from nrs.tabular.types import ArrayLike

if TYPE_CHECKING:
    from torch import Tensor

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


def qid_of_group(group: Any, n_rows: int | None = None) -> np.ndarray:
    """The query of each row from the number of rows of each query, as LightGBM and XGBoost take it.

    Parameters
    ----------
    group : (n_queries,) positive integers; rows of a query are next to each other.
    n_rows : how many rows there are.

    Raises
    ------
    ValueError
        If a size is not a positive integer, or they do not add up to the rows.

    Examples
    --------
    >>> qid_of_group([2, 1]).tolist()
    [0, 0, 1]
    """
    sizes = labels_as_array(group)
    whole = sizes.ndim == 1 and sizes.dtype.kind in "iuf" and bool((sizes == sizes.round()).all())
    if not whole or (sizes < 1).any():
        raise ValueError(
            "group must hold the number of rows of each query, positive integers such as "
            f"[10, 25, 8]; got {sizes.reshape(-1)[:3].tolist()}. To name the query of each row, "
            "pass qid=."
        )
    if n_rows is not None and sizes.sum() != n_rows:
        raise ValueError(
            f"group must add up to the {n_rows} rows of X; it adds up to {int(sizes.sum())}. To "
            "name the query of each row, pass qid=."
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64))


def query_weights(given: Any, queries: Queries) -> np.ndarray | None:
    """Weights of queries, of mean one, from one for each row or for each query; None for none.

    Raises
    ------
    ValueError
        If they have another length, are negative or not finite, are all 0, or differ within a
        query.

    Examples
    --------
    >>> queries = group_queries([7, 7, 3])
    >>> query_weights([1, 3], queries), query_weights([1, 1, 3], queries)
    (array([0.5, 1.5], dtype=float32), array([0.5, 1.5], dtype=float32))
    """
    if given is None:
        return None
    weights = labels_as_array(given).astype(np.float64)
    n_rows = len(queries.order)
    if weights.shape not in ((n_rows,), (len(queries),)):
        raise ValueError(
            f"sample_weight must have one entry per row ({n_rows}) or per query ({len(queries)}); "
            f"its shape is {weights.shape}"
        )
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise ValueError("sample_weight must hold finite numbers of at least 0, not all of them 0")
    if len(weights) == n_rows:
        by_query = weights[queries.order]
        first = np.repeat(by_query[queries.starts], queries.lengths)
        if not np.array_equal(by_query, first):
            row = int(queries.order[np.argmax(by_query != first)])
            raise ValueError(
                "sample_weight must be the same for all documents of a query, since a loss is one "
                f"of the query; row {row} differs from the first of its query"
            )
        weights = by_query[queries.starts]
    return (weights / weights.mean()).astype(np.float32)


def read_propensity(given: Any, n_rows: int) -> np.ndarray | None:
    """Probabilities that documents were looked at, (n_rows,), checked.

    Raises
    ------
    ValueError
        If there is not one for each row, or one is not above 0 and at most 1.
    """
    if given is None:
        return None
    values = labels_as_array(given)
    if values.shape != (n_rows,) or values.dtype.kind not in "iuf":
        raise ValueError(
            f"propensity must have one number per row ({n_rows}); its shape is {values.shape}"
        )
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            "propensity must hold probabilities above 0 and at most 1 that a document was looked "
            f"at; row {row} has {values[row]}"
        )
    return values.astype(np.float32)


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
