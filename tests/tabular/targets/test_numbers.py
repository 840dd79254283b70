"""Numbers: the sizes of errors, to the row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.tabular.targets import conformal_quantiles


@given(st.integers(1, 40), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_as_many_errors_as_the_level_asks_are_below_its_quantile(n, seed):
    errors = np.random.default_rng(seed).normal(size=n)
    levels = np.linspace(0, 1, 11)
    found = conformal_quantiles(errors, np.ones(n), levels)
    assert (np.diff(found) >= 0).all()
    for level, quantile in zip(levels, found, strict=True):
        wanted = min(n, max(1, int(np.ceil(level * (n + 1) - 1e-9))))
        assert (errors <= quantile).sum() == wanted


@given(st.lists(st.integers(0, 3), min_size=2, max_size=20).filter(any), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_a_row_of_weight_two_is_two_rows_but_for_the_new_one(weights, seed):
    errors = np.random.default_rng(seed).normal(size=len(weights))
    weights = np.array(weights)
    levels = np.linspace(0, 1, 11)
    found = conformal_quantiles(errors, weights.astype(float), levels)
    assert np.isin(found, errors[weights > 0]).all()
    scaled = conformal_quantiles(errors, 7.0 * weights, levels)
    assert (found == scaled).all()
