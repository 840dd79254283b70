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

A column of free text (:mod:`.text`) is read as a category.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from uuid import UUID

import numpy as np

from nrs._util.optional import import_optional
from nrs.datasets.reading import Decision, Plan, decide

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from nrs.tabular.types import ArrayLike

# A value of any type: what it is decides how it is read.
Cell: TypeAlias = Any
# "string" is what is counted of strings before it is known whether they are categories or text.
Kind = Literal["number", "boolean", "duration", "date", "category", "text", "string"]

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
    # What the cells of each level were before they became texts: "text", "number", …
    kinds: tuple[str, ...] = ()
    # Whether a categorical dtype says that it is a category.
    coded: bool = False

    def __post_init__(self) -> None:
        if len(self.kinds) < len(self.levels):
            object.__setattr__(self, "kinds", ("text",) * len(self.levels))

    def missing(self) -> np.ndarray:
        """Boolean mask of the missing cells, shape (n_rows,)."""
        if self.kind == "category":
            return self.values < 0
        if self.values.dtype.kind in "fM":
            return np.isnan(self.values)
        return np.zeros(len(self.values), dtype=bool)


def level_text(value: Cell) -> str:
    """The text by which a category is known: ``1``, ``1.0`` and ``"1"`` are one category.

    Integral floats lose their point because an integer column with a missing cell turns into
    floats; other floats take the shortest text that reads back as the same value. A date is the
    text of its midnight, and a time that of UTC, whichever library holds it.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.astype(f"{value.dtype.str[1:3]}[us]").item()
    if isinstance(value, timedelta):
        # As a column of durations, which are seconds.
        value = value.total_seconds()
    if isinstance(value, (float, np.floating, Decimal)):
        if math.isfinite(value) and value == int(value):
            # An integer column with a missing cell turns into floats.
            return str(int(value))
        # The shortest text that reads back as the same value.
        return repr(float(value)) if isinstance(value, (float, Decimal)) else str(value)
    if isinstance(value, date):
        value = _in_utc(value) if isinstance(value, datetime) else datetime.combine(value, time())
    return value.isoformat() if isinstance(value, (datetime, time)) else str(value)


def is_code(text: str) -> bool:
    """Whether a text is that of a number, by :func:`level_text`: "7" is, "07" and "7.0" are not."""
    if not _NUMBER.fullmatch(text):
        return False
    # Long codes have more digits than a float.
    return level_text(float(text) if set(text) & set(".eE ") else int(text)) == text


def _in_utc(cell: Cell) -> Cell:
    """A date without its time zone, if it has one: only a date with a time can."""
    return cell.astimezone(UTC).replace(tzinfo=None) if getattr(cell, "tzinfo", None) else cell


def factor(codes: np.ndarray, labels: Sequence[Cell]) -> Column:
    """Category column from codes into `labels`; a negative code and a missing label are missing."""
    kind_of = {cell_type: _cell_kind(cell_type) for cell_type in set(map(type, labels))}
    texts = [None if _is_missing(label) else level_text(label) for label in labels]
    kinds: dict[str, str] = {}
    for text, label in zip(texts, labels, strict=True):
        # A level that is also a text counts as one.
        if text is not None and kinds.get(text) != "text":
            kinds[text] = kind_of[type(label)]
    levels = sorted(kinds)
    place: dict[str | None, int] = {text: index for index, text in enumerate(levels)}
    # The last slot answers for code -1.
    table = np.array([*(place.get(text, -1) for text in texts), -1], dtype=np.int32)
    of_levels = tuple(kinds[level] for level in levels)
    return Column("category", table[np.maximum(codes, -1)], tuple(levels), of_levels)


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


def _is_missing(cell: Cell) -> bool:
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
    advice = "turn each cell into a number, a string, a boolean or a date first"
    raise TypeError(f"argument must be a string or a number, not {cell_type.__name__!r}: {advice}")


def read_cells(cells: list[Cell], kind: Kind | None = None) -> Column:
    """Column of Python objects, each read as `kind`; without one the types of the cells decide.

    Then one kind of cell gives that kind; booleans among numbers count as 0 and 1; any other
    mixture, such as numbers and strings, is a category column of the cells' texts.

    Raises
    ------
    TypeError
        If a cell is no value (a dict, a list, …).
    ValueError
        If a cell is complex, an integer beyond float64's range, or cannot be read as `kind`.
    """
    kind_of = {cell_type: _cell_kind(cell_type) for cell_type in set(map(type, cells))}
    absent = {cell_type for cell_type, one in kind_of.items() if one == "missing"} - {type(None)}
    if absent:
        cells = [None if type(cell) in absent else cell for cell in cells]
    kinds = set(kind_of.values()) - {"missing"}
    if "number" in kinds and (kind not in (None, "number") or len(kinds) > 1):
        # A NaN is how many libraries write a missing string or boolean.
        cells = [
            None if cell is None or (kind_of[type(cell)] == "number" and cell != cell) else cell
            for cell in cells
        ]
        kinds = {kind_of[one] for one in set(map(type, cells)) - {type(None)}}
    kind = kind or _common_kind(kinds)
    if kind == "category":
        # 1, 1.0 and True are one key of a dictionary: with their types they are three.
        place: dict[tuple[type, Cell], int] = {}
        codes = [place.setdefault((type(cell), cell), len(place)) for cell in cells]
        return factor(np.array(codes, dtype=np.int64), [cell for _, cell in place])
    if not kinds <= ({"number", "boolean"} if kind == "number" else {kind}):
        cells = [_as_kind(cell, kind, row) for row, cell in enumerate(cells)]
    if kind == "date":
        return read_array(np.array([_in_utc(cell) for cell in cells], dtype="datetime64[us]"))
    if kind == "duration":
        return read_array(np.array(cells, dtype="timedelta64[us]"))
    try:
        return Column(kind, np.array(cells, dtype=np.float64))
    except OverflowError:
        raise ValueError("an integer is beyond float64's range: rescale it") from None


def _common_kind(kinds: set[str]) -> Kind:
    """The kind of a column whose cells are of these kinds."""
    if kinds == {"boolean"}:
        return "boolean"
    if kinds <= {"number", "boolean"}:
        return "number"
    one: Any = next(iter(kinds))
    return one if len(kinds) == 1 and one in ("date", "duration") else "category"


def _as_kind(cell: Cell, kind: Kind, row: int) -> Cell:
    """A cell of another kind read as `kind`, if it can be: so that each is read by itself."""
    found = "missing" if cell is None else _cell_kind(type(cell))
    if found in ("missing", kind) or (kind == "number" and found == "boolean"):
        return cell
    if kind == "number" and found == "text" and np.isfinite(number := _number(level_text(cell))):
        return number
    if kind == "boolean" and found == "number" and cell in (0, 1):
        return cell
    raise _other_kind(kind, found, row, cell)


def _number(text: str) -> float:
    """The number that a text such as ``"-1.5e3"`` stands for, NaN if none."""
    return float(text) if _NUMBER.fullmatch(text) else np.nan


def _other_kind(kind: Kind, found: str, row: int, cell: Cell) -> ValueError:
    """The error for a cell that cannot be read as the column was when the encoder was fitted."""
    now = PLURAL.get(found, PLURAL["category"])
    return ValueError(
        f"it held {PLURAL[kind]} when the encoder was fitted, but now holds {now} (row {row}: "
        f"{cell!r}): convert it to {PLURAL[kind]}, or fit again"
    )


def read_array(values: np.ndarray, kind: Kind | None = None) -> Column:
    """Column of a one-dimensional NumPy array of any dtype; numeric arrays are not copied."""
    code = values.dtype.kind
    if code in "OUST":
        return read_cells(values.tolist(), kind)
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
    found = factor(codes, labels.tolist() if column.kind == "date" else list(labels))
    # Durations are numbers of seconds by now.
    return replace(found, kinds=(column.kind,) * len(found.levels))


def convert(column: Column, kind: Kind) -> Column:
    """A column of another kind read as the `kind` that the encoder was fitted on, if it can be.

    Anything can be a category, booleans can be numbers, numbers that are all 0 or 1 booleans, texts
    such as ``"-1.5e3"`` numbers, and a column that is all missing anything. A ValueError names the
    first cell that cannot.
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
        values = np.array([*map(_number, column.levels), np.nan])[values]
        wrong &= ~np.isfinite(values)
    if not wrong.any():
        return Column(kind, values)
    row = int(np.argmax(wrong))
    cell = column.values[row]
    found = column.levels[cell] if column.kind == "category" else cell.item()
    raise _other_kind(kind, column.kind, row, found)


