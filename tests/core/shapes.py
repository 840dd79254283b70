"""Shapes of layers for property tests, and the paper's layer written as plainly as possible."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    d: int
    n_mul: int
    n_per: int
    n_h: int
    layout: str
    batch: int
    seed: int

    @property
    def channels(self) -> int:
        return self.d * self.n_mul

    def layer(self) -> dict:
        keys = ("n_mul", "n_per", "n_h", "layout", "seed")
        return {"in_features": self.d} | {key: getattr(self, key) for key in keys}


@st.composite
def shapes(draw, max_weights=200_000, max_d=300, min_batch=1):
    d = draw(st.integers(1, max_d))
    n_mul = draw(st.integers(1, 8))
    n_h = draw(st.integers(1, 5))
    channels = d * n_mul
    fitting = [
        k
        for k in range(1, channels + 1)
        if channels % k == 0 and channels * k * n_h**2 <= max_weights
    ]
    if not fitting:
        d, n_mul, fitting = 1, 1, [1]
    return Shape(
        d,
        n_mul,
        draw(st.sampled_from(fitting)),
        n_h,
        draw(st.sampled_from(["code", "paper"])),
        draw(st.integers(min_batch, 70)),
        draw(st.integers(0, 2**31)),
    )


def grouped_convolution(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The paper's aggregation: cells in their order, then torch's own grouped convolution."""
    channels, n_per, n_h, _ = weight.shape
    cells = x[:, index].view(x.shape[0], channels, n_h, n_h)
    return F.conv2d(cells, weight, bias, groups=channels // n_per).flatten(1)


def assert_close(got: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """The largest error is at most `tolerance` of the largest magnitude."""
    assert got.shape == expected.shape
    scale = expected.abs().max().item() if expected.numel() else 0.0
    error = (got - expected).abs().max().item() if expected.numel() else 0.0
    assert error <= tolerance * max(scale, 1e-12), f"error {error:.2e}, magnitude {scale:.2e}"


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
