import datetime as dt
import decimal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from nrs import NRSClassifier, NRSRanker
from nrs.tabular.encode.columns import labels_from_capsule
from nrs.tabular.encode.table import categorical_columns, from_capsule, read_table

NAN = float("nan")


def kinds(table):
    return [table.column(index).kind for index in range(table.n_columns)]


def cells(column):
    """The column as Python values, so that one expectation serves every library."""
    missing = column.missing()
    if column.kind == "category":
        values = [column.levels[code] for code in column.values]
    else:
        values = column.values.tolist()
    return [None if absent else value for absent, value in zip(missing, values, strict=True)]


DATA = {
    "age": [30, 41, None],
    "height": [1.5, None, 2.0],
    "city": ["Rome", None, "Oslo"],
    "member": [True, False, None],
    "joined": [dt.datetime(2024, 1, 31, 12), None, dt.datetime(2023, 7, 1)],
    "stay": [dt.timedelta(hours=1), dt.timedelta(seconds=2.5), None],
    "empty": [None, None, None],
}
EXPECTED_KINDS = ["number", "number", "category", "boolean", "date", "duration", "number"]
EXPECTED_CELLS = {**DATA, "stay": [3600.0, 2.5, None]}


def as_rows(data):
    return [list(row) for row in zip(*data.values(), strict=True)]


def as_pandas(data):
    return pytest.importorskip("pandas").DataFrame(data)


def as_pandas_nullable(data):
    return pytest.importorskip("pandas").DataFrame(data).convert_dtypes()


def as_pandas_object(data):
    return pytest.importorskip("pandas").DataFrame(data, dtype=object)


def as_pandas_arrow(data):
    pytest.importorskip("pyarrow")
    frame = pytest.importorskip("pandas").DataFrame(data)
    return frame.convert_dtypes(dtype_backend="pyarrow")


def as_polars(data):
    return pytest.importorskip("polars").DataFrame(data)


def as_arrow(data):
    return pytest.importorskip("pyarrow").table(data)


def as_arrow_chunks(data):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(data)
    return pyarrow.concat_tables([table.slice(0, 1), table.slice(1)])


def as_arrow_batch(data):
    return pytest.importorskip("pyarrow").table(data).to_batches()[0]


FRAMES = [
    as_pandas,
    as_pandas_nullable,
    as_pandas_object,
    as_pandas_arrow,
    as_polars,
    as_arrow,
    as_arrow_chunks,
    as_arrow_batch,
]


@pytest.mark.parametrize("make", [as_rows, *FRAMES])
def test_every_library_gives_the_same_columns(make):
    table = read_table(make(DATA))
    assert table.shape == (3, 7)
    assert table.names == (None if make is as_rows else list(DATA))
    assert kinds(table) == EXPECTED_KINDS
    for index, name in enumerate(DATA):
        assert cells(table.column(index)) == EXPECTED_CELLS[name], name


@pytest.mark.parametrize("make", [as_rows, *FRAMES])
def test_declared_categories_have_the_same_levels_in_every_library(make):
    table = read_table(make(DATA), categorical_features=[0, 1, 3, 4])
    assert [table.column(index).kind for index in (0, 1, 3, 4)] == ["category"] * 4
    assert cells(table.column(0)) == ["30", "41", None]
    assert cells(table.column(1)) == ["1.5", None, "2"]
    assert cells(table.column(3)) == ["True", "False", None]
    assert cells(table.column(4)) == ["2024-01-31T12:00:00", None, "2023-07-01T00:00:00"]


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32", "float64", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numeric_arrays_are_held_not_copied(dtype, order):
    X = np.arange(12).reshape(4, 3).astype(dtype, order=order)
    table = read_table(X)
    assert table.matrix is X
    assert np.shares_memory(table.column(1).values, X)


