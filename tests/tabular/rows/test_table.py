"""Rows in files: one pass counts what a fit in memory learns, and a fit is like one in memory."""

import logging

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

import nrs
from nrs import NRSClassifier, NRSRegressor
from nrs.datasets.table_file_errors import TableFileError
from nrs.tabular.encode import category
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.number import moments
from nrs.tabular.forest.folds import NO_FOLDS
from nrs.tabular.rows import stream
from nrs.tabular.rows.table import TableSource
from tests.tabular.mixed import mixed_table
from tests.tabular.table_files import write_parts

QUICK = {"preset": "fast", "n_mul": 2, "hidden": 16, "epochs": 2, "random_state": 0, "verbose": 0}
SHORT = {"preset": "fast", "epochs": 4, "random_state": 0, "verbose": 0, "n_mul": 1}
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
    source = TableSource.of(table, declared)
    learned = source.encoder(declared, scale, source.classification(), NO_FOLDS)
    known = TableEncoder(declared, scale).fit(whole.select(table.columns))
    assert _close(learned.to_state(), known.to_state())
    assert learned.feature_names_out_.tolist() == known.feature_names_out_.tolist()
    rows = whole.select(table.columns)
    assert np.allclose(learned.transform(rows), known.transform(rows), atol=1e-5)
    again = TableEncoder.from_state(learned.to_state())
    assert np.array_equal(again.transform(rows), learned.transform(rows))


@pytest.mark.parametrize("n", [2, 4])
def test_what_processes_count_is_what_one_counts(mixed, n):
    table, whole = mixed
    one = TableSource.of(table, DECLARED)
    parts = [TableSource(table, DECLARED) for _ in range(n)]
    for rank, part in enumerate(parts):
        part.survey(rank, n)
    merged = TableSource(table, DECLARED)
    merged.merge([part.packed() for part in parts])
    assert merged.n_rows == one.n_rows == 900
    assert merged.labels[0].counts == one.labels[0].counts
    assert merged.labels[0].state() == one.labels[0].state()
    assert merged.sample.rows.equals(one.sample.rows)
    assert [column.summary() for _, column in merged.statistics.columns] == [
        column.summary() for _, column in one.statistics.columns
    ]
    target = one.classification()
    encoders = [source.encoder(DECLARED, "standard", target, NO_FOLDS) for source in (one, merged)]
    assert _close(*(encoder.to_state() for encoder in encoders))
    rows = whole.select(table.columns)
    np.testing.assert_allclose(*(encoder.transform(rows) for encoder in encoders), atol=1e-6)


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
    assert source.encoder(None, "standard", target, NO_FOLDS).numbers.center.tolist() == [2.0]


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


def test_a_column_different_in_every_row_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(category, "MAX_LEVELS", 50)
    rows = pyarrow.table({"id": [f"row {k}" for k in range(60)], "y": [0, 1] * 30})
    parquet.write_table(rows, tmp_path / "a.parquet", row_group_size=30)
    with pytest.raises(TableFileError, match=r"a.parquet.*'id'.* at most 50 .*looks like an ID"):
        TableSource.of(nrs.Table(tmp_path, "y"))


def test_an_infinite_value_is_named_with_its_file(tmp_path):
    parquet.write_table(pyarrow.table({"x": [1.0, np.inf], "y": [0, 1]}), tmp_path / "a.parquet")
    with pytest.raises(TableFileError, match=r"a.parquet, rows from 0 on: column 'x' holds an inf"):
        TableSource.of(nrs.Table(tmp_path, "y"))


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
    _check_widest(model, rows[list("abcd")], errors.max())
    # However far off rows of weight zero are.
    wild = frame["number"] + 100 * (frame["weight"] == 0)
    model = NRSRegressor(**QUICK).fit(frame[list("abcd")], wild, sample_weight=frame["weight"])
    errors = np.abs(wild - model.oob_prediction_)[frame["weight"] > 0]
    assert errors.max() < 10
    _check_widest(model, frame[list("abcd")], errors.max())
    usual = NRSRegressor(**QUICK).fit(
        frame[list("abcd")], frame["number"], sample_weight=frame["weight"]
    )
    found = (one.predict_interval(frame[list("abcd")], 0.9999) for one in (model, usual))
    np.testing.assert_array_equal(*found)


