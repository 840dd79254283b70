"""One column of a table, from any library, as a NumPy array.

A column has one of five kinds, and one layout for each kind:

========  =====================================================  =========
kind      ``values``                                             missing
========  =====================================================  =========
number    integers or floats                                     NaN
boolean   bool, or floats 0 and 1                                NaN
duration  float64 seconds                                        NaN
date      ``datetime64[us]`` (UTC where a time zone is known)    NaT
category  int32 codes into the sorted texts in ``levels``        -1
========  =====================================================  =========

"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

import numpy as np

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Kind = Literal["number", "boolean", "duration", "date", "category"]

PLURAL = {kind: f"{kind}s" for kind in ("number", "boolean", "duration", "date")}
PLURAL["category"] = "categories"
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
# Types of Python, pandas and NumPy whose one value says that there is none.
_MISSING = ("NoneType", "NAType", "NaTType", "MaskedConstant")
# NaT is a datetime and np.timedelta64 an integer, so the order of the questions matters.
_CELL_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("text", (str, bytes)),
    ("boolean", (bool, np.bool_)),
    ("duration", (timedelta, np.timedelta64)),
    ("date", (date, np.datetime64)),
    ("label", (UUID, time)),
    ("number", (Real, Decimal)),
)
# NaT as a number of ticks.
_NAT = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Column:
    """The cells of one column; the module's table says what ``values`` holds for each kind."""

    kind: Kind
    values: np.ndarray
    levels: tuple[str, ...] = ()

    def missing(self) -> np.ndarray:
        """Boolean mask of the missing cells, shape (n_rows,)."""
        if self.kind == "category":
            return self.values < 0
        if self.values.dtype.kind in "fM":
            return np.isnan(self.values)
        return np.zeros(len(self.values), dtype=bool)


class Summary(NamedTuple):
    """A column in a few words: missing and other cells, and what is in these."""

    missing: int
    seen: int
    values: str


