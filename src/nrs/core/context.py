"""What stands around a call: a symbolic trace, hooks, a mode that counts operations.

Quick paths of the layer do without what torch does at a call. They are taken only where nobody
would miss it; this file holds the questions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx import Proxy
from torch.nn.modules import module as torch_module
from torch.utils.flop_counter import flop_registry, register_flop_formula


def as_leaf(module: nn.Module, x: Any) -> Any:
    """Record a call of `module` in the trace of torch.fx that `x` belongs to; None outside of one.

    A layer that chooses by shape cannot be traced operation by operation. In a traced network it
    stands as one node, as torch's own layers do.

    Examples
    --------
    >>> from nrs import NRS
    >>> [node.op for node in torch.fx.symbolic_trace(nn.Sequential(NRS(4))).graph.nodes]
    ['placeholder', 'call_module', 'output']
    """
    if not isinstance(x, Proxy):
        return None
    tracer: Any = x.tracer
    path = tracer.path_of_module(module)
    if not path:
        kind = type(module).__name__
        raise ValueError(
            f"torch.fx traces networks that hold the layer as one node; got {kind} alone. Trace "
            f"nn.Sequential(layer) instead."
        )
    return tracer.create_proxy("call_module", path, (x,), {})


def has_hooks(module: nn.Module) -> bool:
    """Whether calling a module does more than its ``forward``.

    Examples
    --------
    >>> norm = nn.BatchNorm1d(4)
    >>> handle = norm.register_forward_hook(lambda module, inputs, output: None)
    >>> has_hooks(norm), handle.remove(), has_hooks(norm)
    (True, None, False)
    """
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or torch_module._has_any_global_hook()
    )


def counted() -> bool:
    """Whether a mode watches every operation, such as ``torch.utils.flop_counter``."""
    return torch._C._len_torch_dispatch_stack() > 0


def batched(x: torch.Tensor) -> bool:
    """Whether a tensor stands for several, as the gradients of ``is_grads_batched=True`` do."""
    return torch._C._functorch.is_legacy_batchedtensor(x)


def _weighted_bag_flops(
    weight: tuple[int, ...],
    indices: tuple[int, ...],
    offsets: tuple[int, ...],
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: tuple[int, ...] | None = None,
    *others: Any,
    **more: Any,
) -> int:
    """A multiplication and an addition for each weight and column; a plain sum has no product."""
    return 0 if per_sample_weights is None else 2 * indices[0] * weight[1]


def _bag_weight_gradient_flops(
    gradient: tuple[int, ...], weight: tuple[int, ...], indices: tuple[int, ...], *others: Any,
    **more: Any,
) -> int:  # fmt: skip
    return 2 * indices[0] * weight[1]


def _register_flops() -> None:
    """Teach torch's counter the weighted embedding bag, unless someone has."""
    formulas: dict[Any, Any] = {
        torch.ops.aten._embedding_bag: _weighted_bag_flops,
        torch.ops.aten._embedding_bag_forward_only: _weighted_bag_flops,
        torch.ops.aten._embedding_bag_per_sample_weights_backward: _bag_weight_gradient_flops,
    }
    for operator, formula in formulas.items():
        if operator not in flop_registry:
            register_flop_formula(operator)(formula)


_register_flops()
