"""A CNN with an NRS head leaves for other runtimes with equal outputs."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from nrs.training import write_model
from nrs.vision import ModelSettings, add_head, build_model, cifar_network
from nrs.vision._torchvision import torchvision
from nrs.vision.data import Preparation
from nrs.vision.export import export_onnx
from nrs.vision.predict import ImageModel


def _model():
    torch.manual_seed(0)
    return add_head(torchvision().models.resnet18(weights=None), 7).eval()


@pytest.mark.slow
def test_resnet18_with_nrs_through_torch_export_and_onnx(tmp_path):
    model, x = _model(), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = model(x)
    exported = torch.export.export(model, (x,))
    with torch.no_grad():
        assert torch.allclose(exported.module()(x), expected, atol=1e-5)

    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, (x,), str(path), dynamo=True, verbose=False)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)


def test_excitation_by_nrs_through_torch_export():
    model = cifar_network("resnet20", 10, excite="nrs", seed=0).eval()
    x = torch.randn(2, 3, 32, 32)
    exported = torch.export.export(model, (x,))
    with torch.no_grad():
        assert torch.allclose(exported.module()(x), model(x), atol=1e-5)


@pytest.mark.slow
def test_a_model_file_leaves_with_its_preparation(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    settings = ModelSettings("cifar/resnet20", head="nrs")
    network = build_model(settings, 7, seed=0)
    # Answers that differ from picture to picture.
    network.fc.fc.weight.data *= 30
    picture = asdict(Preparation(size=16, resize=20))
    header = {"model": vars(settings), "picture": picture, "classes": list("abcdefg")}
    write_model(tmp_path / "m", network.state_dict(), header, kind="image")
    export_onnx(tmp_path / "m", tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["n", "height", "width", 3]
    known = json.loads(session.get_modelmeta().custom_metadata_map["nrs"])
    assert known["classes"] == list("abcdefg")
    model = ImageModel.load(tmp_path / "m")
    generator = np.random.default_rng(0)
    for shape in ((1, 20, 20), (3, 50, 31), (2, 18, 90), (1, 10, 12)):
        pictures = generator.integers(0, 256, (*shape, 3), dtype=np.uint8)
        (found,) = session.run(["probabilities"], {"pictures": pictures})
        expected = model.probabilities(list(pictures)).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(expected) > 0.1
