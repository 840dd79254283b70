"""Times between bounds: the likelihood, the score, what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import logistic

from nrs import NRSRegressor
from nrs.tabular.targets import SurvivalTarget, concordance

QUICK = {"preset": "fast", "epochs": 3, "random_state": 0, "verbose": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
TIMES = np.exp(1 + X[:, 0] + 0.3 * RNG.logistic(size=200))
ENDS = RNG.exponential(9, size=200)
BOUNDS = np.column_stack([np.minimum(TIMES, ENDS), np.where(TIMES <= ENDS, TIMES, np.inf)])
# Some are only known to be below a time, or between two.
BOUNDS[:20, 0], BOUNDS[:20, 1] = 0, TIMES[:20] + 1
BOUNDS[20:40] = np.column_stack([np.floor(TIMES[20:40]), np.floor(TIMES[20:40]) + 1])


def test_the_loss_is_the_likelihood_of_a_logistic_error():
    target = SurvivalTarget().learned(BOUNDS)
    y = torch.from_numpy(target.encode(BOUNDS)).double()
    outputs = torch.randn(1, 2, 200, generator=torch.Generator().manual_seed(0)).double() / 2
    found = target.losses(outputs, y)[0].numpy()
    location, scale = outputs[0, 0].numpy(), np.exp(5 * np.tanh(outputs[0, 1].numpy() / 5))
    low, high = ((bound - location) / scale for bound in y.numpy().T)
    seen = BOUNDS[:, 0] == BOUNDS[:, 1]
    between = np.where(seen, 1.0, logistic.cdf(high) - logistic.cdf(low))
    expected = np.where(seen, -logistic.logpdf(low) + np.log(scale), -np.log(between))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 1000), st.floats(-1e3, 1e3))
@settings(max_examples=30, deadline=None)
def test_gradients_are_finite_wherever_outputs_are(seed, shift):
    target = SurvivalTarget().learned(BOUNDS)
    y = torch.from_numpy(target.encode(BOUNDS))
    outputs = shift * torch.randn(2, 2, 200, generator=torch.Generator().manual_seed(seed))
    assert target.losses(outputs, y).isfinite().all()
    assert target.gradient(outputs, y).isfinite().all()


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_concordance_counts_pairs_that_are_surely_in_order(seed):
    rng = np.random.default_rng(seed)
    low = rng.integers(1, 6, size=25).astype(float)
    high = np.where(rng.random(25) < 0.4, np.inf, low + rng.integers(0, 2, size=25))
    predicted = rng.integers(0, 5, size=25).astype(float)
    pairs, right = 0, 0.0
    for i in range(25):
        for j in range(25):
            if high[i] < low[j] or (high[i] == low[j] and low[j] < high[j]):
                pairs += 1
                right += (predicted[i] < predicted[j]) + (predicted[i] == predicted[j]) / 2
    found = concordance(np.column_stack([low, high]), predicted)
    assert found == pytest.approx(right / pairs if pairs else 0.5)


def test_times_are_learned_from_bounds():
    model = NRSRegressor(loss="aft", **QUICK).fit(X, BOUNDS)
    assert model.oob_score_ > 0.7
    assert model.score(X, BOUNDS) == concordance(BOUNDS, model.predict(X))
    assert np.corrcoef(np.log(model.predict(X)), X[:, 0])[0, 1] > 0.8
    # A censored time says more than its lower bound.
    as_seen = np.column_stack([BOUNDS[:, 0], np.maximum(BOUNDS[:, 0], 1e-3)])
    as_seen[:, 0] = as_seen[:, 1]
    naive = NRSRegressor(loss="aft", **QUICK).fit(X, as_seen)
    late = np.isinf(BOUNDS[:, 1])
    assert np.median(model.predict(X)[late]) > np.median(naive.predict(X)[late])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (BOUNDS[:, 0], r"needs y of shape \(n_rows, 2\), lower and upper bounds; got \(200,\)"),
        (BOUNDS[:, ::-1], r"needs bounds 0 ≤ lower ≤ upper .*; got \(.*\) in row 0"),
        (np.zeros((200, 2)), r"got \(0, 0\) in row 0"),
        (np.full((200, 2), np.nan), r"got \(nan, nan\) in row 0"),
        (-BOUNDS[:, ::-1], "needs bounds 0 ≤ lower"),
    ],
)
def test_bounds_that_are_none_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        NRSRegressor(loss="aft", **QUICK).fit(X, bounds)