def _check_widest(model, X, largest):
    """The widest interval of usual rows is as wide as the largest error among rows that count.

    But for what all members average away of the error of the few that predict a row out of bag.
    """
    low, high = model.predict_interval(X, 0.9999)
    assert 0.99 * largest < np.median(high - low) / 2 <= largest * (1 + 1e-5)


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
    target = source.classification()
    counts = frame["answer"].value_counts()[target.classes].to_numpy()
    np.testing.assert_allclose(target.class_weights, len(frame) / (2 * counts))
    classes, scale = source.weighting(target)
    weights = classes[(frame["answer"] == "yes").astype(int)] * frame["weight"] * scale
    assert weights.mean() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("n_values", [30, 12_000])
def test_weights_have_mean_one_however_many_values_a_target_has(tmp_path, n_values, monkeypatch):
    monkeypatch.setattr("nrs.tabular.rows.table.MAX_LABELS", 100)
    n = 1_000
    columns = {"a": np.arange(n) * 1.0, "y": np.arange(n) % n_values * 0.5}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=90)
    table = nrs.Table(tmp_path, "y")
    for weights in (np.ones(n), np.arange(n) * 1.0):
        parts = [TableSource(table, weight=weights) for _ in range(3)]
        for rank, part in enumerate(parts):
            part.survey(rank, 3)
        merged = TableSource(table, weight=weights)
        merged.merge([part.packed() for part in parts])
        for source in (TableSource.of(table, sample_weight=weights), merged):
            _, scale = source.weighting(source.regression())
            assert (weights * scale).mean() == pytest.approx(1)


def test_weights_and_groups_are_checked_as_in_memory(weighted):
    folder, frame = weighted
    table = _table(folder, "answer")
    with pytest.raises(ValueError, match="at least one non-zero"):
        NRSClassifier(**QUICK).fit(table, sample_weight=np.zeros(600))
    groups = frame["patient"].to_numpy(dtype=object, copy=True)
    groups[7] = None
    with pytest.raises(ValueError, match="row 7 has none"):
        NRSClassifier(**QUICK).fit(table, groups=groups)


def test_rows_of_a_group_share_a_fold_wherever_they_are(weighted):
    folder, frame = weighted
    for groups in ("patient", frame["patient"].to_numpy(), frame["patient"] == "p7"):
        table = nrs.Table(folder, "answer", columns=[*"abcd", "patient"])
        source = TableSource.of(table, groups=groups)
        recipe = NRSClassifier(**QUICK).resolve(600, 4)
        folds = source.split(recipe, 3, spare=False)
        assert folds.n_folds == min(8, len(source.keys))
        batch, places = source.kept()
        numbers = folds.of(source.keys_of(batch, places))
        names = np.asarray(frame["patient"] if isinstance(groups, str) else groups)
        for name in np.unique(names):
            assert len(set(numbers[names[_numbers(places)] == name])) == 1
        assert len(set(numbers)) == folds.n_folds


# Fits.


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    frame, target = mixed_table(1200)
    frame["target"] = np.where(target, "yes", "no")
    frame["price"] = frame["year"] * 1.5 + target * 9
    folder = tmp_path_factory.mktemp("table") / "rows"
    return folder, write_parts(frame, folder)


@pytest.fixture(scope="module")
def columns(labelled):
    return [name for name in labelled[1].column_names if name not in ("target", "price")]


@pytest.fixture(scope="module")
def fitted(labelled, columns):
    table = nrs.Table(labelled[0], "target", columns=columns)
    return NRSClassifier(**SHORT).set_params(epochs=12).fit(table)


def test_a_streamed_fit_is_as_good_as_one_in_memory(fitted, labelled, columns):
    truth = labelled[1]["target"].to_numpy(zero_copy_only=False)
    memory = NRSClassifier(**SHORT).set_params(epochs=12).fit(labelled[1].select(columns), truth)
    assert abs(fitted.oob_score_ - memory.oob_score_) < 0.06
    assert fitted.oob_score_ > 0.7
    assert fitted.recipe_ == memory.recipe_
    assert fitted.classes_.tolist() == memory.classes_.tolist()
    assert fitted.encoder_.kinds_ == memory.encoder_.kinds_
    assert 0 <= fitted.data_wait_ <= 1
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    # The bins are laid by the quantiles of all rows, here as in memory.
    assert fitted.network_.bins.n_bins == memory.network_.bins.n_bins
    assert len(fitted.oob_decision_function_) == len(fitted.oob_rows_) == 1200


