"""The estimator itself: one step from fit to fitted, and one file that is bit-equal and safe."""

import copy
import json
import pickle
import struct

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine, make_regression
from sklearn.exceptions import NotFittedError

from nrs import NRSClassifier, NRSRegressor
from nrs.training import Callback, DivergenceError, ModelFileError, read_model

QUICK = {"epochs": 3, "random_state": 0}


def _frame(n=120):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "size": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "when": pandas.Timestamp("2024-01-01") + pandas.to_timedelta(np.arange(n), "D"),
            "flag": rng.random(n) > 0.5,
        }
    )
    frame.loc[::7, ["size", "colour"]] = None
    return frame


def _cases():
    X, y = load_iris(return_X_y=True, as_frame=True)
    numbers, one = make_regression(60, 4, random_state=0)
    labels = np.array(["a", "b", "c"])[y]
    two = np.stack([one, -one], 1)
    many = (numbers[:, :3] > 0).astype(int)
    return {
        "classes": (NRSClassifier(**QUICK), X, labels),
        "integers": (NRSClassifier(preset="paper", hidden=8, **QUICK), X.to_numpy(), y),
        "multilabel": (NRSClassifier(**QUICK), numbers, many),
        "one output": (NRSRegressor(n_mul=0, **QUICK), numbers, one),
        "two outputs": (NRSRegressor(n_per=2, n_mul=2, **QUICK), numbers, two),
        "raw frame": (NRSClassifier(categorical_features=["flag"], **QUICK), _frame(), None),
    }


@pytest.mark.parametrize(
    "name", ["classes", "integers", "multilabel", "one output", "two outputs", "raw frame"]
)
def test_round_trip_is_equal_to_the_bit(name, tmp_path):
    model, X, y = _cases()[name]
    model.fit(X, np.arange(len(X)) % 2 if y is None else y)
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = type(model).load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    assert loaded.recipe_ == model.recipe_
    assert loaded.history_ == model.history_
    assert loaded.n_features_in_ == model.n_features_in_
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "class_weight",
    [
        {0: 1.0, 1: 2.0, 2: 3.0},
        {np.int64(k): np.float64(1 + k) for k in range(3)},
        {0.0: 1, 1.0: 2, 2.0: 3},
        {"pairs": 2.0, "b": 1.0},
        "balanced",
    ],
    ids=["integers", "numpy", "floats", "texts", "balanced"],
)
def test_class_weights_survive_a_file(tmp_path, class_weight):
    X, y = load_iris(return_X_y=True)
    labels = np.array(["pairs", "b", "b"])[y] if "b" in class_weight else y
    model = NRSClassifier(preset="fast", class_weight=class_weight, epochs=1, random_state=0)
    model.fit(X, labels).save(tmp_path / "m")
    loaded = NRSClassifier.load(tmp_path / "m")
    assert loaded.class_weight == class_weight
    again = loaded.set_params(random_state=0).fit(X, labels)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_the_class_weights_of_a_multilabel_model_survive_a_file(tmp_path):
    X, y = load_iris(return_X_y=True)
    weights = [{0: 1.0, 1: 2.0}, {0: 3.0, 1: 4.0}, {0: 1.0, 1: 1.0}]
    model = NRSClassifier(preset="fast", class_weight=weights, epochs=1, random_state=0)
    model.fit(X, np.eye(3, dtype=int)[y]).save(tmp_path / "m")
    assert NRSClassifier.load(tmp_path / "m").class_weight == weights


def test_half_precision_on_disk_moves_predictions_little(tmp_path):
    X, y = load_wine(return_X_y=True)
    model = NRSClassifier(preset="fast", **QUICK).fit(X, y)
    paths = [tmp_path / f"{dtype}.safetensors" for dtype in ("float32", "float16")]
    for path in paths:
        model.save(path, dtype=path.stem)
    whole, half = (NRSClassifier.load(path) for path in paths)
    np.testing.assert_array_equal(whole.predict_proba(X), model.predict_proba(X))
    moved = np.abs(half.predict_proba(X) - model.predict_proba(X)).max()
    assert 0 < moved < 1e-3
    sizes = [path.stat().st_size for path in paths]
    assert sizes[1] < 0.7 * sizes[0]
    # A loaded model computes as any, and is saved in full unless it is asked for less.
    half.save(paths[0])
    again = NRSClassifier.load(paths[0])
    np.testing.assert_array_equal(again.predict_proba(X), half.predict_proba(X))


