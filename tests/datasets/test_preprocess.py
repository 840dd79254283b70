import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from nrs.datasets import Dataset, paper_preprocess

RULES = ["none", "standardise", "minmax", "unit", "pixels"]
values = hnp.arrays(np.float32, (12, 3), elements=st.integers(-50, 50).map(float))


def dataset(X, rule):
    y = np.zeros(len(X))
    return Dataset("some", X[:8], y[:8], X_test=X[8:], y_test=y[8:], preprocess=rule)


@pytest.mark.parametrize(
    ("rule", "scaler"),
    [
        ("standardise", StandardScaler()),
        ("minmax", MinMaxScaler((-1, 1))),
        ("unit", MinMaxScaler((0, 1))),
    ],
)
def test_scales_are_scikit_learn_s_of_the_training_part(rule, scaler):
    X = np.random.default_rng(0).normal(3, 5, (200, 4)).astype(np.float32)
    y = np.zeros(200)
    data = Dataset("some", X[:120], y[:120], X[120:150], y[120:150], X[150:], y[150:])
    got = paper_preprocess(Dataset(**(vars(data) | {"preprocess": rule})))
    scaler.fit(X[:120].astype(np.float64))
    for part in ("train", "val", "test"):
        found = getattr(got, f"X_{part}")
        assert found.dtype == np.float32
        np.testing.assert_allclose(
            found, scaler.transform(getattr(data, f"X_{part}").astype(np.float64)), atol=1e-5
        )


@pytest.mark.parametrize("rule", RULES)
@given(X=values)
def test_doing_it_twice_does_nothing_more(rule, X):
    once = paper_preprocess(dataset(X, rule))
    twice = paper_preprocess(once)
    assert once.preprocess == "none"
    assert np.isfinite(once.X_train).all()
    np.testing.assert_array_equal(once.X_train, twice.X_train)
    np.testing.assert_array_equal(once.X_test, twice.X_test)


@pytest.mark.parametrize("rule", ["standardise", "minmax", "unit"])
@given(X=values, other=values)
def test_the_test_part_does_not_change_the_training_part(rule, X, other):
    # Values off ±1 and 0: a column that already spans the range is told by all parts.
    X, other = X + 100, other + 100
    mixed = np.concatenate([X[:8], other[8:]])
    np.testing.assert_array_equal(
        paper_preprocess(dataset(X, rule)).X_train, paper_preprocess(dataset(mixed, rule)).X_train
    )


def test_a_file_that_libsvm_scaled_stays_as_it_is():
    X = np.random.default_rng(0).uniform(-1, 1, (12, 3)).astype(np.float32)
    X[0], X[11] = -1, 1  # the greatest value is in the test part
    got = paper_preprocess(dataset(X, "minmax"))
    np.testing.assert_array_equal(got.X_train, X[:8])
    np.testing.assert_array_equal(got.X_test, X[8:])


def test_pixels_are_divided_by_255():
    X = np.array([[0.0, 255.0], [51.0, 102.0]], np.float32)
    got = paper_preprocess(Dataset("some", X, np.zeros(2), preprocess="pixels"))
    np.testing.assert_allclose(got.X_train, [[0, 1], [0.2, 0.4]], rtol=1e-6)
    assert got.X_test is None
