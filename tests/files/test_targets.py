"""Targets: the task that their values ask for, and the arrays a model takes."""

from datetime import date

import pyarrow
import pytest

from nrs.files.targets import (
    TargetSummary,
    encode_targets,
    join_targets,
    target_names,
    target_values,
)
from nrs.tabular.predict_file import TargetColumns

COLUMNS = {
    "text": (["a", "b", "a"], "classification", "categorical values"),
    "boolean": ([True, False, True], "classification", "boolean values"),
    "integers": ([1, 3, 1], "classification", "2 distinct integer values"),
    "whole": ([1.0, 3.0, 1.0], "classification", "2 distinct integer values"),
    "fractions": ([0.5, 1.5, 0.5], "regression", "2 distinct numbers"),
    "huge": ([1e300, 0.0, 1.0], "regression", "3 distinct numbers"),
    "many": (list(range(21)), "regression", "21 distinct numbers"),
}


def _summary(values, name="y"):
    return TargetSummary.of(pyarrow.table({name: values}), name)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_task_is_inferred_from_the_values(name):
    values, task, why = COLUMNS[name]
    assert _summary(values).choose_task("auto") == (task, f"inferred: {why}")
    assert _summary(values).choose_task("regression") == ("regression", "as requested")


def test_values_in_a_few_words():
    assert _summary([0.5, 3.0]).describe("regression") == "from 0.5 to 3"
    described = _summary(list("abcdefgh")).describe("classification")
    assert described == "8 classes: a (1), b (1), c (1), d (1), e (1), f (1), …"


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["a", "b"], "ranking", "task must be auto, classification or regression; got 'ranking'"),
        ([1, 1], "auto", "all rows have 1"),
        ([1.0, 1.0], "auto", "all rows have 1. "),
        ([True, True], "regression", "all rows have True"),
        ([date(2024, 1, 1), date(2024, 1, 2)], "auto", "'y' holds dates"),
    ],
)
def test_a_target_that_cannot_be_used(values, task, message):
    with pytest.raises(ValueError) as caught:
        _summary(values).choose_task(task)
    assert message in str(caught.value)


def test_values_that_do_not_suit_the_task():
    table = pyarrow.table({"text": ["a", "b"], "number": [0.5, 1.0], "huge": [1e300, 1.0]})
    with pytest.raises(ValueError, match=r"'text' holds categories. Use task='classification'"):
        target_values(table, "text", "regression")
    with pytest.raises(ValueError, match=r"such as 0.5. Use task='regression'"):
        target_values(table, "number", "classification")
    with pytest.raises(ValueError, match=r"such as 1e\+300"):
        target_values(table, "huge", "classification")


@pytest.mark.parametrize(
    ("columns", "task", "labels"),
    [
        ({"a": [1, 2], "b": ["x", "y"]}, "auto", [[1, 2], ["x", "y"]]),
        ({"a": [1, 2, 3], "b": [0.5, 1, 2]}, "auto", None),
        ({"a": [1, 2], "b": [True, False]}, "regression", None),
    ],
)
def test_several_targets_of_one_model(columns, task, labels):
    targets, chosen, why = join_targets([_summary(v, k) for k, v in columns.items()], task)
    assert (targets.names, targets.labels) == (["a", "b"], labels)
    assert chosen == ("regression" if labels is None else "classification")
    assert why.startswith("inferred: " if task == "auto" else "as requested")


@pytest.mark.parametrize(
    ("columns", "task", "message"),
    [
        ({"a": [1, 2, 3], "b": ["x", "y", "x"]}, "auto", "'a' has 3: 1, 2, 3"),
        ({"a": [1, 2, 3], "b": ["x", "y", "x"]}, "regression", "'b' holds categories"),
        ({"a": [1, 2], "b": [5, 5]}, "auto", "all rows have 5"),
        ({"a": [1, 2], "b": [5, 6]}, "both", "task must be"),
    ],
)
def test_targets_that_one_model_cannot_predict(columns, task, message):
    with pytest.raises(ValueError, match=message):
        join_targets([_summary(v, k) for k, v in columns.items()], task)


def test_labels_become_zeros_and_ones():
    targets = TargetColumns(["ill", "code"], [["no", "yes"], ["1", "2"]])
    table = pyarrow.table({"ill": ["yes", "no"], "code": [2, 1]})
    # A file with types of its own holds numbers where the model knows text.
    assert encode_targets(table, targets).tolist() == [[1, 1], [0, 0]]
    other = pyarrow.table({"ill": ["yes", "perhaps"], "code": [2, 1]})
    with pytest.raises(ValueError, match="'no' or 'yes', as in the fit; found 'perhaps'"):
        encode_targets(other, targets)


@pytest.mark.parametrize(
    ("given", "message"),
    [("a,a", "'a' is repeated"), (["a", "a"], "'a' is repeated"), (",", "one")],
)
def test_names_are_given_once(given, message):
    with pytest.raises(ValueError, match=f"target must name .*{message}"):
        target_names(given, ["a", "b"])
