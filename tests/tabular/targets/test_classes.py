"""Classes and labels per row: what is refused, and when a temperature is certain."""

import numpy as np
import pandas as pd
import pytest
import torch

from nrs import NRSClassifier
from nrs.tabular.targets import ClassTarget, find_temperature

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
