"""One pass over files learns what a fit in memory learns, and passes merge into one."""

import itertools
import pickle

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import nrs
from nrs.datasets.table_file_errors import TableFileError
from nrs.tabular.encode import survey as survey_module
from nrs.tabular.encode.column_encoders import moments
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.survey import begin_survey, survey_table
from nrs.tabular.rows.sample import RowSample, hashed_folds
from nrs.tabular.rows.table_fit import make_target
from tests.tabular.mixed import mixed_table

DECLARED = ["year"]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A table with every kind of column in three files, and the same in memory."""
    folder = tmp_path_factory.mktemp("mixed")
    frame, target = mixed_table(900)
    frame["target"] = np.where(target, "yes", "no")
    whole = pyarrow.Table.from_pandas(frame, preserve_index=False)
    whole = whole.append_column("nothing", pyarrow.nulls(900))
    for k in range(3):
        parquet.write_table(whole.slice(300 * k, 300), folder / f"{k}.parquet", row_group_size=90)
    return nrs.Table(folder, "target"), whole


def _close(a, b):
    """Equal but for the last digits of floats."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_close(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, float):
        return a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    return a == b


@pytest.mark.parametrize("declared", [None, DECLARED])
@pytest.mark.parametrize("scale", ["standard", "none"])
def test_the_encoder_is_that_of_a_fit_in_memory(mixed, declared, scale):
    table, whole = mixed
    learned = survey_table(table, declared).encoder(declared, scale)
    known = TableEncoder(declared, scale).fit(whole.select(table.columns))
    assert _close(learned.to_state(), known.to_state())
    assert learned.feature_names_out_.tolist() == known.feature_names_out_.tolist()
    rows = whole.select(table.columns)
    assert np.allclose(learned.transform(rows), known.transform(rows), atol=1e-5)
    again = TableEncoder.from_state(learned.to_state())
    assert np.array_equal(again.transform(rows), learned.transform(rows))


def test_the_surveys_of_processes_merge_into_that_of_one(mixed):
    table, _ = mixed
    one = survey_table(table, DECLARED)
    parts = [survey_table(table, DECLARED, shard=(rank, 4)) for rank in range(4)]
    merged = pickle.loads(pickle.dumps(parts[3]))
    for part in parts[:3]:
        merged = merged.merge(part)
    assert (merged.n_rows, merged.labels) == (one.n_rows, one.labels)
    assert {k: v.counts for k, v in merged.levels.items()} == {
        k: v.counts for k, v in one.levels.items()
    }
    assert merged.sample.rows.equals(one.sample.rows)
    for index, sketch in ((k, v) for k, v in one.sketches.items() if v.n):
        assert np.array_equal(
            merged.sketches[index].quantiles([0, 0.5, 1]), sketch.quantiles([0, 0.5, 1])
        )
    states = [survey.encoder(DECLARED, "standard").to_state() for survey in (one, merged)]
    assert _close(*states)


@settings(deadline=None, max_examples=60)
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
def test_however_rows_are_cut_the_merged_survey_is_the_same(rows, cuts):
    schema = pyarrow.schema([("x", "float64"), ("c", "string"), ("y", "int64")])
    columns = [list(column) for column in zip(*rows, strict=True)]
    batch = pyarrow.record_batch(columns, schema=schema)
    places = np.arange(len(rows))

    def surveyed(start, stop):
        survey = survey_module.Survey(["x", "c"], ["number", "category"], "y", "number")
        if stop > start:
            survey.add(batch.slice(start, stop - start), places[start:stop])
        return survey

    one = surveyed(0, len(rows))
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    merged = surveyed(0, 0)
    for start, stop in itertools.pairwise(edges):
        merged = merged.merge(surveyed(start, stop))
    assert merged.n_rows == one.n_rows
    assert merged.labels == one.labels
    assert merged.levels[1] == one.levels[1]
    assert merged.moments.seen.tolist() == one.moments.seen.tolist()
    assert np.allclose(merged.moments.mean, one.moments.mean, rtol=1e-9, atol=1e-9 * _size(rows))
    assert np.allclose(merged.moments.std, one.moments.std, rtol=1e-9, atol=1e-9 * _size(rows))
    assert (merged.moments.std == 0).tolist() == (one.moments.std == 0).tolist()
    assert merged.sample.rows.equals(one.sample.rows)


def _size(rows):
    return max([abs(row[0]) for row in rows if row[0] is not None], default=0.0)


