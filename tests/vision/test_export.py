"""A CNN with an NRS head leaves for other runtimes with equal outputs."""

import numpy as np
import pytest
import torch

from nrs.vision import add_head, cifar_network
from nrs.vision._torchvision import torchvision


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
