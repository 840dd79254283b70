"""Whole tables: columns between training and prediction, laws, states, counts, cost."""

import copy
import datetime as dt
import itertools
import json
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from nrs.tabular.encode.column_encoder import ColumnEncoder
from nrs.tabular.encode.encoder import KINDS, TableEncoder, TableStatistics
from nrs.tabular.encode.table import read_table
from tests.tabular.encode.tables import NAN, column, encode, quick, to_objects, two_tables


def test_constant_and_empty_columns_give_no_features_but_stay_required():
    train = np.array([[5.0, 1.0, NAN], [5.0, 2.0, NAN], [5.0, 3.0, NAN]])
    encoder = TableEncoder().fit(train)
    assert encoder.groups_.tolist() == [1]
    assert encoder.transform([[9.0, 2.0, 4.0]]).tolist() == [[0.0]]
    assert encoder.transform([["any", 2.0, "thing"]]).tolist() == [[0.0]]
    with pytest.raises(ValueError, match="X has 1 features, but TableEncoder is expecting 3"):
        encoder.transform([[2.0]])


@pytest.mark.parametrize("train", [[[1.0, "a"]], [[1.0, "a"]] * 3, [[NAN, None]] * 2])
def test_there_is_always_a_feature(train):
    encoder = TableEncoder().fit(train)
    assert encoder.n_features_out_ == 1
    assert encoder.groups_.tolist() == [0]
    assert encoder.transform([[7.0, "b"], [NAN, None]]).tolist() == [[0], [0]]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (column(1, 2), column(3, "x"), r"column 0: it held numbers .* categories \(row 1: 'x'\)"),
        (column(1, 2), column(None, "1_0"), r"row 1: '1_0'"),
        (column(1, 2), column("nan"), r"row 0: 'nan'"),
        (column(1, 2), column("1", "1e999"), r"row 1: '1e999'"),
        (column(1, 2), column(dt.date(2024, 1, 1)), "held numbers .* now holds dates"),
        (column(dt.date(2024, 1, 1), dt.date(2024, 1, 2)), column("2024-01-01"), "held dates"),
        (column(True, False), column("True"), "held booleans .* now holds categories"),
    ],
)
def test_a_column_of_another_kind_is_refused(train, test, message):
    with pytest.raises(ValueError, match=message):
        encode(train, test)


def test_what_can_be_read_as_the_kind_of_training_is():
    assert encode(column(1, 3), column("3", " 1.0 ", "0.2e1", None)) == column(1, -1, 0, 0)
    assert encode(column(0, 2), column(True, None)) == column(0, 0)
    assert encode(column("a", "b", "1"), column(1.0, "2")) == [[1, 0, 0], [0, 0, 0]]
    for train in (column(1, 2), column(True, False), column("a", "b")):
        assert np.isfinite(encode(train, column(None, None))).all()
    dates = column(dt.date(2024, 1, 1), dt.date(2024, 1, 2))
    assert np.isfinite(encode(dates, np.array([[NAN]]))).all()


def test_columns_are_found_by_name():
    pandas = pytest.importorskip("pandas")
    train = pandas.DataFrame({"a": [1.0, 3.0], "b": ["x", "y"], "c": [2.0, 6.0]})
    encoder = TableEncoder().fit(train)
    assert encoder.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        encoder.transform(train[["c", "b", "a"]]), encoder.transform(train)
    )
    with pytest.raises(ValueError, match=r"missing \['b'\], unexpected \['z'\]"):
        encoder.transform(train.rename(columns={"b": "z"}))
    by_position = encoder.transform(train.to_numpy(dtype=object))
    np.testing.assert_array_equal(by_position, encoder.transform(train))
    numbers = TableEncoder().fit(read_table(np.eye(3), feature_names=["a", "b", "c"]))
    swapped = read_table(np.eye(3)[:, [2, 0, 1]], feature_names=["c", "a", "b"])
    np.testing.assert_array_equal(numbers.transform(swapped), numbers.transform(np.eye(3)))