def test_a_large_array_is_read_without_memory():
    X = np.ones((200_000, 20), dtype=np.float32)
    tracemalloc.start()
    table = read_table(X)
    table.column(3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 20


def test_dates_with_a_time_zone_are_read_as_utc():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    instant = dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    series = pandas.Series([instant, None]).dt.tz_convert("Europe/Rome")
    frames = [
        [[instant], [None]],
        series.to_frame("when"),
        polars.DataFrame(
            {"when": polars.Series([instant, None], dtype=polars.Datetime("ms", "UTC"))}
        ),
        pyarrow.Table.from_pandas(series.to_frame("when")),
    ]
    for frame in frames:
        assert cells(read_table(frame).column(0)) == [dt.datetime(2024, 7, 1, 10), None]


def test_other_dtypes_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "period": pandas.period_range("2024-01", periods=3, freq="M"),
            "day": pandas.Series([dt.date(2024, 1, 1), None, dt.date(2024, 2, 1)], dtype=object),
            "range": pandas.interval_range(0, 3),
            "codes": pandas.Categorical([2, 1, None], categories=[3, 2, 1]),
            "sparse": pandas.arrays.SparseArray([0.0, 1.0, 0.0]),
        }
    )
    table = read_table(frame)
    assert kinds(table) == ["date", "date", "category", "category", "number"]
    assert cells(table.column(0))[1] == dt.datetime(2024, 2, 1)
    assert cells(table.column(2))[0] == "(0, 1]"
    assert cells(table.column(3)) == ["2", "1", None]
    assert cells(table.column(4)) == [0.0, 1.0, 0.0]


MONEY = [decimal.Decimal("1.5"), None, decimal.Decimal(2)]


def test_other_dtypes_of_polars_and_arrow():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = polars.DataFrame(
        {
            "enum": polars.Series(["b", "a", None], dtype=polars.Enum(["b", "a"])),
            "categorical": polars.Series(["b", "a", None], dtype=polars.Categorical),
            "day": [dt.date(2024, 1, 1), None, dt.date(1900, 1, 1)],
            "money": polars.Series(MONEY, dtype=polars.Decimal(10, 2)),
            "time": [dt.time(1), None, dt.time(2)],
        }
    )
    words = pyarrow.chunked_array(
        [pyarrow.array(["b"]).dictionary_encode(), pyarrow.array(["a", None]).dictionary_encode()]
    )
    arrow = pyarrow.table(
        {
            "enum": words,
            "categorical": pyarrow.array(["b", "a", None], pyarrow.large_string()),
            "day": frame["day"].to_list(),
            "money": pyarrow.array(MONEY),
            "time": frame["time"].to_list(),
        }
    )
    for table in (read_table(frame), read_table(arrow)):
        assert kinds(table) == ["category", "category", "date", "number", "category"]
        assert cells(table.column(0)) == cells(table.column(1)) == ["b", "a", None]
        assert cells(table.column(2)) == [dt.datetime(2024, 1, 1), None, dt.datetime(1900, 1, 1)]
        assert cells(table.column(3)) == [1.5, None, 2.0]


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ([1, 2.5, None], "number", [1.0, 2.5, None]),
        ([decimal.Decimal("0.5"), np.float32(2), NAN], "number", [0.5, 2.0, None]),
        ([True, 3, False], "number", [1.0, 3.0, 0.0]),
        ([True, None, False], "boolean", [1.0, None, 0.0]),
        ([True, NAN, False], "boolean", [1.0, None, 0.0]),
        ([1, "1", 1.0], "category", ["1", "1", "1"]),
        ([1, True, "a"], "category", ["1", "True", "a"]),
        (["a", NAN, None], "category", ["a", None, None]),
        (["", b"x", "x"], "category", ["", "x", "x"]),
        ([dt.date(2024, 1, 1), "on"], "category", ["2024-01-01T00:00:00", "on"]),
        ([np.datetime64("NaT"), dt.date(2024, 1, 1)], "date", [None, dt.datetime(2024, 1, 1)]),
        (["2024-01-01", "2024-01-02", "x"], "category", ["2024-01-01", "2024-01-02", "x"]),
    ],
)
def test_object_columns(column, kind, expected):
    X = np.empty((len(column), 1), dtype=object)
    X[:, 0] = column
    found = read_table(X).column(0)
    assert found.kind == kind
    assert cells(found) == expected


