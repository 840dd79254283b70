"""Where in a picture an answer comes from: Grad-CAM of the head and of the backbone."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

# From no weight to all of it: red, green, blue.
_COLOURS = np.array([[48, 18, 59], [40, 120, 200], [70, 200, 120], [250, 190, 50], [200, 30, 20]])
_OPACITY = 0.55


def feature_maps(network: nn.Module, x: Tensor) -> list[str]:
    """Names of the two modules whose maps are shown: the last map, and the last of twice its side.

    Fewer where a network has no such maps, as transformers.

    Parameters
    ----------
    network : in evaluation mode.
    x : a batch that it reads.

    Examples
    --------
    >>> from nrs.vision import cifar_network
    >>> feature_maps(cifar_network("resnet20").eval(), torch.randn(1, 3, 32, 32))
    ['features', 'features.8']
    """
    sides: dict[str, int] = {}

    def noting(name: str) -> Callable[..., None]:
        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.dim() == 4 and min(output.shape[2:]) > 1:
                # In the order in which they were computed last.
                sides.pop(name, None)
                sides[name] = min(output.shape[2:])

        return note

    hooks = [part.register_forward_hook(noting(name)) for name, part in network.named_modules()]
    try:
        with torch.no_grad():
            network(x)
    finally:
        for hook in hooks:
            hook.remove()
    sides.pop("", None)
    if not sides:
        return []
    names = list(sides)
    last = sides[names[-1]]
    finer = [name for name in names if sides[name] >= 2 * last]
    return [names[-1], *finer[-1:]]


def grad_cam(network: nn.Module, x: Tensor, label: int, names: list[str]) -> list[Tensor]:
    """How much each place of some feature maps speaks for a class (Selvaraju et al., 2017).

    **Shape** x ``(1, 3, H, W)``, each output ``(H, W)`` from 0 to 1.

    Parameters
    ----------
    network : in evaluation mode.
    x : a prepared picture.
    label : the class.
    names : modules whose maps are looked at, see `feature_maps`.

    Examples
    --------
    >>> from nrs.vision import cifar_network
    >>> network = cifar_network("resnet20", seed=0).eval()
    >>> grad_cam(network, torch.randn(1, 3, 32, 32), 3, ["features"])[0].shape
    torch.Size([32, 32])
    """
    found: dict[str, Tensor] = {}

    def keeping(name: str) -> Callable[..., Tensor]:
        def keep(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            found[name] = output
            # What follows may change it in place.
            return output.clone()

        return keep

    hooks = [network.get_submodule(n).register_forward_hook(keeping(n)) for n in names]
    try:
        with torch.enable_grad():
            score = network(x.clone().requires_grad_())[0, label]
            gradients = torch.autograd.grad(score, [found[name] for name in names])
    finally:
        for hook in hooks:
            hook.remove()
    drawn = []
    for name, gradient in zip(names, gradients, strict=True):
        weights = gradient.mean((2, 3), keepdim=True)
        heat = (weights * found[name].detach()).sum(1, keepdim=True).relu()
        heat = F.interpolate(heat, x.shape[2:], mode="bilinear", align_corners=False)[0, 0]
        drawn.append(heat / heat.max().clamp(min=1e-12))
    return drawn


def as_png(pixels: np.ndarray) -> bytes:
    """Bytes (H, W, 3) as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="png")
    return buffer.getvalue()


def overlay(pixels: np.ndarray, heat: Tensor) -> np.ndarray:
    """Pixels (H, W, 3) under the colours of a heat map (H, W)."""
    place = heat.double().numpy() * (len(_COLOURS) - 1)
    low = np.minimum(place.astype(int), len(_COLOURS) - 2)
    rest = (place - low)[..., None]
    colours = (1 - rest) * _COLOURS[low] + rest * _COLOURS[low + 1]
    opacity = _OPACITY * np.sqrt(heat.double().numpy())[..., None]
    return ((1 - opacity) * pixels + opacity * colours).round().astype(np.uint8)