def test_a_refit_forgets_names():
    table = read_table(np.eye(2), feature_names=["a", "b"])
    assert not hasattr(TableEncoder().fit(table).fit(np.eye(2)), "feature_names_in_")


def test_only_the_training_rows_teach():
    rng = np.random.default_rng(0)
    rows = [[float(x), "abc"[int(x * 3)], bool(x > 0.5)] for x in rng.uniform(size=60)]
    rows += [[1e6, "held out", None]] * 5
    for table in (rows, np.array([[row[0], row[2] or 0] for row in rows], dtype=float)):
        learned = TableEncoder().fit(table, rows=np.arange(60))
        assert learned.to_state() == TableEncoder().fit(table[:60]).to_state()
        mask = np.arange(65) < 60
        assert learned.to_state() == TableEncoder().fit(table, rows=mask).to_state()
        assert len(TableEncoder().fit_transform(table, mask)) == 65
    with pytest.raises(ValueError, match="rows is empty"):
        TableEncoder().fit(rows, [])


def test_parameters_are_checked_in_fit():
    with pytest.raises(ValueError, match="scale must be 'standard' or 'none'; got 'max'"):
        TableEncoder(scale="max").fit(np.eye(2))
    with pytest.raises(ValueError, match="max_levels must be an integer of at least 1; got 0"):
        TableEncoder(max_levels=0).fit(np.eye(2))
    with pytest.raises(ValueError, match="categorical_features names 'z'"):
        TableEncoder(categorical_features=["z"]).fit(np.eye(2))
    with pytest.raises(NotFittedError):
        TableEncoder().transform(np.eye(2))
    assert clone(TableEncoder(max_levels=3)).max_levels == 3


@quick
@given(two_tables(), st.sampled_from(["standard", "none"]), st.sampled_from([1, 2, 64]))
def test_any_table_becomes_finite_float32(tables, scale, max_levels):
    train, test = map(to_objects, tables)
    encoder = TableEncoder(scale=scale, max_levels=max_levels).fit(train)
    d = encoder.n_features_out_
    assert d == len(encoder.groups_) == len(encoder.feature_names_out_) >= 1
    assert (np.diff(encoder.groups_) >= 0).all()
    for X in (train, test):
        Z = encoder.transform(X)
        assert Z.shape == (len(X), d)
        assert Z.dtype == np.float32
        assert np.isfinite(Z).all()
    Z = encoder.transform(train)
    if scale == "standard" and encoder.feature_names_out_[0] != "constant":
        # Constant features are left out, up to what float32 and the angles can resolve.
        turning = [" sin)" in name or " cos)" in name for name in encoder.feature_names_out_]
        assert (np.ptp(Z, axis=0)[~np.array(turning)] > 0).all()


@quick
@given(two_tables(), st.sampled_from(["standard", "none"]), st.sampled_from([2, 64]))
def test_state_round_trip_is_equal_to_the_bit(tables, scale, max_levels):
    train, test = map(to_objects, tables)
    encoder = TableEncoder(scale=scale, max_levels=max_levels).fit(train)
    text = json.dumps(encoder.to_state(), allow_nan=False)
    again = TableEncoder.from_state(json.loads(text))
    for other in (again, pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder)):
        np.testing.assert_array_equal(other.transform(test), encoder.transform(test))
        assert other.feature_names_out_.tolist() == encoder.feature_names_out_.tolist()
        assert other.groups_.tolist() == encoder.groups_.tolist()
        assert other.kinds_ == encoder.kinds_
    assert json.dumps(again.to_state()) == text


@quick
@given(two_tables())
def test_a_row_is_encoded_without_its_neighbours(tables):
    train, test = map(to_objects, tables)
    encoder = TableEncoder().fit(train)
    together = encoder.transform(test)
    singly = [encoder.transform(test[row : row + 1])[0] for row in range(len(test))]
    np.testing.assert_array_equal(together, singly)


