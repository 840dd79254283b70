"""Several columns of classes: each is learned as if it were alone, whatever labels are missing."""

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss
from sklearn.utils.class_weight import compute_sample_weight

from nrs import NRSClassifier
from nrs.tabular.export import onnx_inputs, onnx_schema
from nrs.tabular.targets import (
    ClassTarget,
    ColumnsTarget,
    MultilabelTarget,
    is_columns,
    label_columns,
    target_from_state,
    target_state,
)

RNG = np.random.default_rng(0)
N = 300
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
X["kind"] = RNG.choice(["x", "y", "z"], N)
COLOUR = np.where(X.a > 0.5, "red", np.where(X.b > 0, "blue", "green")).astype(object)
SIZE = (X.b > 0).to_numpy() * 1 + (X.kind == "x").to_numpy()
LABELS = np.column_stack([COLOUR, SIZE.astype(object)])
MISSING = LABELS.copy()
MISSING[::5, 0], MISSING[1::7, 1] = None, np.nan
MISSING[3] = None
QUICK = {"preset": "fast", "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def model():
    return NRSClassifier(**QUICK).fit(X, MISSING)


def test_predictions_have_the_shapes_that_a_random_forest_gives(model):
    assert [one.tolist() for one in model.classes_] == [["blue", "green", "red"], [0, 1, 2]]
    predicted, chances = model.predict(X), model.predict_proba(X)
    assert predicted.shape == (N, 2)
    for place, (own, classes) in enumerate(zip(chances, model.classes_, strict=True)):
        assert own.shape == (N, 3)
        np.testing.assert_allclose(own.sum(1), 1, rtol=1e-12)
        assert predicted[:, place].tolist() == classes[own.argmax(1)].tolist()
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)[place]), own, rtol=1e-12)
        assert model.decision_function(X)[place].shape == (N, 3)
        assert model.oob_decision_function_[place].shape == (N, 3)
    assert model.member_outputs(X).shape == (model.network_.n_members, N, 6)
    entropy = model.predict_entropy(X)
    assert ((entropy >= 0) & (entropy <= 1)).all()


def test_scores_count_known_labels_only(model):
    codes = model.target_.encode(MISSING)
    chosen = np.column_stack([one.argmax(1) for one in model.oob_decision_function_])
    right, some = ((chosen == codes) | (codes < 0)).all(1), (codes >= 0).any(1)
    assert not some.all()
    assert model.oob_score_ == pytest.approx(right[some].mean())
    assert model.oob_score_ > 0.6
    full = model.score(X, LABELS)
    assert full == np.mean((model.predict(X) == LABELS).all(1))
    assert model.score(X, MISSING) >= full
    weights = np.arange(N) < 100
    assert model.score(X, LABELS, weights) == model.score(X[:100], LABELS[:100])


def test_missing_labels_change_nothing_but_their_own_loss():
    target = ColumnsTarget.of(LABELS)
    outputs, y = torch.randn(4, 6, N), torch.from_numpy(target.encode(MISSING))
    alone = torch.zeros(4, N)
    for place, part in enumerate(outputs.split(3, 1)):
        known = y[:, place] >= 0
        own = ClassTarget(target.classes[place]).losses(part[..., known], y[known, place])
        alone[:, known] += own / 2
    torch.testing.assert_close(target.losses(outputs, y), alone)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    weighted=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_gradients_are_those_of_the_loss(sizes, weighted, seed):
    rng = np.random.default_rng(seed)
    labels = np.column_stack([rng.permutation(np.arange(30) % size) for size in sizes])
    labels = labels.astype(object)
    target = ColumnsTarget.of(labels, "balanced" if weighted else None)
    y = target.encode(labels)
    y[rng.random(y.shape) < 0.3] = -1
    outputs = torch.from_numpy(rng.normal(size=(3, sum(sizes), 30)))
    outputs.requires_grad_()
    (found,) = torch.autograd.grad(target.losses(outputs, torch.from_numpy(y)).sum(), outputs)
    closed = target.gradient(outputs.detach(), torch.from_numpy(y))
    torch.testing.assert_close(closed, found, rtol=1e-9, atol=1e-9)
    again = target_from_state(target_state(target))
    torch.testing.assert_close(again.gradient(outputs.detach(), torch.from_numpy(y)), closed)


