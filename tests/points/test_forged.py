"""Forged files of encoders of clouds are refused, and cost nothing."""

import pytest

from nrs.points.predict import load_encoder
from nrs.points.registry import create
from tests.forged import check_forged

FILES = {
    "pointnet": {"subspace": {"n_mul": 1, "n_per": 32, "seed": 3}, "dropout": 0.4},
    "dgcnn": {"subspace": None, "k": 8},
    "rscnn": {"subspace": None, "k": [8, 8], "centres": [16, 8], "radii": [0.2, 0.4]},
}


def check(tmp_path, name, sample):
    model = {"name": name, "num_classes": 2, "normals": False, **FILES[name]}
    header = {"model": model, "classes": ["ball", "stick"], "points": 32, "test": {"top1": 90.0}}
    tensors = create(**model).state_dict()
    path = tmp_path / "model.safetensors"
    check_forged(path, header, tensors, "points", load_encoder, sample)


@pytest.mark.parametrize("name", FILES)
def test_forged_encoders(tmp_path, name):
    check(tmp_path, name, 20)


@pytest.mark.heavy
@pytest.mark.parametrize("name", FILES)
def test_every_forged_encoder(tmp_path, name):
    check(tmp_path, name, None)