def decide_column(column: Column, name: str = "") -> Decision:
    """How the texts of a column are read as numbers or dates, or stay texts."""
    if "text" not in column.kinds:
        return Decision()
    counts = np.bincount(column.values + 1, minlength=len(column.levels) + 1)[1:]
    seen = np.flatnonzero(counts)
    texts = [column.levels[place] for place in seen]
    return decide(texts, counts[seen], name=name, typed=True)


def planned(column: Column, plan: Plan) -> Column:
    """A column as its plan reads it; one that is not of texts keeps its values."""
    if column.kind == "number":
        values = column.values.astype(np.float64) if plan.sentinels else column.values
        return replace(column, values=plan.without_sentinels(values))
    if column.kind != "category":
        return column
    if plan.kind == "category":
        known = np.array([text.strip() not in plan.missing for text in column.levels] + [True])
        return replace(column, values=np.where(known[column.values], column.values, -1))
    values = plan.read(column.levels)
    if plan.kind == "number":
        # Cells that were numbers among the texts are not written by anyone's convention.
        own = [place for place, kind in enumerate(column.kinds) if kind == "number"]
        values[own] = [float(column.levels[place]) for place in own]
    nothing = np.array([np.datetime64("NaT") if plan.kind == "date" else np.nan], values.dtype)
    return Column(cast(Kind, plan.kind), np.append(values, nothing)[column.values])


