"""Parameters and FLOPs of any module, in two named conventions.

- ``macs``: plain multiply-adds of convolutions, linear maps and NRS layers, and nothing else.
- ``paper_flops``: the figures printed in the paper, those of a counter of late 2019: a
  convolution counts its multiply-adds, plus one an output element if biased; BatchNorm 4 an
  element; Linear 2·in·out with bias, (2·in − 1)·out without; adaptive average pooling (H·W + 1)·C;
  AvgPool2d(k) (k + 1) an output element; ReLU, sigmoid, max pooling and functional calls nothing.

A module that works outside of its layers tells so itself, by a method ``own_work(x, output)`` that
gives both numbers; they are added to those of its layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from nrs.core.ablation import FullyConnectedExpansion
from nrs.core.fold import FoldedNRS
from nrs.core.layer import NRS


@dataclass(frozen=True)
class Counts:
    """What :func:`count` found.

    Attributes
    ----------
    parameters : elements of the parameters, each tensor once.
    macs : multiply-adds of the whole batch that was given.
    paper_flops : FLOPs of that batch, as the paper counts them.
    """

    parameters: int
    macs: int
    paper_flops: int


def count_parameters(module: nn.Module, *, trainable_only: bool = False) -> int:
    """Count the elements of the parameters, each tensor once.

    Parameters
    ----------
    module : any network.
    trainable_only : leave out frozen parameters.

    Examples
    --------
    >>> count_parameters(NRS(2048, n_mul=2, n_per=64))    # the paper's ResNet-50 head
    2371584
    """
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not trainable_only)


def count(module: nn.Module, *inputs: Tensor) -> Counts:
    """Run `module` once on `inputs` in eval mode and count what its layers do.

    Parameters
    ----------
    module : any network.
    inputs : what its ``forward`` takes.

    Examples
    --------
    >>> count(nn.Linear(10, 4), torch.randn(1, 10))
    Counts(parameters=44, macs=40, paper_flops=80)
    """
    totals = {"macs": 0, "paper_flops": 0}
    handles = []

    def hook(rule: Callable[..., tuple[int, int]]) -> Callable[..., None]:
        def add(layer: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            macs, flops = rule(layer, args[0], output)
            totals["macs"] += macs
            totals["paper_flops"] += flops

        return add

    # A module that stands in several places runs in each, and is listened to once.
    for layer in dict.fromkeys(_leaves(module)):
        for kind, rule in _RULES:
            if isinstance(layer, kind):
                handles.append(layer.register_forward_hook(hook(rule)))
                break
        else:
            if hasattr(layer, "own_work"):
                handles.append(layer.register_forward_hook(hook(_own_work)))
    modes = {layer: layer.training for layer in module.modules()}
    try:
        module.eval()
        with torch.no_grad():
            module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
        for layer, mode in modes.items():
            layer.training = mode
    return Counts(count_parameters(module), totals["macs"], totals["paper_flops"])


def _leaves(module: nn.Module) -> list[nn.Module]:
    """Modules in order, without the insides of those that have a rule of their own."""
    if isinstance(module, _WHOLE):
        return [module]
    return [module, *(leaf for child in module.children() for leaf in _leaves(child))]


def _own_work(layer: Any, x: Tensor, output: Tensor) -> tuple[int, int]:
    macs, flops = layer.own_work(x, output)
    return macs, flops


def _convolution(layer: _ConvNd, x: Tensor, output: Tensor) -> tuple[int, int]:
    macs = output.numel() * (layer.in_channels // layer.groups) * math.prod(layer.kernel_size)
    return macs, macs + (output.numel() if layer.bias is not None else 0)


def _linear(layer: nn.Linear, x: Tensor, output: Tensor) -> tuple[int, int]:
    rows = output.numel() // layer.out_features
    macs = rows * layer.in_features * layer.out_features
    each = 2 * layer.in_features - (0 if layer.bias is not None else 1)
    return macs, rows * each * layer.out_features


def _batch_norm(layer: _BatchNorm, x: Tensor, output: Tensor) -> tuple[int, int]:
    return 0, 4 * x.numel()


def _adaptive_pool(layer: nn.Module, x: Tensor, output: Tensor) -> tuple[int, int]:
    window = math.prod(x.shape[2:]) // max(1, math.prod(output.shape[2:]))
    return 0, (window + 1) * output.numel()


def _average_pool(layer: nn.AvgPool2d, x: Tensor, output: Tensor) -> tuple[int, int]:
    side = layer.kernel_size if isinstance(layer.kernel_size, int) else layer.kernel_size[0]
    return 0, (side + 1) * output.numel()


def _nrs(layer: NRS, x: Tensor, output: Tensor) -> tuple[int, int]:
    rows = output.numel() // layer.out_features
    macs = flops = 0
    for stage in range(layer.depth):
        positions = 9 if layer.depth == 2 and stage == 0 else 1
        elements = rows * layer.out_features * positions
        macs += elements * layer.weight[0].numel()
        flops += elements * (layer.weight[0].numel() + (layer.bias is not None))
        flops += 4 * elements if layer.norm is not None else 0
    return macs, flops


def _folded_nrs(layer: FoldedNRS, x: Tensor, output: Tensor) -> tuple[int, int]:
    rows = output.numel() // layer.out_features
    weights = sum(layer.get_buffer(f"weight{k}").numel() for k in range(layer.depth))
    biases = sum(layer.get_buffer(f"bias{k}").numel() for k in range(layer.depth))
    return rows * weights, rows * (weights + biases)


def _expansion(layer: FullyConnectedExpansion, x: Tensor, output: Tensor) -> tuple[int, int]:
    macs, flops = _nrs(layer.aggregation, x, output)
    rows = output.numel() // layer.out_features
    cells, features = layer.expansion.shape
    return macs + rows * cells * features, flops + rows * cells * (2 * features - 1)


_WHOLE = (NRS, FoldedNRS, FullyConnectedExpansion)
_RULES: tuple[tuple[type[nn.Module], Callable[..., tuple[int, int]]], ...] = (
    (NRS, _nrs),
    (FoldedNRS, _folded_nrs),
    (FullyConnectedExpansion, _expansion),
    (_ConvNd, _convolution),
    (nn.Linear, _linear),
    (_BatchNorm, _batch_norm),
    (nn.AdaptiveAvgPool2d, _adaptive_pool),
    (nn.AdaptiveAvgPool1d, _adaptive_pool),
    (nn.AvgPool2d, _average_pool),
)
