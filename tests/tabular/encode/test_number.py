"""Numbers, booleans and durations."""

import datetime as dt
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.preprocessing import StandardScaler

from nrs.tabular.encode.column_encoder import ColumnWarning, Watch
from nrs.tabular.encode.columns import Column
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.number import (
    FENCE,
    FENCE_LEVELS,
    MIN_INSIDE,
    NumberEncoder,
    find_fences,
    squash,
)
from tests.tabular.encode.tables import NAN, column, encode


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_are_standardised(dtype, order):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, size=(2000, 37)).astype(dtype, order=order)
    Z = TableEncoder().fit_transform(X)
    assert Z.dtype == np.float32
    assert Z.flags.c_contiguous
    np.testing.assert_allclose(Z, StandardScaler().fit_transform(X.astype(float)), atol=1e-5)


@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1e-30, 1.0, 1e30, 1e200, 1e307])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_standardising_is_free_of_units(factor, shift):
    x = np.random.default_rng(1).uniform(-1, 1, size=(500, 1)) + shift
    with np.errstate(all="raise", under="ignore"):
        Z = TableEncoder().fit_transform(x * factor)
    np.testing.assert_allclose(Z, (x - x.mean()) / x.std(), rtol=1e-3, atol=1e-3)


def test_a_small_spread_far_from_zero_is_kept():
    x = 1e9 + np.arange(1000.0)[:, None] * 1e-6
    assert TableEncoder().fit_transform(x).std() == pytest.approx(1, abs=1e-3)


def test_one_far_outlier_does_not_spoil_the_others():
    x = np.append(np.random.default_rng(0).normal(size=999_999), 1e6)[:, None]
    Z = TableEncoder().fit_transform(x)
    assert Z.mean(dtype=float) == pytest.approx(0, abs=1e-6)
    assert Z.std(dtype=float) == pytest.approx(1, abs=1e-6)


def test_missing_numbers_are_the_mean_and_show():
    train = [[1.0, 5.0], [3.0, 6.0], [NAN, 7.0]]
    encoder = TableEncoder().fit(train)
    assert encoder.feature_names_out_.tolist() == ["x0", "x0 (missing)", "x1"]
    assert encoder.groups_.tolist() == [0, 0, 1]
    # The second column had no missing cell in training: its mean, and nothing else.
    assert encoder.transform([[NAN, NAN], [3.0, 6.0]]).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_a_constant_column_with_missing_cells_shows_only_where():
    encoder = TableEncoder().fit(column(5.0, NAN, 5.0))
    assert encoder.feature_names_out_.tolist() == ["x0 (missing)"]
    assert encoder.transform(column(5.0, NAN, 8.0)).tolist() == [[0], [1], [0]]


def test_without_scaling_numbers_are_as_they_are():
    X = np.array([[1.5, 7.0, NAN], [2.5, 7.0, 4.0], [2.0, 7.0, 6.0]])
    encoder = TableEncoder(scale="none").fit(X)
    expected = [[1.5, 7, 5, 1], [2.5, 7, 4, 0], [2.0, 7, 6, 0]]
    assert encoder.transform(X).tolist() == expected


def test_values_beyond_float32_are_clipped():
    encoder = TableEncoder().fit(column(0.0, 1e-300))
    Z = encoder.transform(column(1e300, -1e300, 1.7e308))
    assert Z.tolist() == column(2.0, -2.0, 2.0)
    assert encode(column(0.0, 1.0), column(1e300), scale="none") == column(float(np.float32(1e18)))


@pytest.mark.parametrize("scale", ["standard", "none"])
def test_infinity_names_its_column_and_row(scale):
    X = np.random.default_rng(0).normal(size=(3000, 40))
    encoder = TableEncoder(scale=scale).fit(X)
    X[2500, 7] = np.inf
    for use in (TableEncoder(scale=scale).fit, encoder.transform):
        with pytest.raises(ValueError, match=r"column 7 holds an infinite value \(row 2500: inf\)"):
            use(X)
    with pytest.raises(ValueError, match="row 2500"):
        TableEncoder().fit(X, np.arange(2000, 3000))
    TableEncoder().fit(X, np.arange(2000))


def test_booleans_are_zero_and_one():
    assert encode(column(True, False), column(False, True, None)) == column(0, 1, 0.5)
    assert encode(column(True, False, None), column(True, None)) == [[1, 0], [0.5, 1]]
    assert encode(np.array([[True], [False]]), np.array([[True]])) == column(1)
    assert encode(np.array([[True], [False]]), column(1, 0)) == column(1, 0)
    with pytest.raises(
        ValueError, match=r"column 0: it held booleans .* holds numbers \(row 1: 2\)"
    ):
        encode(column(True, False), column(1, 2))


def test_durations_are_seconds():
    train = column(dt.timedelta(seconds=1), dt.timedelta(seconds=3))
    encoder = TableEncoder().fit(train)
    assert encoder.kinds_ == ["duration"]
    assert encoder.transform(train).tolist() == column(-1, 1)
    with pytest.raises(ValueError, match=r"held durations .* now holds numbers"):
        encoder.transform(column(1.0))


