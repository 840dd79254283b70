"""Randomness that comes from a seed and leaves the caller's alone, in any thread."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

# Torch's global generators belong to the whole process: threads borrow them one at a time.
_TURN = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A child must not inherit a turn that another thread had.
    os.register_at_fork(
        before=_TURN.acquire, after_in_parent=_TURN.release, after_in_child=_TURN.release
    )
_INNERMOST = threading.local()

# Functions of torch that draw from the generator they are given …
_TAKE_ONE: set[Callable[..., Any]] = {
    torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal, torch.bernoulli,
    torch.multinomial, torch.poisson, torch.binomial, Tensor.bernoulli, Tensor.bernoulli_,
    Tensor.multinomial, Tensor.cauchy_, Tensor.exponential_, Tensor.geometric_,
    Tensor.log_normal_, Tensor.normal_, Tensor.random_, Tensor.uniform_,
}  # fmt: skip
_TAKE_ONE |= {
    function
    for _, function in inspect.getmembers(nn.init, inspect.isfunction)
    if "generator" in inspect.signature(function).parameters
}
# … and those that know the global one only.
_TAKE_NONE: set[Callable[..., Any]] = {
    torch.rand_like, torch.randn_like, torch.randint_like, torch.dropout, torch.dropout_,
    torch.alpha_dropout, torch.feature_dropout, torch.feature_alpha_dropout, torch.rrelu,
    torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu,
    functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d,
    functional.alpha_dropout, functional.feature_alpha_dropout, functional.rrelu,
    functional.gumbel_softmax, functional.multi_head_attention_forward,
    functional.scaled_dot_product_attention,
    functional.fractional_max_pool2d, functional.fractional_max_pool2d_with_indices,
    functional.fractional_max_pool3d, functional.fractional_max_pool3d_with_indices,
}  # fmt: skip


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw from a seed within the block, and leave torch's global generator as it was.

    Only this thread draws from the seed. The numbers are those that the global generator would
    give after ``torch.manual_seed(seed)``, on the CPU. Without a seed the block draws from the
    global generator.

    Examples
    --------
    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     bool(torch.rand(1) == first)
    True
    """
    if seed is None:
        yield
        return
    with _Drawing(torch.Generator().manual_seed(seed)):
        yield


@contextmanager
def lent(generators: Sequence[torch.Generator]) -> Iterator[None]:
    """Let torch's global generators stand for others within the block.

    Whatever the block draws, by whatever function, comes from `generators`, one per device. The
    blocks of several threads take turns.

    Examples
    --------
    >>> own, twin = (torch.Generator().manual_seed(0) for _ in range(2))
    >>> with lent([own]):
    ...     drawn = nn.functional.dropout(torch.ones(100))
    >>> with lent([twin]):
    ...     bool((nn.functional.dropout(torch.ones(100)) == drawn).all())
    True
    """
    with _TURN:
        pairs = [(own, _global_generator(own.device)) for own in generators]
        before = [everyones.get_state() for _, everyones in pairs]
        try:
            for own, everyones in pairs:
                everyones.set_state(own.get_state())
            yield
        finally:
            for (own, everyones), state in zip(pairs, before, strict=True):
                own.set_state(everyones.get_state())
                everyones.set_state(state)


def _global_generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generator: torch.Generator = torch.cuda.default_generators[index]
        return generator
    return torch.default_generator


class _Drawing(TorchFunctionMode):
    """Gives a generator to the random functions that this thread calls without one."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __enter__(self) -> _Drawing:
        self.outer = getattr(_INNERMOST, "mode", None)
        _INNERMOST.mode = self
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        _INNERMOST.mode = self.outer

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if _INNERMOST.mode is not self:
            return func(*args, **given)
        if func in _TAKE_NONE:
            with lent([self.generator]):
                return func(*args, **given)
        # The generator is on the CPU; other devices have their own.
        if func in _TAKE_ONE and given.get("generator") is None and _device(args, given) == "cpu":
            given["generator"] = self.generator
        return func(*args, **given)


def _device(args: Sequence[Any], given: Mapping[str, Any]) -> str:
    """The type of the device on which a random function will draw."""
    tensors = (value for value in (*args, *given.values()) if isinstance(value, Tensor))
    where = given.get("device") or next((tensor.device for tensor in tensors), None)
    return torch.device(where or torch.get_default_device()).type
