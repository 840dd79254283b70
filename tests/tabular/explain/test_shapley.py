"""Shapley values of raw tables by the shap package."""

import sys

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor, explain


@pytest.fixture(scope="module")
def flats():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "district": rng.choice(["north", "south", None], 150),
            "rooms": rng.choice([1, 2, 3, np.nan], 150),
            "sold": pd.date_range("2024-01-01", periods=150),
            "garden": rng.random(150) > 0.5,
        }
    )
    return X, np.where(X["district"] == "north", "dear", "cheap")


@pytest.fixture(scope="module")
def model(flats):
    return NRSClassifier(preset="fast", epochs=15, random_state=0, verbose=0).fit(*flats)


@pytest.mark.parametrize("algorithm", ["exact", "permutation"])
def test_values_add_up_to_the_probabilities(flats, model, algorithm):
    pytest.importorskip("shap")
    X, _ = flats
    rows, background = X[:6], X[50:70]
    found = explain.shap_values(model, rows, background, algorithm=algorithm)
    assert found.values.shape == (6, 4, 2)
    assert found.output_names == ["cheap", "dear"]
    expected = model.predict_proba(rows)
    np.testing.assert_allclose(found.base_values + found.values.sum(1), expected, atol=1e-6)
    mean = model.predict_proba(background).mean(0)
    np.testing.assert_allclose(found.base_values, np.tile(mean, (6, 1)), atol=1e-6)
    assert np.abs(found.values[..., 1]).mean(0).argmax() == 0
    districts = [None if cell != cell else cell for cell in rows["district"]]
    assert found.data[:, 0].tolist() == districts
    assert None in districts


def test_a_column_like_the_background_gets_nothing(flats, model):
    pytest.importorskip("shap")
    X, _ = flats
    rows = X[:3].assign(district="south", garden=True)
    background = X[50:60].assign(district="south", garden=True)
    values = explain.shap_values(model, rows, background).values
    assert np.abs(values[:, [0, 3]]).max() == 0
    assert np.abs(values[:, 2]).max() > 0


def test_other_explainers_take_the_coded_rows(flats, model):
    shap = pytest.importorskip("shap")
    X, _ = flats
    coded = explain.CodedRows(model, X[:3], X[50:60])
    assert coded.rows.shape == (3, 4)
    assert coded.cells[:, 3].tolist() == X["garden"][:3].tolist()
    assert (coded(coded.rows) == model.predict_proba(X[:3])).all()
    kernel = shap.KernelExplainer(coded, coded.background)
    found = kernel.shap_values(coded.rows, silent=True)
    expected = model.predict_proba(X[:3])
    np.testing.assert_allclose(kernel.expected_value + found.sum(1), expected, atol=1e-6)
    exact = explain.shap_values(model, X[:3], X[50:60], algorithm="exact").values
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_numbers_of_an_array(flats):
    pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[::9, 1] = np.nan
    model = NRSRegressor(preset="fast", epochs=5, random_state=0, verbose=0).fit(X, X[:, 0])
    found = explain.shap_values(model, X[:4], X[40:60])
    np.testing.assert_allclose(
        found.base_values + found.values.sum(1), model.predict(X[:4]), atol=1e-5
    )
    assert found.feature_names == ["x0", "x1", "x2"]


def test_what_cannot_be_done_is_told(flats, model, monkeypatch):
    X, _ = flats
    with pytest.raises(ValueError, match=r"algorithm must be one of .*; got 'tree'"):
        explain.shap_values(model, X[:1], X[1:3], algorithm="tree")
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match=r"needs shap, .*\[explain\]"):
        explain.shap_values(model, X[:1], X[1:3])
