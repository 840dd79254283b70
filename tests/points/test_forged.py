"""Forged files of encoders of clouds are refused, and cost nothing."""

import numpy as np
import pytest

from benchmarks.fuzz.models import case
from benchmarks.fuzz.specimens import POINTS, specimen
from tests.forged import check_forged, load_forged


@pytest.mark.parametrize("name", POINTS)
def test_forged_encoders(name):
    assert case(np.random.default_rng(0), (name,))["files refused"] > 3


@pytest.mark.heavy
@pytest.mark.parametrize("name", POINTS)
def test_every_forged_encoder(tmp_path, name):
    check_forged(tmp_path / "model.safetensors", specimen(name))


def test_no_answer_is_nan(tmp_path):
    one = specimen("pointnet")
    large = {name: t * 1e20 for name, t in one.file.tensors.items() if name.endswith("weight")}
    with pytest.raises(ValueError, match="beyond float32"):
        one.answer(load_forged(tmp_path / "model.safetensors", one, tensors=large))
