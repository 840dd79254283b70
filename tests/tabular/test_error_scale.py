"""The scale of errors: chosen where it helps, honest on new rows, and by weights."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs import NRSRegressor
from nrs.tabular.error_scale import Errors, ErrorScale, find_scale, scales_of
from nrs.tabular.targets.base import N_QUANTILES


def _known(n, seed, of_output=0.0):
    rng = np.random.default_rng(seed)
    outputs, spread = rng.normal(size=n), rng.lognormal(sigma=0.5, size=n)
    sizes = np.abs(rng.normal(size=n) * np.exp(of_output * outputs))
    return Errors(outputs, spread, sizes, np.ones(n), np.arange(n) % 8)


def _covered(known, new, level=0.9):
    scale, quantiles = find_scale(known, 0.0)
    reach = quantiles[round(level * (N_QUANTILES - 1))] * scale(new.outputs, new.spread)
    return new.sizes <= reach, reach


@pytest.mark.parametrize("of_output", [0.7, -0.5])
def test_scales_follow_rows_and_cover_each_quartile(of_output):
    known, new = (_known(n, n, of_output) for n in (2_000, 20_000))
    right, reach = _covered(known, new)
    quartile = np.searchsorted(np.quantile(new.outputs, [0.25, 0.5, 0.75]), new.outputs)
    assert abs(right.mean() - 0.9) < 0.02
    assert all(abs(right[quartile == q].mean() - 0.9) < 0.05 for q in range(4))
    even = np.quantile(known.sizes, 0.9)
    assert reach.mean() < even
    scale = find_scale(known, 0.0)[0]
    standard = new.sizes / scale(new.outputs, new.spread) / scale.deviation
    assert np.mean(standard**2) == pytest.approx(1, abs=0.15)


def test_labels_that_members_have_learned_by_heart_do_not_leak_into_scales():
    # Members disagree most about the training rows with the largest errors, not about new ones.
    known, new = _known(2_000, 0), _known(20_000, 1)
    spread = 0.3 * known.sizes + 0.1 * known.spread
    leaky = Errors(known.outputs, spread, known.sizes, known.weights, known.folds)
    right, _ = _covered(leaky, new)
    assert right.mean() > 0.885


def test_a_row_about_which_members_disagree_unusually_has_a_larger_scale():
    known = _known(500, 0)
    scale, usual = find_scale(known, 0.0)[0], np.quantile(known.spread, 0.99)
    found = scale(np.zeros(2), np.array([usual, 10 * usual]))
    assert found[1] == pytest.approx(10 * found[0])


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_do_not_differ_have_one_scale(seed):
    known = _known(300, seed)
    scale, quantiles = find_scale(known, 0.0)
    assert (scale.slope, scale.places, scale.values) == (0.0, [0.0], [0.0])
    usual = known.spread < np.exp(scale.high)
    np.testing.assert_array_equal(scale(known.outputs, known.spread)[usual], 1.0)
    assert (np.diff(quantiles) >= 0).all()


@given(st.integers(0, 2**31), st.integers(20, 200))
@settings(max_examples=20, deadline=None)
def test_rows_without_weight_or_truth_do_not_count(seed, n):
    known, rng = _known(n, seed, 0.5), np.random.default_rng(seed)
    more = _known(30, seed + 1, 2.0)
    sizes = np.where(rng.random(30) < 0.5, np.nan, 1e6)
    weights = np.where(np.isnan(sizes), 1.0, 0.0)
    added = Errors(more.outputs, more.spread, sizes, weights, more.folds)
    both = Errors(
        *map(np.concatenate, zip(vars(known).values(), vars(added).values(), strict=True))
    )
    (scale, quantiles), (other, others) = find_scale(known, 0.1), find_scale(both, 0.1)
    assert scale == other
    np.testing.assert_array_equal(quantiles, others)


def test_weights_count_as_repeated_rows():
    known = _known(400, 3, 0.5)
    times = np.where(known.outputs > 0, 3, 1)
    weighted = Errors(known.outputs, known.spread, known.sizes, times.astype(float), known.folds)
    repeated = known.take(np.repeat(np.arange(400), times))
    scale, other = ErrorScale.fit(weighted), ErrorScale.fit(repeated)
    new = _known(100, 4)
    ratio = scale(new.outputs, new.spread) / other(new.outputs, new.spread)
    np.testing.assert_allclose(ratio, 1, atol=0.15)
    reach = [find_scale(one, 0.0)[1][1800] for one in (weighted, repeated)]
    assert reach[0] == pytest.approx(reach[1], rel=0.1)


def test_what_members_average_away_makes_intervals_narrower():
    known = _known(500, 0)
    (_, wide), (scale, narrow) = find_scale(known, 0.0), find_scale(known, 0.1)
    assert (narrow[1:] < wide[1:]).all()
    assert scale.deviation < np.sqrt(np.mean(known.sizes**2))
    # Never by more than half of the variance.
    np.testing.assert_allclose(find_scale(known, 1e9)[1], wide / np.sqrt(2))


def test_no_errors_have_no_width():
    known = _known(50, 0)
    scale, quantiles = find_scale(Errors(*[np.zeros(50)] * 3, known.weights, known.folds), 0.3)
    assert scale.deviation == 0
    assert not quantiles.any()


@given(st.floats(-1e9, 1e9), st.floats(0, 1e18))
def test_scales_are_finite_everywhere(output, spread):
    scale = ErrorScale.fit(_known(60, 0, 1.0))
    found = scales_of([scale, scale], np.full((1, 2), output), np.full((1, 2), spread))
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert ErrorScale(**scale.state()) == scale


def test_intervals_of_a_forest_follow_the_row(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 3))
    y = 3 * X[:, 0] + rng.normal(size=900) * np.exp(1.5 * X[:, 0])
    model = NRSRegressor(preset="fast", random_state=0, verbose=0).fit(X[:500], y[:500])
    new, truth = X[500:], y[500:]
    ends = [model.predict_interval(new, level) for level in (0.5, 0.8, 0.9, 0.99)]
    for (low, high), (lower, higher) in pairwise(ends):
        assert ((lower <= low) & (high <= higher)).all()
    low, high = ends[2]
    width = high - low
    assert width[new[:, 0] > 0.5].mean() > 3 * width[new[:, 0] < -0.5].mean()
    assert 0.85 < ((low <= truth) & (truth <= high)).mean() < 0.95
    predicted, deviation = model.predict(new, return_std=True)
    assert np.mean(((truth - predicted) / deviation) ** 2) == pytest.approx(1, abs=0.3)
    model.save(tmp_path / "m.safetensors")
    loaded = NRSRegressor.load(tmp_path / "m.safetensors")
    np.testing.assert_allclose(loaded.predict(new, return_std=True)[1], deviation)
    np.testing.assert_allclose(loaded.predict_interval(new), ends[2])
