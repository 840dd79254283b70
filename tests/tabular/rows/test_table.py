"""One pass over files counts what a fit in memory learns; weights and groups as in memory."""

import itertools

import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import nrs
from nrs import NRSClassifier, NRSRegressor
from nrs.datasets.table_file_errors import TableFileError
from nrs.tabular.encode import category
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.number import moments
from nrs.tabular.encode.statistics import TableStatistics
from nrs.tabular.encode.table import read_table
from nrs.tabular.forest.folds import Folds
from nrs.tabular.rows.sample import RowSample
from nrs.tabular.rows.table import TableSource
from tests.tabular.mixed import mixed_table

QUICK = {"preset": "fast", "n_mul": 2, "hidden": 16, "epochs": 2, "random_state": 0, "verbose": 0}
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
    learned = TableSource.of(table, declared).encoder(declared, scale)
    known = TableEncoder(declared, scale).fit(whole.select(table.columns))
    assert _close(learned.to_state(), known.to_state())
    assert learned.feature_names_out_.tolist() == known.feature_names_out_.tolist()
    rows = whole.select(table.columns)
    assert np.allclose(learned.transform(rows), known.transform(rows), atol=1e-5)
    again = TableEncoder.from_state(learned.to_state())
    assert np.array_equal(again.transform(rows), learned.transform(rows))


def test_what_four_processes_count_is_what_one_counts(mixed):
    table, _ = mixed
    one = TableSource.of(table, DECLARED)
    parts = [TableSource(table, DECLARED) for _ in range(4)]
    for rank, part in enumerate(parts):
        part.survey(rank, 4)
    merged = TableSource(table, DECLARED)
    merged.merge([part.packed() for part in parts])
    assert (merged.n_rows, merged.labels.counts) == (one.n_rows, one.labels.counts)
    assert merged.sample.rows.equals(one.sample.rows)
    assert [column.summary() for _, column in merged.statistics.columns] == [
        column.summary() for _, column in one.statistics.columns
    ]
    assert _close(*(source.encoder(DECLARED, "standard").to_state() for source in (one, merged)))


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
def test_however_rows_are_cut_the_merged_statistics_are_the_same(rows, cuts):
    def counted(start, stop):
        statistics = TableStatistics(["x", "c", "y"], ["number", "category", "number"])
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


@pytest.mark.parametrize("shift", [0.0, 1e9, 1e300])
def test_moments_merge_at_any_magnitude(shift):
    values = np.random.default_rng(0).normal(size=(5000, 2)) * max(1.0, shift * 1e-3) + shift

    def of(part):
        return moments(lambda: iter([(0, part)]), 2)

    one, merged = of(values), of(values[:7])
    for part in np.array_split(values[7:], 40):
        merged = merged.merge(of(part))
    assert np.allclose(merged.mean, one.mean, rtol=1e-12)
    assert np.allclose(merged.std, one.std, rtol=1e-9)


def test_rows_without_a_target_are_left_out_and_counted(tmp_path):
    rows = pyarrow.table({"x": [1.0, 2.0, 3.0, 50.0], "y": [0.5, None, 1.5, np.nan]})
    parquet.write_table(rows, tmp_path / "a.parquet")
    source = TableSource.of(nrs.Table(tmp_path, "y"))
    assert (source.n_rows, source.unlabelled) == (2, 2)
    target = source.regression()
    assert (target.mean.tolist(), target.std.tolist()) == ([1.0], [0.5])
    assert source.encoder(None, "standard").numbers.center.tolist() == [2.0]


def test_targets_that_cannot_be_used(tmp_path):
    columns = {"x": [1.0, 2.0], "fraction": [0.5, 1.5], "text": ["a", "b"]}
    dates = pyarrow.array(np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"))
    parquet.write_table(pyarrow.table(columns | {"day": dates}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"fractions. Use NRSRegressor"):
        TableSource.of(nrs.Table(tmp_path, "fraction")).classification()
    with pytest.raises(ValueError, match="Use NRSClassifier"):
        TableSource.of(nrs.Table(tmp_path, "text")).regression()
    with pytest.raises(ValueError, match="'day' holds a date"):
        TableSource(nrs.Table(tmp_path, "day"))
    with pytest.raises(ValueError, match="needs a target"):
        TableSource(nrs.Table(tmp_path))


def test_a_column_that_tells_rows_apart_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(category, "MAX_LEVELS", 50)
    rows = pyarrow.table({"id": [f"row {k}" for k in range(60)], "y": [0, 1] * 30})
    parquet.write_table(rows, tmp_path / "a.parquet", row_group_size=30)
    with pytest.raises(TableFileError, match=r"a.parquet.*'id'.* at most 50 .*looks like an ID"):
        TableSource.of(nrs.Table(tmp_path, "y"))


def test_an_infinite_value_is_named_with_its_file(tmp_path):
    parquet.write_table(pyarrow.table({"x": [1.0, np.inf], "y": [0, 1]}), tmp_path / "a.parquet")
    with pytest.raises(TableFileError, match=r"a.parquet, rows from 0 on: column 'x' holds an inf"):
        TableSource.of(nrs.Table(tmp_path, "y"))


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
    folds = Folds(8, seed=3).of(places)
    assert np.bincount(folds).min() > 1800
    assert np.array_equal(Folds(8, seed=3).of(places[777:900]), folds[777:900])
    assert not np.array_equal(Folds(8, seed=4).of(places), folds)


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
    source = TableSource.of(nrs.Table(tmp_path, "y"))
    number, text = (column for _, column in source.statistics.columns)
    assert text.counts == {"x": 12, "y": 6, "z": 6}
    found = number.moments
    assert (found.missing[0], found.seen[0], found.mean[0]) == (8, 16, 3.5)
    assert source.sample.rows.num_rows == 24


# Weights and groups.


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """Rows in files with a column of weights and one of groups, and the same in memory."""
    folder = tmp_path_factory.mktemp("weighted")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 4)), columns=list("abcd"))
    frame["answer"] = np.where(frame["a"] + rng.normal(size=600) > 0, "yes", "no")
    frame["number"] = frame["a"] + rng.normal(size=600)
    frame["weight"] = rng.integers(0, 4, 600).astype(float)
    frame["patient"] = [f"p{k}" for k in rng.integers(0, 40, 600)]
    for k in range(2):
        part = pyarrow.Table.from_pandas(frame[300 * k : 300 * k + 300], preserve_index=False)
        parquet.write_table(part, folder / f"{k}.parquet", row_group_size=70)
    return folder, frame


