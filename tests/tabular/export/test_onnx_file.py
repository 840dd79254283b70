"""A raw row into an ONNX file gives what the model says of it."""

import json

import numpy as np
import pytest
import torch
from scipy import sparse

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.encode.category import missing_text
from nrs.tabular.export import onnx_inputs, onnx_schema
from tests.tabular.mixed import mixed_table, strange_rows

pytest.importorskip("onnx", reason="needs onnx")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

FAST = {"preset": "fast", "epochs": 2, "random_state": 0, "verbose": 0}


def run(model, X, path):
    """Outputs by name for all rows at once, after checking that single rows give the same."""
    model.to_onnx(path)
    session = runtime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    feed = onnx_inputs(model, X)
    assert {entry.name for entry in session.get_inputs()} == set(feed)
    together = dict(zip(names, session.run(None, feed), strict=True))
    for row in (0, 3, len(X) - 1):
        alone = session.run(None, {name: values[row : row + 1] for name, values in feed.items()})
        for name, values in zip(names, alone, strict=True):
            if values.dtype.kind == "f":
                np.testing.assert_allclose(values[0], together[name][row], rtol=1e-5, atol=1e-6)
            else:
                assert np.array_equal(values[0], together[name][row])
    return together


@pytest.mark.parametrize("preset", ["fast", "single", "paper"])
def test_two_classes_of_every_kind_of_column(preset, tmp_path):
    X, y = mixed_table()
    model = NRSClassifier(**FAST | {"preset": preset}).fit(X, np.where(y, "yes", "no"))
    rows = strange_rows(X)
    if preset == "paper":
        rows.loc[6, "age"] = 50.0  # values as they are: 1e30 swamps float32 in any arithmetic
    outputs = run(model, rows, tmp_path / "m.onnx")
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(rows), atol=1e-5)
    assert outputs["label"].tolist() == model.predict(rows).tolist()


def test_26_classes_of_an_array(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(520, 16)), np.arange(520) % 26
    X[::9, 3] = np.nan
    model = NRSClassifier(**FAST).fit(X, y)
    outputs = run(model, X, tmp_path / "m.onnx")
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X), atol=1e-5)
    assert outputs["label"].dtype == np.int64
    assert np.array_equal(outputs["label"], model.predict(X))


@pytest.mark.parametrize("kind", ["classes", "multilabel", "regression"])
def test_members_that_do_not_count_alike(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = {"classes": X[:, 0] > 0, "multilabel": X[:, :2] > 0, "regression": X[:, 0]}[kind]
    estimator = NRSRegressor if kind == "regression" else NRSClassifier
    model = estimator(**FAST).fit(X, y)
    before = model.predict(X) if kind == "regression" else model.predict_proba(X)
    model.network_.shares.copy_(torch.arange(model.network_.n_members))
    model.predictor_ = model.network_.fold().requires_grad_(False)
    after = model.predict(X) if kind == "regression" else model.predict_proba(X)
    assert not np.allclose(before, after)
    outputs = run(model, X, tmp_path / "m.onnx")
    name = "prediction" if kind == "regression" else "probabilities"
    np.testing.assert_allclose(outputs[name], after, atol=1e-5)


@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_numbers(n_outputs, tmp_path):
    X, _ = mixed_table()
    rng = np.random.default_rng(1)
    y = rng.normal(1e4, 50, size=len(X) if n_outputs is None else (len(X), n_outputs))
    model = NRSRegressor(**FAST).fit(X, y)
    rows = strange_rows(X)
    expected = model.predict(rows)
    (found,) = run(model, rows, tmp_path / "m.onnx").values()
    assert found.shape == expected.shape
    # 1e-5 of the target's own spread; the cell of 1e30 leads far from it.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * 50)


@pytest.mark.parametrize("preset", ["fast", "single"])
def test_several_labels_at_once(preset, tmp_path):
    X, y = mixed_table()
    labels = np.column_stack([y, X["member"], X["year"] > 2005]).astype(int)
    model = NRSClassifier(**FAST | {"preset": preset}).fit(X, labels)
    outputs = run(model, X, tmp_path / "m.onnx")
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X), atol=1e-5)
    assert np.array_equal(outputs["labels"], model.predict(X))


