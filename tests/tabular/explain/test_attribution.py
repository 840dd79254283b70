"""Attributions: complete, by the exact gradient, and the same as those of other libraries."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from nrs import NRSClassifier, NRSRegressor, explain
from nrs.tabular.explain.attribution import neutral_row
from tests.tabular.mixed import mixed_table

FAST = {"preset": "fast", "epochs": 5, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def fitted():
    X, y = mixed_table(150)
    return X, y, NRSClassifier(**FAST).fit(X, y)


@pytest.mark.parametrize("preset", ["fast", "single"])
@pytest.mark.parametrize("task", ["two", "many", "labels", "numbers"])
def test_integrated_gradients_are_complete(preset, task):
    X, y = mixed_table(120)
    target = {
        "two": y,
        "many": np.arange(120) % 5,
        "labels": np.column_stack([y, ~y]).astype(int),
        "numbers": X["year"].to_numpy() * 10.0,
    }[task]
    make = NRSRegressor if task == "numbers" else NRSClassifier
    model = make(**FAST | {"preset": preset}).fit(X, target)
    rows = X[:20]
    why = explain.attribute(model, rows)
    size = np.abs(why.outputs - why.base) + 1
    assert (np.abs(why.gap) <= 1e-3 * size).all()
    np.testing.assert_allclose(why.columns.sum(1), why.outputs - why.base - why.gap, atol=1e-8)
    np.testing.assert_allclose(why.features.sum(1), why.columns.sum(1), atol=1e-8)
    if task == "two":
        np.testing.assert_allclose(why.outputs, model.decision_function(rows), atol=1e-4)
    if task == "numbers":
        np.testing.assert_allclose(why.outputs, model.predict(rows), rtol=1e-5)
    # A column without features has no part in it.
    assert (why.columns[:, list(X.columns).index("always")] == 0).all()


def test_gradient_x_input_is_the_slope_along_the_row():
    # New rows: those of training lie on the edges of bins, where the slope is not one number.
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(100, 4)), rng.normal(size=(10, 4))
    model = NRSClassifier(**FAST).fit(X, X[:, 0] > 0)
    why = explain.attribute(model, rows, "gradient_x_input")
    module = model.to_torch().double()
    x = torch.from_numpy(model.encoder_.transform(rows)).double()

    def odds(place):
        outputs = module.outputs(place * x)
        return (outputs[:, 1] - outputs[:, 0]).numpy()

    step = 1e-7
    slope = (odds(1 + step) - odds(1 - step)) / (2 * step)
    np.testing.assert_allclose(why.columns.sum(1), slope, rtol=1e-3, atol=1e-3)


def test_of_a_linear_target_they_are_the_coefficients():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X @ [3.0, -2.0, 0.0]
    model = NRSRegressor(preset="fast", random_state=0, verbose=0).fit(X, y)
    why = explain.attribute(model, X[:60], baseline=np.zeros((1, 3)))
    slopes = [LinearRegression().fit(X[:60, [i]], why.columns[:, i]).coef_[0] for i in range(3)]
    np.testing.assert_allclose(slopes, [3, -2, 0], atol=0.3)


def test_chosen_class_and_baseline(fitted):
    X, _, model = fitted
    first, second = (explain.attribute(model, X[:5], target=t) for t in (0, 1))
    np.testing.assert_allclose(first.outputs, -second.outputs, atol=1e-6)
    why = explain.attribute(model, X[:5], baseline=X[:1])
    assert np.allclose(why.columns[0], 0)
    with pytest.raises(ValueError, match="target must be an integer from 0 to 1; got 2"):
        explain.attribute(model, X, target=2)
    with pytest.raises(ValueError, match="one row; got 2 rows"):
        explain.attribute(model, X, baseline=X[:2])
    with pytest.raises(ValueError, match=r"method must be one of .*; got .lime."):
        explain.attribute(model, X, "lime")


def test_captum_on_the_module(fitted):
    attr = pytest.importorskip("captum.attr")
    X, _, model = fitted
    module = model.to_torch()
    x = torch.from_numpy(model.encoder_.transform(X[:8]))
    start = torch.from_numpy(neutral_row(model.encoder_)).float()

    def odds(rows):
        outputs = module.outputs(rows)
        return outputs[:, 1] - outputs[:, 0]

    theirs = attr.IntegratedGradients(odds).attribute(
        x, start[None], n_steps=512, method="riemann_middle"
    )
    ours = explain.attribute(model, X[:8], tolerance=1e-4)
    np.testing.assert_allclose(theirs.numpy(), ours.features, atol=0.02)
    by_class = attr.IntegratedGradients(module).attribute(x, target=1)
    assert by_class.shape == x.shape


@pytest.mark.slow
def test_shap_on_predict_proba():
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    model = NRSClassifier(**FAST | {"epochs": 20}).fit(X, (X[:, 1] > 0).astype(int))
    values = shap.Explainer(model.predict_proba, X[:20])(X[:5])
    expected = model.predict_proba(X[:5])
    np.testing.assert_allclose(values.values.sum(1) + values.base_values, expected, atol=1e-5)
    assert np.abs(values.values[..., 1]).mean(0).argmax() == 1
    kernel = shap.KernelExplainer(model.predict_proba, X[:10], silent=True)
    found = kernel.shap_values(X[:2], nsamples=40, silent=True)
    np.testing.assert_allclose(found.sum(1) + kernel.expected_value, expected[:2], atol=1e-5)
