"""Means of the target by level: right, and without a leak."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from nrs import NRSClassifier, NRSRegressor, Table
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.level_means import LevelSums
from nrs.tabular.encode.table import read_table
from nrs.tabular.forest.folds import Folds
from nrs.tabular.targets import ClassTarget, MultilabelTarget, RegressionTarget

QUICK = {"preset": "fast", "random_state": 0, "verbose": 0}


def many_levels(n=1000, n_levels=80, seed=0, effect=2.0):
    """A column whose levels decide, one number, and missing cells."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, n_levels, n)
    strength = np.random.default_rng(7).normal(0, effect, n_levels)
    x = rng.normal(size=n)
    frame = pd.DataFrame({"store": [f"s{k:03d}" for k in level], "x": x})
    frame.loc[rng.random(n) < 0.02, "store"] = None
    return frame, strength[level] + 0.5 * x + rng.logistic(size=n)


def sums_of(encoder, target, y, n_folds=8):
    return LevelSums(encoder, target, Folds(n_folds), target.frequency(y, np.ones(len(y))))


def encode(frame, y, folds, target, weight=None, n_folds=8):
    table = read_table(frame)
    encoder = TableEncoder().fit(table)
    sums = sums_of(encoder, target, target.encode(y), n_folds)
    sums.add(table, target.encode(y), weight, folds)
    encoder = encoder.with_means(sums.means())
    return encoder, encoder.transform(table, folds=folds)[:, encoder.variants_ >= 0]


def test_a_feature_is_the_mean_of_the_level_without_two_folds():
    frame, y = many_levels()
    rng = np.random.default_rng(1)
    folds, weight = rng.integers(0, 8, len(y)), rng.uniform(0.5, 2, len(y))
    target = RegressionTarget.of(y)
    encoder, found = encode(frame, y, folds, target, weight)
    means, z = encoder.encoders[0].means, target.encode(y)[:, 0]
    store = frame["store"].fillna("missing").to_numpy()
    for row in range(0, len(y), 50):
        for k in range(8):
            left = (store == store[row]) & (folds != folds[row]) & (folds != k)
            drawn = (weight[left] * (z[left] - means.mean[0])).sum()
            expected = drawn / (weight[left].sum() + means.prior) / means.scale[0]
            assert found[row, k] == pytest.approx(expected, abs=1e-5)
    # A new row has the mean without one fold, and an unseen level that of all rows.
    new = encoder.transform(frame.iloc[:1])[0, encoder.variants_ >= 0]
    left = (store == store[0]) & (folds != 3)
    drawn = (weight[left] * (z[left] - means.mean[0])).sum()
    assert new[3] == pytest.approx(
        drawn / (weight[left].sum() + means.prior) / means.scale[0], abs=1e-5
    )
    unseen = encoder.transform(pd.DataFrame({"store": ["other"], "x": [0.0]}))
    assert (unseen[0, encoder.variants_ >= 0] == 0).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.integers(0, 10_000))
def test_no_row_tells_of_its_own_target(row, seed):
    frame, y = many_levels()
    # Another stream than that of the levels, which would be those of the folds.
    folds = np.random.default_rng([seed, 1]).integers(0, 8, len(y))
    labels = (y > 0).astype(int)
    target = ClassTarget(np.arange(2))
    encoder, before = encode(frame, labels, folds, target)
    labels[row] = 1 - labels[row]
    other, after = encode(frame, labels, folds, target)
    # The prior and the scale are of all rows: put back, nothing of the row's fold has changed.
    first, second = (one.encoders[0].means for one in (encoder, other))
    second.mean, second.prior, second.scale = first.mean, first.prior, first.scale
    after = other.transform(frame, folds=folds)[:, other.variants_ >= 0]
    np.testing.assert_allclose(after[folds == folds[row]], before[folds == folds[row]], atol=1e-6)
    # Nor have the features of members that do not see the fold.
    k = folds[row]
    np.testing.assert_allclose(after[:, k], before[:, k], atol=1e-6)


