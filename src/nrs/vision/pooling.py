"""Second-order poolings: what the paper compares the head with (Section 4.4.1).

All have one interface: a feature map ``(B, C, H, W)`` in, a vector ``(B, out_features)`` out, and
an optional 1×1 reduction of the channels first. They compute in float32 at least, whatever
autocast says: squares, roots and inverse traces do not fit into half precision.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs.core.permutations import IndexModule
from nrs.training.precision import no_autocast

# Where a root begins to be rounded off: its slope at zero is EPS ** -0.5.
EPS = 1e-8


class _SecondOrderPool(IndexModule):
    """The common part: a reduction, then `_pool` of (B, C, N) columns in full precision."""

    def __init__(
        self,
        channels: int,
        reduce: int | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        if channels < 1 or (reduce is not None and reduce < 1):
            raise ValueError(
                f"channels and reduce must be at least 1, however: channels={channels}, "
                f"reduce={reduce}"
            )
        self.channels, self.reduce = channels, reduce
        self.width = channels if reduce is None else reduce
        self.out_features = self.width
        if reduce is not None:
            self.reduction = nn.Sequential(
                nn.Conv2d(channels, reduce, 1, bias=False, device=device, dtype=dtype),
                nn.BatchNorm2d(reduce, device=device, dtype=dtype),
                nn.ReLU(),
            )

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != self.channels:
            raise ValueError(
                f"the input must be (B, {self.channels}, H, W), however: {tuple(x.shape)}"
            )
        if self.reduce is not None:
            x = self.reduction(x)
        with no_autocast(x):
            columns = x.flatten(2)
            if columns.dtype in (torch.float16, torch.bfloat16):
                columns = columns.float()
            return self._pool(columns)

    def _pool(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"{self.channels}, out_features={self.out_features}"


class BilinearPool(_SecondOrderPool):
    """B-CNN: X·Xᵀ / HW, signed square root, L2 normalisation.

    **Shape** input ``(B, C, H, W)``, output ``(B, width²)``, width being `reduce` or C.

    Parameters
    ----------
    channels : C.
    reduce : channels after a 1×1 convolution with BN and ReLU; None for none.

    Examples
    --------
    >>> BilinearPool(16)(torch.randn(2, 16, 7, 7)).shape
    torch.Size([2, 256])
    """

    def __init__(
        self,
        channels: int,
        reduce: int | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(channels, reduce, device, dtype)
        self.out_features = self.width**2

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds and the paper's FLOPs of the product, for `nrs.core.count`."""
        work = x.shape[0] * self.width**2 * x.shape[2] * x.shape[3]
        return work, work

    def _pool(self, x: Tensor) -> Tensor:
        products = torch.bmm(x, x.transpose(1, 2)) / x.shape[2]
        return F.normalize(signed_root(products.flatten(1)))


