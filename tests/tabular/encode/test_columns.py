"""One column of any library: its texts, its missing cells, its kinds."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.encode.columns import (
    PLURAL,
    Column,
    convert,
    factor,
    labels_as_array,
    level_text,
    read_cells,
    read_column,
    to_category,
)


def test_one_category_has_one_text_in_every_dtype():
    assert {level_text(value) for value in (7, 7.0, np.int8(7), np.float32(7), "7")} == {"7"}
    assert level_text(np.float32(0.1)) == level_text(0.1) == "0.1"
    assert level_text(-0.0) == "0"
    hour = dt.timedelta(hours=1)
    assert level_text(hour) == level_text(hour.total_seconds()) == "3600"
    assert level_text(np.int64(2**62 + 1)) == str(2**62 + 1)


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float32[pyarrow]"])
def test_a_float32_is_one_category_with_and_without_missing_cells(dtype):
    cell = np.float32(1.517998)
    for cells in ([cell], [cell, None]):
        series = pd.Series(cells, dtype=dtype)
        assert convert(read_column(series, "category"), "category").levels == ("1.517998",)


@given(st.lists(st.none() | st.sampled_from(["b", "a", "ü", ""]), min_size=1, max_size=30))
def test_codes_and_levels_give_the_cells_back(cells):
    column = read_cells(cells, "category")
    if column.kind == "category":
        assert list(column.levels) == sorted(column.levels)
        texts = [*column.levels, None]
        assert [texts[code] for code in column.values] == cells
    assert column.missing().tolist() == [cell is None for cell in cells]


@given(st.lists(st.integers(-1, 3), max_size=20))
def test_labels_that_are_equal_become_one_level(codes):
    column = factor(np.array(codes, dtype=np.int64), ["b", "a", "b", None])
    assert column.levels == ("a", "b")
    known = {-1: -1, 0: 1, 1: 0, 2: 1, 3: -1}
    assert column.values.tolist() == [known[code] for code in codes]


@given(st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), min_size=1, max_size=20))
def test_numbers_survive_the_way_to_texts_and_back(values):
    numbers = Column("number", np.array(values))
    again = convert(to_category(numbers), "number")
    np.testing.assert_array_equal(again.values, numbers.values)


def test_cells_of_another_kind_are_refused_with_their_row():
    texts = read_cells(["1.5", None, "many"])
    with pytest.raises(ValueError, match=r"numbers.*row 2: 'many'"):
        convert(texts, "number")
    nothing = read_cells([None, None])
    assert convert(nothing, "date").missing().all()


CELLS = st.sampled_from(
    [1, 0, 2.5, "1", "1.5", "a", "", True, None, float("nan"), decimal.Decimal("0.5"), b"a",
     dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC), np.datetime64("2020-01-02"),
     dt.timedelta(hours=1), np.float32(0.1), np.timedelta64(5, "m"), dt.time(8)]
)  # fmt: skip


def _read(cells, kind):
    try:
        column = read_cells(cells, kind)
    except ValueError:
        return None
    levels = (*column.levels, None)
    return [levels[v] for v in column.values] if kind == "category" else column.values.tolist()


@given(st.lists(CELLS, min_size=1, max_size=6), st.sampled_from(list(PLURAL)))
def test_a_cell_is_read_alike_in_any_company(cells, kind):
    together, alone = _read(cells, kind), [_read([cell], kind) for cell in cells]
    if together is None:
        assert None in alone
    else:
        assert repr(together) == repr([one[0] for one in alone])


def test_labels_become_plain_arrays():
    assert labels_as_array(["a", "b"]).dtype.kind == "U"
    assert labels_as_array(np.array([1, 2], dtype=object)).dtype.kind == "i"
    assert labels_as_array(np.array([1, "a"], dtype=object)).dtype.kind == "O"