def test_wide_tables_and_groups_of_learners(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 150))
    y = (X[:, 0] > 0).astype(int)
    forest = NRSClassifier(**FAST, n_h=1).fit(X, y)
    grouped = NRSClassifier(preset="single", n_per=2, epochs=1, random_state=0, verbose=0)
    grouped.fit(X, y)
    # As lists of features rather than as one matrix.
    monkeypatch.setattr("nrs.tabular.export.module.MAX_CELLS", 0)
    for model in (forest, grouped):
        outputs = run(model, X, tmp_path / "m.onnx")
        np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X), atol=1e-5)


def test_every_month_and_weekday_of_400_years(tmp_path):
    dates = np.arange("1800-01-01", "2200-01-01", 13, dtype="datetime64[D]")
    X = dates.astype("datetime64[us]").astype(object)[:, None]
    model = NRSRegressor(**FAST).fit(X[::20], np.arange(len(X[::20])))
    (found,) = run(model, X, tmp_path / "m.onnx").values()
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-5, atol=1e-3)


def test_a_column_may_be_called_as_an_output(tmp_path):
    X, y = mixed_table(60)
    X = X.rename(columns={"age": "label", "year": "probabilities"})
    model = NRSClassifier(**FAST).fit(X, y)
    assert set(run(model, X, tmp_path / "m.onnx")) == {"label_", "probabilities_"}


def test_a_table_without_any_feature(tmp_path):
    X = np.ones((30, 2))
    model = NRSClassifier(**FAST).fit(X, np.arange(30) % 2)
    outputs = run(model, X, tmp_path / "m.onnx")
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X), atol=1e-5)


def test_an_empty_text_may_be_a_category(tmp_path):
    X = [["", 1.0], ["b", 2.0], [None, 3.0], ["c", 1.0]] * 10
    model = NRSClassifier(**FAST).fit(X, [0, 1, 1, 0] * 10)
    assert onnx_inputs(model, X[:3])["x0"].ravel().tolist() == ["", "b", "(missing)"]
    outputs = run(model, X, tmp_path / "m.onnx")
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X), atol=1e-5)
    assert missing_text(["", "(missing)"]) == "((missing))"


def test_the_file_tells_its_columns(tmp_path):
    X, y = mixed_table(60)
    model = NRSClassifier(**FAST).fit(X, y)
    model.to_onnx(tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    schema = json.loads(session.get_modelmeta().custom_metadata_map["nrs"])
    assert schema == onnx_schema(model)
    assert [column["name"] for column in schema["columns"]] == list(X.columns)
    side = schema["columns"][4]
    assert side == {
        "name": "side", "kind": "category", "type": "string", "missing": "",
        "levels": ["left", "right"],
    }  # fmt: skip
    assert schema["classes"] == [False, True]


def test_a_loaded_model_writes_the_same_file(tmp_path):
    X, y = mixed_table(60)
    model = NRSClassifier(**FAST).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    model.to_onnx(tmp_path / "a.onnx")
    NRSClassifier.load(tmp_path / "m.safetensors").to_onnx(tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_what_cannot_be_written(tmp_path, monkeypatch):
    X = sparse.random(40, 6, 0.5, format="csr", random_state=0)
    model = NRSClassifier(**FAST).fit(X, np.arange(40) % 2)
    path = tmp_path / "m.onnx"
    with pytest.raises(
        ValueError, match=r"ONNX has no sparse rows, .* fitted to a sparse matrix\. Fit it to"
    ):
        model.to_onnx(path)
    dense = NRSClassifier(**FAST).fit(X.toarray(), np.arange(40) % 2)
    path.write_bytes(b"before")
    monkeypatch.setattr("nrs.tabular.export.graph.MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 1,000 bytes; this model has"):
        dense.to_onnx(path)
    assert path.read_bytes() == b"before"
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"\[export\]"):
        dense.to_onnx(path)
