"""The columns of pandas, polars and pyarrow, as the NumPy arrays of ``columns``.

None of the three is imported: an object of theirs has brought its library along.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from nrs.tabular.encode.columns import Column, factor, read_array, read_cells, to_category

NAT = np.iinfo(np.int64).min


def read_pandas(series: Any, *, as_category: bool = False) -> Column:
    """Column of a pandas Series of any dtype."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return read_array(series.to_numpy(), as_category=as_category)
    family = type(dtype).__name__
    if family == "CategoricalDtype":
        return factor(series.cat.codes.to_numpy(), series.cat.categories.tolist())
    if family == "StringDtype":
        codes, labels = series.factorize()
        return factor(codes, labels.tolist())
    if family == "ArrowDtype":
        return read_arrow(series.array.__arrow_array__(), as_category=as_category)
    if family == "DatetimeTZDtype":
        return read_array(series.to_numpy(dtype="datetime64[us]"), as_category=as_category)
    if family == "PeriodDtype":
        return read_array(series.dt.to_timestamp().to_numpy(), as_category=as_category)
    if family == "SparseDtype":
        return read_array(series.sparse.to_dense().to_numpy(), as_category=as_category)
    if dtype.kind in "iufb" and not (as_category and dtype.kind in "iu"):
        if not series.hasnans:
            return read_array(series.to_numpy(dtype=dtype.numpy_dtype), as_category=as_category)
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        column = Column("boolean" if dtype.kind == "b" else "number", values)
        return to_category(column) if as_category else column
    return read_cells(series.astype(object).tolist(), as_category=as_category)


def read_polars(series: Any, *, as_category: bool = False) -> Column:
    """Column of a polars Series of any dtype."""
    polars = sys.modules["polars"]
    dtype = series.dtype
    if dtype.is_nested():
        raise TypeError(f"argument must be a string or a number, not {dtype}: unnest it")
    if dtype in (polars.Date, polars.Datetime):
        ticks = series.dt.epoch("us").fill_null(NAT).to_numpy()
        column = Column("date", ticks.view("datetime64[us]"))
    elif dtype == polars.Duration:
        column = Column("duration", series.dt.total_microseconds().to_numpy() / 1e6)
    elif dtype == polars.Boolean:
        values = series.cast(polars.UInt8).to_numpy()
        column = Column("boolean", values if series.null_count() else values.astype(bool))
    elif dtype.is_float() or (dtype.is_integer() and not as_category):
        wide = dtype.is_integer() and str(dtype) in ("Int128", "UInt128")
        column = Column("number", (series.cast(polars.Float64) if wide else series).to_numpy())
    else:
        # Categories, enumerations and strings share one path: the texts.
        text = dtype in (polars.Categorical, polars.Enum)
        cells = (series.cast(polars.String) if text else series).to_list()
        return read_cells(cells, as_category=as_category)
    return to_category(column) if as_category else column


def read_arrow(array: Any, *, as_category: bool = False) -> Column:
    """Column of a pyarrow Array or ChunkedArray of any type."""
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
        labels = array.dictionary.to_pylist()
        return factor(codes, labels)
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
        unit = kind.unit if not types.is_date(kind) else "D" if types.is_date32(kind) else "ms"
        if types.is_date32(kind):
            array = array.cast(pyarrow.int32())
        ticks = array.cast(pyarrow.int64()).fill_null(NAT).to_numpy(zero_copy_only=False)
        family = "timedelta64" if types.is_duration(kind) else "datetime64"
        return read_array(ticks.view(f"{family}[{unit}]"), as_category=as_category)
    if types.is_boolean(kind):
        values = array.cast(pyarrow.uint8()).to_numpy(zero_copy_only=False)
        column = Column("boolean", values if array.null_count else values.astype(bool))
    elif types.is_floating(kind) or (types.is_integer(kind) and not as_category):
        column = Column("number", array.to_numpy(zero_copy_only=False))
    else:
        return read_cells(array.to_pylist(), as_category=as_category)
    return to_category(column) if as_category else column
