"""Estimators that are forests: honest out-of-bag scores, members, intervals."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes, make_classification
from sklearn.metrics import accuracy_score, log_loss, r2_score

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.encode.table import read_table

QUICK = {"epochs": 6, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def noisy():
    return make_classification(300, 8, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)


@pytest.fixture(scope="module")
def fitted(noisy):
    return NRSClassifier(random_state=0, verbose=0).fit(*noisy)


def test_out_of_bag_scores_are_honest(noisy, fitted):
    X, y = noisy
    proba = fitted.oob_decision_function_
    assert proba.shape == (300, 3)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert fitted.oob_score_ == pytest.approx(accuracy_score(y, proba.argmax(1)))
    # Training rows flatter; rows that a fifth of the labels are wrong of cannot exceed 0.87 or so.
    assert fitted.score(X, y) > fitted.oob_score_
    assert 0.5 < fitted.oob_score_ < 0.87


def test_labels_without_meaning_are_seen_through():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 6)), rng.integers(2, size=400)
    model = NRSClassifier(**QUICK).fit(X, y)
    assert abs(model.oob_score_ - 0.5) < 0.1


def test_groups_keep_out_of_bag_scores_honest():
    # Rows of a group are near copies with one label: without groups they give it away.
    rng = np.random.default_rng(0)
    centres, labels = rng.normal(size=(40, 5)), rng.integers(2, size=40)
    groups = np.repeat(np.arange(40), 8)
    X = centres[groups] + 0.01 * rng.normal(size=(320, 5))
    few = {"epochs": 30, "random_state": 0, "verbose": 0}
    flattered = NRSClassifier(**few).fit(X, labels[groups]).oob_score_
    honest = NRSClassifier(**few).fit(X, labels[groups], groups=groups).oob_score_
    assert flattered > 0.95
    assert honest < 0.75
    with pytest.raises(ValueError, match="groups need a forest"):
        NRSClassifier(preset="paper").fit(X, labels[groups], groups=groups)
    with pytest.raises(ValueError, match="inconsistent"):
        NRSClassifier(**QUICK).fit(X, labels[groups], groups=groups[:-1])


@pytest.mark.parametrize(("preset", "n_groups"), [("default", 3), ("fast", 2), ("fast", 5)])
def test_few_groups_make_few_folds(noisy, preset, n_groups):
    X, y = noisy
    groups = pd.Series([f"ward {k}" for k in np.arange(300) % n_groups])
    quick = {**QUICK, "preset": preset, "epochs": 2}
    model = NRSClassifier(**quick).fit(X, y, groups=groups)
    assert np.isfinite(model.oob_decision_function_).all()
    other = NRSClassifier(**quick).fit(X, y, groups=(np.arange(300) % n_groups).astype(object))
    np.testing.assert_array_equal(other.oob_decision_function_, model.oob_decision_function_)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(300), "at least 2 different groups; got 1"),
        ([None, *"ab" * 149, "a"], "row 0 has none"),
        (np.r_[np.arange(299.0), np.nan], "row 299 has none"),
        (pd.array([1, pd.NA] * 150, dtype="Int64"), "row 1 has none"),
        (pd.Series(["a", pd.NA] * 150, dtype="string"), "row 1 has none"),
        (np.zeros((300, 2)), "one entry per row"),
    ],
)
def test_groups_that_cannot_be_used(noisy, groups, message):
    with pytest.raises(ValueError, match=message):
        NRSClassifier(**QUICK).fit(*noisy, groups=groups)


def test_the_temperature_lowers_the_out_of_bag_loss(noisy, fitted):
    _, y = noisy
    uncalibrated = fitted.oob_decision_function_ ** fitted.network_.temperature.item()
    uncalibrated /= uncalibrated.sum(1, keepdims=True)
    assert log_loss(y, fitted.oob_decision_function_) <= log_loss(y, uncalibrated) + 1e-6


def test_members_and_their_average(noisy, fitted):
    X, _ = noisy
    each = fitted.member_outputs(X[:10])
    assert each.shape == (16, 10, 3)
    np.testing.assert_allclose(each.sum(2), 1)
    assert each.std(0).max() > 0
    entropy = fitted.predict_entropy(X)
    assert entropy.shape == (300,)
    assert ((entropy >= 0) & (entropy <= 1)).all()
    sure = entropy < np.median(entropy)
    right = fitted.oob_decision_function_.argmax(1) == noisy[1]
    assert right[sure].mean() > right[~sure].mean()
    with pytest.raises(ValueError, match="single network without members"):
        NRSClassifier(preset="single", **QUICK).fit(*noisy).member_outputs(X)


def test_regression_has_spread_and_intervals():
    X, y = load_diabetes(return_X_y=True)
    model = NRSRegressor(random_state=0, verbose=0).fit(X[:300], y[:300])
    assert model.oob_score_ == pytest.approx(r2_score(y[:300], model.oob_prediction_), abs=1e-6)
    predicted, spread = model.predict(X[300:], return_std=True)
    np.testing.assert_allclose(predicted, model.predict(X[300:]), rtol=1e-4)
    assert (spread > 0).all()
    covered = []
    for level in (0.5, 0.9):
        low, high = model.predict_interval(X[300:], level)
        covered.append(((low <= y[300:]) & (y[300:] <= high)).mean())
    assert 0.38 < covered[0] < 0.62
    assert 0.83 < covered[1] < 0.97
    with pytest.raises(ValueError, match=r"between 0 and 1; got 1\.5"):
        model.predict_interval(X, 1.5)
    with pytest.raises(ValueError, match="out-of-bag predictions"):
        NRSRegressor(preset="paper", epochs=1).fit(X, y).predict_interval(X)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_deviations_are_those_of_the_errors(n_targets):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 3))
    y = np.floor(X[:, 0] * 4) + X[:, 1] * 2 + rng.normal(size=600)
    y = y if n_targets == 1 else np.stack([y, -20 * y], 1)
    model = NRSRegressor(epochs=20, random_state=0, verbose=0).fit(X[:300], y[:300])
    predicted, deviation = model.predict(X[300:], return_std=True)
    np.testing.assert_array_equal(predicted, model.predict(X[300:]))
    squares = ((y[300:] - predicted) / deviation) ** 2
    np.testing.assert_allclose(squares.mean(0), 1, atol=0.25)


def test_what_out_of_bag_rows_taught_survives_a_file(tmp_path, noisy, fitted):
    fitted.save(tmp_path / "m.safetensors")
    again = NRSClassifier.load(tmp_path / "m.safetensors")
    assert again.oob_score_ == fitted.oob_score_
    np.testing.assert_array_equal(again.predict_proba(noisy[0]), fitted.predict_proba(noisy[0]))
    X, y = load_diabetes(return_X_y=True)
    model = NRSRegressor(**QUICK).fit(X, y)
    model.save(tmp_path / "r.safetensors")
    loaded = NRSRegressor.load(tmp_path / "r.safetensors")
    for got, expected in zip(loaded.predict_interval(X), model.predict_interval(X), strict=True):
        np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("n_rows", [2, 3, 5, 9, 50])
def test_few_rows(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    model = NRSClassifier(**QUICK).fit(X, np.arange(n_rows) % 2)
    assert model.predict(X).shape == (n_rows,)
    assert hasattr(model, "oob_score_") == (n_rows >= 4)


def test_partial_fit_learns(noisy):
    X, y = noisy
    model = NRSClassifier(preset="fast", random_state=0, verbose=0)
    for _ in range(30):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.8


def test_partial_fit_keeps_what_a_fit_has():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=3_000)
    model, classifier = (kind(**QUICK) for kind in (NRSRegressor, NRSClassifier))
    for part in np.split(np.arange(1_600), 4):
        model.partial_fit(X[part], y[part])
        classifier.partial_fit(X[part], y[part] > 0)
        assert len(model.oob_prediction_) == len(classifier.oob_decision_function_) == len(part)
    low, high = model.predict_interval(X[1_600:], 0.9)
    assert 0.86 < ((low <= y[1_600:]) & (y[1_600:] <= high)).mean() < 0.94
    assert abs(model.oob_score_ - model.score(X[1_600:], y[1_600:])) < 0.06
    assert abs(classifier.oob_score_ - classifier.score(X[1_600:], y[1_600:] > 0)) < 0.06
    assert classifier.network_.temperature != 1
    # Members that the calibration leaves out are trained on.
    assert classifier._progress.model.network.n_members == classifier.recipe_.members


def of_levels(n_rows, levels, seed=0):
    """Rows of some levels, and a target that mostly follows from these."""
    rng = np.random.default_rng(seed)
    level, number = rng.choice(levels, n_rows), rng.normal(size=n_rows)
    effect = dict(zip("abcdef", [-1, 0, 1, 3, -3, 4], strict=True))
    table = pd.DataFrame({"level": level, "number": number})
    return table, number + np.array([effect[one] for one in level])


@pytest.mark.parametrize("kind", [NRSClassifier, NRSRegressor])
@pytest.mark.parametrize("start", ["fit", "partial_fit"])
def test_partial_fit_learns_new_levels(kind, start, tmp_path):
    def part(n_rows, levels, seed):
        table, y = of_levels(n_rows, levels, seed)
        return table, (y > 0 if kind is NRSClassifier else y)

    old, new = part(600, ["a", "b", "c"], 0), part(600, ["d", "e", "f"], 1)
    model = kind(preset="fast", random_state=0, verbose=0, lr=0.02)
    model = getattr(model, start)(*old)
    before, columns = model.score(*new), model.encoder_.n_features_out_
    assert before < 0.8
    for _ in range(4):
        model.partial_fit(*new)
    assert model.encoder_.n_features_out_ == columns + 3
    assert model.score(*new) > 0.9
    assert len(model.feature_importances_) == 2
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = kind.load(path)
    np.testing.assert_array_equal(loaded.predict(new[0]), model.predict(new[0]))
    # What is learned of levels can be trained on, after a file too.
    loaded.partial_fit(*part(300, ["a", "f"], 2))
    assert loaded.encoder_.n_features_out_ == columns + 3


def test_new_levels_change_no_answer_before_they_are_learned():
    old, new = of_levels(400, ["a", "b"]), of_levels(100, ["c", "d"], 1)
    model = NRSRegressor(preset="fast", random_state=0, verbose=0).partial_fit(*old)
    progress = copy.deepcopy(model._progress)
    encoder = progress.take_levels(model.encoder_, read_table(new[0]))
    assert encoder.feature_names_out_.tolist() == ["level=b", "level=c", "level=d", "number"]
    forest, wider = model._progress.model.folded(), progress.model.folded()
    for table, _ in (old, new):
        x, wide = (torch.from_numpy(one.transform(table)) for one in (model.encoder_, encoder))
        torch.testing.assert_close(wider(wide), forest(x))
    # A fit that fails has learned no level.
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(new[0], new[1] * np.nan)
    assert model.encoder_.n_features_out_ == 2


def test_partial_fit_scores_rows_by_members_that_did_not_see_them():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 40)), rng.integers(0, 2, 120)
    model = NRSClassifier(preset="fast", random_state=0, verbose=0, lr=0.03)
    model.partial_fit(X, y)
    progress = model._progress
    # The same pass again, so that members learn the noise by heart, each without its own fold.
    for _ in range(60):
        progress.n_seen = 0
        model.partial_fit(X, y)
        progress = model._progress
    assert model.score(X, y) > 0.9
    assert abs(model.oob_score_ - 0.5) < 0.2
