"""Bins and levels: which functions of a number they can express."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.forest.bins import (
    MAX_BINNED_FEATURES,
    PiecewiseLinear,
    _CellSums,
    find_bins,
    find_edges,
    target_edges,
)


def test_bins_separate_values_as_categories_do():
    values = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    bins = PiecewiseLinear.between([(0, find_edges(values[:, 0].numpy(), 8))])
    design = torch.cat([torch.ones(4, 1), bins(values)], 1)
    assert torch.linalg.matrix_rank(design) == 4


@given(st.lists(st.integers(-500, 500), min_size=2, max_size=12, unique=True))
def test_levels_are_indicators_of_the_values(values):
    values = np.sort(values).astype(np.float32)
    levels = PiecewiseLinear.between([], levels=[(0, values)])
    assert levels.n_bins == levels.n_levels == len(values)
    found = levels(torch.from_numpy(values)[:, None])
    np.testing.assert_allclose(found, np.eye(len(values)), atol=1e-6)
    # Between two values the levels never add up to more than one.
    assert levels(torch.linspace(-600, 600, 99)[:, None]).sum(1).max() <= 1 + 1e-6


def test_levels_come_after_the_bins():
    both = PiecewiseLinear.between([(1, [0.0, 2.0])], levels=[(0, [0.0, 1.0])])
    assert both(torch.tensor([[1.0, 1.0]])).tolist() == [[0.5, 0.0, 1.0]]


EDGES = st.sets(st.integers(-50, 50), min_size=2, max_size=8).map(sorted)


@given(EDGES, st.lists(st.floats(-60, 60, width=32), min_size=2, max_size=20))
def test_bins_fill_one_after_the_other(edges, values):
    bins = PiecewiseLinear.between([(0, edges)])
    found = bins(torch.tensor(sorted(values))[:, None])
    assert ((found >= 0) & (found <= 1)).all()
    assert (found.diff(dim=0) >= 0).all()
    # A bin is entered when the one before it is full.
    assert ((found[:, 1:] == 0) | (found[:, :-1] == 1)).all()
    # Within the edges nothing is lost: the widths of what is filled lead back to the number.
    widths = torch.tensor(np.diff(edges), dtype=torch.float32)
    inside = torch.tensor(sorted(values)).clamp(edges[0], edges[-1])
    torch.testing.assert_close(edges[0] + found @ widths, inside, atol=1e-3, rtol=1e-4)


def test_blank_bins_take_the_values_of_others():
    bins = PiecewiseLinear.between([(1, [0.0, 2.0, 3.0])], levels=[(0, [0.0, 1.0])])
    blank = PiecewiseLinear.blank(bins.n_bins, bins.n_levels)
    blank.load_state_dict(bins.state_dict())
    x = torch.randn(9, 2)
    assert torch.equal(blank(x), bins(x))
    assert PiecewiseLinear.between([])(x).shape == (9, 0)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=60), st.integers(1, 9))
def test_edges_ascend_and_span_the_values(values, n_bins):
    edges = find_edges(np.array(values, np.float32), n_bins)
    assert len(edges) <= n_bins + 1
    assert (np.diff(edges) > 0).all()
    assert edges[0] == min(values)


def test_only_features_that_may_have_bins_make_a_table_wide():
    x = np.random.default_rng(0).normal(size=(50, MAX_BINNED_FEATURES + 1))
    assert find_bins(x, 8)[0].n_bins == 0
    binned = np.arange(x.shape[1]) < 3
    assert find_bins(x, 8, binned=binned)[0].n_bins == 24


def rows(seed, n=2_000):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=n), np.ones(n), np.arange(n) % 8


@given(st.integers(0, 1000))
def test_edges_follow_a_target_that_changes_where_few_rows_are(seed):
    rng, values, weights, folds = rows(seed)
    cut = np.quantile(values, rng.choice([0.02, 0.03, 0.97, 0.98]))
    truth = np.where(rng.random(len(values)) < 0.05, rng.random(len(values)) < 0.5, values > cut)
    edges = target_edges(values, truth[:, None] - truth.mean(), weights, folds, 8)
    ranks = np.searchsorted(np.sort(values), edges) / len(values)
    assert np.abs(ranks - (values < cut).mean()).min() < 0.01
    assert edges[0] == np.float32(values.min())
    assert edges[-1] == np.float32(values.max())


@given(st.integers(0, 1000))
def test_quantiles_stay_where_the_target_is_noise(seed):
    rng, values, weights, folds = rows(seed)
    noise = rng.normal(size=(len(values), 2))
    assert target_edges(values, noise - noise.mean(0), weights, folds, 8) is None


@given(st.integers(0, 1000))
def test_targets_of_rows_without_weight_do_not_move_edges(seed):
    rng, values, weights, folds = rows(seed)
    truth = (values > 1.8)[:, None] - 0.04
    weights[rng.random(len(values)) < 0.3] = 0
    other = np.where(weights[:, None] > 0, truth, rng.normal(size=truth.shape))
    found = [target_edges(values, known, weights, folds, 8) for known in (truth, other)]
    assert found[0] is not None
    np.testing.assert_array_equal(*found)


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 7.0]) | st.floats(-9, 9), min_size=8),
    st.integers(0, 9),
)
def test_edges_of_any_values_ascend_within_them(values, seed):
    rng, values = np.random.default_rng(seed), np.array(values * 9)
    weights = rng.integers(0, 2, len(values)) * 1.0
    truth = (values > np.median(values))[:, None] * 1.0
    edges = target_edges(values, truth, weights, np.arange(len(values)) % 8, 16)
    if edges is not None:
        assert (np.diff(edges) > 0).all()
        assert edges[0] == np.float32(values.min())
        assert edges[-1] == np.float32(values.max())


def test_cuts_are_the_best_of_all():
    rng = np.random.default_rng(0)
    values, truth = np.arange(60.0), rng.normal(size=(60, 1)).cumsum(0)
    sums = _CellSums.of(values, truth, np.ones(60), np.arange(61.0) - 0.5)
    cuts = sums.best_cuts(3)

    def explained(*cuts):
        return sums.explained(sums, np.array(cuts))

    found = explained(*cuts)
    tried = [explained(a, b) for a in range(5, 50) for b in range(a + 5, 56)]
    assert abs(found - max(tried)) < 1e-9