def test_one_column_writes_what_the_block_writes():
    encoder = TableEncoder().fit([[1.0, True], [NAN, False], [4.0, None]])
    cells = [Column("number", np.array([7.0, NAN])), Column("boolean", np.array([1.0, NAN]))]
    together = encoder.transform([[7.0, True], [NAN, None]])
    for index, one in enumerate(cells):
        out = np.zeros((2, 2), np.float32)
        encoder.column_encoder(index).write(one, out)
        assert out.tolist() == together[:, encoder.groups_ == index].tolist()


def test_values_in_the_units_of_the_table():
    years = TableEncoder().fit(column(1990.0, 2010.0, None))
    assert [years.original(0, value) for value in (-1.0, 0.0, 1.0)] == ["1990", "2000", "2010"]
    assert years.original(1, 1.0) == "1"
    assert TableEncoder().fit(column(-1.0, 1.0)).original(0, 1e-9) == "0"
    assert TableEncoder().fit(column(True, False)).original(0, 0.5) == "0.5"
    assert NumberEncoder().features == []


@given(
    st.lists(st.floats(-100, 100), min_size=30, max_size=60),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_one_wild_cell_leaves_the_others_apart(cells, wild):
    """However wild a cell, features stay bounded and ordinary cells keep most of their spread."""
    ordinary, spoilt = np.array(cells)[:, None], np.array([*cells, wild])[:, None]
    assume(np.ptp(ordinary) > 1e-3)
    clean, found = (TableEncoder().fit_transform(X)[: len(cells)] for X in (ordinary, spoilt))
    assume(clean.std() > 0)
    assert np.abs(found).max() < 30
    assert found.std() > 0.2


def test_beyond_the_fences_order_is_kept_until_half_a_width():
    x = np.linspace(-10, 10, 201)
    near = squash(x, -1.0, 1.0)
    inside = np.abs(x) <= 1
    np.testing.assert_array_equal(near[inside], x[inside])
    assert (np.diff(near) >= 0).all()
    assert np.abs(near).max() == 2.0


@pytest.mark.parametrize("make", [np.asarray, csr_matrix], ids=["dense", "sparse"])
def test_a_wild_cell_hardly_moves_the_features_of_other_rows(make):
    X = np.random.default_rng(0).normal(size=(1000, 3)) * (np.arange(3000).reshape(-1, 3) % 5 == 0)
    wild = X.copy()
    wild[0] = 1e300
    clean, spoilt = (TableEncoder().fit_transform(make(one)) for one in (X, wild))
    rows = slice(1, None)
    clean, spoilt = (
        one[rows] if make is np.asarray else one[rows].toarray() for one in (clean, spoilt)
    )
    np.testing.assert_allclose(spoilt, clean, rtol=0.3, atol=0.3)


def test_cells_far_beyond_training_are_counted_by_column():
    X = np.random.default_rng(0).normal(size=(100, 2))
    encoder, watch = TableEncoder().fit(X), Watch()
    encoder.transform(np.array([[999.0, 0.0], [0.0, 0.0], [-999.0, np.nan]]), watch)
    assert watch.far == {0: 2, 1: 0}
    with pytest.warns(ColumnWarning, match=r"far beyond the training range.*2 in 'x0'"):
        encoder.warn(watch)


def test_a_column_that_is_suddenly_missing_is_noticed():
    X = np.random.default_rng(0).normal(size=(100, 2))
    encoder, watch = TableEncoder().fit(X), Watch()
    X[:60, 1] = np.nan
    encoder.transform(X, watch)
    with pytest.warns(ColumnWarning, match=r"Most cells are missing.*60 in 'x1'"):
        encoder.warn(watch)
    encoder, watch = TableEncoder().fit(X), Watch()
    encoder.transform(X, watch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.warn(watch)


def test_files_without_bounds_answer_as_before():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    state = TableEncoder().fit(X).to_state()
    del state["numbers"]["bounds"], state["numbers"]["far"], state["numbers"]["absent"]
    encoder = TableEncoder.from_state(state)
    assert encoder.transform([[1001.5]]).tolist() == [[float(np.float32(1000 / np.std(X)))]]


@given(
    st.lists(
        st.one_of(st.sampled_from([0.0, 1.0, NAN]), st.floats(-1e300, 1e300)),
        min_size=1,
        max_size=60,
    )
)
def test_fences_lie_around_quantiles_that_leave_most_cells_inside(values):
    cells = np.array(values)
    low, high = find_fences(cells)
    present = cells[~np.isnan(cells)] / 2
    usual = np.median(present) if len(present) else 0.0
    for rest in (present, present[present != usual]):
        for level in FENCE_LEVELS if len(rest) else ():
            ends = np.quantile(rest, (level, 1 - level), method="inverted_cdf")
            first, last = min(ends[0], usual), max(ends[1], usual)
            with np.errstate(over="ignore"):
                reach = FENCE * (last - first)
                inside = ((rest >= first - reach) & (rest <= last + reach)).mean()
                if reach > 0 and inside >= MIN_INSIDE:
                    assert (low, high) == (2 * (first - reach), 2 * (last + reach))
                    return
    assert (low, high) == (-np.inf, np.inf)