def test_a_file_remembers_where_it_came_from(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)

    def saved(model, name):
        model.save(tmp_path / name)
        return read_model(tmp_path / name).made

    made = saved(NRSClassifier(**QUICK).fit(X, y), "m")
    assert (made["rows"], made["columns"], len(made["fingerprint"])) == (150, 4, 64)
    # The drawn seed gives the same fit again, whatever random_state was.
    again = saved(NRSClassifier(**QUICK).fit(X, y), "again")
    assert {**again, "time": made["time"]} == made
    others = [X.assign(**{X.columns[0]: 0.0}), X.rename(columns={X.columns[0]: "a"}), X.iloc[::-1]]
    prints = [saved(NRSClassifier(**QUICK).fit(X, y), "o")["fingerprint"] for X in others]
    assert len({made["fingerprint"], *prints}) == 4
    # Saving a loaded model changes nothing.
    assert saved(NRSClassifier.load(tmp_path / "m"), "copy") == made
    assert (tmp_path / "m").read_bytes() == (tmp_path / "copy").read_bytes()
    more = saved(NRSClassifier.load(tmp_path / "m").partial_fit(X, y), "more")
    assert more["rows"] == 150
    assert "fingerprint" not in more


def test_settings_of_numpy_are_saved(tmp_path):
    X, y = load_iris(return_X_y=True)
    chosen = {"epochs": np.int64(1), "batch_size": np.int32(64), "lr": np.float32(0.001)}
    model = NRSClassifier(preset="fast", n_h=np.int64(2), dropout=np.float32(0.5), **chosen)
    model.fit(X, y).save(tmp_path / "m")
    assert NRSClassifier.load(tmp_path / "m").recipe_ == model.recipe_


def test_a_loaded_model_checks_its_columns(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    NRSClassifier(**QUICK).fit(X, y).save(tmp_path / "m")
    loaded = NRSClassifier.load(tmp_path / "m")
    assert loaded.feature_names_in_.tolist() == X.columns.tolist()
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X.rename(columns={"sepal length (cm)": "length"}))
    with pytest.raises(ValueError, match="3 features"):
        loaded.predict(X.to_numpy()[:, :3])


def test_a_file_that_is_not_one(tmp_path):
    X, y = make_regression(40, 3, random_state=0)
    path = tmp_path / "m.safetensors"
    NRSRegressor(**QUICK).fit(X, y).save(path)
    with pytest.raises(ModelFileError, match=r"NRSRegressor\.load"):
        NRSClassifier.load(path)
    content = path.read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    (tmp_path / "flipped").write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    (tmp_path / "text").write_text("a,b\n1,2\n")
    for name in ("cut", "flipped", "text", "absent"):
        with pytest.raises((ModelFileError, FileNotFoundError), match=name):
            NRSRegressor.load(tmp_path / name)


def test_an_unfitted_or_unsaveable_model_writes_nothing(tmp_path):
    with pytest.raises(NotFittedError):
        NRSRegressor().save(tmp_path / "m")
    X, y = make_regression(40, 3, random_state=0)
    model = NRSRegressor(**QUICK).fit(X, y)
    model.hidden = object()
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_the_header_is_readable_json(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    NRSClassifier(**QUICK).fit(X, y).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])["__metadata__"]
    document = json.loads(header["nrs"])
    assert document["kind"] == "table"
    assert document["header"]["estimator"] == "NRSClassifier"
    assert document["header"]["target"]["classes"]["values"] == [0, 1, 2]


def test_nothing_of_a_former_fit_stays():
    X, y = load_diabetes(return_X_y=True)
    quick = {**QUICK, "preset": "fast", "epochs": 2}
    model = NRSRegressor(**quick).fit(X, y)
    model.partial_fit(X[:100], y[:100])
    assert len(model.oob_prediction_) == 100
    model.fit(X, y).set_params(preset="single").fit(X, y)
    with pytest.raises(ValueError, match="out-of-bag predictions"):
        model.predict_interval(X)


def test_rows_after_a_fit_go_to_folds_as_if_none_had_come_before_it():
    X, y = load_iris(return_X_y=True)
    quick = {**QUICK, "preset": "fast", "epochs": 2}
    used = NRSClassifier(**quick).partial_fit(X[:5], y[:5], classes=[0, 1, 2])
    models = [model.fit(X, y).partial_fit(X, y) for model in (used, NRSClassifier(**quick))]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))


# A fit that fails leaves the estimator as it was.


class _StopError(Exception):
    pass


class _Stop(Callback):
    def on_epoch_end(self, state):
        raise _StopError("by a callback")


