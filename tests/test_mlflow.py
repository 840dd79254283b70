"""Without MLflow; with it: tests/integrations/test_mlflow.py."""

import sys

import pytest

import nrs.mlflow
from nrs import NRSRegressor


def test_without_mlflow_an_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    model = NRSRegressor(preset="fast", epochs=1, random_state=0, callbacks=[nrs.mlflow.LogCurve()])
    needed = r"nrs\.mlflow needs mlflow.*neural-random-subspace\[mlflow\]"
    for call in (
        lambda: nrs.mlflow.log_model(model),
        lambda: nrs.mlflow.load_model("models:/x/1"),
        lambda: model.fit([[0.0], [1.0]] * 30, [0.0, 1.0] * 30),
    ):
        with pytest.raises(ModuleNotFoundError, match=needed):
            call()


def test_a_pyfunc_answers_as_the_model():
    X = [[float(k), k % 3] for k in range(60)]
    model = NRSRegressor(preset="fast", epochs=2, random_state=0).fit(X, [row[0] for row in X])
    found = nrs.mlflow.Pyfunc(model).predict(X[:5], {"interval": 0.8})
    assert found["prediction"].tolist() == model.predict(X[:5]).tolist()
    assert found["low"].tolist() == model.predict_interval(X[:5], 0.8)[0].tolist()
    assert nrs.mlflow.Pyfunc(model).predict(X[:5]).columns.tolist() == ["prediction"]
