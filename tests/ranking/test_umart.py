"""Gradient and Hessian of uRank for boosting, against autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.ranking.losses import urank
from nrs.ranking.umart import urank_gradients
from tests.ranking.references import ragged


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_agrees_with_autograd(seed, scale):
    scores, labels, mask = ragged(torch.Generator().manual_seed(seed), 3, 6)
    scores = scores * scale

    def total(flat):
        padded = torch.zeros_like(scores).masked_scatter(mask, flat)
        return urank(padded, labels, mask) * len(scores)

    flat = scores[mask]
    gradient, hessian = urank_gradients(flat, labels[mask], mask.sum(1))
    wanted = torch.autograd.functional.jacobian(total, flat)
    assert np.allclose(gradient, wanted, atol=1e-9)
    step = 1e-5 * np.eye(len(flat))
    for k in range(len(flat)):
        up, down = (
            urank_gradients(flat.numpy() + sign * step[k], labels[mask], mask.sum(1))[0][k]
            for sign in (1, -1)
        )
        assert hessian[k] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-7)


def test_finite_and_not_negative_at_extremes():
    scores = np.array([1e4, -1e4, 0.0, 1e4, -1e4])
    for labels in ([0, 4, 1, 0, 2], [0] * 5, [3] * 5):
        gradient, hessian = urank_gradients(scores, labels, [3, 2])
        assert np.isfinite(gradient).all()
        assert (hessian >= 0).all()
        assert gradient.sum() == pytest.approx(0, abs=1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="sum to 3"):
        urank_gradients([1, 2], [0, 1], [3])
    with pytest.raises(ValueError, match=r"grades .* 0\.5"):
        urank_gradients([1, 2], [0, 0.5], [2])
    with pytest.raises(ValueError, match=r"up to 100; got 1200"):
        urank_gradients([1, 2], [0, 1200], [2])