@quick
@given(two_tables())
def test_every_library_gives_the_same_features(tables):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    train, test = tables
    encoder = TableEncoder().fit(to_objects(train))
    expected = encoder.transform(to_objects(test))
    for make in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        own = TableEncoder().fit(make(train))
        assert own.groups_.tolist() == encoder.groups_.tolist()
        np.testing.assert_allclose(own.transform(make(test)), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(encoder.transform(make(test)), expected)


@quick
@given(two_tables(), two_tables())
def test_another_table_is_encoded_or_refused_in_words(tables, others):
    train, test = to_objects(tables[0]), to_objects(others[1])
    encoder = TableEncoder().fit(train)
    try:
        Z = encoder.transform(test)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
        assert np.isfinite(Z).all()
    if train.shape[1] != test.shape[1]:
        assert "features as input" in message
    elif message:
        assert "when the encoder was fitted" in message


@quick
@given(two_tables(min_columns=2), st.randoms(use_true_random=False))
def test_the_order_of_named_columns_does_not_matter(tables, random):
    train, test = tables
    names = list(train)
    encoder = TableEncoder().fit(read_table(to_objects(train), feature_names=names))
    mixed = random.sample(names, len(names))
    shuffled = read_table(to_objects({name: test[name] for name in mixed}), feature_names=mixed)
    np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(to_objects(test)))


def test_state_of_another_version_is_refused():
    state = TableEncoder().fit(np.eye(2)).to_state()
    with pytest.raises(ValueError, match="version 99"):
        TableEncoder.from_state({**state, "version": 99})


@pytest.mark.parametrize("as_frame", [False, True])
def test_memory_is_the_output_and_little_more(as_frame):
    X = np.random.default_rng(0).normal(size=(200_000, 20)).astype(np.float32)
    table = pytest.importorskip("pandas").DataFrame(X) if as_frame else X
    tracemalloc.start()
    Z = TableEncoder().fit_transform(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < Z.nbytes + 8e6


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_answers_for_a_column_without_features(kind):
    encoder = KINDS[kind]()
    assert isinstance(encoder, ColumnEncoder)
    assert (encoder.features, encoder.neutral) == ([], [])
    assert KINDS[kind](**encoder.state()) == encoder


@quick
@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 1e-300]),
            st.none() | st.sampled_from(["a", "b", "ü"]),
            st.integers(-3, 3),
        ),
        min_size=1,
        max_size=60,
    ),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_however_rows_are_cut_the_merged_statistics_are_the_same(rows, cuts):
    def counted(start, stop):
        statistics = TableStatistics(["x", "c", "y"], ["number", "category", "number"])
        pyarrow = pytest.importorskip("pyarrow")
        if stop > start:
            statistics.add(
                read_table(
                    pyarrow.table(
                        [list(column) for column in zip(*rows[start:stop], strict=True)],
                        schema=pyarrow.schema([("x", "float64"), ("c", "string"), ("y", "int64")]),
                    )
                )
            )
        return statistics

    one = counted(0, len(rows))
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    merged = counted(0, 0)
    for start, stop in itertools.pairwise(edges):
        merged.merge(TableStatistics.from_state(counted(start, stop).state()))
    assert merged.n_rows == one.n_rows
    assert merged.columns[1][1].counts == one.columns[1][1].counts
    assert merged.columns[1][1].missing == one.columns[1][1].missing
    found, known = merged.columns[0][1].moments, one.columns[0][1].moments
    assert found.seen.tolist() == known.seen.tolist()
    for name in ("mean", "std", "low", "high"):
        close = {"rtol": 1e-9, "atol": 1e-9 * _size(rows)}
        assert np.allclose(getattr(found, name), getattr(known, name), **close)
    assert (found.std == 0).tolist() == (known.std == 0).tolist()


def _size(rows):
    return max([abs(row[0]) for row in rows if row[0] is not None], default=0.0)
