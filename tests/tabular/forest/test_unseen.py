"""Rows of a fit are answered for by members that have not seen them."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.explain.rows import Rows
from tests.tabular.mixed import mixed_table


@pytest.mark.parametrize("kind", [NRSClassifier, NRSRegressor])
def test_answers_are_those_that_the_fit_scored(kind):
    X, y = mixed_table(240)
    rng = np.random.default_rng(0)
    # Of many levels: members read means that leave their own fold out.
    X = X.assign(code=[f"k{number}" for number in rng.integers(0, 50, 240)])
    y = y if kind is NRSClassifier else rng.normal(size=240)
    model = kind(preset="fast", epochs=5, random_state=0, verbose=0).fit(X, y)
    expected = np.asarray(getattr(model, model.target_.oob_name)).reshape(240, -1)
    some = np.array([200, 3, 77, 4])
    rows = Rows.of(model, X.iloc[some], some)
    found = model.target_.answer(rows.outputs(rows.x)).reshape(4, -1)
    np.testing.assert_allclose(found, expected[some], atol=1e-5)


def test_of_rows_in_order_of_time_the_first_have_no_answer():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    model = NRSRegressor(preset="fast", epochs=5, random_state=0, verbose=0)
    model.fit(X, X["a"], time=np.arange(200))
    rows = Rows.of(model, X, np.arange(200))
    known = np.flatnonzero(~np.isnan(model.oob_prediction_))
    assert rows.places.tolist() == known.tolist()
    found = model.target_.answer(rows.outputs(rows.x))
    np.testing.assert_allclose(found, model.oob_prediction_[known], atol=1e-5)


def test_a_partial_fit_forgets_which_rows_were_whose():
    X = np.random.default_rng(2).normal(size=(60, 2))
    model = NRSRegressor(preset="fast", epochs=2, random_state=0, verbose=0).fit(X, X[:, 0])
    assert model.model_.unseen.n_rows == 60
    model.partial_fit(X[:30], X[:30, 1])
    assert model.model_.unseen is None
