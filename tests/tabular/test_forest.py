"""The forest: members that check each other."""

import math
import time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, make_classification
from sklearn.metrics import accuracy_score, log_loss, r2_score

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.folds import Folds, count_folds, draw_folds
from nrs.tabular.forest.grow import as_index, draw_subspaces
from nrs.tabular.forest.network import ForestNetwork, forest_loss, out_of_bag
from nrs.tabular.forest.profile import find_edges
from nrs.tabular.model import Pace
from nrs.tabular.recipe import resolve
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import (
    ClassTarget,
    MultilabelTarget,
    RegressionTarget,
    mean_odds,
    mean_probabilities,
    mean_values,
)
from nrs.training import TimeLimit

QUICK = {"epochs": 6, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def noisy():
    return make_classification(300, 8, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)


@pytest.fixture(scope="module")
def fitted(noisy):
    return NRSClassifier(random_state=0, verbose=0).fit(*noisy)


def _network(members=4, features=5, combine=mean_probabilities, hidden=(6,), bins=True, seed=0):
    rng = np.random.default_rng(seed)
    edges = [(j, [-1.0, 0.0, 1.0]) for j in range(features)] if bins else []
    steps = PiecewiseLinear.between(edges)
    parts = [
        np.append(j, features + np.flatnonzero(steps.source.numpy() == j)) for j in range(features)
    ]
    drawn = [draw_subspaces(parts, 7, 2, rng) for _ in range(members)]
    index = torch.from_numpy(as_index(drawn, features + steps.n_bins))
    return ForestNetwork(features, 3, index, steps, hidden=hidden, combine=combine, seed=seed)


# Which inputs are read.


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 12), st.integers(0, 99))
def test_every_column_is_read_by_every_member(columns, subspaces, size, seed):
    parts = [np.array([j]) for j in range(columns)]
    drawn = draw_subspaces(parts, subspaces, size, np.random.default_rng(seed), most_inputs=4)
    assert len(drawn) == subspaces
    read = np.concatenate(drawn)
    if subspaces * size >= columns and size <= 4:
        assert set(read.tolist()) == set(range(columns))
    counts = np.bincount(read, minlength=columns)
    assert counts.max() - counts.min() <= subspaces


@pytest.mark.parametrize("columns", [3, 40, 1000, 20_000])
def test_no_column_is_left_out_however_many_there_are(columns):
    drawn = draw_subspaces(
        [np.array([j]) for j in range(columns)], 128, 9, np.random.default_rng(0)
    )
    assert set(np.concatenate(drawn).tolist()) == set(range(columns))


@pytest.mark.parametrize("preset", ["default", "fast", "best"])
@pytest.mark.parametrize(("texts", "levels"), [(700, 20), (30, 20), (3, 500)])
def test_no_input_of_a_wide_column_is_left_out(preset, texts, levels):
    recipe = resolve(preset, {}, 60, texts * levels + 30)
    widths = [levels] * texts + [1] * 30
    parts = np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])
    for times in {times for _, times in recipe.views}:
        size = max(1, round(recipe.columns * times))
        drawn = draw_subspaces(parts, recipe.subspaces, size, np.random.default_rng(0))
        assert len(drawn) == recipe.subspaces
        assert set(np.concatenate(drawn).tolist()) == set(range(sum(widths)))
        # No larger than the columns that they are made of.
        columns = max(size, math.ceil(len(parts) / recipe.subspaces))
        assert max(map(len, drawn)) <= max(128, columns * levels)


def test_cut_subspaces_that_miss_nothing_stay_as_they_were_drawn():
    parts = [np.arange(20 * j, 20 * j + 20) for j in range(10)]
    drawn = draw_subspaces(parts, 64, 10, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    for _ in range(64):
        rng.permutation(10)
    for inputs in drawn:
        expected = np.sort(rng.choice(np.arange(200), 128, replace=False))
        np.testing.assert_array_equal(inputs, expected)


def test_a_subspace_takes_whole_columns():
    parts = [np.array([0, 1]), np.array([2]), np.array([3, 4, 5])]
    for inputs in draw_subspaces(parts, 30, 1, np.random.default_rng(0)):
        assert inputs.tolist() in ([0, 1], [2], [3, 4, 5])


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=60), st.integers(1, 9))
def test_edges_ascend_and_span_the_values(values, n_bins):
    edges = find_edges(np.array(values, np.float32), n_bins)
    assert len(edges) <= n_bins + 1
    assert (np.diff(edges) > 0).all()
    assert edges[0] == min(values)


