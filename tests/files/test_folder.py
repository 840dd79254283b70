"""Answers for the files of a folder become scores, whatever the order of the model's classes."""

from pathlib import Path

import numpy as np
import pytest

from nrs.files.folder import EvaluatedFolder, score_files

CHANCES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.5, 0.3]])


def test_classes_may_be_in_any_order_and_repeat():
    scored = score_files("birds", ["tern", "wren", "owl"], CHANCES, ["tern", "owl", "wren"])
    assert scored.classes.tolist() == ["owl", "tern", "wren"]
    assert scored.probabilities[0].tolist() == [0.2, 0.7, 0.1]
    assert scored.scores()["accuracy"] == 1
    twice = score_files("birds", ["tern", "wren", "owl"], CHANCES, ["tern", "owl", "tern"])
    assert twice.probabilities[1] == pytest.approx([0.3, 0.7])


def test_a_class_that_the_model_does_not_know_is_a_mistake():
    scored = score_files("birds", ["tern", "dodo", "owl"], CHANCES, ["tern", "owl", "wren"])
    assert scored.scores()["accuracy"] == pytest.approx(2 / 3)
    evaluated = EvaluatedFolder(scored, [Path(name) for name in "abc"], [], lambda place: [])
    assert evaluated.worst(2) == [1, 2]