def test_the_sums_of_parts_are_those_of_the_whole():
    frame, y = many_levels()
    folds = np.arange(len(y)) % 8
    target = RegressionTarget.of(y)
    encoder = TableEncoder().fit(frame)
    z = target.encode(y)
    whole, merged, *parts = (sums_of(encoder, target, z) for _ in range(4))
    whole.add(read_table(frame), z, None, folds)
    for part, rows in zip(parts, (slice(0, 300), slice(300, None)), strict=True):
        part.add(read_table(frame.iloc[rows]), z[rows], None, folds[rows])
    merged.restore(parts[0].arrays() + parts[1].arrays())
    np.testing.assert_allclose(merged.arrays(), whole.arrays())
    assert merged.means().keys() == whole.means().keys() == {0}


def test_only_columns_of_many_frequent_levels_have_means():
    frame, y = many_levels()
    target, folds = RegressionTarget.of(y), np.arange(len(y)) % 8
    few = frame.assign(store=frame["store"].str[:3])
    ids = frame.assign(store=[f"id{k // 2}" for k in range(len(y))])
    for table in (few, ids):
        assert encode(table, y, folds, target)[1].shape[1] == 0
    # Two folds are too few.
    halves = NRSRegressor(**QUICK).fit(frame, y, groups=np.arange(len(y)) % 2)
    assert (halves.encoder_.variants_ < 0).all()
    noise = np.random.default_rng(3).permutation(y)
    equal = frame.assign(store=[f"s{k % 80}" for k in range(len(y))])
    assert encode(equal, y, folds, target)[1].shape[1] in (0, 8)
    assert encode(frame, noise, folds, target)[1].shape[1] in (0, 8)


@pytest.mark.parametrize("kind", ["many classes", "labels", "numbers"])
def test_several_outputs_have_means_each(kind):
    frame, y = many_levels(2000)
    folds = np.arange(len(y)) % 8
    if kind == "many classes":
        labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, 13)[1:-1]))
        target, width = ClassTarget(np.arange(12)), 8
    elif kind == "labels":
        labels = np.column_stack([y > 0, y > 1]).astype(int)
        target, width = MultilabelTarget(2), 2
    else:
        labels = np.column_stack([y, -y, np.zeros(len(y))])
        target, width = RegressionTarget.of(labels), 2
    encoder, found = encode(frame, labels, folds, target)
    assert found.shape[1] == 8 * width
    assert np.bincount(encoder.variants_[encoder.variants_ >= 0]).tolist() == [width] * 8
    assert np.isfinite(found).all()


def test_a_forest_learns_what_levels_say_and_out_of_bag_scores_are_honest():
    frame, y = many_levels(3000, 150)
    new, truth = many_levels(20_000, 150, seed=1)
    model = NRSClassifier(**QUICK).fit(frame, y > 0)
    score = roc_auc_score(truth > 0, model.predict_proba(new)[:, 1])
    blind = NRSClassifier(**QUICK).fit(frame[["x"]], y > 0)
    assert score > roc_auc_score(truth > 0, blind.predict_proba(new[["x"]])[:, 1]) + 0.1
    assert roc_auc_score(y > 0, model.oob_decision_function_[:, 1]) < score + 0.02
    # Of labels that are noise, out-of-bag rows are not predicted.
    noise = np.random.default_rng(0).random(len(y)) > 0.5
    model = NRSClassifier(**QUICK).fit(frame, noise)
    assert abs(roc_auc_score(noise, model.oob_decision_function_[:, 1]) - 0.5) < 0.05


def test_files_streams_and_workers_have_the_same_means(tmp_path):
    frame, y = many_levels(1500)
    settings = QUICK | {"epochs": 2}
    model = NRSRegressor(**settings).fit(frame, y)
    assert "store (target mean)" in model.encoder_.feature_names_out_
    model.save(tmp_path / "m")
    new, _ = many_levels(200, seed=2)
    loaded = NRSRegressor.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    helped = NRSRegressor(**settings, n_workers=2).fit(frame, y)
    np.testing.assert_array_equal(helped.predict(new), model.predict(new))
    pq.write_table(
        pa.Table.from_pandas(frame.assign(y=y), preserve_index=False),
        tmp_path / "rows.parquet",
        row_group_size=400,
    )
    streamed = NRSRegressor(**settings).fit(Table(tmp_path / "rows.parquet", target="y"))
    means, of_memory = (m.encoder_.encoders[0].means for m in (streamed, model))
    shape = (len(means.places), 8, 2)
    np.testing.assert_allclose(
        np.reshape(means.sums, shape).sum(1), np.reshape(of_memory.sums, shape).sum(1), rtol=1e-5
    )
    assert np.corrcoef(streamed.predict(new), model.predict(new))[0, 1] > 0.9


