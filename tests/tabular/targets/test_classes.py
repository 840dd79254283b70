"""Classes and labels per row: what is refused, and when a temperature is certain."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import balanced_accuracy_score, log_loss

from nrs import NRSClassifier
from nrs.tabular.targets import ClassTarget, find_temperature, target_from_state

QUICK = {"preset": "fast", "epochs": 1, "random_state": 0, "verbose": 0}
X = np.random.default_rng(0).normal(size=(60, 3))
ONE = (X[:, 0] > 0).astype(int)
TWO = (X[:, :2] > 0).astype(int)


@pytest.mark.parametrize("values", [(-1, 1), (1, 2), (0, 2), (0.0, 3.0)])
def test_several_labels_are_0_or_1(values):
    with pytest.raises(ValueError, match=r"must hold 1 where a label applies, else 0; got "):
        NRSClassifier(**QUICK).fit(X, np.array(values)[TWO])
    assert NRSClassifier(**QUICK).fit(X, TWO == 1).predict(X).shape == (60, 2)


@pytest.mark.parametrize(
    ("first", "then"), [(TWO, ONE), (ONE, TWO), (TWO, np.column_stack([TWO, ONE]))]
)
def test_another_number_of_labels_than_before_is_refused(first, then):
    model = NRSClassifier(**QUICK).partial_fit(X, first)
    with pytest.raises(ValueError, match=r"y must have .* as in training; its shape is"):
        model.partial_fit(X, then)
    with pytest.raises(ValueError, match=r"y must have .* as in training; its shape is"):
        NRSClassifier(**QUICK).fit(X, first, eval_set=(X, then))


def test_the_classes_of_partial_fit_come_in_any_collection():
    for classes in ({0, 1, 2}, pd.Index([2, 1, 0]), (0, 1, 2), np.array([0, 1, 2], dtype=object)):
        model = NRSClassifier(**QUICK).partial_fit(X, ONE, classes=classes)
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.classes_.dtype.kind == "i"
    several = NRSClassifier(**QUICK).partial_fit(X, TWO, classes=[0, 1])
    assert several.predict(X).shape == (60, 2)
    for wrong in (["a", None], "ab"):
        with pytest.raises(ValueError, match="classes must list all labels"):
            NRSClassifier(**QUICK).partial_fit(X, np.array(["a", "b"])[ONE], classes=wrong)


def test_rows_of_weight_zero_do_not_make_a_temperature_certain():
    target, truth = ClassTarget(np.arange(2)), torch.arange(400) % 4 // 3
    outputs = torch.tensor([[4.0, 0.0]]).repeat(400, 1)
    weights = (torch.arange(400) < 4).float()
    few = find_temperature(target, outputs[:4], truth[:4])
    assert find_temperature(target, outputs, truth, weights * 100) == few
    assert few < find_temperature(target, outputs, truth)


@given(
    st.lists(st.floats(0.01, 100), min_size=2, max_size=4),
    arrays(np.float32, (7, 4), elements=st.floats(-8, 8, width=32)),
)
def test_probabilities_are_of_rows_as_they_come_and_decisions_of_weighted_ones(weights, outputs):
    n_classes = len(weights)
    target = ClassTarget(np.arange(n_classes), None, np.array(weights))
    target = target_from_state(json.loads(json.dumps(target.state())))
    shown = torch.from_numpy(outputs[:, :n_classes].copy())
    chances, plain = target.answer(shown), ClassTarget(np.arange(n_classes)).answer(shown)
    often = chances * np.array(weights)
    np.testing.assert_allclose(often / often.sum(1, keepdims=True), plain, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(target.to_torch()(shown), chances, rtol=1e-4, atol=1e-6)
    # What is predicted is the largest probability times weight, unless two are equal.
    first, second = np.sort(often, 1)[:, -1], np.sort(often, 1)[:, -2]
    clear = first > second * (1 + 1e-5)
    np.testing.assert_array_equal(target.choose(chances)[clear], target.labels(shown)[clear])
    if n_classes == 2:
        above = chances[:, 1] >= target.cut
        np.testing.assert_array_equal(above[clear], (target.labels(shown) == 1)[clear])


@pytest.mark.parametrize("preset", ["fast", "single"])
def test_class_weights_move_decisions_and_leave_probabilities_calibrated(preset, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 3)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=1_500) > 2
    settings = {"preset": preset, "random_state": 0, "verbose": 0, "epochs": 6, "lr": 0.01}
    plain = NRSClassifier(**settings).fit(X[:1_000], y[:1_000])
    model = NRSClassifier(class_weight="balanced", **settings).fit(X[:1_000], y[:1_000])
    tried, truth = X[1_000:], y[1_000:]
    chances, labels = model.predict_proba(tried), model.predict(tried)
    assert 0.02 < chances[:, 1].mean() < 0.15
    assert log_loss(truth, chances) < log_loss(truth, plain.predict_proba(tried)) + 0.03
    scores = [balanced_accuracy_score(truth, one.predict(tried)) for one in (plain, model)]
    assert scores[1] > scores[0] + 0.1
    np.testing.assert_array_equal(labels, chances[:, 1] >= model.threshold_)
    np.testing.assert_array_equal(labels, model.decision_function(tried) >= 0)
    np.testing.assert_allclose(
        model.to_torch()(torch.from_numpy(model.encoder_.transform(tried))).detach(),
        chances,
        atol=1e-5,
    )
    model.save(tmp_path / "model")
    loaded = NRSClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(tried), chances)
    np.testing.assert_array_equal(loaded.predict(tried), labels)
    if preset == "fast":
        assert abs(model.oob_decision_function_[:, 1].mean() - y[:1_000].mean()) < 0.05
    onnxruntime = pytest.importorskip("onnxruntime")
    model.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(None, {"X": tried.astype(np.float64)})
    np.testing.assert_array_equal(found[0], labels)
    np.testing.assert_allclose(found[1], chances, atol=1e-5)


def test_a_class_that_has_not_come_yet_weighs_one():
    model = NRSClassifier(class_weight="balanced", **QUICK)
    model.partial_fit(X, np.repeat([0, 1], [45, 15]), classes=[0, 1, 2])
    np.testing.assert_allclose(model.target_.class_weights, [2 / 3, 2, 1])
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_single_class_may_weigh_too(tmp_path):
    model = NRSClassifier(class_weight="balanced", **QUICK).fit(X, np.zeros(60))
    model.save(tmp_path / "model")
    assert (NRSClassifier.load(tmp_path / "model").predict_proba(X) == 1).all()
