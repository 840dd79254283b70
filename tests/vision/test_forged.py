"""Forged files of image models are refused, and cost nothing."""

import contextlib
import socket
from dataclasses import asdict

import pytest

from nrs.vision.data import Preparation
from nrs.vision.models import ModelSettings, build_model
from nrs.vision.predict import ImageModel
from tests.forged import check_forged, watched

FILES = {
    "nrs": ModelSettings("cifar/resnet20", head="nrs", n_mul=2),
    "compact": ModelSettings("cifar/resnet20", head="compact", sketch=64, reduce=8),
    "isqrt": ModelSettings("cifar/resnet20", head="isqrt", reduce=8, excite="nrs"),
}


def check(tmp_path, name, sample):
    settings = FILES[name]
    header = {
        "model": asdict(settings),
        "picture": asdict(Preparation(size=32, resize=None)),
        "classes": ["a", "b", "c"],
        "history": {"rows": []},
    }
    tensors = build_model(settings, 3, seed=0).state_dict()
    path = tmp_path / "model.safetensors"
    check_forged(path, header, tensors, "image", ImageModel.load, sample)


def test_the_watch_sees_files_and_addresses(tmp_path):
    (tmp_path / "secret").touch()
    with watched() as seen, socket.socket() as connection:
        (tmp_path / "secret").read_text()
        connection.settimeout(0.1)
        with contextlib.suppress(OSError):
            connection.connect(("127.0.0.1", 9))
    assert len(seen) == 2


@pytest.mark.parametrize("name", FILES)
def test_forged_image_models(tmp_path, name):
    check(tmp_path, name, 40)


@pytest.mark.heavy
@pytest.mark.parametrize("name", FILES)
def test_every_forged_image_model(tmp_path, name):
    check(tmp_path, name, None)