def test_bins_tell_values_apart_as_categories_do():
    values = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    bins = PiecewiseLinear.between([(0, find_edges(values[:, 0].numpy(), 8))])
    design = torch.cat([torch.ones(4, 1), bins(values)], 1)
    assert torch.linalg.matrix_rank(design) == 4


# Which rows are held back.


@given(st.integers(4, 60), st.integers(0, 50))
def test_folds_are_equally_large_and_spread_the_classes(n_rows, seed):
    labels = np.random.default_rng(seed).integers(3, size=n_rows)
    n_folds = count_folds(n_rows)
    folds = draw_folds(labels, n_folds, seed)
    sizes = np.bincount(folds, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    for label in range(3):
        held = np.bincount(folds[labels == label], minlength=n_folds)
        assert held.max() - held.min() <= 1


def test_rows_of_a_group_share_a_fold():
    groups = np.random.default_rng(0).integers(30, size=200)
    folds = draw_folds(np.zeros(200), 8, 0, groups)
    for group in np.unique(groups):
        assert len(set(folds[groups == group])) == 1
    assert np.bincount(folds, minlength=8).min() > 10
    with pytest.raises(ValueError, match="at least 8 different groups"):
        draw_folds(np.zeros(20), 8, 0, np.arange(20) % 3)


# The network.


@pytest.mark.parametrize("combine", [mean_probabilities, mean_odds, mean_values])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_members_are_networks_of_their_own(combine, hidden):
    network = _network(combine=combine, hidden=hidden)
    x = torch.randn(9, 5)
    network(torch.randn(50, 5))
    network.eval()
    before = network.members(x).detach()
    with torch.no_grad():
        network.weight[1] += 1.0
        network.out_bias[1] -= 1.0
    changed = (network.members(x) != before).flatten(1).any(1)
    assert changed.tolist() == [False, True, False, False]


@pytest.mark.parametrize("combine", [mean_probabilities, mean_odds, mean_values])
@pytest.mark.parametrize("bins", [True, False])
def test_folding_changes_no_number(combine, bins):
    network = _network(combine=combine, bins=bins)
    for _ in range(3):
        network(torch.randn(40, 5))
    network.eval()
    network.temperature.fill_(1.5)
    x = torch.randn(11, 5)
    folded = network.fold()
    torch.testing.assert_close(folded.members(x), network.members(x))
    torch.testing.assert_close(folded(x), network(x))
    assert not list(folded.parameters())


def test_wide_inputs_keep_their_subspaces():
    rng = np.random.default_rng(0)
    drawn = [draw_subspaces([np.array([j]) for j in range(900)], 100, 9, rng) for _ in range(2)]
    index = torch.from_numpy(as_index(drawn, 900))
    network = ForestNetwork(900, 2, index, PiecewiseLinear.between([]), hidden=(4,))
    network(torch.randn(20, 900))
    folded = network.eval().fold()
    assert folded.wide
    x = torch.randn(7, 900)
    torch.testing.assert_close(folded(x), network(x))


def test_averages_are_those_of_probabilities():
    outputs = torch.randn(4, 3, 6)
    mean = outputs.softmax(1).mean(0).t()
    torch.testing.assert_close(mean_probabilities(outputs).softmax(1), mean)
    mean = outputs.sigmoid().mean(0).t()
    torch.testing.assert_close(mean_odds(outputs).sigmoid(), mean)
    torch.testing.assert_close(mean_values(outputs), outputs.mean(0).t())
    weights = torch.tensor([[1.0], [0.0], [0.0], [0.0]]).expand(4, 6)
    torch.testing.assert_close(mean_probabilities(outputs, weights), outputs[0].log_softmax(0).t())


@pytest.mark.parametrize(
    ("target", "y"),
    [
        (ClassTarget(np.arange(3)), torch.tensor([0, 2, 1, 1, 0, 2])),
        (MultilabelTarget(3), torch.randint(2, (6, 3)).float()),
        (RegressionTarget(np.zeros(3), np.ones(3), single=False), torch.randn(6, 3)),
    ],
)
def test_a_member_learns_nothing_from_its_fold(target, y):
    network = _network(combine=target.combine)
    folds = torch.tensor([0, 1, 0, 1, 0, 1])
    x = torch.randn(6, 5)
    loss = forest_loss(network, (x, y, None, folds), target, Folds(2).sees(4))
    outputs = network.members(x)
    by_hand = []
    for k in range(4):
        seen = folds != k % 2
        by_hand.append(target.loss(outputs[k].t()[seen], y[seen], None))
    torch.testing.assert_close(loss, torch.stack(by_hand).mean())
    # Another label in fold 0 moves only the members that may see fold 0.
    other = y.clone()
    other[0] = 1 if target.kind == "classes" else 1 - y[0]
    loss, again = (
        forest_loss(network, (x, t, None, folds), target, Folds(2).sees(4)) for t in (y, other)
    )
    moved = torch.autograd.grad(loss - again, network.out_bias)[0].abs().flatten(1).sum(1) > 1e-8
    assert moved.tolist() == [False, True, False, True]


def test_out_of_bag_outputs_are_of_members_that_did_not_see_the_row():
    network = _network().eval()
    X = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    folds = np.arange(20) % 2
    outputs = out_of_bag(network, Rows(X, np.zeros(20), folds=folds), Folds(2).sees(4))[0].t()
    every = network.members(torch.from_numpy(X))
    for row in range(20):
        unseen = every[int(folds[row]) :: 2, :, row : row + 1]
        torch.testing.assert_close(outputs[row : row + 1], mean_probabilities(unseen))


# The estimators.


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
def test_the_spread_is_around_the_prediction_where_views_count_differently(n_targets):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 3))
    y = np.floor(X[:, 0] * 4) + X[:, 1] * 2
    y = y if n_targets == 1 else np.stack([y, -2 * y], 1)
    model = NRSRegressor(epochs=20, random_state=0, verbose=0).fit(X, y)
    shares = model.network_.shares.double().numpy()
    assert len(np.unique(shares)) > 1
    predicted, spread = model.predict(X, return_std=True)
    np.testing.assert_array_equal(predicted, model.predict(X))
    squares = (model.member_outputs(X) - predicted) ** 2
    expected = np.sqrt(np.tensordot(shares / shares.sum(), squares, 1))
    np.testing.assert_allclose(spread, expected)


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
    assert not hasattr(model, "oob_score_")


