"""The layer all point encoders are made of: one linear map, BN and activation for all points."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs.core.norm import bias_cancels, normalise


class SharedLayer(nn.Module):
    """A linear map shared by all points, batch normalisation over all of them, (leaky) ReLU.

    What the literature writes as a convolution of kernel 1, on rows instead of channels.

    **Shape** input ``(..., in_features)``, output ``(..., out_features)``.

    Parameters
    ----------
    in_features, out_features : channels of a point before and after.
    bias : whether the map has a bias (the normalisation cancels it while training).
    slope : of the activation below zero; 0 is ReLU, None leaves the activation out.

    Examples
    --------
    >>> SharedLayer(3, 64)(torch.randn(2, 100, 3)).shape
    torch.Size([2, 100, 64])
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, slope: float | None = 0.0
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.slope = in_features, out_features, slope
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None
        self.norm = nn.BatchNorm1d(out_features)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, as torch.nn.Conv1d does."""
        bound = 1 / math.sqrt(self.in_features)
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)
        self.norm.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        return self._layer(rows).view(*x.shape[:-1], self.out_features)

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds, and FLOPs as the paper counts those of a convolution with BN."""
        elements = x.numel() // self.in_features * self.out_features
        macs = elements * self.in_features
        return macs, macs + elements * (4 + (self.bias is not None))

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, slope={self.slope}"

    def _layer(self, rows: Tensor) -> Tensor:
        if bias_cancels(self.norm):
            check_rows(rows.shape[0])
            h = F.linear(rows, self.weight)
            relu = self.slope == 0
            h = normalise(h, self.bias, self.norm, relu=relu)
            return h if relu else self._activate(h)
        if self.norm.training:
            return self._activate(self.norm(F.linear(rows, self.weight, self.bias)))
        weight, shift = self._folded()
        return self._activate(F.linear(rows, weight, shift))

    def _folded(self) -> tuple[Tensor, Tensor]:
        """The map with the normalisation of evaluation mode in it."""
        norm = self.norm
        if norm.running_mean is None or norm.running_var is None:
            raise ValueError("the normalisation must have running statistics, however: it has none")
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        mean = norm.running_mean if self.bias is None else norm.running_mean - self.bias
        return self.weight * scale.unsqueeze(1), norm.bias - mean * scale

    def _activate(self, h: Tensor) -> Tensor:
        if self.slope is None:
            return h
        return torch.relu(h) if self.slope == 0 else F.leaky_relu(h, self.slope)


class SharedMap(nn.Module):
    """A linear map shared by all points, alone; counted as the convolution that it is written as.

    **Shape** input ``(..., in_features)``, output ``(..., out_features)``.

    Examples
    --------
    >>> SharedMap(3, 8)(torch.randn(2, 10, 3)).shape
    torch.Size([2, 10, 8])
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds, and FLOPs as the paper counts those of a convolution."""
        macs = output.numel() * x.shape[-1]
        return macs, macs + output.numel()


def shared_layers(*widths: int, bias: bool = True, slope: float = 0.0) -> nn.Sequential:
    """A stack of shared layers.

    Examples
    --------
    >>> shared_layers(3, 64, 128)(torch.randn(2, 10, 3)).shape
    torch.Size([2, 10, 128])
    """
    return nn.Sequential(
        *(SharedLayer(a, b, bias=bias, slope=slope) for a, b in itertools.pairwise(widths))
    )


def check_rows(rows: int) -> None:
    """Refuse a single row in training mode: it has no batch statistics."""
    if rows == 1:
        raise ValueError(
            "a batch of one row has no batch statistics: in training mode give at least two "
            "clouds, however: one; for inference call .eval() first"
        )
