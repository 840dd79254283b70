"""A network from the tensors of a file, which takes no memory before it is known to fit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nrs.training.schema import ModelFileError, check_tensors, kind_of

# Bytes of buffers that are not in the file, beyond as many as the file has.
_MAX_OUTSIDE = 1 << 28
# Elements of a range that a constructor may compute with while its weights have no memory.
_MAX_RANGE = 1 << 16
M = TypeVar("M")


def load_network(
    build: Callable[[], M],
    tensors: Mapping[str, Tensor],
    *,
    module: Callable[[M], nn.Module] | None = None,
) -> M:
    """Make the network that a header describes, and take memory only if the file has its tensors.

    The network is first built without memory, on torch's ``meta`` device, and compared with the
    tensors: names, shapes, dtypes. Only then it gets them.

    Parameters
    ----------
    build : callable
        Makes the network, or an object that has it. It may be called twice.
    tensors : mapping of str to Tensor
        Those of a file; the network then owns them.
    module : callable, optional
        From what `build` returns to its network.

    Raises
    ------
    ModelFileError
        If the tensors are not those of the network, or not finite.

    Examples
    --------
    >>> weights = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    >>> load_network(lambda: nn.Linear(2, 1), weights)(torch.ones(1, 2)).item()
    2.0
    >>> load_network(lambda: nn.Linear(1 << 40, 1), weights)
    Traceback (most recent call last):
        ...
    nrs.training.schema.ModelFileError: the tensor 'weight' must be float32 [1, 1099511627776]; \
got float32 [1, 2]
    """
    made = _without_memory(build)
    network = _network_of(made, module)
    known = {name: kind_of(tensor) for name, tensor in network.state_dict().items()}
    check_tensors(known, tensors)
    outside = _outside(network)
    if not outside:
        _fill(network, tensors, assign=True)
        return made
    # What is not in the file has values that only the constructor knows.
    inside = sum(tensor.nbytes for tensor in tensors.values())
    if sum(tensor.nbytes for tensor in outside) > inside + _MAX_OUTSIDE:
        raise ModelFileError("the network must not need much more memory than its file has bytes")
    made = build()
    _fill(_network_of(made, module), tensors)
    return made


def _fill(network: nn.Module, tensors: Mapping[str, Tensor], *, assign: bool = False) -> None:
    try:
        network.load_state_dict(tensors, assign=assign)
    except RuntimeError as error:
        # Torch's own first line says only that something is wrong.
        raise ModelFileError(str(error).strip().splitlines()[-1].strip()) from None


def _network_of(made: Any, module: Callable[[Any], nn.Module] | None) -> nn.Module:
    network: nn.Module = made if module is None else module(made)
    return network


def _without_memory(build: Callable[[], M]) -> M:
    try:
        with torch.device("meta"):
            return build()
    except (RuntimeError, ValueError) as error:
        if "meta" not in str(error):
            raise
    # Some constructors compute widths by tensors (torchvision's RegNet).
    with torch.device("meta"), _RangesHaveValues():
        return build()


class _RangesHaveValues(TorchFunctionMode):
    """Within torch's meta device, ranges and lists are on the CPU: their values are known."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.arange, torch.linspace, torch.tensor) and kwargs.get("device") is None:
            size = func(*args, **{**kwargs, "device": "meta"}).numel()
            kwargs = {**kwargs, "device": "cpu" if size <= _MAX_RANGE else "meta"}
        return func(*args, **kwargs)


def _outside(network: nn.Module) -> list[Tensor]:
    """Tensors without memory that a network has besides those of its state dict."""
    inside = network.state_dict(keep_vars=True).keys()
    found = [t for name, t in network.named_buffers() if name not in inside and t.is_meta]
    for part in network.modules():
        for value in vars(part).values():
            some = value if isinstance(value, (list, tuple)) else [value]
            found += [t for t in some if isinstance(t, Tensor) and t.is_meta]
    return found
