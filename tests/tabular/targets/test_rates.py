"""Counts and amounts: offsets, the level of predictions, members taken together."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.targets import GammaTarget, PoissonTarget, Tweedie
from nrs.tabular.targets.rates import mean_rates

QUICK = {"preset": "fast", "epochs": 4, "random_state": 0, "verbose": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
EXPOSURE = RNG.uniform(0.2, 20, size=400)
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0]) * EXPOSURE).astype(float)


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_poisson_with_an_offset_is_poisson_on_rates_with_weights(seed):
    rng = np.random.default_rng(seed)
    exposure = rng.uniform(0.1, 50, size=30)
    counts = rng.poisson(exposure).astype(float) + (np.arange(30) == 0)
    rates, weights = counts / exposure, exposure / exposure.mean()
    plain, offset = PoissonTarget(), np.log(exposure)
    with_offset = plain.learned(counts, offset)
    y = torch.from_numpy(with_offset.with_offset(with_offset.encode(counts), offset)).double()
    on_rates = plain.learned(rates)
    # The best constant rate is that of all rows together, which both start at.
    on_rates.mean = np.array([np.average(rates, weights=weights)])
    truth = torch.from_numpy(on_rates.encode(rates)).double()
    outputs = torch.from_numpy(rng.normal(size=(2, 1, 30)))
    torch.testing.assert_close(
        with_offset.gradient(outputs, y),
        on_rates.gradient(outputs, truth) * torch.from_numpy(weights),
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip
    known = outputs[0].t()
    np.testing.assert_allclose(
        with_offset.answer(known + torch.from_numpy(offset)[:, None]),
        on_rates.answer(known) * exposure,
    )


@pytest.mark.parametrize("loss", [PoissonTarget(), GammaTarget(), Tweedie()])
def test_what_members_predict_is_averaged(loss):
    target = loss.learned(COUNTS + 1)
    outputs = torch.randn(4, 1, 10).double()
    each = np.stack([target.answer(one.t()) for one in outputs])
    np.testing.assert_allclose(target.answer(mean_rates(outputs)), each.mean(0))


def test_an_offset_is_part_of_what_is_known():
    offset = np.log(EXPOSURE)
    model = NRSRegressor(loss="poisson", **QUICK).fit(X, COUNTS, offset=offset)
    plain = NRSRegressor(loss="poisson", **QUICK).fit(X, COUNTS)
    assert model.oob_score_ > plain.oob_score_
    np.testing.assert_allclose(model.predict(X, offset=offset), model.predict(X) * EXPOSURE)
    # Out-of-bag answers are those of the rows with their offsets.
    ratio = model.oob_prediction_ / EXPOSURE
    assert np.std(np.log(ratio)) < 1
    assert model.oob_prediction_.sum() == pytest.approx(COUNTS.sum(), rel=0.3)


def test_rows_that_decide_have_an_offset_too():
    offset = np.log(EXPOSURE)
    model = NRSRegressor(loss="poisson", **QUICK)
    with pytest.raises(ValueError, match=r"eval_set must be \(X, y, offset\), as the fit has"):
        model.fit(X, COUNTS, offset=offset, eval_set=(X, COUNTS))
    model.fit(X, COUNTS, offset=offset, eval_set=(X, COUNTS, offset))
    with pytest.raises(ValueError, match=r"eval_set must be a pair \(X, y\)"):
        model.fit(X, COUNTS, eval_set=(X, COUNTS, offset))
    model.partial_fit(X, COUNTS, offset=offset)
    with pytest.raises(ValueError, match="offset must be given: the fit had one"):
        model.partial_fit(X, COUNTS)


def test_an_offset_that_cannot_be_used_is_refused():
    for offset in (np.r_[np.inf, np.zeros(399)], np.log(np.r_[1.0, np.full(399, np.nan)])):
        with pytest.raises(ValueError, match=r"offset must be finite; got .* in row"):
            NRSRegressor(loss="poisson", **QUICK).fit(X, COUNTS, offset=offset)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        NRSRegressor(loss="poisson", **QUICK).fit(X, COUNTS, offset=np.zeros(3))
    with pytest.raises(ValueError, match=r"offset is for losses with a log link.*'squared'"):
        NRSRegressor(**QUICK).fit(X, COUNTS, offset=np.zeros(400))
    with pytest.raises(ValueError, match="offset is for a regressor of counts"):
        NRSClassifier(**QUICK).fit(X, COUNTS > 1, offset=np.zeros(400))
    model = NRSRegressor(**QUICK).fit(X, COUNTS)
    with pytest.raises(ValueError, match=r"offset is for predictions of losses with a log link"):
        model.predict(X, offset=np.zeros(400))


def test_a_file_with_a_mean_of_0_is_refused():
    state = PoissonTarget().learned(COUNTS).state()
    PoissonTarget.from_state(state)
    for wrong in (0.0, -1.0):
        with pytest.raises(ValueError, match="mean must be above 0"):
            PoissonTarget.from_state(state | {"mean": [wrong.hex()]})


def test_intervals_of_a_log_link_are_refused():
    model = NRSRegressor(loss="poisson", **QUICK).fit(X, COUNTS)
    with pytest.raises(ValueError, match="intervals"):
        model.predict_interval(X)