def test_nothing_of_a_former_fit_stays():
    X, y = load_diabetes(return_X_y=True)
    quick = {**QUICK, "preset": "fast", "epochs": 2}
    model = NRSRegressor(**quick).fit(X, y)
    model.partial_fit(X[:100], y[:100])
    assert not hasattr(model, "oob_score_")
    assert not hasattr(model, "oob_prediction_")
    with pytest.raises(ValueError, match="out-of-bag predictions"):
        model.predict_interval(X)
    model.fit(X, y).set_params(preset="single").fit(X, y)
    with pytest.raises(ValueError, match="out-of-bag predictions"):
        model.predict_interval(X)


def test_rows_after_a_fit_go_to_folds_as_if_none_had_come_before_it(noisy):
    X, y = noisy
    quick = {**QUICK, "preset": "fast", "epochs": 2}
    used = NRSClassifier(**quick).partial_fit(X[:5], y[:5], classes=[0, 1, 2])
    models = [model.fit(X, y).partial_fit(X, y) for model in (used, NRSClassifier(**quick))]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))


def test_a_time_limit_is_kept(noisy):
    model = NRSClassifier(epochs=100_000, patience=100_000, time_limit=1.0, random_state=0)
    began = time.monotonic()
    model.fit(*noisy)
    # A busy machine may hold up the last step.
    assert time.monotonic() - began < 3.0
    assert model.history_.stopped_early


def test_a_slow_forest_keeps_time_for_what_follows_training(noisy, monkeypatch):
    # As if a row took a millisecond: 300 rows are scored, 512 of them forth and thrice back.
    X, y = noisy
    slow = Pace(0.001, 10.0)
    monkeypatch.setattr(Pace, "measure", lambda *_: slow)
    seen = []
    monkeypatch.setattr(
        "nrs.tabular.run.TimeLimit",
        lambda seconds, **more: seen.append((seconds, more["evaluation"])) or TimeLimit(seconds),
    )
    NRSClassifier(time_limit=10.0, epochs=2, random_state=0).fit(X, y)
    assert seen == [(pytest.approx(10 - 0.001 * (300 + 512 * 7)), pytest.approx(0.3))]


def test_few_rows_judge_where_time_is_short():
    assert Pace(0.01, 10.0).affordable(0.02, 20_000) == 512
    assert Pace(1e-6, 10.0).affordable(0.02, 20_000) == 20_000
    assert Pace(1e-4, 10.0).affordable(0.02, 20_000) == 2_000
    assert Pace(1e-4, math.inf).affordable(0.02, 20_000) == 20_000


def test_presets_are_ordered_by_size(noisy):
    sizes = [
        NRSClassifier(preset=preset, epochs=1, verbose=0).fit(*noisy).members_
        for preset in ("fast", "default", "best")
    ]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