def test_predictions_of_a_table_are_those_of_its_rows(fitted, labelled, columns, tmp_path):
    table = nrs.Table(labelled[0])
    rows = labelled[1].select(columns)
    chances = fitted.predict_proba(rows)
    assert np.array_equal(fitted.predict_proba(table), chances)
    assert np.array_equal(fitted.predict(nrs.Table(labelled[0], "target")), fitted.predict(rows))
    written = fitted.predict_file(
        table, tmp_path / "out.parquet", probabilities=True, keep=["price"]
    )
    out = parquet.read_table(tmp_path / "out.parquet")
    assert written == out.num_rows == 1200
    assert out.column_names == ["price", "prediction", "probability_no", "probability_yes"]
    assert np.array_equal(out["probability_yes"].to_numpy(), chances[:, 1])
    assert out["price"].equals(labelled[1]["price"])
    assert fitted.predict_file(f"{labelled[0]}/*.parquet", tmp_path / "again.csv") == 1200


def test_saved_and_loaded(fitted, labelled, tmp_path):
    fitted.save(tmp_path / "model")
    again = NRSClassifier.load(tmp_path / "model")
    table = nrs.Table(labelled[0])
    assert np.array_equal(again.predict_proba(table), fitted.predict_proba(table))
    with pytest.raises(ValueError, match="must have the column"):
        fitted.predict(table.drop(["age"]))


def test_numbers_are_predicted_too(labelled, columns, monkeypatch):
    # So few rows would be held in memory; a smaller buffer streams them.
    monkeypatch.setattr(stream, "BUFFER_CELLS", 20_000)
    table = nrs.Table(labelled[0], "price", columns=columns)
    model = NRSRegressor(**SHORT).set_params(epochs=10).fit(table)
    truth = labelled[1]["price"].to_numpy()
    assert model.target_.mean[0] == pytest.approx(truth.mean(), rel=1e-12)
    assert model.target_.std[0] == pytest.approx(truth.std(), rel=1e-9)
    assert model.oob_score_ > 0.5
    members = model.member_outputs(table)
    np.testing.assert_array_equal(members, model.member_outputs(labelled[1].select(columns)))
    assert model.predict(table, return_std=True)[1].shape == (1200,)
    low, high = model.predict_interval(table, 0.9)
    assert ((low <= truth) & (truth <= high)).mean() > 0.8
    assert model.predict(table).shape == (1200,)


def test_classes_may_weigh(labelled, columns):
    rows = labelled[1].filter(pyarrow.compute.field("year") < 2000)
    rare = np.where(rows["year"].to_numpy() == 1990, "rare", "usual")
    folder = labelled[0].parent / "rare"
    frame = rows.select(columns).to_pandas().assign(kind=rare)
    write_parts(frame, folder)
    table = nrs.Table(folder, "kind")
    model = NRSClassifier(class_weight="balanced", **SHORT).fit(table)
    plain = NRSClassifier(**SHORT).fit(table)
    chosen = [np.mean(one.predict(table) == "rare") for one in (model, plain)]
    assert chosen[0] > chosen[1]


def test_what_does_not_go_with_a_table(labelled, columns, caplog):
    table = nrs.Table(labelled[0], "target", columns=columns)
    model = NRSClassifier(**SHORT)
    with pytest.raises(ValueError, match=r"y must be left out.*'target'"):
        model.fit(table, np.zeros(1200))
    with pytest.raises(ValueError, match=r"sample_weight must have one entry per row.*\(7,\)"):
        model.fit(table, sample_weight=np.ones(7))
    with pytest.raises(TableFileError, match="nowhere"):
        model.fit(table, sample_weight="nowhere")
    with pytest.raises(ValueError, match=r"weights must be finite and at least 0; got -1"):
        model.fit(table, sample_weight=-np.ones(1200))
    with pytest.raises(ValueError, match="at least 2 different groups"):
        model.fit(table, groups=np.ones(1200))
    with pytest.raises(ValueError, match=r"Table needs a forest.*Use preset='default'"):
        NRSClassifier(preset="single").fit(table)
    with pytest.raises(ValueError, match="Use NRSClassifier"):
        NRSRegressor().fit(table)
    with pytest.raises(ValueError, match=r"nrs.Table where rows in memory"):
        model.partial_fit(table, np.zeros(1200))
    with pytest.raises(ValueError, match="y is None"):
        model.fit(labelled[1].select(columns))


def test_rows_without_a_target_are_logged(tmp_path, caplog):
    frame = pd.DataFrame({"x": np.arange(60.0), "y": ["a", "b", None] * 20})
    write_parts(frame, tmp_path / "rows")
    with caplog.at_level(logging.WARNING, "nrs.tabular"):
        model = NRSClassifier(**SHORT).fit(nrs.Table(tmp_path / "rows", "y"))
    assert "left out 20 rows" in caplog.text
    assert model.classes_.tolist() == ["a", "b"]
    assert len(model.oob_rows_) == 40


def _numbers(places):
    return (places >> 40) * 300 + (places & (2**40 - 1))