KINDS = load_iris().target
# An estimator is fitted to rows of three numbers; those of the next fit have four, and names.
NARROW = load_iris().data[:, :3]
FLOWERS = pd.DataFrame(load_iris().data, columns=list("abcd"))
INFINITE = FLOWERS.assign(b=np.inf)
# Settings, arguments of fit besides X and y, and what it says.
FAILURES = {
    "eval_set is no pair": ({}, {"eval_set": FLOWERS}, "must be a pair"),
    "eval_set of other columns": ({}, {"eval_set": (FLOWERS[["a", "b"]], KINDS)}, "feature names"),
    "eval_set of other classes": ({}, {"eval_set": (FLOWERS, KINDS + 1)}, "not among the classes"),
    "eval_set of other lengths": ({}, {"eval_set": (FLOWERS, KINDS[:9])}, "inconsistent"),
    "an infinite cell": ({}, {"X": INFINITE}, "infinit"),
    "an infinite cell of eval_set": ({}, {"eval_set": (INFINITE, KINDS)}, "infinit"),
    "fewer labels": ({}, {"y": KINDS[:-1]}, "inconsistent"),
    "no labels": ({}, {"y": None}, "y is None"),
    "a missing label": ({}, {"y": [None, *KINDS[1:]]}, "NaN"),
    "fewer weights": ({}, {"sample_weight": np.ones(9)}, r"sample_weight\.shape"),
    "one group": ({}, {"groups": np.zeros(150)}, "at least 2 different groups"),
    "unknown metric": ({"metric": "recall"}, {}, "metric must be"),
    "unknown preset": ({"preset": "great"}, {}, "preset must be"),
    "unknown division": ({"divide": "columns"}, {}, "divide must be"),
    "other weights of classes": ({"class_weight": {7: 1.0}}, {}, "not in class_weight"),
    "a checkpoint that is a file": ({"checkpoint": __file__}, {}, "test_estimator.py"),
    "a checkpoint without a seed": ({"checkpoint": "c", "random_state": None}, {}, "integer"),
    "a callback": ({"callbacks": [_Stop()]}, {}, "by a callback"),
    "divergence": ({"lr": 1e38}, {}, "lr"),
}


def _snapshot(model):
    """Every attribute, and what the fitted ones answer."""
    answers = [model.predict_proba(NARROW), model.feature_importances_, model.oob_score_]
    return dict(vars(model)), answers


def _unchanged(model, before):
    attributes, answers = _snapshot(model)
    assert attributes.keys() == before[0].keys()
    for name, value in attributes.items():
        assert value is before[0][name], name
    for found, expected in zip(answers, before[1], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def fitted():
    return NRSClassifier(preset="fast", epochs=2, random_state=0, verbose=0).fit(NARROW, KINDS)


@pytest.mark.parametrize("reason", FAILURES)
def test_a_fit_that_fails_changes_nothing(reason, fitted):
    settings, arguments, message = FAILURES[reason]
    model = copy.copy(fitted).set_params(**settings)
    weights = [value.clone() for value in model.network_.state_dict().values()]
    before = _snapshot(model)
    with pytest.raises((ValueError, OSError, DivergenceError, _StopError), match=message):
        model.fit(**{"X": FLOWERS, "y": KINDS} | arguments)
    _unchanged(model, before)
    for value, expected in zip(model.network_.state_dict().values(), weights, strict=True):
        assert torch.equal(value, expected)


@pytest.mark.parametrize("reason", FAILURES)
def test_a_first_fit_that_fails_leaves_an_unfitted_estimator(reason):
    settings, arguments, message = FAILURES[reason]
    model = NRSClassifier(preset="fast", epochs=2, random_state=0, verbose=0).set_params(**settings)
    before = dict(vars(model))
    with pytest.raises((ValueError, OSError, DivergenceError, _StopError), match=message):
        model.fit(**{"X": FLOWERS, "y": KINDS} | arguments)
    assert vars(model) == before


@pytest.mark.parametrize(
    ("X", "y", "weights"),
    [
        (np.full((150, 3), np.inf), KINDS, None),
        (NARROW[:, :2], KINDS, None),
        (NARROW, KINDS + 1, None),
        (NARROW, KINDS[:-1], None),
        (NARROW, KINDS, np.ones(9)),
    ],
    ids=["an infinite cell", "other columns", "other classes", "fewer labels", "fewer weights"],
)
def test_a_partial_fit_that_fails_changes_nothing(X, y, weights, fitted):
    model = copy.copy(fitted)
    before = _snapshot(model)
    with pytest.raises(ValueError, match=r"infinit|features|not among|inconsistent|shape"):
        model.partial_fit(X, y, sample_weight=weights)
    _unchanged(model, before)


def test_what_is_no_result_of_a_fit_survives_it(fitted):
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(fitted).set_fit_request(sample_weight=True, groups=False)
        expected = model.get_metadata_routing().fit.requests
        model.fit(FLOWERS, KINDS)
        assert model.get_metadata_routing().fit.requests == expected
        assert expected["sample_weight"] is True
        model.partial_fit(FLOWERS, KINDS)
        assert model.get_metadata_routing().fit.requests == expected
    model.note = "mine"
    assert model.fit(FLOWERS, KINDS).note == "mine"
