"""Modes of torch that training needs, and which floating-point type the forward pass runs in."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

_PROBE = """
import torch
torch.set_num_threads(1)
with torch.autocast("cpu", dtype=torch.bfloat16):
    for n in (3, 64, 257):
        x = torch.randn(n, n, requires_grad=True)
        y = torch.nn.functional.linear(x, torch.randn(n, n))
        y.float().square().mean().backward()
        image = torch.nn.functional.conv2d(torch.randn(1, 3, 9, 9), torch.randn(4, 3, 3, 3))
        assert y.dtype == torch.bfloat16 and y.isfinite().all() and image.isfinite().all()
"""


@functools.cache
def probe_bf16() -> bool:
    """Whether bfloat16 products work on this CPU.

    Some CPUs die of an illegal instruction, which no ``try`` catches; so another process tries.
    The answer is kept for the life of the process.
    """
    if not sys.executable:
        return False
    try:
        done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def forward_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """The autocast type for a precision setting on a device; None for plain float32.

    Raises
    ------
    RuntimeError
        If ``precision="bf16"`` is asked for where bfloat16 does not work.

    Examples
    --------
    >>> forward_dtype("auto", torch.device("cpu")) is None
    True
    """
    if precision == "float32":
        return None
    if precision == "fp16":
        return torch.float16
    on_cuda = device.type == "cuda"
    works = on_cuda and torch.cuda.is_bf16_supported()
    if precision == "auto":
        return torch.bfloat16 if works else None
    if not works and (on_cuda or not probe_bf16()):
        raise RuntimeError(
            f"precision='bf16' needs a device with working bfloat16 products; "
            f"device={str(device)!r} has none. Use precision='float32' or precision='auto'."
        )
    return torch.bfloat16


@contextlib.contextmanager
def lowered_forward(
    module: nn.Module, dtype: torch.dtype | None, device: torch.device
) -> Iterator[None]:
    """Within the block ``module(...)`` computes in ``dtype`` and returns float32.

    Only the forward pass is lowered: a loss computed from its outputs is in float32. A module whose
    losses come from another method names it as its ``training_forward``.
    """
    if dtype is None:
        yield
        return
    name = getattr(module, "training_forward", "forward")
    forward = getattr(module, name)
    had_own = name in module.__dict__

    def lowered(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, dtype=dtype):
            outputs = forward(*args, **kwargs)
        return tree_map(_raised, outputs)

    module.__dict__[name] = lowered
    try:
        yield
    finally:
        if had_own:
            module.__dict__[name] = forward
        else:
            del module.__dict__[name]


@contextlib.contextmanager
def plain_modes() -> Iterator[None]:
    """Within the block gradients are recorded, and new tensors are on the CPU unless they say.

    Restores ``torch.no_grad``, ``torch.inference_mode`` and torch's default device at the end; all
    of them belong to the thread. The default dtype belongs to the process and is not touched:
    where it matters, tensors are made with their dtype.

    Examples
    --------
    >>> with torch.no_grad(), plain_modes():
    ...     torch.is_grad_enabled()
    True
    """
    # A device mode makes every call of torch slower, so there is none where none is needed.
    on_cpu = torch.get_default_device().type == "cpu"
    device: contextlib.AbstractContextManager[Any] = (
        contextlib.nullcontext() if on_cpu else torch.device("cpu")
    )
    with torch.inference_mode(False), torch.enable_grad(), device:
        yield


def no_autocast(x: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Compute in the precision of the tensors, on the device of `x`."""
    # A tensor without data has no device that autocast knows.
    off: contextlib.AbstractContextManager[Any] = (
        contextlib.nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)
    )
    return off


def _raised(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16):
        return value.float()
    return value
