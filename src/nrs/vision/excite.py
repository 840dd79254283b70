"""Channel attention: squeeze-and-excitation, and NRS in its place (paper, Section 4.4.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from nrs.core import NRS
from nrs.core.context import as_leaf, has_hooks
from nrs.core.layer import largest_divisor
from nrs.core.norm import own_gradient_allowed
from nrs.core.subspace_map import bag_offsets, bag_rows, check_dtype, choose, map_rows
from nrs.vision._torchvision import part

# What timm passes to an attention layer and NRS has no use for.
_OF_OTHERS = {
    "rd_ratio", "rd_channels", "rd_divisor", "rd_round_fn", "reduction_ratio", "add_maxpool",
    "bias", "act_layer", "force_act_layer", "norm_layer", "gate_layer",
}  # fmt: skip

# Pixels up to which pooling is a product: at 7×7 102 µs after 161 (512 channels, batch 32), at
# 14×14 a mean is the quicker.
_SMALL_MAP = 64


class SEBlock(nn.Module):
    """Squeeze-and-excitation with two fully connected layers and no biases, the baseline.

    **Shape** input and output ``(B, C, H, W)``.

    Parameters
    ----------
    channels : C.
    reduction : ratio r; the hidden layer has C / r units, at least one.

    Examples
    --------
    >>> block = SEBlock(64)
    >>> block(torch.randn(2, 64, 7, 7)).shape, sum(p.numel() for p in block.parameters())
    (torch.Size([2, 64, 7, 7]), 512)
    """

    def __init__(
        self,
        channels: int,
        reduction: int = 16,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        hidden = max(1, channels // reduction)
        self.channels = channels
        self.squeeze = nn.Linear(channels, hidden, bias=False, device=device, dtype=dtype)
        self.excite = nn.Linear(hidden, channels, bias=False, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        return x * gate[:, :, None, None]

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds and the paper's FLOPs of the pooling, for `nrs.core.count`."""
        return 0, _pooling_flops(x)


