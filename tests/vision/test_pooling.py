"""Second-order poolings beside slow references, and where gradients could break."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nrs.core import count
from nrs.vision import BilinearPool, CompactBilinearPool, ISqrtCovPool, PooledClassifier
from nrs.vision.pooling import newton_schulz_root, signed_root

POOLS = {
    "bilinear": lambda **k: BilinearPool(12, **k),
    "compact": lambda **k: CompactBilinearPool(12, 64, **k),
    "isqrt": lambda **k: ISqrtCovPool(12, **k),
}


def _maps(channels=12, batch=3, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, channels, 5, 4, generator=generator, dtype=dtype)


def _root(value):
    return (1 if value >= 0 else -1) * abs(value) ** 0.5


def test_bilinear_by_hand():
    x = _maps()
    rows = []
    for one in x:
        outer = sum(torch.outer(v, v) for v in one.flatten(1).t()) / 20
        vector = torch.tensor([_root(v) for v in outer.flatten().tolist()], dtype=torch.float64)
        rows.append(vector / vector.norm())
    assert torch.allclose(BilinearPool(12)(x), torch.stack(rows), atol=1e-7)


def test_compact_by_hand():
    pool = CompactBilinearPool(12, 16, seed=3)
    x = _maps()
    rows = []
    for one in x:
        total = [0.0] * 16
        for column in one.flatten(1).t().tolist():
            for i, a in enumerate(column):
                for j, b in enumerate(column):
                    place = int(pool.buckets[0, i] + pool.buckets[1, j]) % 16
                    total[place] += float(pool.signs[0, i] * pool.signs[1, j]) * a * b
        vector = torch.tensor([_root(v) for v in total], dtype=torch.float64)
        rows.append(vector / vector.norm())
    assert torch.allclose(pool(x), torch.stack(rows), atol=1e-6)


@settings(max_examples=15)
@given(st.integers(0, 1000))
def test_newton_schulz_is_the_root_of_an_eigendecomposition(seed):
    # With variance in every direction; a root of 1e-4 relative accuracy needs more steps.
    x = _maps(6, seed=seed)
    centred = x.flatten(2) - x.flatten(2).mean(2, keepdim=True)
    covariance = centred @ centred.transpose(1, 2) / 20
    covariance = covariance + 0.3 * torch.eye(6, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(covariance)
    exact = vectors @ torch.diag_embed(values.sqrt()) @ vectors.transpose(1, 2)
    assert torch.allclose(newton_schulz_root(covariance, 12), exact, atol=1e-4)


def test_five_steps_of_isqrt():
    x = _maps()
    pool = ISqrtCovPool(12, iterations=5)
    for one, row in zip(x, pool(x), strict=True):
        flat = one.flatten(1)
        covariance = torch.cov(flat, correction=0)
        trace = covariance.trace()
        y, z, identity = covariance / trace, torch.eye(12).double(), torch.eye(12).double()
        for _ in range(5):
            t = (3 * identity - z @ y) / 2
            y, z = y @ t, t @ z
        root = y * trace.sqrt()
        assert torch.allclose(row, root[torch.triu(torch.ones(12, 12)).bool()], atol=1e-6)


@pytest.mark.parametrize("size", [64, 1024])
def test_sketches_estimate_the_bilinear_kernel(size):
    x, y = _maps(seed=1), _maps(seed=2)
    exact = _kernel(x, y)
    products = []
    for seed in range(30):
        pool = CompactBilinearPool(12, size, normalise=False, seed=seed)
        products.append((pool(x) * pool(y)).sum(1))
    found = torch.stack(products)
    error = found.std(0) / 30**0.5
    assert ((found.mean(0) - exact).abs() < 4 * error).all()


@settings(max_examples=8)
@given(st.integers(0, 50))
def test_the_error_of_a_sketch_shrinks_with_its_size(seed):
    x, y = _maps(seed=seed), _maps(seed=seed + 1000)
    exact = _kernel(x, y)
    errors = []
    for size in (16, 256, 4096):
        pools = [CompactBilinearPool(12, size, normalise=False, seed=k) for k in range(12)]
        off = torch.stack([((p(x) * p(y)).sum(1) - exact) ** 2 for p in pools]).mean()
        errors.append(off.item())
    # The variance falls as 1 / size: sixteen times a step in expectation.
    assert errors[0] > errors[1] > errors[2]


def _kernel(x, y):
    a, b = (v.flatten(2) @ v.flatten(2).transpose(1, 2) for v in (x, y))
    return (a * b).sum((1, 2))


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("kind", ["constant", "zero", "rank one", "tiny", "huge"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_where_there_is_nothing_to_see(name, kind, dtype):
    x = {
        "constant": torch.full((2, 12, 5, 4), 3.0),
        "zero": torch.zeros(2, 12, 5, 4),
        "rank one": torch.ones(2, 12, 5, 4) * torch.arange(20.0).view(5, 4),
        "tiny": 1e-12 * _maps(batch=2).float(),
        "huge": 1e4 * _maps(batch=2).float(),
    }[kind].to(dtype)
    x.requires_grad_()
    out = POOLS[name]()(x)
    assert out.isfinite().all()
    (out * torch.linspace(-1, 1, out.shape[1], dtype=dtype)).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", POOLS)
def test_autocast_leaves_the_pooling_in_full_precision(name):
    pool = POOLS[name](reduce=6) if name != "compact" else POOLS[name]()
    x = 30 * _maps(dtype=torch.float32)
    expected = pool.eval()(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = pool(x)
    assert found.dtype == torch.float32
    # Only the reduction is lowered.
    assert torch.allclose(found, expected, atol=0.1 * expected.abs().max().item())
    if pool.reduce is None:
        assert torch.equal(found, expected)
    assert pool(x.half() if pool.reduce is None else x).dtype == torch.float32


@pytest.mark.parametrize("name", POOLS)
def test_gradients_by_differences(name):
    x = _maps(batch=1)[:, :, :2, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(POOLS[name](), (x,), atol=1e-4, fast_mode=True)


@pytest.mark.parametrize("name", POOLS)
def test_one_interface(name):
    pool = POOLS[name]()
    assert pool(_maps(dtype=torch.float32)).shape == (3, pool.out_features)
    with pytest.raises(ValueError, match=r"must be \(B, 12, H, W\), however: \(3, 11, 5, 4\)"):
        pool(_maps(11, dtype=torch.float32))
    reduced = POOLS[name](reduce=4)
    assert reduced(_maps(dtype=torch.float32)).shape == (3, reduced.out_features)
    state = reduced.state_dict()
    POOLS[name](reduce=4).load_state_dict(state)


def test_a_network_in_low_precision_goes_on_in_it():
    for pool in (BilinearPool(4), CompactBilinearPool(4, 16), ISqrtCovPool(4, reduce=2)):
        model = PooledClassifier(nn.Conv2d(3, 4, 3), pool, 5).bfloat16()
        assert model(torch.randn(2, 3, 6, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_sizes():
    assert BilinearPool(512).out_features == 262144
    assert ISqrtCovPool(2048, 256).out_features == 32896
    assert CompactBilinearPool(512).out_features == 8192
    # A 1×1 convolution and its normalisation.
    assert count(ISqrtCovPool(32, 8), torch.randn(1, 32, 4, 4)).parameters == 32 * 8 + 16


def test_signed_root():
    x = torch.tensor([4.0, -9.0, 0.0], requires_grad=True)
    signed_root(x).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: BilinearPool(0),
        lambda: CompactBilinearPool(4, 0),
        lambda: ISqrtCovPool(4, iterations=0),
        lambda: ISqrtCovPool(4, reduce=0),
    ],
)
def test_sizes_out_of_range(make):
    with pytest.raises(ValueError, match="must be at least 1"):
        make()
