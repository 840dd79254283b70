"""Tables of any library, read one column at a time and without a copy of the whole."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.utils.validation import validate_data

from nrs._util.optional import import_optional
from nrs.datasets.large_table import Table as LargeTable
from nrs.datasets.reading import METADATA, Plan, decision_of
from nrs.tabular.encode.columns import (
    Column,
    Kind,
    convert,
    planned,
    read_column,
)

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from sklearn.utils import Tags

    from nrs.tabular.types import Categorical, TableLike

# Frames that are read as they are; others hand out Arrow.
FRAMES = (
    ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
)  # fmt: skip

# Columns of a data frame that are looked up together, at most.
AT_ONCE = 1_000
# Rows of a data frame that may be copied to be read.
FEW_ROWS = 64


@dataclass(eq=False, repr=False)
class Table:
    """A table of any origin; made by :func:`read_table`."""

    shape: tuple[int, int]
    # Returns the column of an index, as the library of the table has it.
    cells: Callable[[int], Any]
    # The user's own array where it is numeric or boolean; never a copy.
    matrix: np.ndarray | None = None
    sparse: csr_matrix | None = None
    # None for arrays, and for frames whose column labels are not all strings.
    names: list[str] | None = None
    # Columns that are categories whatever their dtype.
    declared: frozenset[int] = frozenset()
    # Columns that are free text; None where the cells of columns of strings decide.
    texts: frozenset[int] | None = None
    # How texts are read as numbers or dates; None for those that a file's reader left as texts.
    plans: dict[int, Plan | None] = field(default_factory=dict)
    # Whether columns without a plan may get one.
    convert: bool = False

    def __post_init__(self) -> None:
        self.n_rows, self.n_columns = self.shape

    def label(self, index: int) -> str:
        """How messages call a column: by name where it has one."""
        return f"column {index if self.names is None else repr(self.names[index])}"

    def infinite_value(self, row: int, index: int, value: float) -> ValueError:
        """The error for a cell that is not finite."""
        advice = "replace it by a finite number, or by NaN if the value is not known"
        found = f"{self.label(index)} holds an infinite value (row {row}: {value})"
        return ValueError(f"{found}: {advice}")

    def column(self, index: int, kind: Kind | None = None) -> Column:
        """Read one column, in its own kind or converted to `kind`.

        ValueError if a number is infinite, a cell is complex or the cells cannot be read as `kind`;
        TypeError if a cell is no value at all (a dict, a list, ...).
        """
        wanted = "category" if index in self.declared or kind in ("text", "string") else kind
        plan = self.plans.get(index)
        try:
            column = read_column(self.cells(index), wanted if plan is None else None)
            if plan is not None:
                column = planned(column, plan)
            if wanted is not None and column.kind != wanted:
                column = convert(column, wanted)
        except (TypeError, ValueError) as error:
            refused = TypeError if isinstance(error, TypeError) else ValueError
            raise refused(f"{self.label(index)}: {error}") from error
        if column.kind == "number" and column.values.dtype.kind == "f":
            infinite = np.isinf(column.values)
            if infinite.any():
                row = int(np.argmax(infinite))
                raise self.infinite_value(row, index, column.values[row])
        return column


def read_table(
    X: Any,
    *,
    categorical_features: Categorical = None,
    text_features: Categorical = None,
    feature_names: Sequence[str] | None = None,
    convert: bool = False,
) -> Table:
    """Read any table: rows × columns in, a :class:`Table` of lazily read columns out.

    Parameters
    ----------
    X : NumPy array of any dtype, list of rows, pandas or polars DataFrame, pyarrow Table or
        RecordBatch, any other frame with ``__arrow_c_stream__`` (DuckDB, Ibis, narwhals, …), scipy
        sparse matrix or array of any format (kept sparse, as CSR).
    categorical_features : names, indices or mask of columns to take as categories whatever their
        dtype; strings and categorical dtypes are in any case: all that "from_dtype" and None mean.
    text_features : names, indices or mask of the columns that are free text; with None the cells
        of columns of strings decide.
    feature_names : names of the columns, in place of those that `X` carries.
    convert : whether an encoder may read columns of texts as numbers or dates where they are.

    Examples
    --------
    >>> table = read_table(np.eye(3), categorical_features=[2])
    >>> [table.column(index).kind for index in range(3)]
    ['number', 'number', 'category']
    """
    if isinstance(X, LargeTable):
        advice = "read some of them with table.head(n), or name a table file"
        raise ValueError(f"got an nrs.Table where rows in memory are needed: {advice}")
    if isinstance(X, (str, os.PathLike)):
        advice = "read the file first, or name it with nrs.Table(path, target=…)"
        raise ValueError(f"X must hold rows; got a text or path, {os.fspath(X)!r}; {advice}")
    if _is(X, "polars", "LazyFrame"):
        raise ValueError("X must be a DataFrame; got a polars LazyFrame: call .collect() on it")
    X = from_capsule(X)
    labels: list[Any] | None = None
    if issparse(X):
        table = _read_sparse(X)
    elif _is(X, "pandas", "DataFrame"):
        table, labels = _read_pandas(X), X.columns.tolist()
    elif _is(X, "polars", "DataFrame"):
        table, labels = Table(X.shape, X.to_series), list(X.columns)
    elif _is(X, "pyarrow", "Table") or _is(X, "pyarrow", "RecordBatch"):
        table, labels = Table(X.shape, X.column), list(X.schema.names)
        table.plans = {
            index: decision_of(one.metadata[METADATA]).plan
            for index, one in enumerate(X.schema)
            if one.metadata and METADATA in one.metadata
        }
    else:
        table = _read_rows(X)
    if feature_names is not None:
        labels, n = list(feature_names), table.n_columns
        if len(labels) != n:
            raise ValueError(f"got {len(labels)} feature_names for a table of {n} columns")
    for size, noun in zip(table.shape, ("sample(s)", "feature(s)"), strict=True):
        # scikit-learn's own words: its estimator checks look for them.
        if size == 0:
            found = f"Found array with 0 {noun} (shape={table.shape})"
            raise ValueError(f"{found} while a minimum of 1 is required.")
    if labels is not None:
        repeated = [label for label, count in Counter(labels).items() if count > 1]
        if repeated:
            raise ValueError(f"column names must differ, but these are repeated: {repeated}")
        if all(isinstance(label, str) for label in labels):
            table.names = labels
    table.declared = categorical_columns(categorical_features, table)
    table.texts = text_columns(text_features, table)
    table.convert = convert
    return table


def from_capsule(X: TableLike) -> TableLike:
    """A frame that hands out Arrow, such as a DuckDB relation, as a pyarrow table.

    Frames of pandas, polars and pyarrow stay what they are, and so do arrays.
    """
    known = any(_is(X, *kind) for kind in FRAMES)
    if known or isinstance(X, np.ndarray) or not hasattr(X, "__arrow_c_stream__"):
        return X
    user = f"a table of {type(X).__module__.partition('.')[0]}"
    found: pyarrow.Table = import_optional("pyarrow", user, "frames").table(X)
    return found


def _is(X: Any, library: str, name: str) -> bool:
    """Whether `X` is a `library`.`name` or a subclass of it, without importing the library."""
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(X).__mro__}
    return (library, name) in bases


def _read_sparse(X: Any) -> Table:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D sparse array, got {X.ndim}D. Reshape your data to 2D.")
    if X.dtype.kind not in "biuf":
        problem = "Complex data not supported" if X.dtype.kind == "c" else "not a numeric dtype"
        raise ValueError(f"{problem}: got a sparse matrix of dtype {X.dtype}")
    matrix = csr_matrix(X)
    if not matrix.has_canonical_format:
        # The copy is because summing the repeated entries would change the caller's matrix.
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return Table(matrix.shape, lambda i: matrix[:, [i]].toarray().ravel(), sparse=matrix)


def _read_pandas(X: pandas.DataFrame) -> Table:
    sparse = (
        type(dtype).__name__ == "SparseDtype" and dtype.kind in "biuf" and dtype.fill_value == 0
        for dtype in X.dtypes
    )
    if X.shape[1] and all(sparse):
        return _read_sparse(X.sparse.to_coo())
    if X.shape[1] > AT_ONCE:
        return Table(X.shape, lambda i: X.iloc[:, i])
    # Of a few rows, looking up one column after the other takes longest.
    if X.shape[0] <= FEW_ROWS and X.shape[1] and _one_float(X.dtypes.tolist()):
        array = X.to_numpy()
        return Table(X.shape, lambda i: array[:, i])
    columns = [column for _, column in X.items()]
    return Table(X.shape, columns.__getitem__)


def _one_float(dtypes: list[object]) -> bool:
    """Whether all columns of a data frame have the same of NumPy's floating-point types."""
    first = dtypes[0]
    return isinstance(first, np.dtype) and first.kind == "f" and all(d == first for d in dtypes)


