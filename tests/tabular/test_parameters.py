"""Arguments of the estimators: each is seen by scikit-learn, and comes back from JSON."""

import inspect
import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import nrs
from nrs import NRSClassifier, NRSRanker, NRSRegressor
from nrs.tabular.parameters import NOT_SAVED, from_json, to_json

TEXTS = st.sampled_from(["", "a", "ü", "pairs", "1"])
NUMBERS = st.integers() | st.floats(allow_nan=False)
PLAIN = st.none() | st.booleans() | NUMBERS | TEXTS
MAPPINGS = st.dictionaries(st.booleans() | NUMBERS | TEXTS, PLAIN, max_size=3)
VALUES = PLAIN | st.lists(PLAIN | MAPPINGS, max_size=3) | MAPPINGS
ESTIMATORS = [NRSClassifier, NRSRegressor, NRSRanker]


@given(VALUES)
def test_what_is_saved_comes_back(value):
    again = from_json(json.loads(json.dumps(to_json(value))))
    assert again == value
    # 1, 1.0 and True are equal, but not the same label.
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        ((1, (2,)), [1, [2]]),
        (range(2), [0, 1]),
        ({np.int64(3): np.float64(0.5)}, {3: 0.5}),
        ({np.str_("a"): 1}, {"a": 1}),
    ],
)
def test_values_of_numpy_come_back_as_those_of_python(given, expected):
    assert from_json(json.loads(json.dumps(to_json(given)))) == expected


@pytest.mark.parametrize("value", [object(), print, {1: object()}, [{2, 3}]])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(TypeError, match="cannot be saved in a model file"):
        to_json(value)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_scikit_learn_sees_every_argument(kind):
    names = {field.name for field in fields(kind)}
    assert set(inspect.signature(kind).parameters) == names
    assert set(kind().get_params()) == names
    # Stored as they are given, whatever they are, and handed on.
    given = {name: [name] for name in names}
    model = kind(**given)
    assert all(getattr(model, name) is value for name, value in given.items())
    assert clone(model).get_params() == given
    assert kind().set_params(**given).get_params() == given


def test_what_is_not_saved_is_an_argument():
    assert set(NOT_SAVED) <= {field.name for field in fields(NRSClassifier)}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_arguments_are_given_by_name(kind):
    with pytest.raises(TypeError, match="positional"):
        kind("fast")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("n_estimators", "epochs, time_limit or preset"),
        ("learning_rate", "lr"),
        ("cat_features", "categorical_features"),
        ("early_stopping_rounds", "patience"),
        ("seed", "random_state"),
        ("prest", "preset"),
    ],
)
@pytest.mark.parametrize("kind", [nrs.NRSClassifier, nrs.NRSRegressor, nrs.NRSRanker])
def test_a_familiar_name_is_answered_by_ours(kind, name, ours):
    with pytest.raises(TypeError, match=rf"argument '{name}'; here it is {ours}"):
        kind(**{name: 3})