def read_column(cells: Any, kind: Kind | None = None) -> Column:
    """Column of a NumPy array, a pandas or polars Series, or a pyarrow array, of any dtype.

    None of the libraries is imported: their objects have brought them along. The kind
    "category" asks for exact cells: with a missing one integers turn into floats, which do not hold
    every integer.
    """
    if isinstance(cells, np.ndarray):
        return read_array(cells, kind)
    libraries = {type(cells).__module__.partition(".")[0]}
    if not libraries & {"pandas", "polars", "pyarrow"}:
        libraries = {base.__module__.partition(".")[0] for base in type(cells).__mro__}
    if "pandas" in libraries:
        return read_pandas(cells, kind)
    if "polars" in libraries:
        return read_polars(cells, kind)
    return read_arrow(cells, kind)


def read_pandas(series: pandas.Series, kind: Kind | None = None) -> Column:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return read_array(series.to_numpy(), kind)
    family = type(dtype).__name__
    if family == "CategoricalDtype":
        labels = series.cat.categories.tolist()
        return replace(factor(series.cat.codes.to_numpy(), labels), coded=True)
    if family == "StringDtype":
        codes, labels = series.factorize()
        return factor(codes, labels.tolist())
    if family == "ArrowDtype":
        return read_arrow(series.array.__arrow_array__(), kind)
    if family == "DatetimeTZDtype":
        return read_array(series.to_numpy(dtype="datetime64[us]"))
    if family == "PeriodDtype":
        return read_array(series.dt.to_timestamp().to_numpy())
    if family == "SparseDtype":
        return read_array(series.sparse.to_dense().to_numpy(), kind)
    if dtype.kind not in "iufb" or (kind == "category" and dtype.kind in "iu"):
        return read_cells(series.astype(object).tolist(), kind)
    if not series.hasnans:
        return read_array(series.to_numpy(dtype=dtype.numpy_dtype))
    # A float32 as a category is the same text with and without missing cells next to it.
    width = dtype.numpy_dtype if dtype.kind == "f" else np.float64
    values = series.to_numpy(dtype=width, na_value=np.nan)
    return Column("boolean" if dtype.kind == "b" else "number", values)


