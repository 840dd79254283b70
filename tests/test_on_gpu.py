"""What runs on a GPU against what a CPU gives: ``make test-gpu``; skipped without the hardware.

Numbers agree to float32 where the same sums are taken in another order. A fit's steps amplify the
difference, so fits are compared by what they predict.
"""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from nrs import NRS, NRSClassifier, NRSRanker, NRSRegressor
from nrs.core import FORMULATIONS, fold
from nrs.points import create
from nrs.vision import NRSExcite, add_head, cifar_network

pytestmark = pytest.mark.gpu
QUICK = {"epochs": 10, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def device():
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    pytest.skip("needs a GPU: torch finds neither CUDA nor MPS")


def _step(module, x):
    """Output and gradients of a training step, on the CPU."""
    out = module(x)
    out.square().mean().backward()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return [part.detach().cpu() for part in (out, *gradients)]


def _same_step(module, x, device, tolerance=1e-3):
    expected = _step(copy.deepcopy(module), x)
    found = _step(copy.deepcopy(module).to(device), x.to(device))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= tolerance * other.abs().max().clamp_min(1e-3)


@pytest.mark.parametrize("formulation", [*FORMULATIONS, "auto"])
@pytest.mark.parametrize(("n_per", "n_h", "depth"), [(1, 3, 1), (4, 3, 1), (1, 5, 2)])
def test_the_layer(device, formulation, n_per, n_h, depth):
    if formulation == "bag" and n_per > 1:
        formulation = "blocks"
    layer = NRS(24, 2, n_per, n_h, depth=depth, formulation=formulation, seed=0)
    x = torch.randn(64, 24, generator=torch.Generator().manual_seed(0))
    _same_step(layer, x, device)
    layer(x)
    expected = layer.eval()(x)
    for moved in (copy.deepcopy(layer).to(device), fold(layer).to(device)):
        assert torch.allclose(moved(x.to(device)).cpu(), expected, atol=1e-4)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_layer_under_autocast(device, formulation):
    layer = NRS(24, 2, formulation=formulation, seed=0).to(device)
    with torch.autocast(device, dtype=torch.float16):
        out = layer(torch.randn(64, 24, device=device))
    assert out.dtype == torch.float16
    out.float().sum().backward()
    assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("preset", ["fast", "single"])
@pytest.mark.parametrize("kind", [NRSClassifier, NRSRegressor, NRSRanker])
def test_estimators(device, kind, preset, tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 6)).astype(np.float32)
    signal = X[:, 0] + np.abs(X[:, 1])
    y = {NRSClassifier: signal > 0.8, NRSRegressor: signal}.get(kind, np.digitize(signal, [1, 2]))
    more = {"qid": np.repeat(np.arange(40), 15)} if kind is NRSRanker else {}
    scores = [
        kind(preset=preset, device=where, **QUICK).fit(X, y, **more).score(X, y, **more)
        for where in ("cpu", device)
    ]
    assert scores[1] == pytest.approx(scores[0], abs=0.05)
    model = kind(preset=preset, device=device, **QUICK).fit(X, y, **more)
    model.save(tmp_path / "model.safetensors")
    alone = kind.load(tmp_path / "model.safetensors")
    assert np.allclose(model.predict(X), alone.predict(X), atol=1e-3)


@pytest.mark.parametrize("make", ["head", "block", "network"])
def test_vision(device, make):
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    if make == "head":
        body = nn.Sequential(nn.Conv2d(3, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        network = add_head(nn.Sequential(body, nn.Linear(64, 9)), 5, classifier="1", seed=0)
    elif make == "block":
        network = nn.Sequential(nn.Conv2d(3, 96, 3), NRSExcite(96, seed=0))
    else:
        network = cifar_network("resnet20", 5, excite="nrs", seed=0).eval()
    _same_step(network, x, device, 5e-3)


def test_points(device):
    encoder = create("pointnet", 5).eval()
    clouds = torch.randn(4, 128, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = encoder(clouds)
        found = copy.deepcopy(encoder).to(device)(clouds.to(device)).cpu()
    assert torch.allclose(found, expected, atol=1e-3)
