"""Scores of predictions next to the truth."""

import numpy as np
import pytest
from sklearn import metrics

from nrs.files.scores import Scored, score_outputs
from nrs.tabular.predict_file import TargetColumns


def test_scores_of_classes_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    classes = np.array(["a", "b", "c"])
    chances = rng.dirichlet(np.ones(3), 60)
    truth = classes[rng.integers(0, 3, 60)]
    predicted = classes[chances.argmax(1)]
    scores = Scored("file", np.arange(60), truth, predicted, chances, classes).scores()
    assert scores == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(truth, predicted),
            "balanced_accuracy": metrics.balanced_accuracy_score(truth, predicted),
            "f1": metrics.f1_score(truth, predicted, average="macro"),
            "log_loss": metrics.log_loss(truth, chances),
            "roc_auc": metrics.roc_auc_score(truth, chances, multi_class="ovr"),
        }
    )


def test_an_unknown_label_is_wrong_but_has_no_probability():
    classes, chances = np.array(["a", "b"]), np.array([[0.9, 0.1], [0.2, 0.8]])
    scored = Scored("file", np.arange(2), np.array(["a", "z"]), classes, chances, classes)
    scores = scored.scores()
    assert scores["accuracy"] == 0.5
    assert scores["log_loss"] == pytest.approx(-np.log(0.9))
    assert "roc_auc" not in scores


def test_several_targets_have_means_and_scores_of_their_own():
    targets = TargetColumns(["ill", "old"], [["no", "yes"], [False, True]])
    truth = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    outputs = np.array([[0.9, 0.2], [0.1, 0.4], [0.8, 0.7], [0.3, 0.1]])
    scored = score_outputs(None, outputs, truth, "file", np.arange(4), targets)
    each = scored.scores_by_target()
    assert (each["ill"]["accuracy"], each["old"]["accuracy"]) == (1.0, 0.75)
    assert scored.scores()["all_right"] == 0.75
    assert scored.scores()["accuracy"] == 0.875
    assert scored.parts["ill"].predicted.tolist() == ["yes", "no", "yes", "no"]