class NRSExcite(nn.Module):
    """NRS in place of squeeze-and-excitation: each channel's gate reads a few random channels.

    Permutations, one depthwise grouped convolution with bias, sigmoid; no normalisation. With
    n_per = 1 and n_h = 3 it has 10·C parameters, fewer than squeeze-and-excitation with ratio 16
    from C > 80 on. It is a drop-in attention layer for timm: channels is the first argument, and
    arguments that only concern other layers are accepted and not used.

    **Shape** input and output ``(B, C, H, W)``; with ``channels_last`` ``(B, H, W, C)``.

    Parameters
    ----------
    channels : C.
    n_per : channels a group, a divisor of C.
    n_h : height and width of the cells; a gate reads ``n_per * n_h**2`` channels.
    layout, formulation, seed : see :class:`nrs.NRS`.
    channels_last : whether channels are the last dimension of the input.

    Raises
    ------
    TypeError
        An argument that neither this nor another attention layer of timm knows.

    Examples
    --------
    >>> block = NRSExcite(96, seed=0)
    >>> block(torch.randn(2, 96, 7, 7)).shape, sum(p.numel() for p in block.parameters())
    (torch.Size([2, 96, 7, 7]), 960)
    """

    def __init__(
        self,
        channels: int,
        n_per: int = 1,
        n_h: int = 3,
        *,
        layout: str = "code",
        formulation: str = "auto",
        seed: int | None = None,
        channels_last: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **others: Any,
    ) -> None:
        unknown = sorted(set(others) - _OF_OTHERS)
        if unknown:
            raise TypeError(f"NRSExcite has no argument {unknown[0]!r}")
        super().__init__()
        self.channels = channels
        self.channels_last = channels_last
        self.nrs = NRS(
            channels, 1, n_per, n_h, layout=layout, norm=False, activation="sigmoid",
            formulation=formulation, seed=seed, device=device, dtype=dtype,
        )  # fmt: skip
        # Of the map as `choose` has it; None where it has no choice.
        simple = n_per == 1 and formulation == "auto" and not channels_last
        self._shape = (channels, 1, n_h * n_h) if simple else None

    def forward(self, x: Tensor) -> Tensor:
        if (traced := as_leaf(self, x)) is not None:
            return traced
        layer = self.nrs
        weight = layer.weight
        if weight.dtype is x.dtype and self._in_a_line(x, layer):
            return _scale_in_a_line(x, layer.read_index(), weight, layer.bias)
        check_dtype(x, weight)
        # Under autocast some formulations give float32, which would make the map so.
        if self.channels_last:
            return x * self._gates(x.mean((1, 2))).to(x.dtype)[:, None, None, :]
        return x * self._gates(_pool(x)).to(x.dtype)[:, :, None, None]

    def own_work(self, x: Tensor, output: Tensor) -> tuple[int, int]:
        """Multiply-adds and the paper's FLOPs of the pooling, for `nrs.core.count`."""
        return 0, _pooling_flops(x)

    def _in_a_line(self, x: Tensor, layer: nn.Module) -> bool:
        """Whether :func:`_scale_in_a_line` applies: plain inference, where a bag is the choice."""
        return (
            not torch.is_grad_enabled()
            and self._shape is not None
            and _is_plain(x)
            and isinstance(layer, NRS)
            and not has_hooks(layer)
            and _choose(self.channels, self._shape, x.shape[0]) == "bag"
        )

    def _gates(self, pooled: Tensor) -> Tensor:
        layer = self.nrs
        if not isinstance(layer, NRS) or has_hooks(layer):  # folded, or watched
            gates: Tensor = layer(pooled)
            return gates
        # The layer's own checks and calls would take as long as the map of a small batch.
        index = layer.read_index().view(self.channels // layer.n_per, -1)
        kernels = layer.weight.view(index.shape[0], layer.n_per, -1)
        mapped = map_rows(pooled, index, kernels, layer.bias, layer.formulation)
        if not mapped.requires_grad:
            return mapped.sigmoid_()
        # A gradient is summed quicker where the memory of the gates follows that of the input.
        return mapped.sigmoid().contiguous()


def _scale_in_a_line(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The block without further choices, for groups of one channel.

    A map of some megabytes leaves nothing of the interpreter's in the caches, so every line of
    Python between pooling and scaling costs several times what it does alone: together they took
    a fifth of the block's time at 512 channels and batch 32.
    """
    batch, channels, height, width = x.shape
    offsets = _kept(bag_offsets, channels, index.shape[0] // channels)
    pooled = _pool_plain(x, batch, channels, height * width)
    gates = bag_rows(pooled, index, offsets, weight.view(-1), bias).sigmoid_()
    return x * gates.view(batch, channels, 1, 1)


def _is_plain(x: Tensor) -> bool:
    """Whether a map is in memory as usual and nothing watches what is done to it."""
    return (
        type(x) is Tensor
        and x.device.type == "cpu"
        and x.dtype is torch.float32
        and x.is_contiguous()
        and not torch.is_autocast_enabled("cpu")
        and own_gradient_allowed()
    )


def _pool(x: Tensor) -> Tensor:
    """Mean of every channel, (B, C)."""
    batch, channels, height, width = x.shape
    return _pool_plain(x, batch, channels, height * width) if _is_plain(x) else x.mean((2, 3))


def _pool_plain(x: Tensor, batch: int, channels: int, pixels: int) -> Tensor:
    if pixels > _SMALL_MAP:
        return x.mean((2, 3))
    # A product with a constant vector takes two thirds of the time of a mean over few pixels.
    return torch.mv(x.view(-1, pixels), _kept(_evenly, pixels)).view(batch, channels)


def _evenly(pixels: int) -> Tensor:
    return torch.full((pixels,), 1 / pixels)


# One choice for every batch size that a network meets.
_choose = lru_cache(maxsize=256)(choose)


@lru_cache(maxsize=64)
def _kept(make: Callable[..., Tensor], *sizes: int) -> Tensor:
    """A small constant on the CPU, made once; usable in training too wherever it was made."""
    with torch.inference_mode(False), torch.device("cpu"):
        return make(*sizes)


def add_excite(model: nn.Module, block: Callable[[int], nn.Module]) -> nn.Module:
    """Put a block that weighs channels at the end of every residual branch of a ResNet, in place.

    This is where squeeze-and-excitation stands (Hu et al., 2018): on what the last normalisation
    of a branch gives, before the shortcut is added.

    Parameters
    ----------
    model : a ResNet of torchvision.
    block : makes the block from a number of channels, such as `SEBlock` or `NRSExcite`.

    Raises
    ------
    ValueError
        If the model has no such branches.

    Examples
    --------
    >>> from nrs.vision._torchvision import torchvision
    >>> network = torchvision().models.resnet18()
    >>> add_excite(network, SEBlock)(torch.randn(2, 3, 64, 64)).shape
    torch.Size([2, 1000])
    """
    branches = [
        (module, "bn3" if hasattr(module, "bn3") else "bn2")
        for module in model.modules()
        if hasattr(module, "downsample") and hasattr(module, "bn2")
    ]
    if not branches:
        raise ValueError(
            f"Only torchvision's ResNets have branches to end with a block; got "
            f"{type(model).__name__}"
        )
    for module, name in branches:
        norm: nn.BatchNorm2d = module.get_submodule(name)  # type: ignore[assignment]
        setattr(module, name, nn.Sequential(norm, block(norm.num_features)))
    return model


def replace_se(
    model: nn.Module, n_per: int = 1, n_h: int = 3, *, seed: int | None = None
) -> nn.Module:
    """Put an `NRSExcite` in place of every squeeze-and-excitation block, in place.

    Parameters
    ----------
    model : nn.Module
        Of torchvision, timm or this package; weights of everything else stay.
    n_per, n_h : see `NRSExcite`. Where n_per does not divide a block's channels, its largest
        divisor below is taken.
    seed : the same seed gives the same blocks.

    Returns
    -------
    nn.Module
        The model itself.

    Raises
    ------
    ValueError
        If the model has no such block.

    Examples
    --------
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Conv2d(3, 96, 1), SEBlock(96))
    >>> replace_se(model)[1].channels
    96
    """
    kinds = _se_blocks()
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, tuple(kinds))
    ]
    if not found:
        raise ValueError(
            f"the model must have squeeze-and-excitation blocks, however: "
            f"{type(model).__name__} has none; build one with NRSExcite as its attention layer"
        )
    for number, (parent, name, block) in enumerate(found):
        kind = next(kind for kind in kinds if isinstance(block, kind))
        weight: Tensor = block.get_submodule(kinds[kind]).weight  # type: ignore[assignment]
        channels = weight.shape[1]
        new = NRSExcite(
            channels,
            largest_divisor(channels, n_per),
            n_h,
            seed=None if seed is None else seed + number,
            channels_last=kind.__name__ == "SqueezeExciteCl",
            device=weight.device,
            dtype=weight.dtype,
        )
        setattr(parent, name, new.train(block.training))
    return model


def _pooling_flops(x: Tensor) -> int:
    # As the paper's counter has it: (H·W + 1)·C a picture.
    return x.numel() + x.shape[0] * x.shape[1]


def _se_blocks() -> dict[type[nn.Module], str]:
    """Every kind of block, and its first layer, whose input is all channels."""
    kinds: dict[type[nn.Module], str] = {SEBlock: "squeeze"}
    try:
        kinds[part("torchvision.ops").SqueezeExcitation] = "fc1"
        layers = part("timm.layers.squeeze_excite")
        kinds[layers.SEModule] = "fc1"
        kinds[layers.EffectiveSEModule] = "fc"
        kinds[layers.SqueezeExciteCl] = "fc1"
        kinds[part("timm.models._efficientnet_blocks").SqueezeExcite] = "conv_reduce"
        kinds[part("timm.models.senet").SEModule] = "fc1"
        kinds[part("timm.models.hgnet").EseModule] = "conv"
    except ImportError:
        pass  # A model of a package that is not installed has none of its blocks.
    return kinds
