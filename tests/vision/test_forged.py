"""Forged files of image models are refused, and cost nothing."""

import numpy as np
import pytest

from benchmarks.fuzz.forged import NAMES
from benchmarks.fuzz.models import case, watch
from benchmarks.fuzz.specimens import IMAGES, specimen
from nrs.training import ModelFileError
from tests.forged import check_forged, load_forged


@pytest.mark.parametrize("name", IMAGES)
def test_forged_image_models(name):
    assert case(np.random.default_rng(0), (name,))["files refused"] > 3


@pytest.mark.parametrize("name", NAMES)
def test_an_architecture_comes_from_a_list(tmp_path, name):
    path, place = tmp_path / "model.safetensors", ("model", "name")
    with watch().within(str(path)), pytest.raises(ModelFileError):
        load_forged(path, specimen("nrs"), place, name)


@pytest.mark.heavy
@pytest.mark.parametrize("name", IMAGES)
def test_every_forged_image_model(tmp_path, name):
    check_forged(tmp_path / "model.safetensors", specimen(name))


def test_no_answer_is_nan(tmp_path):
    one, path = specimen("nrs"), tmp_path / "model.safetensors"
    name = next(name for name in one.file.tensors if name.endswith("running_var"))
    variance = one.file.tensors[name]
    with pytest.raises(ModelFileError, match="must be at least 0"):
        load_forged(path, one, tensors={name: -variance - 1})
    large = {name: t * 1e20 for name, t in one.file.tensors.items() if name.endswith("weight")}
    with pytest.raises(ValueError, match="beyond float32"):
        one.answer(load_forged(path, one, tensors=large))
