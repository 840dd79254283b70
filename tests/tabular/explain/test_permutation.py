"""Permutation importance, out of bag and on new rows."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor, explain


def _table(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "ticket": [f"T{number}" for number in rng.permutation(n) // 2],
            "age": rng.normal(size=n),
            "sex": rng.choice(["f", "m"], n),
            "nothing": 1.0,
            "fare": rng.normal(size=n),
        }
    )
    y = X["age"] + 2 * (X["sex"] == "f") + rng.normal(scale=0.5, size=n)
    return X, y


@pytest.mark.parametrize("kind", [NRSClassifier, NRSRegressor])
def test_an_id_of_noise_gets_nothing_and_columns_that_matter_lead(kind):
    X, y = _table(500, 0)
    y = y > 1 if kind is NRSClassifier else y
    model = kind(preset="fast", random_state=0, verbose=0).fit(X, y)
    found = explain.permutation(model, X, y, training_rows=np.arange(500))
    columns = np.array(found.columns)
    assert set(columns[found.order()[:2]]) == {"age", "sex"}
    ticket, nothing = (found.columns.index(name) for name in ("ticket", "nothing"))
    assert abs(found.increase[ticket]) < 4 * found.error[ticket]
    assert found.increase[ticket] < 0.05 * found.increase.max()
    assert found.increase[nothing] == found.drop[nothing] == found.error[nothing] == 0
    assert found.score == pytest.approx(model.oob_score_, abs=1e-6)
    # The rows of the fit themselves flatter what was learned by heart.
    seen = explain.permutation(model, X, y)
    assert seen.increase[ticket] > found.increase[ticket] + 2 * found.error[ticket]


def test_new_rows_and_out_of_bag_rows_agree():
    X, y = _table(900, 1)
    model = NRSRegressor(preset="fast", random_state=0, verbose=0).fit(X[:500], y[:500])
    inside = explain.permutation(model, X[:500], y[:500], training_rows=np.arange(500))
    outside = explain.permutation(model, X[500:], y[500:])
    error = np.hypot(inside.error, outside.error)
    assert (abs(inside.increase - outside.increase) <= 4 * error + 0.01).all()


def test_shuffling_by_hand_gives_the_same_number():
    X, y = _table(120, 2)
    model = NRSRegressor(preset="fast", epochs=5, random_state=0, verbose=0).fit(X, y)
    found = explain.permutation(model, X, y, columns=["age"], n_repeats=2, seed=3)
    rng, rises = np.random.default_rng(3), []
    spread = np.std(y)
    for order in (rng.permutation(120), rng.permutation(120)):
        answers = model.predict(X.assign(age=X["age"].to_numpy()[order]))
        rises.append(np.mean((answers - y) ** 2 - (model.predict(X) - y) ** 2) / spread**2)
    age = X.columns.get_loc("age")
    assert found.increase[age] == pytest.approx(np.mean(rises), rel=1e-3)
    assert np.isnan(found.increase[[0, 2]]).all()
    assert found.order().tolist() == [age]


def test_weights_and_a_sample_of_the_rows():
    X, y = _table(200, 4)
    model = NRSRegressor(preset="fast", epochs=5, random_state=0, verbose=0).fit(X, y)
    few = explain.permutation(model, X, y, max_rows=50)
    assert few.n_rows == 50
    chosen = np.linspace(0, 199, 50).astype(int)
    weights = np.isin(np.arange(200), chosen).astype(float)
    weights[chosen] = 2.0
    some = explain.permutation(model, X.iloc[chosen], y.iloc[chosen])
    np.testing.assert_allclose(some.increase, few.increase, atol=1e-7)
    same = explain.permutation(model, X.iloc[chosen], y.iloc[chosen], sample_weight=weights[chosen])
    np.testing.assert_allclose(same.increase, few.increase, atol=1e-6)
    with pytest.raises(ValueError, match="sample_weight must be above 0"):
        explain.permutation(model, X, y, sample_weight=np.zeros(200))
    with pytest.raises(ValueError, match="columns names 'nobody'"):
        explain.permutation(model, X, y, columns=["nobody"])
    with pytest.raises(ValueError, match="n_repeats must be at least 1; got 0"):
        explain.permutation(model, X, y, n_repeats=0)
