"""Copies of a module's weights: the best so far, and their moving average."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn


def live_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a module by name; shared ones once."""
    tensors: dict[str, Tensor] = {
        name: parameter.detach() for name, parameter in module.named_parameters()
    }
    tensors.update((name, buffer.detach()) for name, buffer in module.named_buffers())
    return tensors


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    """A copy of all parameters and buffers of a module."""
    return {name: tensor.clone() for name, tensor in live_tensors(module).items()}


def put_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write weights from `copy_weights` into a module, in place."""
    for name, tensor in live_tensors(module).items():
        tensor.copy_(weights[name])


class WeightAverage:
    """An exponential moving average of a module's floating-point parameters and buffers.

    After update t = 1, 2, … the average is d · average + (1 − d) · weights with
    d = min(decay, (1 + t) / (10 + t)): the average forgets the random start of a short run, and
    has the asked decay in a long one. Running statistics (batch normalisation) are averaged like
    weights, so that they belong to the same mix of past networks; whole-number buffers
    (counters, indices) are those of the module.

    Parameters
    ----------
    module : nn.Module
        Its parameters and buffers must stay the same tensors, changed in place.
    decay : float
        Between 0 and 1.

    Examples
    --------
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> average = WeightAverage(layer, decay=0.5)
    >>> _ = nn.init.ones_(layer.weight)
    >>> average.update(1)  # d = min(0.5, 2 / 11)
    >>> round(average.tensors["weight"].item(), 3), layer.weight.item()
    (0.818, 1.0)
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self._live = {n: t for n, t in live_tensors(module).items() if t.is_floating_point()}
        self.tensors = {name: tensor.clone() for name, tensor in self._live.items()}
        self._live_list = list(self._live.values())
        self._average_list = list(self.tensors.values())

    def update(self, count: int) -> None:
        """Mix in the present weights; ``count`` is 1 at the first update."""
        decay = min(self.decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(self._average_list, self._live_list, 1 - decay)

    def put(self) -> None:
        """Write the average into the module."""
        torch._foreach_copy_(self._live_list, self._average_list)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the module has the averaged weights; then its own again."""
        own = [tensor.clone() for tensor in self._live_list]
        self.put()
        try:
            yield
        finally:
            torch._foreach_copy_(self._live_list, own)
