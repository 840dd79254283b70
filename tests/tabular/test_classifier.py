"""What a user of scikit-learn's classifiers expects."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from pyarrow import parquet
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nrs import NRSClassifier, Table
from nrs.training import Callback, DivergenceError

QUICK = {"epochs": 12, "random_state": 0, "verbose": 0}
FAST = {"preset": "fast", **QUICK}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def fitted(iris):
    return NRSClassifier(**QUICK).fit(*iris)


def test_predictions_agree_with_each_other(iris, fitted):
    X, y = iris
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_array_equal(fitted.classes_[probabilities.argmax(1)], fitted.predict(X))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), probabilities)
    assert fitted.decision_function(X).shape == (150, 3)
    assert fitted.score(X, y) > 0.9


def test_a_row_is_predicted_alike_alone_and_in_company(iris, fitted):
    X, _ = iris
    together = fitted.predict_proba(X)
    for size in (1, 2, 7, 100):
        np.testing.assert_array_equal(fitted.predict_proba(X[:size]), together[:size])


@pytest.mark.parametrize("labels", [["no", "yes"], [-1, 1], [False, True], [2.0, 4.0]])
def test_any_label_type(labels):
    X, y = make_classification(80, 5, random_state=0)
    y = np.array(labels)[y]
    model = NRSClassifier(**FAST).fit(X, y)
    predicted = model.predict(X)
    assert predicted.dtype == y.dtype
    assert set(predicted) <= set(y)
    odds = model.decision_function(X)
    assert odds.shape == (80,)
    np.testing.assert_array_equal(odds > 0, predicted == labels[1])


@pytest.mark.parametrize("kind", ["list", "series", "categorical", "polars", "arrow"])
def test_labels_of_any_container(kind):
    X, y = make_classification(60, 4, random_state=0)
    names = np.array(["a", "b"])[y]
    if kind == "list":
        labels = names.tolist()
    elif kind in ("series", "categorical"):
        pandas = pytest.importorskip("pandas")
        labels = pandas.Series(names, dtype="category" if kind == "categorical" else None)
    elif kind == "polars":
        labels = pytest.importorskip("polars").Series(names)
    else:
        labels = pytest.importorskip("pyarrow").array(names)
    model = NRSClassifier(**FAST).fit(X, labels)
    assert model.classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "labels",
    [
        ["yes", None, "no"] * 4,
        pd.Series(["yes", pd.NA, "no"] * 4, dtype="string"),
        pd.Series(["yes", None, "no"] * 4, dtype="category"),
        pd.Series([True, pd.NA, False] * 4, dtype="boolean"),
        [1, None, 0] * 4,
    ],
    ids=["list", "strings", "categories", "booleans", "numbers"],
)
def test_missing_labels_are_refused(labels):
    with pytest.raises(ValueError, match=r"y contains NaN"):
        NRSClassifier(**QUICK).fit(np.zeros((12, 2)), labels)


@pytest.mark.parametrize("preset", ["fast", "single"])
def test_labels_of_any_dtype_give_the_same_fit(preset):
    X, y = make_classification(120, 4, weights=[0.8], random_state=0)
    quick = {**QUICK, "preset": preset, "epochs": 2}
    first, *others = (
        NRSClassifier(**quick).fit(X, labels).predict_proba(X)
        for labels in (y, y.astype(float), y.astype(bool), np.array(["a", "b"])[y])
    )
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_multilabel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = np.stack([X[:, 0] > 0, X[:, 1] + X[:, 2] > 0, X[:, 3] > 1], 1).astype(int)
    model = NRSClassifier(**FAST | {"epochs": 40}).fit(X, y)
    assert model.predict_proba(X).shape == (300, 3)
    assert (model.predict(X) == y).mean() > 0.85
    weighted = NRSClassifier(**FAST).fit(X, y, sample_weight=rng.uniform(size=300))
    assert weighted.predict(X).shape == (300, 3)


def test_one_class_is_always_predicted():
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = NRSClassifier(**FAST).fit(X, np.full(20, "only"))
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((20, 1)))


def test_none_means_the_presets_value_and_it_can_be_read(fitted):
    assert fitted.n_mul is None
    assert fitted.n_mul_ == 32
    assert fitted.epochs_ == 12
    assert fitted.members_ == 16
    assert fitted.hidden_ == (128,)
    assert fitted.recipe_.optimizer == "adamw"


def test_without_the_layer_it_is_a_plain_mlp(iris):
    model = NRSClassifier(n_mul=0, hidden=(8,), **QUICK).fit(*iris)
    assert model.network_.subspaces is None
    assert next(model.network_.parameters()).shape == (8, 4)
    assert model.feature_importances_.shape == (4,)


def test_paper_preset_is_the_papers_network(iris):
    model = NRSClassifier(preset="paper", n_mul=20, epochs=2, random_state=0).fit(*iris)
    widths = [p.shape for name, p in model.network_.named_parameters() if p.dim() == 2]
    assert [tuple(shape) for shape in widths] == [(256, 80), (256, 256), (3, 256)]
    assert model.network_.subspaces.out_features == 80
    assert (model.recipe_.optimizer, model.recipe_.lr, model.recipe_.weight_decay) == (
        "adam", 1e-4, 0.0,
    )  # fmt: skip
    assert model.recipe_.scale == "none"
    assert len(model.history_) == 2
    assert "val_loss" not in model.history_.columns


def test_same_seed_same_bits_and_the_users_generators_are_left_alone(iris):
    X, _ = iris
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = NRSClassifier(**QUICK).fit(*iris).predict_proba(X)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    second = NRSClassifier(**QUICK).fit(*iris).predict_proba(X)
    np.testing.assert_array_equal(first, second)
    third = NRSClassifier(**QUICK | {"random_state": 1}).fit(*iris).predict_proba(X)
    assert not np.array_equal(first, third)


def test_stops_early_and_keeps_the_best_weights():
    X, y = make_classification(400, 10, flip_y=0.4, random_state=0)
    model = NRSClassifier(preset="single", epochs=200, patience=3, random_state=0).fit(X, y)
    scores = model.history_["score"]
    assert len(scores) < 200
    assert model.history_.stopped_early
    assert scores[model.history_.best_epoch] == max(scores)
    assert len(scores) - 1 - model.history_.best_epoch == 3


def test_eval_set_replaces_the_held_out_rows(iris):
    X, y = iris
    model = NRSClassifier(**FAST).fit(X, y, eval_set=(X[:50], y[:50]))
    expected = (model.predict(X[:50]) == y[:50]).mean()
    assert model.history_["val_accuracy"][model.history_.best_epoch] == pytest.approx(expected)
    with pytest.raises(ValueError, match="pair"):
        NRSClassifier(**FAST).fit(X, y, eval_set=X)


@pytest.mark.parametrize(
    "metric", ["accuracy", "balanced_accuracy", "f1", "log_loss", "roc_auc", "function"]
)
def test_metrics(metric, iris):
    def agreement(truth, predicted):
        return float(np.mean(truth == predicted))

    given = agreement if metric == "function" else metric
    model = NRSClassifier(metric=given, **FAST).fit(*iris)
    name = "agreement" if metric == "function" else metric
    values = model.history_[f"val_{name}"]
    sign = -1 if metric == "log_loss" else 1
    assert model.history_["score"] == [sign * value for value in values]


def test_unknown_metric_preset_and_values(iris):
    with pytest.raises(ValueError, match=r"metric must be .*got 'recall at 5'"):
        NRSClassifier(metric="recall at 5", **QUICK).fit(*iris)
    with pytest.raises(ValueError, match="got 'great'"):
        NRSClassifier(preset="great", **QUICK).fit(*iris)
    with pytest.raises(ValueError, match="preset='fast' is a forest"):
        NRSClassifier(preset="fast", n_per=2, **QUICK).fit(*iris)
    with pytest.raises(ValueError, match="epochs must be an integer of at least 1"):
        NRSClassifier(epochs=0).fit(*iris)
    with pytest.raises(ValueError, match="hidden"):
        NRSClassifier(hidden=(8, -1)).fit(*iris)
    with pytest.raises(ValueError, match=r"device must be .*got 'gpu7'"):
        NRSClassifier(device="gpu7").fit(*iris)


@pytest.mark.parametrize("hidden", [16, np.int64(16), np.array([16, 8]), [np.int32(16)], ()])
def test_widths_of_numpy(tmp_path, iris, hidden):
    model = NRSClassifier(preset="fast", hidden=hidden, epochs=1, verbose=0).fit(*iris)
    assert model.hidden_ == tuple(np.atleast_1d(np.array(hidden, dtype=int)).tolist())
    model.save(tmp_path / "m")
    assert NRSClassifier.load(tmp_path / "m").hidden_ == model.hidden_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 16.0),
        ("hidden", "16"),
        ("hidden", np.array([16.0])),
        ("hidden", [16, True]),
        ("lr", "a"),
        ("weight_decay", "a"),
        ("dropout", "a"),
        ("validation_fraction", "a"),
        ("time_limit", "60"),
        ("time_limit", float("nan")),
        ("time_limit", 0),
    ],
)
@pytest.mark.parametrize("preset", ["fast", "single", "paper"])
def test_settings_of_a_wrong_type(iris, preset, name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*(; got|however:) "):
        NRSClassifier(preset=preset, **{name: value}).fit(*iris)


def test_metrics_of_several_labels(iris):
    X, y = iris
    labels = np.eye(3, dtype=int)[y]
    with pytest.raises(ValueError, match=r"'f1', .* several labels per row; got 'balanced"):
        NRSClassifier(metric="balanced_accuracy", **QUICK).fit(X, labels)
    for metric in ("accuracy", "f1", "log_loss", "roc_auc"):
        quick = {**QUICK, "preset": "fast", "epochs": 1}
        assert NRSClassifier(metric=metric, **quick).fit(X, labels).history_[f"val_{metric}"]


@pytest.mark.parametrize("several", [False, True])
def test_roc_auc_of_the_classes_that_held_out_rows_have(iris, several):
    X, y = iris
    labels = np.eye(3, dtype=int)[y] if several else y
    held_out = X[y > 0], labels[y > 0]
    quick = {**QUICK, "preset": "fast", "metric": "roc_auc"}
    model = NRSClassifier(**quick).fit(X, labels, eval_set=held_out)
    outputs = torch.from_numpy(model.decision_function(held_out[0]))
    chances = model.target_.answer(outputs)
    expected = np.mean([roc_auc_score(y[y > 0] == label, chances[:, label]) for label in (1, 2)])
    truth = torch.from_numpy(model.target_.encode(np.asarray(held_out[1])))
    found = model.target_.evaluate("roc_auc", outputs, truth)["score"]
    assert found == pytest.approx(expected)
    assert np.isfinite(model.history_["score"]).all()
    with pytest.raises(ValueError, match=r"roc_auc' needs rows of at least two classes"):
        NRSClassifier(**quick).fit(X, labels, eval_set=(X[y == 0], labels[y == 0]))


def test_log_loss_of_a_single_class(iris):
    X, _ = iris
    model = NRSClassifier(metric="log_loss", **FAST).fit(X, np.zeros(150, dtype=int))
    assert set(model.history_["val_log_loss"]) == {0.0}


def test_class_weight_shifts_the_decision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 1.5).astype(int)
    plain = NRSClassifier(**FAST).fit(X, y).predict(X).mean()
    balanced = NRSClassifier(class_weight="balanced", **FAST).fit(X, y).predict(X).mean()
    heavy = NRSClassifier(class_weight={0: 1, 1: 50}, **FAST).fit(X, y).predict(X).mean()
    assert plain < balanced < heavy


def test_sample_weight_is_routed_and_counts():
    import sklearn

    X, y = make_classification(200, 5, random_state=0)
    weight = np.where(y == 1, 100.0, 1.0)
    assert NRSClassifier(**FAST).fit(X, y, weight).predict(X).mean() > y.mean()
    with sklearn.config_context(enable_metadata_routing=True):
        model = NRSClassifier(**FAST).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        result = cross_validate(model, X, y, params={"sample_weight": weight}, cv=2)
    assert len(result["test_score"]) == 2
    with pytest.raises(ValueError, match="at least one non-zero"):
        NRSClassifier(**FAST).fit(X, y, np.zeros(200))


def test_inside_scikit_learn(iris):
    X, y = iris
    search = GridSearchCV(NRSClassifier(**QUICK), {"n_mul": [0, 8]}, cv=2).fit(X, y)
    assert search.best_params_["n_mul"] in (0, 8)
    model = NRSClassifier(**FAST)
    assert clone(model).get_params() == model.get_params()
    assert make_pipeline(StandardScaler(), model).fit(X, y).score(X, y) > 0.8
    assert cross_val_score(model, X, y, cv=3).mean() > 0.8
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (150, 3)
    stack = StackingClassifier([("nrs", model)], LogisticRegression(), cv=2).fit(X, y)
    assert stack.score(X, y) > 0.8


def test_set_output_of_a_pipeline_keeps_the_names(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), NRSClassifier(**FAST))
    pipeline.set_output(transform="pandas")
    pipeline.fit(X, y)
    assert pipeline[-1].feature_names_in_.tolist() == X.columns.tolist()


def test_importances_find_the_columns_that_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    y = (X[:, 2] - X[:, 5] > 0).astype(int)
    model = NRSClassifier(**FAST | {"epochs": 40}).fit(X, y)
    importances = model.feature_importances_
    assert importances.sum() == pytest.approx(1)
    assert set(np.argsort(importances)[-2:]) == {2, 5}
    permuted = permutation_importance(model, X, y, n_repeats=3, random_state=0)
    assert set(np.argsort(permuted.importances_mean)[-2:]) == {2, 5}


def test_partial_fit_learns_in_chunks_and_keeps_its_optimizer():
    X, y = make_classification(600, 8, n_informative=5, random_state=0)
    model = NRSClassifier(random_state=0, verbose=0)
    for start in range(0, 600, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1])
    early = model.score(X, y)
    for _ in range(10):
        model.partial_fit(X, y)
    assert model.score(X, y) > max(early, 0.85)
    steps = {state["step"].item() for state in model._progress.optimizer.state.values()}
    assert len(steps) == 1
    assert steps.pop() > 50
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, np.where(y == 1, 7, 0))


def test_callbacks_see_every_epoch(iris):
    class Count(Callback):
        epochs = 0

        def on_epoch_end(self, state):
            self.epochs += 1
            state.stop = self.epochs == 4

    count = Count()
    model = NRSClassifier(callbacks=[count], **FAST).fit(*iris)
    assert count.epochs == len(model.history_) == 4


def test_history_can_be_plotted(fitted):
    pytest.importorskip("matplotlib").use("Agg")
    ax = fitted.plot_history()
    assert [line.get_label() for line in ax.get_lines()][:2] == ["training", "held out"]


def test_divergence_is_an_error_that_says_what_to_change():
    X, y = make_classification(100, 4, random_state=0)
    with pytest.raises(DivergenceError, match="lr"):
        NRSClassifier(preset="paper", n_mul=0, hidden=(), lr=1e38, epochs=5, random_state=0).fit(
            X * 1e15, y
        )


def test_not_fitted():
    with pytest.raises(NotFittedError):
        NRSClassifier().predict([[1.0]])
    with pytest.raises(NotFittedError):
        NRSClassifier().feature_importances_  # noqa: B018


def test_threads_are_as_asked_and_restored(iris):
    seen = []

    class Watch(Callback):
        def on_epoch_begin(self, state):
            seen.append(torch.get_num_threads())

    before = torch.get_num_threads()
    for n_jobs, expected in ((None, 1), (2, 2)):
        seen.clear()
        model = NRSClassifier(n_jobs=n_jobs, callbacks=[Watch()], **FAST | {"epochs": 1})
        model.fit(*iris)
        assert seen == [expected]
        assert torch.get_num_threads() == before


def test_beats_a_single_linear_model_where_the_classes_are_not_linear():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1100, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    assert NRSClassifier(random_state=0).fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.9


def test_breast_cancer_is_no_worse_than_chance_would_have_it():
    X, y = load_breast_cancer(return_X_y=True)
    assert cross_val_score(NRSClassifier(random_state=0), X[::2], y[::2], cv=2).mean() > 0.95


@pytest.mark.parametrize("weights", [(-1, 3), (0, 0), (np.nan, 1), (1, np.inf)])
def test_class_weights_that_mean_nothing_are_refused(tmp_path, weights):
    x = np.linspace(-1, 1, 60)
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": x, "y": x > 0}), path)
    model = NRSClassifier(class_weight=dict(zip([False, True], weights, strict=True)), **QUICK)
    for arguments in ((x[:, None], x > 0), (Table(path, "y"),)):
        with pytest.raises(
            ValueError, match="class_weight must be finite, at least 0 and not 0 for all"
        ):
            model.fit(*arguments)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_sets_cover_and_are_nested(n_classes, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2600, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=2600)) * 1.5 // 1
    y = np.clip(y, 0, n_classes - 1).astype(int)
    model = NRSClassifier(preset="fast", epochs=4, random_state=0, verbose=0).fit(X[:600], y[:600])
    new, truth, rows = X[600:], y[600:], np.arange(2000)
    found = [model.predict_set(new, level) for level in (0.1, 0.6, 0.9, 0.99)]
    for smaller, larger in pairwise(found):
        assert (larger >= smaller).all()
    assert all(sets.any(1).all() for sets in found)
    assert abs(found[2][rows, truth].mean() - 0.9) < 0.035
    assert found[2].sum(1).mean() < n_classes
    model.save(tmp_path / "m.safetensors")
    loaded = NRSClassifier.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict_set(new), found[2])


def test_sets_count_rows_by_weight():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 2))
    noisy = rng.random(800) < 0.5
    y = np.where(noisy, rng.integers(0, 2, 800), X[:, 0] > 0)
    size = [
        NRSClassifier(preset="fast", epochs=4, random_state=0, verbose=0)
        .fit(X, y, sample_weight=np.where(noisy, weight, 1.0))
        .predict_set(X)
        .sum()
        for weight in (0.0, 1.0)
    ]
    assert size[0] < size[1]


def test_sets_without_ground_are_refused():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.arange(40) % 2
    quick = {"epochs": 1, "verbose": 0}
    model = NRSClassifier(preset="fast", **quick).fit(X, y)
    with pytest.raises(ValueError, match="between 0 and 1; got 0"):
        model.predict_set(X, 0)
    with pytest.raises(ValueError, match="out-of-bag predictions"):
        NRSClassifier(preset="paper", **quick).fit(X, y).predict_set(X)
    with pytest.raises(ValueError, match="one label per row"):
        NRSClassifier(preset="fast", **quick).fit(X, np.stack([y, 1 - y], 1)).predict_set(X)
