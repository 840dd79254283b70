"""Which columns the members of a new forest read, and at which scale."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs import NRSClassifier
from nrs.tabular.encode.table import read_table
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.grow import (
    CELLS,
    MAX_ROWS,
    as_index,
    blank_forest,
    column_gains,
    column_relevance,
    draw_subspaces,
    grow_forest,
    relevance,
    widen,
)
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.model import ForestModel
from nrs.tabular.recipe import resolve
from nrs.tabular.rows.memory import MemorySource, Rows
from nrs.tabular.run import Run
from nrs.tabular.targets import ClassTarget, RegressionTarget
from nrs.tabular.task import Task


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


def test_members_of_a_wide_table_draw_relevant_columns_more_often():
    parts, chances = [np.array([j]) for j in range(2000)], np.zeros(2000)
    chances[:10] = 1.0
    drawn = draw_subspaces(parts, 64, 9, np.random.default_rng(0), chances)
    assert max(map(len, drawn)) == 9
    counts = np.bincount(np.concatenate(drawn), minlength=2000)
    assert counts[:10].min() >= 10
    # The other half is drawn evenly: five of nine places.
    assert np.count_nonzero(counts[10:]) == pytest.approx(5 * 64, abs=10)
    # A table that a member can read whole is read evenly, whatever the chances.
    narrow = [
        draw_subspaces(parts[:500], 64, 9, np.random.default_rng(0), given)
        for given in (None, chances[:500])
    ]
    assert all(np.array_equal(one, other) for one, other in zip(*narrow, strict=True))


def test_a_forest_finds_the_few_columns_that_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1400, 900)).astype(np.float32)
    y = X[:, 3] + X[:, 500] - X[:, 700] > 0
    model = NRSClassifier(preset="fast", epochs=8, random_state=0).fit(X[:800], y[:800])
    assert model.score(X[800:], y[800:]) > 0.9


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


def test_a_forest_weights_a_predictive_column_most():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 20))
    y = x[:, 7] > 0
    model = NRSClassifier(preset="fast", epochs=2, random_state=0, verbose=0).fit(x, y)
    network = model.network_
    predictive = (network.index == 7) & (network.index < 20)
    assert network.gain[predictive].min() == 1
    assert network.gain[(network.index < 20) & ~predictive].max() < 0.6


def test_a_blank_forest_takes_the_values_of_a_grown_one():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), rng.integers(0, 5, 80), np.arange(80) % 2])
    source = MemorySource(read_table(X), np.arange(80) % 3, classes=True)
    recipe = resolve("fast", {"n_mul": 2, "hidden": (8, 4)}, 80, 3)
    folds, target = source.split(recipe, 0, spare=False), source.classification()
    encoder = source.encoder(None, "standard", target, folds)
    rows, _ = source.rows(encoder, target, folds, torch.device("cpu"))
    run = Run(seed=1, device=rows.device, begin=0.0)
    task = Task(rows, None, encoder, target, recipe, folds, run)
    grown = grow_forest(task)
    shape = ForestModel(grown, target, recipe, folds).header()["forest"]
    blank = blank_forest(json.loads(json.dumps(shape)), target, recipe)
    blank.load_state_dict(grown.state_dict())
    assert torch.equal(blank.eval().members(rows.features), grown.eval().members(rows.features))
    again = grow_forest(task)
    for name, value in grown.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


@given(
    st.lists(
        st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=3, max_size=3),
        min_size=1,
        max_size=3,
    )
)
def test_an_index_holds_the_subspaces_and_blanks(members):
    index = as_index([[np.array(sorted(one)) for one in member] for member in members], blank=10)
    assert index.shape[:2] == (len(members), 3)
    assert index.shape[2] == max(len(one) for member in members for one in member)
    for member, rows in zip(members, index, strict=True):
        for one, row in zip(member, rows, strict=True):
            assert row[: len(one)].tolist() == sorted(one)
            assert set(row[len(one) :]) <= {10}


def _gains(x, y, target, folds=None, n_folds=1, columns=None, least=0.1, weights=None):
    columns = np.arange(x.shape[1]) if columns is None else columns
    rows = Rows(x.astype(np.float32), y, weights, folds=folds)
    features, targets, *others = rows.sample(MAX_ROWS)
    found = column_relevance((features, target.indicators(targets), *others), columns, n_folds)
    return column_gains(found, len(rows), least)[:, np.unique(columns, return_inverse=True)[1]]


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_relevance_is_the_adjusted_r2_of_the_cells_means(seed, n_cells, n_folds):
    rng = np.random.default_rng(seed)
    n = 60
    cells, folds = rng.integers(n_cells, size=n), np.arange(n) % n_folds
    truth = rng.normal(size=(n, 2)) + cells[:, None]
    found = relevance(cells, truth, np.ones(n), folds, n_folds)
    for fold in range(n_folds):
        seen = folds != fold if n_folds > 1 else np.ones(n, dtype=bool)
        own, values = cells[seen], truth[seen]
        present = np.unique(own)
        means = np.stack([values[own == cell].mean(0) for cell in present])
        rest = ((values - means[np.searchsorted(present, own)]) ** 2).sum()
        total = ((values - values.mean(0)) ** 2).sum()
        expected = 1 - rest / total * (seen.sum() - 1) / (seen.sum() - len(present))
        np.testing.assert_allclose(found[fold], np.clip(expected, 0, 1), atol=1e-9)


def test_gains_do_not_look_at_the_members_own_fold():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    y = rng.integers(2, size=90)
    folds = np.arange(90) % 3
    target = ClassTarget(np.arange(2))
    before = _gains(x, y, target, folds, 3)
    other = y.copy()
    other[folds == 1] = 1 - other[folds == 1]
    after = _gains(x, other, target, folds, 3)
    np.testing.assert_array_equal(before[1], after[1])
    assert (before[0] != after[0]).any()


def test_columns_that_explain_nothing_alone_are_read_evenly():
    # Parity: together the columns decide, alone they are noise.
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], size=(2000, 4))
    gains = _gains(x, (x[:, 0] * x[:, 1] > 0).astype(int), ClassTarget(np.arange(2)))
    assert gains.min() > 0.5


def test_features_of_a_category_have_the_relevance_of_all_its_levels():
    rng = np.random.default_rng(0)
    level = rng.integers(5, size=500)
    x = np.column_stack([np.eye(5)[level], rng.normal(size=500)])
    y = (level > 1).astype(np.int64)
    gains = _gains(x, y, ClassTarget(np.arange(2)), columns=np.array([0] * 5 + [1]))
    assert gains[0, :5].tolist() == [1.0] * 5
    assert gains[0, 5] < 0.3


def test_rows_without_weight_do_not_count():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = rng.normal(size=(200, 1)).astype(np.float32)
    target = RegressionTarget.of(y[:, 0])
    weights = np.ones(200, dtype=np.float32)
    weights[100:] = 0
    other = y.copy()
    other[100:] += 5 * x[100:, :1]
    first, second = (_gains(x, values, target, weights=weights) for values in (y, other))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("y", [np.zeros(40, dtype=np.int64), np.arange(40) % 2])
def test_constant_targets_and_features_give_finite_gains(y):
    gains = _gains(np.zeros((40, CELLS)), y, ClassTarget(np.arange(2)))
    assert np.isfinite(gains).all()
    assert (gains >= 0.1).all()


@pytest.mark.parametrize(("seconds", "kept"), [(1e-4, 300), (8e-3, 75), (1.0, None)])
def test_relevance_takes_a_part_of_the_time_that_is_left(monkeypatch, seconds, kept):
    # Each column of all 300 rows takes so long, and 10 seconds are left.
    clock, asked = [50.0], []

    def slow(sample, columns, n_folds, variants, **more):
        clock[0] += seconds * len(columns) * len(sample[0]) / 300
        asked.append((len(columns), len(sample[0])))
        return column_relevance(sample, columns, n_folds, variants, **more)

    monkeypatch.setattr("nrs.tabular.forest.grow.column_relevance", slow)
    monkeypatch.setattr("nrs.tabular.forest.grow.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("nrs.tabular.run.time.monotonic", lambda: clock[0])
    rng = np.random.default_rng(0)
    x, n_columns = rng.normal(size=(300, 1000)), 1000
    y = (x[:, 0] > 0).astype(int)
    model = NRSClassifier(preset="fast", epochs=1, random_state=0, verbose=0, time_limit=10)
    model.fit(x, y)
    whole = [n_rows for columns, n_rows in asked if columns == n_columns]
    assert whole == ([] if kept is None else [kept])
    assert np.isfinite(model.predict_proba(x)).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.booleans())
def test_a_forest_reads_more_features_and_answers_as_before(seed, unread):
    rng = np.random.default_rng(seed)
    old = np.sort(rng.integers(0, 4, 6))
    columns = np.sort(np.concatenate([old, rng.choice(old, 3), [9] * unread]))
    spread = [np.flatnonzero(columns == one)[: (old == one).sum()] for one in np.unique(old)]
    places = np.concatenate(spread)
    bins = PiecewiseLinear.between([(0, [-1.0, 0.0, 1.0]), (5, [-1.0, 1.0])])
    parts = [np.flatnonzero(old == one) for one in np.unique(old)]
    index = as_index([draw_subspaces(parts, 8, 2, rng) for _ in range(3)], blank=6 + bins.n_bins)
    forest = ForestNetwork(6, 2, torch.from_numpy(index), bins, seed=seed).eval()
    x, wide = torch.randn(20, 6), torch.randn(20, len(columns))
    wide[:, places] = x
    before = forest(x)
    widen(forest, places, columns, 2, seed)
    torch.testing.assert_close(forest(wide), before)
    torch.testing.assert_close(forest.fold()(wide), before)
    # Each subspace that reads a column reads all of its features, once.
    blank = len(columns) + bins.n_bins
    for subspace in forest.index.flatten(0, 1).numpy():
        features = subspace[subspace < len(columns)]
        assert len(np.unique(features)) == len(features)
        assert subspace.max() <= blank
        own = np.isin(columns, columns[features])
        np.testing.assert_array_equal(np.sort(features), np.flatnonzero(own))
    read = forest.index.flatten(1).numpy()
    assert all(np.isin(np.arange(len(columns)), one).all() for one in read)
    forest(wide).sum().backward()
    assert (forest.weight.grad != 0).any()