def test_each_column_has_a_temperature_of_its_own():
    rng = np.random.default_rng(0)
    target = ColumnsTarget.of(np.array([[0, 0], [1, 1], [2, 2]], dtype=object))
    right = 2 * rng.normal(size=(2, 2000, 3))
    truth = (right + rng.gumbel(size=right.shape)).argmax(2).T
    # Twice as sure of one column as it should be, half as sure of the other.
    outputs = torch.from_numpy(np.concatenate([right[0] * 2, right[1] / 2], axis=1)).float()
    scored = target.finish(outputs.t()[None], torch.from_numpy(truth), None)
    found = scored.temperature * np.array(target.temperatures)
    np.testing.assert_allclose(found, [2, 0.5], rtol=0.1)
    for place, chances in enumerate(target.presented(scored.answers)):
        best = log_loss(truth[:, place], chances)
        for factor in (0.8, 1.25):
            other = np.exp(np.log(chances) * factor)
            assert best < log_loss(truth[:, place], other / other.sum(1, keepdims=True))


def test_answers_in_order_of_time_know_no_later_label():
    target = ColumnsTarget.of(LABELS)
    outputs, y = 3 * torch.randn(1, 6, N), torch.from_numpy(target.encode(MISSING))
    blocks = torch.arange(N) // 100
    first = target.finish_in_order(outputs, y, None, None, blocks).answers
    y[200:] = y[200:].flip(0)
    again = ColumnsTarget.of(LABELS).finish_in_order(outputs, y, None, None, blocks).answers
    np.testing.assert_array_equal(again[:200], first[:200])


def test_class_weights_are_those_of_each_column():
    rare = (np.arange(N) % 10 == 0) & (X.a > -1).to_numpy()
    y = np.column_stack([np.where(rare, "rare", "usual"), COLOUR]).astype(object)
    plain = NRSClassifier(**QUICK).fit(X, y)
    even = NRSClassifier(**QUICK, class_weight=["balanced", None]).fit(X, y)
    assert (even.predict(X)[:, 0] == "rare").sum() > (plain.predict(X)[:, 0] == "rare").sum()
    # Probabilities are those of rows as they come.
    assert even.predict_proba(X)[0][:, 0].mean() == pytest.approx(rare.mean(), abs=0.05)
    assert accuracy_score(COLOUR, even.predict(X)[:, 1].tolist()) > 0.8
    for column, labels in zip(even.target_.columns[:1], [y[:, 0].astype(str)], strict=True):
        expected = compute_sample_weight("balanced", labels)
        np.testing.assert_allclose(column.class_weights[column.encode(labels)], expected)
    for wrong in ({"rare": 2}, ["balanced"]):
        with pytest.raises(ValueError, match="class_weight must be 'balanced' or a list with an"):
            NRSClassifier(**QUICK, class_weight=wrong).fit(X, y)