def level_text(value: Any) -> str:
    """The text by which a category is known: ``1``, ``1.0`` and ``"1"`` are one category.

    Integral floats lose their point because an integer column with a missing cell turns into
    floats; other floats take the shortest text that reads back as the same value.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, timedelta):
        # As a column of durations, which are seconds.
        value = value.total_seconds()
    if isinstance(value, (float, np.floating, Decimal)):
        if value == value and abs(value) != float("inf") and value == int(value):
            return str(int(value))
        return repr(float(value)) if isinstance(value, (float, Decimal)) else str(value)
    return value.isoformat() if isinstance(value, (datetime, time)) else str(value)


def factor(codes: np.ndarray, labels: Sequence[Any]) -> Column:
    """Category column from codes into `labels`; a negative code and the label None are missing."""
    texts = [None if label is None else level_text(label) for label in labels]
    levels = sorted({text for text in texts if text is not None})
    place: dict[str | None, int] = {text: index for index, text in enumerate(levels)}
    # The last slot answers for code -1.
    table = np.array([*(place.get(text, -1) for text in texts), -1], dtype=np.int32)
    return Column("category", table[np.maximum(codes, -1)], tuple(levels))


def missing_cells(values: np.ndarray) -> np.ndarray:
    """Which cells of an array of any dtype and shape hold no value: None, NaN, NaT, pandas' NA.

    Examples
    --------
    >>> missing_cells(np.array(["a", None, float("nan"), 1], dtype=object)).tolist()
    [False, True, True, False]
    """
    if values.dtype.kind != "O":
        return np.asarray(values != values)
    found = np.array([_is_missing(cell) for cell in values.flat], dtype=bool)
    return found.reshape(values.shape)


def _is_missing(cell: Any) -> bool:
    if type(cell).__name__ in _MISSING:
        return True
    return isinstance(cell, (Real, Decimal, np.generic)) and bool(cell != cell)


def _cell_kind(cell_type: type) -> str:
    """Kind of the cells of one Python type: a kind, ``"text"``, ``"label"`` or ``"missing"``."""
    if cell_type.__name__ in _MISSING:
        return "missing"
    for kind, types in _CELL_KINDS:
        if issubclass(cell_type, types):
            return kind
    if cell_type.__name__ in ("Period", "Interval"):
        return "label"
    if issubclass(cell_type, (complex, np.complexfloating)):
        raise ValueError("Complex data not supported: a cell holds a complex number")
    raise TypeError(
        f"argument must be a string or a number, not {cell_type.__name__!r}: turn each "
        "cell into a number, a string, a boolean or a date first"
    )


def read_cells(cells: list[Any], as_category: bool = False) -> Column:
    """Column of Python objects, its kind found from the types of the cells that are not missing.

    One kind of cell gives that kind; booleans among numbers count as 0 and 1; any other mixture,
    such as numbers and strings, is a category column of the cells' texts. `as_category` asks for
    one also where there are only numbers and booleans. A cell that is no value (a dict, a list, …)
    is a TypeError; a complex one or an integer beyond float64's range is a ValueError.
    """
    kind_of = {cell_type: _cell_kind(cell_type) for cell_type in set(map(type, cells))}
    kinds = set(kind_of.values())
    if "number" in kinds and (as_category or not kinds <= {"number", "missing"}):
        # A NaN is how many libraries write a missing string or boolean.
        cells = [
            None if kind_of[type(cell)] == "number" and cell != cell else cell for cell in cells
        ]
        kinds = {kind_of.get(cell_type, "missing") for cell_type in set(map(type, cells))}
    absent = {cell_type for cell_type, kind in kind_of.items() if kind == "missing"} - {type(None)}
    if absent:
        cells = [None if type(cell) in absent else cell for cell in cells]
    kinds.discard("missing")
    if not kinds:
        return Column("number", np.full(len(cells), np.nan))
    if kinds <= {"number", "boolean"} and not as_category:
        try:
            values = np.array(cells, dtype=np.float64)
        except OverflowError:
            raise ValueError("an integer is beyond float64's range: rescale it") from None
        return Column("boolean" if kinds == {"boolean"} else "number", values)
    if kinds == {"date"}:
        # Only a date that has a time can have a time zone.
        cells = [
            cell.astimezone(UTC).replace(tzinfo=None) if getattr(cell, "tzinfo", None) else cell
            for cell in cells
        ]
        return read_array(np.array(cells, dtype="datetime64[us]"))
    if kinds == {"duration"}:
        return read_array(np.array(cells, dtype="timedelta64[us]"))
    if not kinds <= {"text"}:
        # 1, 1.0 and True are one key of a dictionary, so such cells are told apart by text.
        cells = [None if _is_missing(cell) else level_text(cell) for cell in cells]
    place: dict[Any, int] = {}
    codes = [place.setdefault(cell, len(place)) for cell in cells]
    return factor(np.array(codes, dtype=np.int64), list(place))


def read_array(values: np.ndarray, as_category: bool = False) -> Column:
    """Column of a one-dimensional NumPy array of any dtype; numeric arrays are not copied."""
    code = values.dtype.kind
    if code in "OUST":
        return read_cells(values.tolist(), as_category)
    if code == "c":
        raise ValueError("Complex data not supported: split it into real and imaginary columns")
    if code == "M":
        return Column("date", values.astype("datetime64[us]", copy=False))
    if code == "m":
        return Column("duration", values / np.timedelta64(1, "s"))
    if code not in "biuf":
        raise TypeError(f"a column of dtype {values.dtype} cannot be read as numbers or strings")
    return Column("boolean" if code == "b" else "number", values)


def to_category(column: Column) -> Column:
    """The cells of a column of another kind as categories, by the rule of :func:`level_text`."""
    present, values = ~column.missing(), column.values
    if column.kind == "boolean":
        values = np.where(present, values, 0).astype(bool)
    labels, places = np.unique(values[present], return_inverse=True)
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[present] = places
    return factor(codes, labels.tolist() if column.kind == "date" else list(labels))


def convert(column: Column, kind: Kind, label: str) -> Column:
    """A column of another kind read as the `kind` that the encoder was fitted on, if it can be.

    Anything can be a category, booleans can be numbers, numbers that are all 0 or 1 booleans, texts
    such as ``"-1.5e3"`` numbers, and a column that is all missing anything. Otherwise the
    ValueError names the column by its `label`, the kind expected and a cell.
    """
    if kind == "category":
        return to_category(column)
    values, wrong = column.values, ~column.missing()
    if not wrong.any():
        values = np.full(len(values), np.nan).astype("datetime64[us]" if kind == "date" else float)
    elif kind == "number" and column.kind == "boolean":
        return Column(kind, values)
    elif kind == "boolean" and column.kind == "number":
        wrong &= (values != 0) & (values != 1)
    elif kind == "number" and column.kind == "category":
        numbers = [float(text) if _NUMBER.fullmatch(text) else np.nan for text in column.levels]
        values = np.array([*numbers, np.nan])[values]
        wrong &= ~np.isfinite(values)
    if not wrong.any():
        return Column(kind, values)
    row = int(np.argmax(wrong))
    cell = column.values[row]
    found = column.levels[cell] if column.kind == "category" else cell.item()
    raise ValueError(
        f"{label} held {PLURAL[kind]} when the encoder was fitted, but now holds "
        f"{PLURAL[column.kind]} (row {row}: {found!r}): convert it to {PLURAL[kind]}, or fit again"
    )


def read_column(cells: Any, as_category: bool = False) -> Column:
    """Column of a NumPy array, a pandas or polars Series, or a pyarrow array, of any dtype.

    None of the libraries is imported: their objects have brought them along. `as_category` asks for
    exact cells: with a missing one integers turn into floats, which do not hold every integer.
    """
    if isinstance(cells, np.ndarray):
        return read_array(cells, as_category)
    libraries = {base.__module__.partition(".")[0] for base in type(cells).__mro__}
    if "pandas" in libraries:
        return read_pandas(cells, as_category)
    if "polars" in libraries:
        return read_polars(cells, as_category)
    return read_arrow(cells, as_category)


def read_pandas(series: pandas.Series, as_category: bool = False) -> Column:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return read_array(series.to_numpy(), as_category)
    family = type(dtype).__name__
    if family == "CategoricalDtype":
        return factor(series.cat.codes.to_numpy(), series.cat.categories.tolist())
    if family == "StringDtype":
        codes, labels = series.factorize()
        return factor(codes, labels.tolist())
    if family == "ArrowDtype":
        return read_arrow(series.array.__arrow_array__(), as_category)
    if family == "DatetimeTZDtype":
        return read_array(series.to_numpy(dtype="datetime64[us]"))
    if family == "PeriodDtype":
        return read_array(series.dt.to_timestamp().to_numpy())
    if family == "SparseDtype":
        return read_array(series.sparse.to_dense().to_numpy(), as_category)
    if dtype.kind not in "iufb" or (as_category and dtype.kind in "iu"):
        return read_cells(series.astype(object).tolist(), as_category)
    if not series.hasnans:
        return read_array(series.to_numpy(dtype=dtype.numpy_dtype))
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return Column("boolean" if dtype.kind == "b" else "number", values)


def read_polars(series: polars.Series, as_category: bool = False) -> Column:
    polars = sys.modules["polars"]
    dtype = series.dtype
    if dtype.is_nested():
        raise TypeError(f"argument must be a string or a number, not {dtype}: unnest it")
    if dtype in (polars.Date, polars.Datetime):
        ticks = series.dt.epoch("us").fill_null(_NAT).to_numpy()
        return Column("date", ticks.view("datetime64[us]"))
    if dtype == polars.Duration:
        return Column("duration", series.dt.total_microseconds().to_numpy() / 1e6)
    if dtype == polars.Boolean:
        values = series.cast(polars.UInt8).to_numpy()
        return Column("boolean", values if series.null_count() else values.astype(bool))
    if dtype.is_float() or (dtype.is_integer() and not as_category):
        wide = str(dtype) in ("Int128", "UInt128")
        return Column("number", (series.cast(polars.Float64) if wide else series).to_numpy())
    if dtype in (polars.Categorical, polars.Enum):
        series = series.cast(polars.String)
    return read_cells(series.to_list(), as_category)


def read_arrow(array: pyarrow.Array | pyarrow.ChunkedArray, as_category: bool = False) -> Column:
    pyarrow = sys.modules["pyarrow"]
    types, kind = pyarrow.types, array.type
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    if types.is_nested(kind):
        raise TypeError(f"argument must be a string or a number, not {kind}: flatten it")
    if types.is_string(kind) or types.is_large_string(kind):
        array = array.dictionary_encode()
    if types.is_dictionary(array.type):
        codes = array.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return factor(codes, array.dictionary.to_pylist())
    if types.is_date(kind):
        array = array.cast(pyarrow.timestamp("ms"))
    if types.is_timestamp(array.type) or types.is_duration(kind):
        ticks = array.cast(pyarrow.int64()).fill_null(_NAT).to_numpy(zero_copy_only=False)
        family = "timedelta64" if types.is_duration(kind) else "datetime64"
        return read_array(ticks.view(f"{family}[{array.type.unit}]"))
    if types.is_boolean(kind):
        values = array.cast(pyarrow.uint8()).to_numpy(zero_copy_only=False)
        return Column("boolean", values if array.null_count else values.astype(bool))
    if types.is_floating(kind) or (types.is_integer(kind) and not as_category):
        return Column("number", array.to_numpy(zero_copy_only=False))
    return read_cells(array.to_pylist(), as_category)