def test_an_onnx_file_has_the_same_means(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    frame, y = many_levels(1500)
    model = NRSClassifier(**QUICK | {"epochs": 2}).fit(frame, y > 0)
    model.to_onnx(tmp_path / "m.onnx")
    new, _ = many_levels(200, seed=2)
    new.loc[0, "store"] = "never seen"
    cells = {"store": new["store"].fillna("").to_numpy(dtype=object), "x": new["x"].to_numpy()}
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    _, found = session.run(None, {name: values[:, None] for name, values in cells.items()})
    np.testing.assert_allclose(found, model.predict_proba(new), atol=1e-5)
    assert model.feature_importances_[0] > 0.6


def test_levels_in_one_fold_have_no_mean():
    # As where groups are levels: training rows would all read 0, and new rows something else.
    frame, y = many_levels()
    frame["store"] = frame["store"].fillna("none")
    model = NRSRegressor(**QUICK | {"epochs": 1}).fit(frame, y, groups=frame["store"])
    assert (model.encoder_.variants_ < 0).all()
    # Of levels of both kinds, only the others.
    target, folds = RegressionTarget.of(y), np.arange(len(y)) % 8
    alone = frame["store"].isin(["s001", "s002"]).to_numpy()
    folds[alone] = 3
    encoder, found = encode(frame, y, folds, target)
    one = encoder.encoders[0]
    assert len(one.means.places) == len(one.levels) - 2
    assert (found[alone] == 0).all()
    assert (encoder.transform(frame[alone])[:, encoder.variants_ >= 0] == 0).all()


def test_a_row_that_outweighs_all_others_leaves_a_model_that_loads(tmp_path):
    frame, y = many_levels()
    weight = np.ones(len(y))
    weight[1] = 1e30
    model = NRSRegressor(**QUICK | {"epochs": 1}).fit(frame, y, sample_weight=weight)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(
        NRSRegressor.load(tmp_path / "m").predict(frame), model.predict(frame)
    )


def test_sums_are_bounded_whatever_the_classes_and_columns(monkeypatch):
    frame, y = many_levels(2000)
    frame = frame.assign(other=frame["store"].to_numpy()[::-1])
    ranks = np.argsort(np.argsort(y)) // 4
    target = ClassTarget(np.arange(500))
    encoder = TableEncoder().fit(frame)
    sums = sums_of(encoder, target, ranks)
    assert {one.shape for one in sums.sums.values()} == {(81, 8, 9)}
    sums.add(read_table(frame), ranks, None, np.arange(len(y)) % 8)
    monkeypatch.setattr("nrs.tabular.encode.level_means.MAX_SUMS", 2 * 20 * 8 * 9)
    few = sums_of(encoder, target, ranks)
    # The most frequent levels, and what is missing.
    assert {one.shape for one in few.sums.values()} == {(21, 8, 9)}


def test_the_most_frequent_classes_have_means():
    y = np.repeat(np.arange(10), np.arange(1, 11))
    frame = pd.DataFrame({"a": ["x"] * len(y)})
    sums = sums_of(TableEncoder().fit(frame), ClassTarget(np.arange(10)), y)
    assert sums.outputs.tolist() == list(range(2, 10))


def test_features_of_other_members_do_not_count():
    frame, y = many_levels(1500)
    model = NRSRegressor(**QUICK | {"epochs": 1, "n_mul": 1}).fit(frame, y)
    encoder = model.encoder_
    assert encoder.n_features_read_ == encoder.n_features_out_ - 7
    assert model.recipe_.subspaces == encoder.n_features_read_