@pytest.mark.parametrize("weights", [None, [{"red": 2.0, "blue": 1.0, "green": 1.0}, "balanced"]])
def test_a_file_holds_all_of_it(weights, tmp_path):
    model = NRSClassifier(**QUICK, epochs=3, class_weight=weights).fit(X, MISSING)
    model.save(tmp_path / "model")
    loaded = NRSClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for one, two in zip(loaded.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, two)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    again = loaded.set_params(random_state=0, verbose=0).fit(X, MISSING)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_an_export_says_the_same(model, weights, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    if weights is not None:
        model = NRSClassifier(**QUICK, epochs=3, class_weight=weights).fit(X, MISSING)
    model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    names = [one.name for one in session.get_outputs()]
    found = dict(zip(names, session.run(None, onnx_inputs(model, X)), strict=True))
    chances = model.predict_proba(X)
    module = model.to_torch()(torch.from_numpy(model.encoder_.transform(X))).numpy()
    np.testing.assert_allclose(module, np.concatenate(chances, axis=1), atol=1e-5)
    for place, own in enumerate(chances):
        np.testing.assert_allclose(found[f"probabilities_{place}"], own, atol=1e-5)
        assert found[f"label_{place}"].tolist() == model.predict(X)[:, place].tolist()
    assert onnx_schema(model)["classes"] == [["blue", "green", "red"], [0, 1, 2]]


def test_explanations_are_of_a_class_against_the_others_of_its_column(model):
    from nrs.explain import attribute

    assert model.feature_importances_.sum() == pytest.approx(1)
    assert len(model.trees(3)) == 3
    chances = model.predict_proba(X[:4])
    for target, (column, number) in {None: (0, None), 2: (0, 2), 4: (1, 1)}.items():
        why = attribute(model, X[:4], target=target)
        number = chances[column].argmax(1) if number is None else np.full(4, number)
        p = chances[column][np.arange(4), number]
        np.testing.assert_allclose(why.outputs, np.log(p / (1 - p)), rtol=1e-4, atol=1e-4)


def test_more_rows_bring_labels_that_were_announced():
    first = LABELS[np.isin(SIZE, (0, 1))]
    known = [["blue", "green", "red"], [0, 1, 2]]
    rows = X[np.isin(SIZE, (0, 1))]
    some = NRSClassifier(**QUICK).partial_fit(rows, first, classes=known)
    some.partial_fit(X, LABELS)
    assert some.predict(X).shape == (N, 2)
    with pytest.raises(ValueError, match="y holds the label 2, which is not among the classes"):
        NRSClassifier(**QUICK).partial_fit(rows, first).partial_fit(X, LABELS)


@pytest.mark.usefixtures("forked_workers")
def test_workers_learn_the_same():
    one, two = (
        NRSClassifier(**QUICK, epochs=2, n_workers=n, divide="members").fit(X, MISSING)
        for n in (1, 2)
    )
    for own, other in zip(one.predict_proba(X), two.predict_proba(X), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5)


@pytest.mark.parametrize("more", [{"preset": "single"}, {"time": True}, {"metric": "roc_auc"}])
def test_other_ways_to_fit(more):
    given = {"time": np.arange(N)} if more.pop("time", False) else {}
    model = NRSClassifier(**QUICK | {"epochs": 3} | more)
    model.fit(X, MISSING, eval_set=(X[:60], MISSING[:60]) if not given else None, **given)
    assert model.predict(X).shape == (N, 2)


def test_any_frame_of_labels_is_read_column_by_column():
    data = {"colour": ["red", None, "blue"], "size": [1, 2, None]}
    expected = [["red", 1], [None, 2], ["blue", None]]
    for y in (pd.DataFrame(data), polars.DataFrame(data), pyarrow.table(data), expected):
        assert is_columns(y)
        target = ColumnsTarget.of(label_columns(y))
        assert target.encode(label_columns(y)).tolist() == [[1, 0], [-1, 1], [0, -1]]
        assert [one.tolist() for one in target.classes] == [["blue", "red"], [1, 2]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full((N, 2), None), "y must have a label in each column; column 0 has none"),
        (RNG.normal(size=(N, 2)), "Unknown label type: continuous"),
    ],
)
def test_what_are_no_labels_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        NRSClassifier(**QUICK).fit(X, y)


def test_what_several_columns_cannot_have_is_refused(model):
    for settings_of, message in (
        ({"threshold": 0.3}, "threshold is for two classes"),
        ({"monotone": {"a": 1}}, "monotone is for numbers and for two classes"),
        ({"loss": lambda outputs, y: outputs[:, 0]}, "Fit a model to each column"),
    ):
        with pytest.raises(ValueError, match=message):
            NRSClassifier(**QUICK, **settings_of).fit(X, LABELS)
    with pytest.raises(ValueError, match="sets are for one label per row"):
        model.predict_set(X)
    with pytest.raises(ValueError, match="y must have 2 labels per row as in training"):
        model.score(X, LABELS[:, [0, 1, 1]])


def test_labels_that_are_0_and_1_in_all_columns_stay_multilabel():
    y = np.column_stack([X.a > 0, X.b > 0])
    for labels in (y, y.astype(int), y.astype(float)):
        target = NRSClassifier(**QUICK, epochs=1).fit(X, labels).target_
        assert isinstance(target, MultilabelTarget)
    missing = y.astype(float)
    missing[0, 0] = np.nan
    assert isinstance(NRSClassifier(**QUICK, epochs=1).fit(X, missing).target_, ColumnsTarget)
    with pytest.raises(ValueError, match="y must hold 0 or 1 in each column, as in training"):
        NRSClassifier(**QUICK, epochs=1).partial_fit(X, y).partial_fit(X, SIZE[:, None] + [0, 1])