def test_lists_keep_numbers_beside_strings():
    assert kinds(read_table([[1, "a"], [2, "b"]])) == ["number", "category"]


def test_masked_arrays_have_missing_cells():
    X = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    table = read_table(X)
    assert cells(table.column(1)) == [None, 4.0]
    words = np.ma.masked_array([["a"], ["b"]], mask=[[True], [False]])
    assert cells(read_table(words).column(0)) == [None, "b"]


@pytest.mark.parametrize("name", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_sparse_formats_become_csr(name, kind):
    dense = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    table = read_table(getattr(sparse, f"{name}_{kind}")(dense))
    assert table.sparse.format == "csr"
    np.testing.assert_array_equal(table.sparse.toarray(), dense)
    assert cells(table.column(1)) == [2.0, 0.0, 0.0]


def test_repeated_sparse_entries_are_summed_in_a_copy():
    X = sparse.csr_matrix((np.ones(3), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert read_table(X).sparse.nnz == 2
    assert X.nnz == 3


def test_a_pandas_frame_of_sparse_columns_stays_sparse():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame.sparse.from_spmatrix(sparse.eye(3, format="csr"), columns=list("abc"))
    table = read_table(frame)
    assert table.names == ["a", "b", "c"]
    np.testing.assert_array_equal(table.sparse.toarray(), np.eye(3))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "Reshape your data"),
        ([1.0, 2.0], "Reshape your data"),
        (np.float64(1), "Expected 2D array, got scalar array"),
        ({"a": [1]}, "Expected 2D array, got scalar array"),
        (np.ones((2, 2, 2)), "Found array with dim 3"),
        (np.ones((0, 3)), r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.ones((4, 0)), r"0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1 is required."),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        (sparse.eye(3, dtype=complex, format="csr"), "Complex data not supported"),
        ([[1, 2], [3]], "same number of cells"),
    ],
)
def test_shapes_that_are_no_table(X, message):
    with pytest.raises(ValueError, match=message):
        read_table(X)


@pytest.mark.parametrize("cell", [{"a": 1}, [1], (1, 2), {1}, object()])
def test_cells_that_are_no_value(cell):
    X = np.zeros((2, 2), dtype=object)
    X[0, 1] = cell
    with pytest.raises(TypeError, match=r"column 1: argument must be a string or a number"):
        read_table(X).column(1)


def test_nested_frames_are_refused():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for frame in (polars.DataFrame({"a": [[1, 2]]}), pyarrow.table({"a": [[1, 2]]})):
        with pytest.raises(TypeError, match=r"column 'a': argument must be a string or a number"):
            read_table(frame).column(0)


def test_complex_cells_and_integers_beyond_float64_are_refused():
    with pytest.raises(ValueError, match=r"column 0: Complex data not supported"):
        read_table(np.array([[1j], [None]], dtype=object)).column(0)
    with pytest.raises(ValueError, match=r"column 0: .*beyond float64"):
        read_table([[10**400], [None]]).column(0)


@pytest.mark.parametrize("make", FRAMES)
def test_infinity_names_its_column_and_row(make):
    frame = make({"a": [1.0, 2.0, 3.0], "b": [1.0, NAN, -float("inf")]})
    with pytest.raises(ValueError, match=r"column 'b' holds an infinite value \(row 2: -inf\)"):
        read_table(frame).column(1)


def test_a_lazy_frame_is_sent_back():
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"LazyFrame.*\.collect\(\)"):
        read_table(polars.LazyFrame({"a": [1]}))


@pytest.mark.parametrize("X", ["rows.csv", Path("rows.csv")])
def test_a_file_is_named_in_its_own_way(X):
    with pytest.raises(ValueError, match=r"'rows\.csv'; read the file first, or name it with nrs"):
        read_table(X)


def test_repeated_names_are_refused():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frames = [
        pandas.DataFrame(np.eye(3), columns=["a", "b", "a"]),
        pyarrow.Table.from_arrays([pyarrow.array([1])] * 3, names=["a", "b", "a"]),
    ]
    for frame in frames:
        with pytest.raises(ValueError, match=r"repeated: \['a'\]"):
            read_table(frame)
    with pytest.raises(ValueError, match=r"repeated: \['x'\]"):
        read_table(np.eye(2), feature_names=["x", "x"])


