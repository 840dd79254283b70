"""The plain networks: the head of NRS without the layer."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from torch import nn

from nrs.baselines import MLPClassifier, MLPRegressor
from tests.baselines.handful import handful


@pytest.mark.parametrize(
    ("estimator", "check"),
    handful(
        MLPClassifier(hidden=(32, 32), epochs=10, lr=0.02, verbose=0),
        MLPRegressor(hidden=(32, 32), epochs=10, lr=0.02, verbose=0),
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_layers", [2, 3])
def test_the_head_is_that_of_nrs_without_the_layer(n_layers):
    X, y = load_iris(return_X_y=True)
    model = MLPClassifier(preset="paper", n_layers=n_layers, epochs=1, verbose=0).fit(X, y)
    assert model.hidden_ == (256,) * n_layers
    assert model.network_.subspaces is None
    linear = [layer for layer in model.network_.layers if isinstance(layer, nn.Linear)]
    assert len(linear) == n_layers + 1
    wide = MLPClassifier(preset="paper", n_layers=n_layers).resolve(100, 784)
    assert wide.hidden == (512,) * n_layers


@pytest.mark.parametrize(
    ("given", "dropped"), [("keep 80%", 0.2), ("drop 80%", 0.8), (0.5, 0.5), (0.0, 0.0)]
)
def test_input_dropout_by_name_and_by_number(given, dropped):
    X, y = load_iris(return_X_y=True)
    model = MLPRegressor(input_dropout=given, dropout=0.0, hidden=8, epochs=1, verbose=0).fit(X, y)
    assert model.input_dropout_ == dropped
    assert getattr(model.network_.layers[0], "p", 0.0) == dropped


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="n_layers must be at least 1; got 0"):
        MLPClassifier(n_layers=0).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"input_dropout must be .*got 'half'"):
        MLPClassifier(input_dropout="half").fit(np.eye(4), [0, 1, 0, 1])


def test_a_saved_network_predicts_the_same_bits(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = MLPClassifier(n_layers=3, input_dropout="keep 80%", epochs=2, verbose=0).fit(X, y)
    model.save(tmp_path / "mlp.safetensors")
    again = MLPClassifier.load(tmp_path / "mlp.safetensors")
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