class CompactBilinearPool(_SecondOrderPool):
    """Compact bilinear pooling: the tensor sketch of the outer product, without the product.

    Two count sketches of every column, convolved by FFT and summed over positions, then signed
    square root and L2 normalisation. The inner product of two sketches estimates the bilinear
    kernel ⟨Σ x⊗x, Σ y⊗y⟩ without bias; its variance falls as 1 / out_features.

    **Shape** input ``(B, C, H, W)``, output ``(B, out_features)``.

    Parameters
    ----------
    channels : C.
    out_features : size of the sketch.
    reduce : channels after a 1×1 convolution with BN and ReLU; None for none.
    normalise : False leaves the sketch without root and normalisation.
    seed : of the hashes, which are buffers.

    Examples
    --------
    >>> CompactBilinearPool(16, 64)(torch.randn(2, 16, 7, 7)).shape
    torch.Size([2, 64])
    """

    buckets: Tensor
    signs: Tensor

    def __init__(
        self,
        channels: int,
        out_features: int = 8192,
        reduce: int | None = None,
        *,
        normalise: bool = True,
        seed: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(channels, reduce, device, dtype)
        if out_features < 1:
            raise ValueError(f"out_features must be at least 1, however: {out_features}")
        self.out_features, self.normalise = out_features, normalise
        generator = torch.Generator().manual_seed(seed)
        # Drawn where the generator is, kept where the module is.
        size = (2, self.width)
        place = torch.get_default_device() if device is None else device
        buckets = torch.randint(out_features, size, generator=generator, device="cpu")
        signs = 2.0 * torch.randint(2, size, generator=generator, device="cpu") - 1
        self.put_index("buckets", buckets.to(place))
        self.register_buffer("signs", signs.to(place, dtype))

    def check_index(self, name: str, index: Tensor) -> None:
        """Refuse a hash to what is not one of the sketch's numbers."""
        if not bool(((index >= 0) & (index < self.out_features)).all()):
            raise ValueError(f"The hashes must be from 0 to {self.out_features - 1}.")

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds and the paper's FLOPs, for `nrs.core.count`.

        Here a sketch is C additions and a transform D·log₂ D multiply-adds a position. The paper's
        figure is that of two dense (C, D) sketches and four operations an element of the transform.
        """
        positions, size = x.shape[0] * x.shape[2] * x.shape[3], self.out_features
        transform = size * max(1, math.ceil(math.log2(size)))
        macs = positions * (2 * self.width + 2 * transform + size) + x.shape[0] * transform
        return macs, positions * size * (2 * self.width + 4)

    def _pool(self, x: Tensor) -> Tensor:
        batch, width, positions = x.shape
        columns = x.transpose(1, 2).reshape(-1, width)
        buckets = self.read_index("buckets")
        first, second = (
            torch.fft.rfft(
                columns.new_zeros(len(columns), self.out_features).index_add(
                    1, buckets[k], columns * self.signs[k].to(x.dtype)
                )
            )
            for k in range(2)
        )
        # The inverse is linear, so the sum over positions comes before it.
        spectrum = (first * second).view(batch, positions, -1).sum(1)
        sketch = torch.fft.irfft(spectrum, n=self.out_features)
        return F.normalize(signed_root(sketch)) if self.normalise else sketch


class ISqrtCovPool(_SecondOrderPool):
    """iSQRT-COV: the square root of the covariance of the channels, by Newton–Schulz.

    Centred covariance, divided by its trace; coupled Newton–Schulz steps; multiplied by the root
    of the trace; the upper triangle. The root of a singular covariance exists, and the steps come
    near it from below: directions without variance cost accuracy, not stability.

    **Shape** input ``(B, C, H, W)``, output ``(B, width·(width + 1)/2)``, width being `reduce`
    or C.

    Parameters
    ----------
    channels : C.
    reduce : channels after a 1×1 convolution with BN and ReLU; None for none.
    iterations : Newton–Schulz steps.

    Examples
    --------
    >>> ISqrtCovPool(16)(torch.randn(2, 16, 7, 7)).shape
    torch.Size([2, 136])
    """

    upper: Tensor

    def __init__(
        self,
        channels: int,
        reduce: int | None = None,
        iterations: int = 5,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(channels, reduce, device, dtype)
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, however: {iterations}")
        self.iterations = iterations
        self.out_features = self.width * (self.width + 1) // 2
        rows, columns = torch.triu_indices(self.width, self.width)
        upper = (rows * self.width + columns).to(device)
        self.put_index("upper", upper, persistent=False)

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds and the paper's FLOPs, for `nrs.core.count`.

        Covariance and three products a step, but one in the first and two in the last. The paper's
        figure (for ResNet-50; for VGG-16 it has the classifier only) centres by another product.
        """
        batch, positions, d = x.shape[0], x.shape[2] * x.shape[3], self.width
        products = max(1, 3 * self.iterations - 3)
        macs = batch * (d * d * positions + products * d**3)
        return macs, macs + batch * d * positions**2

    def _pool(self, x: Tensor) -> Tensor:
        centred = x - x.mean(2, keepdim=True)
        covariance = torch.bmm(centred, centred.transpose(1, 2)) / x.shape[2]
        root = newton_schulz_root(covariance, self.iterations)
        return root.flatten(1).index_select(1, self.read_index("upper"))


def signed_root(x: Tensor) -> Tensor:
    """sign(x)·√|x|, rounded off below `EPS` so that its gradient is finite everywhere.

    Examples
    --------
    >>> signed_root(torch.tensor([4.0, -9.0, 0.0])).tolist()
    [2.0, -3.0, 0.0]
    """
    return x * torch.rsqrt(x.abs() + EPS)


def newton_schulz_root(a: Tensor, iterations: int) -> Tensor:
    """The square root of symmetric positive semi-definite matrices, by coupled steps.

    Y₀ = A / tr A, Z₀ = I; T = (3·I − Z·Y) / 2; Y ← Y·T, Z ← T·Z; the root is √(tr A)·Y.

    **Shape** input and output ``(B, d, d)``.

    Examples
    --------
    >>> a = torch.tensor([[[4.0, 0.0], [0.0, 9.0]]])
    >>> newton_schulz_root(a, 12).round(decimals=3).tolist()
    [[[2.0, 0.0], [0.0, 3.0]]]
    """
    identity = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
    # A constant map has no variance: the trace in the divisor, not in the root, is kept off zero.
    trace = a.diagonal(dim1=1, dim2=2).sum(1).view(-1, 1, 1)
    y = a / (trace + EPS)
    z = identity.expand_as(a)
    for step in range(iterations):
        # Z₀ is the identity.
        product = y if step == 0 else torch.bmm(z, y)
        t = 1.5 * identity - 0.5 * product
        y = torch.bmm(y, t)
        if step + 1 < iterations:
            z = t if step == 0 else torch.bmm(t, z)
    return y * torch.sqrt(trace + EPS)
