"""Sparse matrices, scaled without losing their zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils.sparsefuncs import min_max_axis

from nrs.tabular.encode.number import FENCE, LIMIT, row_chunks, short, squash
from nrs.tabular.encode.table import Table


@dataclass
class SparseScaler:
    """Columns of a sparse matrix divided by their largest ordinary magnitude in training.

    ``kept``, shape (d_out,), are the source columns that vary in training, or all of them if
    nothing is scaled; ``scale`` has shape (d,). Scaled values beyond ±``bound`` are squashed as
    dense numbers are.
    """

    kept: np.ndarray
    scale: np.ndarray
    # Earlier files have none.
    bound: float = LIMIT

    def __post_init__(self) -> None:
        # From a file they come as lists, of which an empty one has no dtype.
        self.kept, self.scale = np.asarray(self.kept, np.int64), np.asarray(self.scale, np.float64)

    @classmethod
    def fit(cls, table: Table, rows: np.ndarray | None, *, scaled: bool) -> SparseScaler:
        matrix: csr_matrix = table.sparse
        matrix = matrix if rows is None else matrix[rows]
        _refuse_non_finite(matrix, table, rows)
        kept, scale = np.arange(table.n_columns), np.ones(table.n_columns)
        if scaled:
            if matrix.dtype.kind != "f":
                matrix = matrix.astype(np.float64)
            low, high = min_max_axis(matrix, axis=0)
            kept = np.flatnonzero(low != high)
            scale[kept] = np.minimum(np.maximum(-low, high), _fences(matrix))[kept]
        return cls(kept, scale, 1.0 if scaled else LIMIT)

    def transform(self, table: Table, source: np.ndarray) -> csr_matrix:
        """CSR matrix of float32, of at least one column; `source` is where each column is now."""
        if table.sparse is not None:
            matrix = table.sparse
        elif table.matrix is not None:
            matrix = csr_matrix(table.matrix)
        else:
            columns = [table.column(index, "number").values for index in range(table.n_columns)]
            matrix = csr_matrix(np.column_stack(columns))
        _refuse_non_finite(matrix, table)
        if len(self.kept) == 0:
            return csr_matrix((table.n_rows, 1), dtype=np.float32)
        if (np.diff(source) != 1).any():
            matrix = matrix[:, source]
        data = np.empty(matrix.nnz, dtype=np.float32)
        for part in row_chunks(matrix.nnz, 1):
            # A far outlier may be beyond float64 after the division; the clip is for it.
            with np.errstate(over="ignore"):
                values = matrix.data[part] / self.scale[matrix.indices[part]]
            data[part] = squash(values, -self.bound, self.bound)
        out = csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        return out if len(self.kept) == out.shape[1] else out[:, self.kept]

    def original(self, place: int, value: float) -> str:
        """The value of a feature in the units of the table."""
        return short(float(value * self.scale[self.kept[place]])) if len(self.kept) else "0"

    def state(self) -> dict[str, list[Any]]:
        return {"kept": self.kept.tolist(), "scale": self.scale.tolist(), "bound": self.bound}


def _fences(matrix: csr_matrix) -> np.ndarray:
    """The largest ordinary magnitude of each column, as :func:`find_fences` for mostly zeros."""
    columns = matrix.tocsc()
    magnitudes, starts = np.abs(columns.data).astype(np.float64), columns.indptr[:-1]
    counts = np.diff(columns.indptr)
    order = np.lexsort((magnitudes, np.repeat(np.arange(len(counts)), counts)))
    quartile = np.zeros(len(counts))
    some = counts > 0
    quartile[some] = magnitudes[order][(starts + 3 * (counts - 1) // 4)[some]]
    with np.errstate(over="ignore"):
        fences = (1 + FENCE) * quartile
    return np.where(quartile > 0, fences, np.inf)


def _refuse_non_finite(matrix: csr_matrix, table: Table, rows: np.ndarray | None = None) -> None:
    bad = ~np.isfinite(matrix.data)
    if not bad.any():
        return
    at = int(np.argmax(bad))
    row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
    row = row if rows is None else int(rows[row])
    index = int(matrix.indices[at])
    if np.isinf(matrix.data[at]):
        raise table.infinite_value(row, index, matrix.data[at])
    found = f"{table.label(index)} of a sparse matrix holds NaN (row {row})"
    advice = "drop these cells (they become zeros) or pass a dense table"
    raise ValueError(f"{found}: sparse input cannot have missing values; {advice}")
