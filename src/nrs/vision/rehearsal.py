"""A forward pass without numbers: what a network does with its classifier, before it is replaced.

The network is copied without its weights and run on torch's meta device, which computes shapes
alone. A network that cannot run there (it branches on values, or its input is not known) is not
checked.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nrs._util.seeds import seeded


class Pass(NamedTuple):
    """What a forward pass showed.

    input : shape of the batch that went in.
    called : names of the modules that were called, in the order of their last call.
    output : shape of the output, or of the first tensor in it.
    """

    input: tuple[int, ...]
    called: list[str]
    output: tuple[int, ...]


def skeleton(model: nn.Module) -> nn.Module:
    """Copy of a model in eval mode whose tensors are on the meta device.

    Examples
    --------
    >>> skeleton(nn.Linear(4, 3)).weight.device.type
    'meta'
    """
    memo: dict[int, Any] = {}
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        empty = torch.empty_like(tensor, device="meta")
        if isinstance(tensor, nn.Parameter):
            empty = nn.Parameter(empty, requires_grad=tensor.requires_grad)
        memo[id(tensor)] = empty
    # What the memo has is taken for copied: no weight is.
    copied = copy.deepcopy(model, memo).eval()
    for module in copied.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                vars(module)[name] = value.to("meta")
    return copied


def rehearse(model: nn.Module, shape: tuple[int, ...] | None = None) -> Pass | None:
    """Run a skeleton on inputs that a model of its kind takes; None if none of them passes.

    Parameters
    ----------
    model : what :func:`skeleton` returned.
    shape : of a batch that the model is known to take.

    Examples
    --------
    >>> rehearse(skeleton(nn.Sequential(nn.Linear(4, 3), nn.ReLU())))
    Pass(input=(2, 4), called=['0', '1'], output=(2, 3))
    """
    for size in _inputs(model) if shape is None else (shape,):
        called: dict[str, None] = {}
        handles = [
            module.register_forward_hook(_noting(called, name))
            for name, module in model.named_modules()
            if name
        ]
        dtype = next((p.dtype for p in model.parameters()), torch.float32)
        try:
            with torch.no_grad(), seeded(0):
                output = _first_tensor(model(torch.empty(size, device="meta", dtype=dtype)))
        except Exception:  # Whatever a foreign network raises, it cannot be rehearsed.
            continue
        finally:
            for handle in handles:
                handle.remove()
        if output is not None:
            return Pass(size, list(called), tuple(output.shape))
    return None


def _noting(called: dict[str, None], name: str) -> Callable[..., None]:
    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        called.pop(name, None)
        called[name] = None

    return note


def _inputs(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Shapes of a batch of two that a model may take."""
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if isinstance(config, dict) and config.get("input_size"):
        yield (2, *config["input_size"])
        return
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            yield (2, layer.in_features)
            return
        if isinstance(layer, nn.Conv2d):
            size = getattr(model, "image_size", None)  # Of torchvision's transformers.
            for side in (size,) if isinstance(size, int) else (224, 299, 64, 32):
                yield (2, layer.in_channels, side, side)
            return


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    parts = output.values() if isinstance(output, dict) else output
    if not isinstance(parts, (tuple, list)) and not isinstance(output, dict):
        return None
    return next((part for part in parts if isinstance(part, Tensor)), None)
