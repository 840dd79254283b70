"""Metrics by name: what they measure, of which rows."""

import numpy as np
import pytest
import torch

from nrs.tabular.targets import (
    ClassTarget,
    MultilabelTarget,
)


def test_metrics_of_several_labels():
    target = MultilabelTarget(2)
    outputs, y = torch.tensor([[5.0, -5.0], [-5.0, 5.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for metric in ("accuracy", "roc_auc", "f1"):
        assert target.evaluate(metric, outputs, y)["score"] == 1.0
    assert target.evaluate("log_loss", outputs, y)["val_log_loss"] == pytest.approx(
        np.log1p(np.exp(-5)), rel=1e-4
    )


def test_roc_auc_of_three_classes():
    target = ClassTarget(np.arange(3))
    outputs = torch.eye(3).repeat(3, 1) * 4
    assert target.evaluate("roc_auc", outputs, torch.arange(9) % 3)["score"] == 1.0
