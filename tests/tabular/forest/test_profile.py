"""What a sample of the rows says of a column: edges, levels and relevance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.tabular.forest.profile import (
    CELLS,
    MIN_PILOT_ROWS,
    column_gains,
    find_edges,
    has_levels,
    may_be_levels,
    relevance,
)
from nrs.tabular.recipe import resolve
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import (
    ClassTarget,
    RegressionTarget,
)


def _gains(x, y, target, folds=None, n_folds=1, columns=None, least=0.1, weights=None):
    columns = np.arange(x.shape[1]) if columns is None else columns
    rows = Rows(x.astype(np.float32), y, weights, folds=folds)
    return column_gains(rows, columns, target, n_folds, least)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=60), st.integers(1, 9))
def test_edges_ascend_and_span_the_values(values, n_bins):
    edges = find_edges(np.array(values, np.float32), n_bins)
    assert len(edges) <= n_bins + 1
    assert (np.diff(edges) > 0).all()
    assert edges[0] == min(values)


def test_there_is_a_choice_only_with_few_values_and_many_rows():
    recipe = resolve("default", {}, MIN_PILOT_ROWS, 3)
    rng = np.random.default_rng(0)

    def rows(n, *columns):
        return Rows(np.column_stack(columns).astype(np.float32), np.zeros(n, dtype=np.int64))

    n = MIN_PILOT_ROWS
    two, few, many = rng.integers(0, 2, n), rng.integers(0, 20, n), rng.normal(size=n)
    assert has_levels(rows(n, few, many), recipe)
    assert not has_levels(rows(n, two, many), recipe)
    assert not has_levels(rows(n, few, many), resolve("fast", {}, n, 2))
    assert may_be_levels(rows(n, few), recipe, 8, None)
    assert may_be_levels(rows(n, few), recipe, 8, 60.0)
    assert not may_be_levels(rows(n, few), recipe, 8, 59.0)
    assert not may_be_levels(rows(n, few), recipe, 1, None)
    assert not may_be_levels(rows(n - 1, few[1:]), recipe, 8, None)


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