def _read_rows(X: Any) -> Table:
    """Table of a NumPy array, or of whatever becomes one: rows in a list, a tensor."""
    if isinstance(X, np.ma.MaskedArray):
        array = X.data.astype(np.float64 if X.dtype.kind in "biuf" else object)
        array[np.ma.getmaskarray(X)] = None
    else:
        try:
            array = np.asarray(X)
        except ValueError as error:
            expected = "rows must all have the same number of cells"
            raise ValueError(f"{expected}; NumPy says: {error}") from error
    if array.dtype.kind in "US" and not isinstance(X, np.ndarray):
        # NumPy has turned the numbers beside the strings into strings.
        array = np.array(X, dtype=object)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{array}\n")
    if array.ndim < 2:
        got = "scalar array" if array.ndim == 0 else "1D array"
        raise ValueError(
            f"Expected 2D array, got {got} instead:\narray={array}.\nReshape your data either "
            "using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
    if array.ndim > 2:
        found = f"Found array with dim {array.ndim}, expected 2 (rows × columns)"
        raise ValueError(f"{found}: flatten the other axes with array.reshape(len(array), -1).")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    matrix = array if array.dtype.kind in "biuf" else None
    return Table(array.shape, lambda i: array[:, i], matrix)


def categorical_columns(
    features: Categorical,
    table: Table,
    name: str = "categorical_features",
) -> frozenset[int]:
    """Indices of the columns that `features` declares; see :func:`read_table`."""
    if features is None or (isinstance(features, str) and features == "from_dtype"):
        return frozenset()
    if isinstance(features, str) or np.ndim(features) != 1:  # type: ignore[arg-type]
        expected = "a list of names, a list of indices, a boolean mask, 'from_dtype' or None"
        raise ValueError(f"{name} must be {expected}; got {features!r}")
    items, n = list(features), table.n_columns
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != n:
            found = f"the mask {name} has {len(items)} entries"
            raise ValueError(f"{found}, but the table has {n} columns")
        items = np.flatnonzero(items).tolist()
    declared = frozenset(place_of(item, table, name) for item in items)
    if declared and table.sparse is not None:
        advice = "encode these columns first, or pass a dense table"
        raise ValueError(f"{name} cannot be used with a sparse matrix: {advice}")
    return declared


def text_columns(features: Categorical, table: Table) -> frozenset[int] | None:
    """Indices of the columns that are free text; None where their cells decide."""
    if features is None:
        return None
    texts = categorical_columns(features, table, "text_features")
    both = texts & table.declared
    if both:
        raise ValueError(
            f"{table.label(min(both))} is in categorical_features and in text_features; leave it "
            "out of one of them"
        )
    return texts


def place_of(item: Any, table: Table, name: str) -> int:
    """Index of the column that an entry of an argument, such as categorical_features, names."""
    if isinstance(item, str):
        if table.names is None or item not in table.names:
            known = "columns without names" if table.names is None else table.names
            raise ValueError(f"{name} names {item!r}, but the table has {known}")
        return table.names.index(item)
    if not isinstance(item, (int, np.integer)) or isinstance(item, bool):
        raise ValueError(f"{name} must hold names or indices, but holds {item!r}")
    n = table.n_columns
    if not -n <= item < n:
        raise ValueError(f"{name} has index {item}, but the table has {n} columns")
    return int(item) % n


class RawTables:
    """What scikit-learn should know of an estimator: missing cells and sparse tables are fine."""

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def read_table_for(estimator: Any, X: Any, *, reset: bool) -> Table:
    """Read a table for an estimator, with scikit-learn's rules about columns and their names.

    Its number and names of columns are learned if `reset`; else a ValueError says how X differs.
    """
    # A stream can be read only once.
    X = from_capsule(X)
    table = read_table(
        X,
        categorical_features=estimator.categorical_features,
        # Of baselines, which are given what the cells decide.
        text_features=getattr(estimator, "text_features", None),
        convert=getattr(estimator, "convert", False),
    )
    if not reset and _as_in_fit(estimator, X, table):
        return table
    if _is(X, "pyarrow", "RecordBatch"):
        # scikit-learn finds the names of a table, not those of a batch.
        X = sys.modules["pyarrow"].Table.from_batches([X])
    validate_data(estimator, X=X, skip_check_array=True, reset=reset)
    return table


def _as_in_fit(estimator: object, X: object, table: Table) -> bool:
    """Whether a table has the columns of the fit, so that scikit-learn need not look at them.

    That would take longer than all else, of a single row.
    """
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None:
        same: bool = table.names == known.tolist()
        return same
    fitted = getattr(estimator, "n_features_in_", None)
    return isinstance(X, np.ndarray) and table.n_columns == fitted
