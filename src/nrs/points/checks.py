"""What a cloud must be, said in one place."""

from __future__ import annotations

import torch
from torch import Tensor


def check_clouds(x: Tensor, name: str = "xyz", channels: int | None = None) -> None:
    """Refuse anything but a floating-point tensor of clouds (B, N, C) with a point each.

    Raises
    ------
    TypeError
        If it is not a tensor of floating-point numbers.
    ValueError
        If its shape is not that of clouds, or not of `channels` channels.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, however: {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(
            f"{name} must be floating point, however: dtype={x.dtype}; convert it with x.float()"
        )
    wanted = "C" if channels is None else str(channels)
    if x.dim() != 3 or (channels is not None and x.shape[2] != channels) or x.shape[2] == 0:
        raise ValueError(
            f"{name} must have the shape (clouds, points, {wanted}), however: {tuple(x.shape)}"
        )
    if x.shape[1] == 0:
        raise ValueError(
            f"every cloud must have a point, however: {name} has the shape {tuple(x.shape)}"
        )


def check_count(name: str, value: int, most: int) -> None:
    """Refuse a number of points below 1 or above what there are."""
    if not 1 <= value <= most:
        raise ValueError(
            f"{name} must be from 1 to the number of points {most}, however: {name}={value}"
        )


def check_finite(x: Tensor, name: str) -> None:
    """Refuse NaN and infinite coordinates."""
    # A graph cannot look at values.
    if not torch.compiler.is_compiling() and not bool(torch.isfinite(x).all()):
        raise ValueError(
            f"{name} must hold finite numbers only, however: some are NaN or infinite; "
            "remove such points"
        )
