"""Metrics by name: what they measure, and of which rows."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from nrs.tabular.metrics import class_log_loss, mean_area
from nrs.tabular.targets import ClassTarget, MultilabelTarget, RegressionTarget

TARGETS = [
    (ClassTarget(np.array(["a", "b", "c"])), torch.arange(12) % 3),
    (ClassTarget(np.array([False, True])), torch.arange(12) % 2),
    (MultilabelTarget(2), torch.stack([torch.arange(12) % 2, torch.arange(12) % 3 % 2], 1).float()),
    (RegressionTarget(np.array([5.0]), np.array([2.0]), single=True), torch.arange(12.0)[:, None]),
]


def mean_roc_auc(applies, predicted):
    return mean_area(applies, predicted, sk.roc_auc_score, "roc_auc")


def _right(target, y):
    """Outputs that are all but certain of the truth."""
    if target.kind == "classes":
        return torch.eye(target.n_outputs)[y] * 60
    return (y * 2 - 1) * 30 if target.kind == "multilabel" else y


def test_metrics_of_several_labels():
    target = MultilabelTarget(2)
    outputs, y = torch.tensor([[5.0, -5.0], [-5.0, 5.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for metric in ("accuracy", "roc_auc", "average_precision", "f1"):
        assert target.evaluate(metric, outputs, y)["score"] == 1.0
    assert target.evaluate("log_loss", outputs, y)["val_log_loss"] == pytest.approx(
        np.log1p(np.exp(-5)), rel=1e-4
    )


def test_roc_auc_of_three_classes():
    target = ClassTarget(np.arange(3))
    outputs = torch.eye(3).repeat(3, 1) * 4
    for metric in ("roc_auc", "average_precision"):
        assert target.evaluate(metric, outputs, torch.arange(9) % 3)["score"] == 1.0


def test_average_precision_is_that_of_the_second_class():
    rng = np.random.default_rng(0)
    outputs, y = (
        torch.from_numpy(rng.normal(size=(50, 2))),
        torch.from_numpy(np.arange(50) % 5 // 4),
    )
    found = ClassTarget(np.arange(2)).evaluate("average_precision", outputs, y)["score"]
    assert found == pytest.approx(
        sk.average_precision_score(y.numpy(), (outputs[:, 1] - outputs[:, 0]).numpy())
    )


@pytest.mark.parametrize(("target", "y"), TARGETS, ids=lambda one: getattr(one, "kind", ""))
def test_no_outputs_score_above_the_truth(target, y):
    right = _right(target, y)
    generator = torch.Generator().manual_seed(0)
    for name in target.metrics:
        best = target.evaluate(name, right, y)
        assert best["score"] == pytest.approx(abs(best[f"val_{name}"]), abs=1e-6)
        for spread in (10.0, 50.0):
            other = right + spread * torch.randn(right.shape, generator=generator)
            assert target.evaluate(name, other, y)["score"] <= best["score"] + 1e-6


def test_numbers_are_measured_in_the_users_units():
    target = RegressionTarget(np.array([5.0]), np.array([2.0]), single=True)
    y, outputs = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [2.0]])
    assert target.evaluate("mae", outputs, y)["val_mae"] == pytest.approx(1.0)
    assert target.evaluate("rmse", outputs, y)["score"] == pytest.approx(-(2**0.5))


def test_a_function_gets_labels_as_the_user_has_them():
    seen = []

    def metric(truth, predicted):
        seen.append((truth.tolist(), predicted.tolist()))
        return 0.25

    target = ClassTarget(np.array(["no", "yes"]))
    outputs = torch.tensor([[0.0, 9.0], [9.0, 0.0]])
    found = target.evaluate(metric, outputs, torch.tensor([1, 1]))
    assert (found["val_metric"], found["score"]) == (0.25, 0.25)
    assert seen == [(["yes", "yes"], ["yes", "no"])]


def test_one_class_is_certain():
    assert class_log_loss(ClassTarget(np.array(["only"])), torch.zeros(3), torch.ones(3, 1)) == 0


@given(st.integers(0, 1000), st.integers(1, 4))
@settings(max_examples=15)
def test_roc_auc_is_the_mean_over_labels_that_have_a_curve(seed, n_labels):
    rng = np.random.default_rng(seed)
    applies = rng.random((8, n_labels)) < rng.choice([0.0, 0.5, 1.0], n_labels)
    curves = [k for k in range(n_labels) if 0 < applies[:, k].sum() < 8]
    assume(curves)
    scores = rng.normal(size=(8, n_labels))
    expected = np.mean([sk.roc_auc_score(applies[:, k], scores[:, k]) for k in curves])
    assert mean_roc_auc(applies, scores) == pytest.approx(expected)
    # The order of the rows alone counts.
    assert mean_roc_auc(applies, np.exp(scores)) == mean_roc_auc(applies, scores)


def test_roc_auc_without_a_curve_is_refused():
    with pytest.raises(ValueError, match="needs rows of at least two classes"):
        mean_roc_auc(np.ones((4, 2), dtype=bool), np.zeros((4, 2)))
