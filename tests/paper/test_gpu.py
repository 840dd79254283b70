"""GPU milliseconds: measured where there is a GPU, absent where not."""

import pytest
import torch
from torch import nn

from nrs.paper import entries
from nrs.paper.gpu import gpu_ms
from nrs.paper.trial import DEVICE


def test_nothing_is_measured_without_a_gpu(monkeypatch):
    monkeypatch.setenv(DEVICE, "cpu")
    assert gpu_ms(nn.Linear(2, 2), torch.zeros(1, 2)) == {}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_is_timed(monkeypatch):
    monkeypatch.setenv(DEVICE, "cuda")
    assert gpu_ms(nn.Linear(2, 2), torch.zeros(1, 2))["gpu_ms"] > 0


def test_the_printed_values_say_that_nothing_was_measured(tmp_path):
    shown = [cell for cell in entries("latency", tmp_path) if cell["column"] == "gpu_ms"]
    assert len(shown) == 20
    assert all(cell["measured"] is None and "no GPU" in cell["note"] for cell in shown)