def read_polars(series: polars.Series, kind: Kind | None = None) -> Column:
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
    if dtype.is_float() or (dtype.is_integer() and kind != "category"):
        wide = str(dtype) in ("Int128", "UInt128")
        return Column("number", (series.cast(polars.Float64) if wide else series).to_numpy())
    coded = dtype in (polars.Categorical, polars.Enum)
    return replace(read_cells(series.to_list(), kind), coded=coded)


def read_arrow(array: pyarrow.Array | pyarrow.ChunkedArray, kind: Kind | None = None) -> Column:
    pyarrow = sys.modules["pyarrow"]
    types, dtype = pyarrow.types, array.type
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    if types.is_nested(dtype):
        raise TypeError(f"argument must be a string or a number, not {dtype}: flatten it")
    if types.is_string(dtype) or types.is_large_string(dtype):
        array = array.dictionary_encode()
    if types.is_dictionary(array.type):
        codes = array.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        column = factor(codes, array.dictionary.to_pylist())
        return replace(column, coded=types.is_dictionary(dtype))
    if types.is_date(dtype):
        array = array.cast(pyarrow.timestamp("ms"))
    if types.is_timestamp(array.type) or types.is_duration(dtype):
        ticks = array.cast(pyarrow.int64()).fill_null(_NAT).to_numpy(zero_copy_only=False)
        family = "timedelta64" if types.is_duration(dtype) else "datetime64"
        return read_array(ticks.view(f"{family}[{array.type.unit}]"))
    if types.is_boolean(dtype):
        values = array.cast(pyarrow.uint8()).to_numpy(zero_copy_only=False)
        return Column("boolean", values if array.null_count else values.astype(bool))
    if types.is_floating(dtype) or (types.is_integer(dtype) and kind != "category"):
        return Column("number", array.to_numpy(zero_copy_only=False))
    return read_cells(array.to_pylist(), kind)


def labels_from_capsule(y: ArrayLike) -> ArrayLike:
    """Labels in a frame that hands out Arrow, of one column or several, as an array."""
    table = import_optional("pyarrow", "y as a table", "frames").table(y)
    columns = [column.to_numpy() for column in table.columns]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def labels_as_array(y: ArrayLike) -> np.ndarray:
    """Labels of a list, an array, a pandas or polars series or frame, or a pyarrow array."""
    if hasattr(y, "to_numpy") and not type(y).__module__.startswith("pyarrow"):
        y = y.to_numpy()
    array = np.asarray(y)
    if array.dtype.kind == "O" and array.size:
        # Objects of one kind are better as that kind: integers of a nullable column, strings.
        cells = [_as_python(cell) for cell in array.flat]
        kinds = {type(cell) for cell in cells}
        if kinds <= {str} or kinds <= {int, float, bool}:
            return np.array(cells).reshape(array.shape)
    return array


def _as_python(cell: object) -> object:
    """NumPy's numbers, booleans and strings as Python's; anything else as it is."""
    return cell.item() if isinstance(cell, np.generic) and cell.dtype.kind in "biufU" else cell


def read_labels(given: ArrayLike | None, name: str) -> np.ndarray:
    """Labels, called `name`, as an array; refuses those that are missing or have no order.

    Examples
    --------
    >>> read_labels(["yes", "no"], "y").tolist()
    ['yes', 'no']
    """
    labels = labels_as_array(given)
    if missing_cells(labels).any():
        raise ValueError(f"Input {name} contains NaN or None; every row needs a label")
    if labels.dtype.kind == "O" and labels.size:
        types = sorted({type(label).__name__ for label in labels.flat})
        if types != ["str"]:
            raise ValueError(
                f"{name} must hold strings, numbers or booleans, not several of these; got "
                f"{', '.join(types)}. Turn the labels into strings."
            )
    return labels