def _table(folder, target):
    return nrs.Table(folder, target, columns=[*"abcd", "weight"])


def test_weights_are_a_column_or_one_number_per_row(weighted):
    folder, frame = weighted
    named = nrs.Table(folder, "answer", columns=[*"abcd", "weight", "patient"])
    by_name = NRSClassifier(**QUICK).fit(named, sample_weight="weight", groups="patient")
    assert by_name.feature_names_in_.tolist() == list("abcd")
    plain = nrs.Table(folder, "answer", columns=list("abcd"))
    by_row = NRSClassifier(**QUICK).fit(
        plain, sample_weight=frame["weight"].to_numpy(), groups=frame["patient"].to_numpy()
    )
    np.testing.assert_array_equal(by_name.predict_proba(plain), by_row.predict_proba(plain))
    assert by_name.oob_score_ == by_row.oob_score_
    doubled = NRSClassifier(**QUICK).fit(
        plain, sample_weight=2 * frame["weight"].to_numpy(), groups=frame["patient"].to_numpy()
    )
    np.testing.assert_allclose(doubled.predict_proba(plain), by_row.predict_proba(plain), atol=1e-5)


def test_rows_of_weight_zero_are_as_if_they_were_not_there(weighted):
    folder, frame = weighted
    target = TableSource.of(_table(folder, "number"), sample_weight="weight").regression()
    counting = frame.loc[frame["weight"] > 0, "number"]
    np.testing.assert_allclose(
        [target.mean[0], target.std[0]], [counting.mean(), counting.std(ddof=0)]
    )
    model = NRSRegressor(**QUICK).fit(_table(folder, "number"), sample_weight="weight")
    rows = frame.iloc[_numbers(model.oob_rows_)]
    errors = np.abs(rows["number"] - model.oob_prediction_)[rows["weight"].to_numpy() > 0]
    low, high = model.predict_interval(rows[list("abcd")], 0.9999)
    # The widest interval is that of the largest error among rows that have a weight.
    np.testing.assert_allclose((high - low) / 2, errors.max(), rtol=1e-5)


def test_out_of_bag_scores_count_rows_by_their_weight(weighted):
    folder, frame = weighted
    model = NRSClassifier(**QUICK).fit(_table(folder, "answer"), sample_weight="weight")
    rows = frame.iloc[_numbers(model.oob_rows_)]
    right = model.classes_[model.oob_decision_function_.argmax(1)] == rows["answer"]
    weights = rows["weight"].to_numpy()
    repeated = np.repeat(right.to_numpy(), weights.astype(int))
    assert model.oob_score_ == pytest.approx(repeated.mean(), abs=1e-5)


def test_classes_weigh_alike_however_their_rows_are_weighted(weighted):
    folder, frame = weighted
    source = TableSource.of(
        _table(folder, "answer"), sample_weight="weight", class_weight="balanced"
    )
    classes, scale = source.weighting(source.classification())
    weights = classes[(frame["answer"] == "yes").astype(int)] * frame["weight"] * scale
    assert weights.mean() == pytest.approx(1, rel=1e-6)


def test_rows_of_a_group_share_a_fold_wherever_they_are(weighted):
    folder, frame = weighted
    for groups in ("patient", frame["patient"].to_numpy(), frame["patient"] == "p7"):
        table = nrs.Table(folder, "answer", columns=[*"abcd", "patient"])
        source = TableSource.of(table, groups=groups)
        recipe = NRSClassifier(**QUICK).resolve(600, 4)
        folds = source.split(recipe, 3, spare=False)
        assert folds.n_folds == min(8, len(source.keys))
        batch, places = source.kept()
        numbers = folds.of(source.groups_of(batch, places))
        names = np.asarray(frame["patient"] if isinstance(groups, str) else groups)
        for name in np.unique(names):
            assert len(set(numbers[names[_numbers(places)] == name])) == 1
        assert len(set(numbers)) == folds.n_folds


def _numbers(places):
    return (places >> 40) * 300 + (places & (2**40 - 1))
