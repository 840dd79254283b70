"""Every kind of table model and ranker, from fit to other runtimes."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import r2_score

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
    "several columns of classes": (NRSClassifier, {"preset": "fast"}),
    "single classifier": (NRSClassifier, {"preset": "single"}),
    "paper's classifier": (NRSClassifier, {"preset": "paper"}),
    "number": (NRSRegressor, {"preset": "fast"}),
    "rising number": (NRSRegressor, {"preset": "fast", "monotone": {"a": 1}}),
    "several numbers": (NRSRegressor, {"preset": "fast"}),
    "quantiles": (NRSRegressor, {"preset": "fast", "loss": "quantile", "quantiles": (0.1, 0.5)}),
    "counts": (NRSRegressor, {"preset": "fast", "loss": "poisson"}),
    "times": (NRSRegressor, {"preset": "fast", "loss": "aft"}),
    "single regressor": (NRSRegressor, {"preset": "single"}),
    "ranker": (NRSRanker, {"preset": "fast"}),
    "single ranker": (NRSRanker, {"preset": "single"}),
    "paper's ranker": (NRSRanker, {"preset": "paper", "loss": "wass_rank"}),
    "ranker within queries": (NRSRanker, {"preset": "fast", "query_scale": "standard"}),
}


def _rows(kind):
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(120, 3)), columns=["a", "b", "c"])
    X["colour"] = generator.choice(["red", "blue", None], 120)
    signal = X["a"].to_numpy() + 0.5 * X["b"].to_numpy()
    if "ranker" in kind:
        return X.assign(query=np.repeat(np.arange(12), 10)), np.digitize(signal, [0.3, 1])
    if kind == "several columns of classes":
        names = np.array(["low", "high"], dtype=object)[(signal > 0).astype(int)]
        return X, np.column_stack([names, np.digitize(signal, [-0.3, 0.5])])
    if kind == "several labels":
        return X, np.column_stack([signal > 0, signal > 0.5]).astype(int)
    if kind == "counts":
        return X, generator.poisson(np.exp(signal / 2)).astype(float)
    if kind == "times":
        times = np.exp(signal)
        return X, np.column_stack([times, np.where(generator.random(120) < 0.3, np.inf, times)])
    if kind == "several numbers":
        return X, np.column_stack([signal, -signal])
    if kind == "three classes":
        return X, np.array(["low", "middle", "high"])[np.digitize(signal, [-0.3, 0.5])]
    return X, (signal if issubclass(KINDS[kind][0], NRSRegressor) else signal > 0)


def _run(*arguments):
    result = runner.invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def _check_commands(model, path, X, y):
    """Every command of a model gives what its methods give."""
    y = np.asarray(y)
    targets = ["y"] if y.ndim == 1 else ["first", "second"]
    shuffled = X[X.columns[::-1]]
    shuffled.assign(**dict(zip(targets, y.T.reshape(len(targets), -1), strict=True))).to_csv(
        path.with_name("rows.csv"), index=False
    )
    rows, ranks = path.with_name("rows.csv"), isinstance(model, NRSRanker)

    _run("predict", path, rows, "-o", path.with_name("out.csv"))
    written = pd.read_csv(path.with_name("out.csv"))
    columns = [name for name in written.columns if name.startswith("prediction")]
    found, expected = written[columns].to_numpy(), np.asarray(model.predict(X))
    assert np.array_equal(found.astype(str), expected.reshape(len(X), -1).astype(str)) or (
        np.allclose(found.astype(float), expected.reshape(len(X), -1), rtol=1e-6)
    )

    scores = json.loads(_run("evaluate", path, rows, "--target", ",".join(targets), "--json"))
    assert scores["rows"] == len(X)
    if ranks:
        assert scores["ndcg@10"] == pytest.approx(model.score(X, y))
    elif model.target_.kind == "aft":
        assert scores["concordance"] == pytest.approx(model.score(X, y))
    elif "all_right" in scores:
        assert scores["all_right"] == pytest.approx((expected == y).all(1).mean())
    elif "accuracy" in scores:
        right = expected == y
        assert scores["accuracy"] == pytest.approx(right.mean())
    else:
        assert scores["r2"] == pytest.approx(r2_score(y, expected))

    page = path.with_name("page.html")
    page.unlink(missing_ok=True)
    given = () if getattr(model, "scaler_", None) is not None else (rows, "--output", page)
    shown = json.loads(_run("explain", path, *given, "--trees", 2, "--json"))
    assert set(shown["importance"]) == set(model.feature_names_in_)
    assert len(shown["trees"]) == 2
    assert page.exists() == bool(given)


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

    _check_commands(loaded, path, X, y)

    # Evaluate.
    score = loaded.score(X, y)
    assert np.isfinite(score)
    assert score == model.score(X, y)
    if ranks:
        assert float(loaded.evaluate(X, y, metric="map")) > 0

    # Explain: by column, by tree, by Shapley values.
    within = getattr(loaded, "scaler_", None) is not None
    read = [name for name in X.columns if name != "query"]
    importances = loaded.feature_importances_
    assert importances.shape == (len(read),)
    assert importances.sum() == pytest.approx(1)
    assert len(loaded.trees(3)) == 3
    if within:
        # A row alone has no answer, which a test below is about.
        return
    why = attribute(loaded, X[:5])
    assert why.column_names == read
    assert np.allclose(why.features.sum(1), why.outputs - why.base, rtol=0.02, atol=0.02)
    if kind not in ("several labels", "several numbers"):
        shown = shap_values(loaded, X[:2], X[10:20], max_evals=40)
        assert shown.values.shape[:2] == (2, len(read))

    # Export: as a module, and as a file that takes raw rows.
    module = loaded.to_torch()
    features = torch.from_numpy(loaded.encoder_.transform(X[read]))
    answers = loaded.predict_proba(X) if hasattr(loaded, "predict_proba") else expected
    if kind == "quantiles":
        answers = loaded.predict_quantiles(X)
    if kind == "several columns of classes":
        answers = np.concatenate(answers, axis=1)
    found = module(features).numpy()
    assert np.allclose(found.reshape(np.shape(answers)), answers, atol=1e-5)
    _run("export", path, "-o", tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    results = session.run(None, onnx_inputs(loaded, X))
    if kind == "several columns of classes":
        results = [np.concatenate(results[1::2], axis=1)]
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