def test_names():
    pandas = pytest.importorskip("pandas")
    assert read_table(np.eye(2)).names is None
    assert read_table(pandas.DataFrame(np.eye(2))).names is None
    assert read_table(np.eye(2), feature_names=["a", "b"]).names == ["a", "b"]
    with pytest.raises(ValueError, match="got 3 feature_names for a table of 2 columns"):
        read_table(np.eye(2), feature_names=list("abc"))


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (None, []),
        ("from_dtype", []),
        ([], []),
        (["c", "a"], [0, 2]),
        ([1, -1], [1, 2]),
        (np.array([0]), [0]),
        ([False, True, False], [1]),
        (np.array([True, False, True]), [0, 2]),
    ],
)
def test_categorical_features(features, expected):
    table = read_table(np.eye(3), feature_names=["a", "b", "c"])
    assert sorted(categorical_columns(features, table)) == expected


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["d"], "names 'd'"),
        ([3], "index 3"),
        ([-4], "index -4"),
        ([True, False], "2 entries, but the table has 3 columns"),
        ("a", "must be a list of names"),
        (5, "must be a list of names"),
        ([1.5], "holds 1.5"),
    ],
)
def test_categorical_features_that_do_not_match(features, message):
    table = read_table(np.eye(3), feature_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        categorical_columns(features, table)


def test_categorical_features_of_a_sparse_matrix_are_refused():
    with pytest.raises(ValueError, match="sparse matrix"):
        read_table(sparse.eye(3, format="csr"), categorical_features=[0])


def test_identifiers_beyond_float64_stay_apart():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    data = {"id": [2**62, 2**62 + 1, None]}
    for frame in (
        pandas.DataFrame(data, dtype="Int64"),
        polars.DataFrame(data),
        pyarrow.table(data),
        [[cell] for cell in data["id"]],
    ):
        table = read_table(frame, categorical_features=[0])
        assert cells(table.column(0)) == [str(2**62), str(2**62 + 1), None]


def test_no_frame_library_is_needed():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pandas', 'polars', 'pyarrow'])); "
        "from nrs.tabular.encode.encoder import TableEncoder; "
        "TableEncoder().fit_transform([[1, 'a', None], [2, 'b', True]])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Capsule:
    """A frame of no library we know, which hands out Arrow once."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        table, self.table = self.table, None
        return table.__arrow_c_stream__(requested_schema)


def test_any_frame_that_hands_out_arrow_is_read():
    table = pa.table({"a": [1.0, None], "b": ["x", "y"]})
    for frame in (Capsule(table), table.to_reader()):
        found = read_table(frame)
        assert (found.shape, found.names) == ((2, 2), ["a", "b"])
        assert found.column(1).levels == ("x", "y")
    for known in (table, table.to_pandas(), np.eye(2), [[1]]):
        assert from_capsule(known) is known


def test_models_take_frames_that_hand_out_arrow():
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60)})
    y = table["a"].to_numpy() > 0
    model = NRSClassifier(preset="fast", epochs=2, random_state=0)
    wanted = model.fit(table, y).predict_proba(table)
    model.fit(Capsule(table), Capsule(pa.table({"y": y})))
    assert np.array_equal(model.predict_proba(Capsule(table)), wanted)
    with pytest.raises(ValueError, match=r"names|columns"):
        model.predict(Capsule(table.drop_columns(["b"])))
    queries = table.append_column("query", pa.array(np.repeat(np.arange(6), 10)))
    ranker = NRSRanker(epochs=2, random_state=0)
    wanted = ranker.fit(queries, y * 1, qid="query").predict(table)
    ranker.fit(Capsule(queries), y * 1, qid="query")
    assert np.array_equal(ranker.predict(Capsule(table)), wanted)


def test_several_targets_may_be_a_frame_that_hands_out_arrow():
    both = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert labels_from_capsule(Capsule(both)).tolist() == [[1.0, 3.0], [2.0, 4.0]]
