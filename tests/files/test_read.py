"""Labelled tables: columns in a few words; rows in files read like the same rows in memory."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from nrs.files.read import describe_columns, is_streamed, read_labelled, scan_labelled


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng, n = np.random.default_rng(0), 300
    day = np.datetime64("2024-01-01", "us") + np.arange(n).astype("timedelta64[D]")
    table = pyarrow.table(
        {
            "id": [f"flat {k}" for k in range(n)],
            "size": pyarrow.array(rng.normal(60, 20, n), mask=np.arange(n) % 7 == 0),
            "sold": rng.random(n) < 0.25,
            "district": rng.choice(list("abcdefg"), n),
            "joined": day,
            "empty": pyarrow.nulls(n, "string"),
            "nothing": pyarrow.nulls(n, "float64"),
            "rooms": rng.integers(1, 6, n),
            "price": pyarrow.array(rng.normal(size=n), mask=np.arange(n) % 50 == 0),
            "kind": rng.choice(["yes", "no"], n),
            "new": rng.random(n) < 0.5,
        }
    )
    folder = tmp_path_factory.mktemp("table")
    parquet.write_table(table, folder / "rows.parquet", row_group_size=80)
    return folder / "rows.parquet"


@pytest.mark.parametrize("target", ["rooms", "price", "kind", "new"])
@pytest.mark.parametrize("task", ["auto", "classification", "regression"])
def test_streamed_rows_are_read_like_rows_in_memory(path, target, task):
    options = {"task": task, "drop": ["size"], "categorical": ["rooms"] * (target != "rooms")}
    found = []
    for read in (read_labelled, scan_labelled):
        try:
            found.append(read(path, target, **options))
        except ValueError as error:
            found.append(str(error))
    memory, streamed = found
    if isinstance(memory, str):
        assert memory == streamed
        return
    for name in ("target", "task", "why", "n_rows", "unlabelled", "columns", "categorical"):
        assert getattr(memory, name) == getattr(streamed, name), name
    (one,), (other,) = memory.summaries, streamed.summaries
    assert one.describe(memory.task) == other.describe(streamed.task)
    assert one.labels.tolist() == other.labels.tolist()
    # So few rows are all in the sample.
    order = np.argsort(streamed.rows)
    assert np.array_equal(streamed.rows[order], memory.rows)
    assert np.array_equal(streamed.truth[order], memory.truth)
    assert streamed.truth.dtype == memory.truth.dtype


def test_all_columns_are_described(path):
    columns = {one.name: one for one in scan_labelled(path, "kind").columns}
    assert columns["id"].is_identifier
    assert not columns["district"].is_identifier
    assert columns["district"].values.endswith(" and 3 more")
    assert columns["joined"].values == "2024-01-01 … 2024-10-26"
    assert columns["sold"].values.endswith(" % true")
    for name in ("empty", "nothing"):
        assert (columns[name].values, columns[name].missing) == ("nothing", 300)


def test_a_missing_label_is_one_whether_a_file_is_streamed_or_not(tmp_path):
    x = np.arange(20.0)
    labels = np.where(x == 3, np.nan, x % 2)
    path = tmp_path / "rows.parquet"
    parquet.write_table(
        pyarrow.table({"x": x, "y": labels, "z": np.where(x == 5, np.nan, x)}), path
    )
    for read in (read_labelled, scan_labelled):
        found = read(path, "y")
        assert (found.task, found.n_rows, found.unlabelled) == ("classification", 19, 1)
    several = read_labelled(path, ["y", "z"])
    assert (several.n_rows, several.unlabelled) == (18, 2)


def test_very_many_numbers_are_no_classes(tmp_path):
    values = np.arange(10_001)
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": values % 7, "y": values}), path)
    found = scan_labelled(path, "y")
    assert (found.task, found.why) == ("regression", "inferred: very many distinct numbers")
    assert found.summaries[0].describe("regression") == "from 0 to 10000"


def test_several_targets_of_a_stream_are_those_of_memory(tmp_path):
    values = np.arange(60.0)
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"x": values % 7, "low": values, "high": values + 1})
    parquet.write_table(table, path)
    for more in ({}, {"bounds": True}):
        one, other = (f(path, "low,high", **more) for f in (scan_labelled, read_labelled))
        np.testing.assert_array_equal(one.truth, other.truth)
        assert (one.target, one.task, one.why) == (other.target, other.task, other.why)
        assert one.targets == other.targets
    missing = table.set_column(2, "high", [pyarrow.array([None, *values[1:]])])
    parquet.write_table(missing, path)
    for read in (scan_labelled, read_labelled):
        assert read(path, "low,high", bounds=True).truth[0].tolist() == [0, np.inf]
    with pytest.raises(ValueError, match="'high' is missing in 1 rows"):
        scan_labelled(path, "low,high")
    with pytest.raises(ValueError, match=r"two columns, .*; got x, low, high"):
        read_labelled(path, "x,low,high", bounds=True)


def test_which_sources_are_streamed(path):
    assert is_streamed(str(path.parent))
    assert is_streamed(f"{path.parent}/*.parquet")
    assert not is_streamed(str(path))
    assert not is_streamed("-")


def test_a_column_of_distinct_texts_looks_like_an_identifier():
    texts = [f"customer {k}" for k in range(21)]
    described = describe_columns(
        pyarrow.table({"id": texts, "twice": [texts[0], *texts[:-1]], "few": ["a", "b", "c"] * 7})
    )
    assert [one.is_identifier for one in described] == [True, False, False]
    assert described[1].values == "customer 0, customer 1, customer 10, customer 11 and 16 more"
    assert described[2].values == "a, b, c"


def test_numbers_may_be_taken_as_categories():
    table = pyarrow.table({"code": [7, 7, 3, None]})
    assert describe_columns(table)[0].values == "3 … 7"
    (code,) = describe_columns(table, ["code"])
    assert (code.kind, code.values, code.missing) == ("category", "7, 3", 1)


def test_what_cannot_be_read_is_refused(path):
    with pytest.raises(ValueError, match="must have the column 'colour'"):
        read_labelled(path, "kind", drop=["colour"])
    others = ["id", "size", "sold", "district", "joined", "empty", "nothing", "rooms", "price"]
    with pytest.raises(ValueError, match="has no columns left besides the target"):
        read_labelled(path, "kind", drop=[*others, "new"])
    with pytest.raises(ValueError, match="must have the column 'colour'"):
        scan_labelled(path, "kind", categorical=["colour"])
