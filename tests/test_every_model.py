"""Every kind of table model and ranker, from fit to other runtimes."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from nrs import NRSClassifier, NRSRanker, NRSRegressor
from nrs.cli.app import app
from nrs.explain import attribute, shap_values
from nrs.tabular.export import onnx_inputs
from nrs.training import read_model

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("shap")
runner = pytest.importorskip("typer.testing").CliRunner()

QUICK = {"epochs": 2, "random_state": 0, "verbose": 0}
KINDS = {
    "two classes": (NRSClassifier, {"preset": "fast"}),
    "three classes": (NRSClassifier, {"preset": "fast"}),
    "several labels": (NRSClassifier, {"preset": "fast"}),
    "single classifier": (NRSClassifier, {"preset": "single"}),
    "number": (NRSRegressor, {"preset": "fast"}),
    "several numbers": (NRSRegressor, {"preset": "fast"}),
    "single regressor": (NRSRegressor, {"preset": "single"}),
    "ranker": (NRSRanker, {"preset": "fast"}),
    "single ranker": (NRSRanker, {"preset": "single"}),
    "paper's ranker": (NRSRanker, {"preset": "paper", "loss": "wass_rank"}),
}


def _rows(kind):
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(120, 3)), columns=["a", "b", "c"])
    X["colour"] = generator.choice(["red", "blue", None], 120)
    signal = X["a"].to_numpy() + 0.5 * X["b"].to_numpy()
    if "ranker" in kind:
        return X.assign(query=np.repeat(np.arange(12), 10)), np.digitize(signal, [0.3, 1])
    if kind == "several labels":
        return X, np.column_stack([signal > 0, signal > 0.5]).astype(int)
    if kind == "several numbers":
        return X, np.column_stack([signal, -signal])
    if kind == "three classes":
        return X, np.array(["low", "middle", "high"])[np.digitize(signal, [-0.3, 0.5])]
    return X, (signal if issubclass(KINDS[kind][0], NRSRegressor) else signal > 0)


@pytest.mark.parametrize("kind", KINDS)
def test_from_fit_to_other_runtimes(kind, tmp_path):
    estimator, arguments = KINDS[kind]
    X, y = _rows(kind)
    ranks = estimator is NRSRanker
    model = estimator(**QUICK, **arguments)
    model.fit(X, y, **({"qid": "query"} if ranks else {}))

    # Save and load.
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = estimator.load(path)
    expected = model.predict(X)
    assert np.array_equal(loaded.predict(X), expected)

    # Info: what the file says of itself.
    file = read_model(path)
    assert file.header["estimator"] == estimator.__name__
    assert file.made["rows"] == len(X)
    said = runner.invoke(app, ["info", str(path), "--json"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.output)["kind"] == ("ranker" if ranks else "table")

    # Evaluate.
    score = loaded.score(X, y)
    assert np.isfinite(score)
    assert score == model.score(X, y)
    if ranks:
        assert float(loaded.evaluate(X, y, metric="map")) > 0

    # Explain: by column, by tree, by Shapley values.
    read = [name for name in X.columns if name != "query"]
    importances = loaded.feature_importances_
    assert importances.shape == (len(read),)
    assert importances.sum() == pytest.approx(1)
    why = attribute(loaded, X[:5])
    assert why.column_names == read
    assert np.allclose(why.features.sum(1), why.outputs - why.base, rtol=0.02, atol=0.02)
    assert len(loaded.trees(3)) == 3
    if kind not in ("several labels", "several numbers"):
        shown = shap_values(loaded, X[:2], X[10:20], max_evals=40)
        assert shown.values.shape[:2] == (2, len(read))

    # Export: as a module, and as a file that takes raw rows.
    module = loaded.to_torch()
    features = torch.from_numpy(loaded.encoder_.transform(X[read]))
    answers = loaded.predict_proba(X) if hasattr(loaded, "predict_proba") else expected
    found = module(features).numpy()
    assert np.allclose(found.reshape(np.shape(answers)), answers, atol=1e-5)
    loaded.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    results = session.run(None, onnx_inputs(loaded, X))
    assert np.allclose(np.reshape(results[-1], np.shape(answers)), answers, atol=1e-4)
    if ranks:
        assert session.get_outputs()[0].name == "score"


@pytest.mark.parametrize("use", ["to_torch", "to_onnx", "attribute"])
def test_a_ranker_that_scales_within_queries_says_why_it_has_no_single_rows(use, tmp_path):
    X, y = _rows("ranker")
    model = NRSRanker(query_scale="standard", preset="fast", **QUICK).fit(X, y, qid="query")
    calls = {
        "to_torch": model.to_torch,
        "to_onnx": lambda: model.to_onnx(tmp_path / "model.onnx"),
        "attribute": lambda: attribute(model, X[:2]),
    }
    with pytest.raises(ValueError, match="scales features within queries"):
        calls[use]()
    assert not list(tmp_path.iterdir())