@pytest.mark.parametrize("shift", [0.0, 1e9, 1e300])
def test_moments_merge_at_any_magnitude(shift):
    values = np.random.default_rng(0).normal(size=(5000, 2)) * max(1.0, shift * 1e-3) + shift

    def of(part):
        return moments(lambda: iter([(0, part)]), 2, lambda row, column: None)

    one, merged = of(values), of(values[:7])
    for part in np.array_split(values[7:], 40):
        merged = merged.merge(of(part))
    assert np.allclose(merged.mean, one.mean, rtol=1e-12)
    assert np.allclose(merged.std, one.std, rtol=1e-9)


def test_rows_without_a_target_are_left_out_and_counted(tmp_path):
    rows = pyarrow.table({"x": [1.0, 2.0, 3.0, 50.0], "y": [0.5, None, 1.5, np.nan]})
    parquet.write_table(rows, tmp_path / "a.parquet")
    survey = survey_table(nrs.Table(tmp_path, "y"))
    assert (survey.n_rows, survey.unlabelled) == (2, 2)
    target = make_target(survey, classes=False)
    assert (target.mean.tolist(), target.std.tolist()) == ([1.0], [0.5])
    assert survey.encoder(None, "standard").numbers.center.tolist() == [2.0]


def test_targets_that_cannot_be_used(tmp_path):
    columns = {"x": [1.0, 2.0], "fraction": [0.5, 1.5], "text": ["a", "b"]}
    dates = pyarrow.array(np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"))
    parquet.write_table(pyarrow.table(columns | {"day": dates}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="fractions; use NRSRegressor"):
        make_target(survey_table(nrs.Table(tmp_path, "fraction")), classes=True)
    with pytest.raises(ValueError, match="use NRSClassifier"):
        make_target(survey_table(nrs.Table(tmp_path, "text")), classes=False)
    with pytest.raises(ValueError, match="'day' holds a date"):
        begin_survey(nrs.Table(tmp_path, "day"))
    with pytest.raises(ValueError, match="needs a target"):
        begin_survey(nrs.Table(tmp_path))


def test_a_column_that_tells_rows_apart_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(survey_module, "MOST_LEVELS", 50)
    rows = pyarrow.table({"id": [f"row {k}" for k in range(60)], "y": [0, 1] * 30})
    parquet.write_table(rows, tmp_path / "a.parquet", row_group_size=30)
    with pytest.raises(TableFileError, match=r"a.parquet.*'id' must have at most 50.*--drop"):
        survey_table(nrs.Table(tmp_path, "y"))


def test_an_infinite_value_is_named_with_its_file(tmp_path):
    parquet.write_table(pyarrow.table({"x": [1.0, np.inf], "y": [0, 1]}), tmp_path / "a.parquet")
    with pytest.raises(TableFileError, match=r"a.parquet, rows from 0 on: column 'x' holds an inf"):
        survey_table(nrs.Table(tmp_path, "y"))


def test_the_sample_is_uniform_and_does_not_depend_on_the_order_of_reading():
    batch = pyarrow.record_batch({"k": np.arange(20_000)})
    forward, backward = RowSample(500), RowSample(500)
    for start in range(0, 20_000, 1000):
        forward.add(batch.slice(start, 1000), np.arange(start, start + 1000))
        back = 19_000 - start
        backward.add(batch.slice(back, 1000), np.arange(back, back + 1000))
    assert forward.rows.equals(backward.rows)
    assert len(forward.rows) == 500
    assert np.array_equal(forward.rows["k"].to_numpy(), forward.places)
    by_quarter = np.bincount(forward.places // 5000)
    assert by_quarter.min() > 80


def test_folds_are_even_and_belong_to_the_row():
    places = np.arange(16_000)
    folds = hashed_folds(places, 8, seed=3)
    assert np.bincount(folds).min() > 1800
    assert np.array_equal(hashed_folds(places[777:900], 8, seed=3), folds[777:900])
    assert not np.array_equal(hashed_folds(places, 8, seed=4), folds)


def test_parts_may_hold_the_same_values_in_other_types(tmp_path):
    numbers, texts = np.arange(8), ["x", "y", "z", "x"] * 2
    types = [
        (pyarrow.int32(), pyarrow.string()),
        (pyarrow.float64(), pyarrow.large_string()),
        (pyarrow.null(), pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
    ]
    for k, (number, text) in enumerate(types):
        a = pyarrow.nulls(8) if number == pyarrow.null() else pyarrow.array(numbers, number)
        rows = {"a": a, "c": pyarrow.array(texts).cast(text), "y": [k, 5] * 4}
        parquet.write_table(pyarrow.table(rows), tmp_path / f"{k}.parquet", row_group_size=3)
    survey = survey_table(nrs.Table(tmp_path, "y"))
    assert survey.levels[1].counts == {"x": 12, "y": 6, "z": 6}
    assert survey.column_moments(0)[:3] == (8.0, 16.0, 3.5)
    assert survey.sample.rows.num_rows == 24
