"""Every encoder as ONNX gives what torch gives."""

import json

import numpy as np
import onnx
import pytest
import torch

from nrs.points.clouds import unit_sphere
from nrs.points.export import to_onnx
from nrs.points.registry import ENCODERS, create

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

POINTS = 40
FEW = {"centres": [16, 8], "k": [8, 4]}
ARGUMENTS = {"pointnet": {}, "dgcnn": {"k": 6}, "pointnet2": FEW, "pointconv": FEW, "rscnn": FEW}


def learned(name, normals):
    """An encoder of few neighbours whose weights and statistics have seen a few steps."""
    torch.manual_seed(0)
    subspace = {"n_mul": 1, "n_per": 32}
    model = create(name, 3, subspace=subspace, normals=normals, **ARGUMENTS[name])
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(4):
        optimizer.zero_grad()
        model(clouds(model, 6)).square().mean().backward()
        optimizer.step()
    return model.eval()


def clouds(model, n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, POINTS, model.channels)).astype(np.float32)
    # Some points come twice, as of a cloud that has too few.
    x[0, -5:] = x[0, :5]
    return torch.from_numpy(x)


# An export takes seconds. PointNet's is tested by the commands of the documents, and the others
# share their operations with these two.
QUICK = ("pointnet2", "dgcnn")


def test_an_encoder_is_one_graph_for_any_number_of_clouds():
    # The one with densities.
    model = learned("pointconv", normals=False)
    rows = {0: torch.export.Dim("rows")}
    program = torch.export.export(model, (clouds(model, 2),), dynamic_shapes=(rows,))
    x = clouds(model, 5)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.heavy] * (n not in QUICK)) for n in ENCODERS]
)
def test_every_encoder_gives_the_same_answer_as_onnx(name, tmp_path):
    model = learned(name, normals=name in ("pointnet2", "pointconv"))
    path = tmp_path / "model.onnx"
    to_onnx(model, ["ä", "b", "c"], POINTS, path)
    session = onnxruntime.InferenceSession(path)
    for n in (5, 1):
        x = clouds(model, n, seed=n)
        # Wherever a cloud lies, and however large it is.
        x[..., :3] = x[..., :3] * 7 + 3
        label, found = session.run(None, {"clouds": x.numpy()})
        with torch.no_grad():
            expected = model(unit_sphere(x)).softmax(1).numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        assert label.tolist() == [["ä", "b", "c"][i] for i in expected.argmax(1)]
    (facts,) = onnx.load(path).metadata_props
    said = json.loads(facts.value)
    assert (said["points"], said["normals"]) == (POINTS, model.normals)
    assert said["classes"] == ["ä", "b", "c"]
