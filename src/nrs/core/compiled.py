"""The compiled formulation: :mod:`nrs.engine.layer` as operators that torch knows.

``torch.ops.nrs`` has the map, the map with batch normalisation and ReLU in training, and the way
back of both, so that ``torch.compile``, ``torch.export`` and counters of operations see them. Where
nobody looks, the same functions are called without torch's dispatcher, which takes longer than a
small layer. Second derivatives are those of torch's own operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from nrs.core.context import batched, counted
from nrs.core.norm import transformed
from nrs.engine import layer as engine

_PLAIN = (Tensor, torch.nn.Parameter)


def compiled_applies(x: Tensor, weight: Tensor) -> bool:
    """Whether the compiled formulation computes these: float32 on the CPU, where it was built.

    Elsewhere torch's own formulations do: for float64, half precision and GPUs, under transforms of
    ``torch.func``, in forward mode and in ``torch.jit.trace``.
    """
    return (
        engine.AVAILABLE
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and x.device.type == "cpu"
        # Under autocast rows may come in another precision.
        and x.dtype != torch.float64
        and 0 not in weight.shape
        and 0 not in x.shape
        and (torch.compiler.is_compiling() or not (transformed() or torch.jit.is_tracing()))
    )


def exporting() -> bool:
    """Whether a graph is made that may run where this package is not."""
    # torch before 2.7 does not say what it compiles for.
    asked = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return bool(asked())


def compiled_map(
    x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, *, relu: bool = False
) -> Tensor:
    """weight · x + bias of each subspace, maybe with ReLU.

    **Shape** output ``(B, G·O)``, laid out feature by feature.
    """
    bias = None if bias is None else bias.contiguous()
    given = (x.to(weight.dtype), index.contiguous(), weight.contiguous(), bias, relu)
    return _run(_Map.apply, torch.ops.nrs.subspace_map, given).t()


def compiled_stage(
    x: Tensor, index: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The map, normalised with the statistics of the batch, then ReLU; and mean and variance.

    **Shape** output ``(B, G·O)``, laid out feature by feature; mean and biased variance ``(G·O,)``.
    """
    given = (x.to(weight.dtype), index, weight.contiguous(), scale, shift, epsilon)
    output, mean, variance, *_ = _run(_Stage.apply, torch.ops.nrs.subspace_stage, given)
    return output.t(), mean, variance


def _run(direct: Callable[..., Any], operator: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Call without torch's dispatcher where nobody watches it."""
    # The first three are tensors: rows or a gradient, and what they meet.
    plain = all(type(one) in _PLAIN for one in given[:3])
    watched = torch.compiler.is_compiling() or counted() or not plain
    return operator(*given) if watched else direct(*given)


def _map_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *saved, ctx.relu = inputs
    ctx.save_for_backward(*saved, output if ctx.relu else None)


def _map_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, index, weight, bias, output = ctx.saved_tensors
    if _needs_torch(gradient):
        with torch.enable_grad():
            again = _reference(x, index, weight, bias)
            again = again.relu() if ctx.relu else again
        of_x, of_weight, of_bias = _gradients(ctx, again, gradient, {0: x, 2: weight, 3: bias})
        return of_x, None, of_weight, of_bias, None
    if ctx.relu:
        gradient = torch.ops.aten.threshold_backward(gradient, output, 0)
    given = (gradient, x, index, weight, ctx.needs_input_grad[0])
    of_x, of_weight = _run(engine.map_backward, torch.ops.nrs.subspace_map_backward, given)
    of_bias = gradient.sum(1) if ctx.needs_input_grad[3] else None
    return of_x if ctx.needs_input_grad[0] else None, None, of_weight, of_bias, None


def _stage_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *saved, ctx.epsilon = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*saved, *output[1:])


def _stage_gradient(ctx: Any, gradient: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if gradient is None:
        return (None,) * 6
    x, index, weight, scale, shift, *trained = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    if _needs_torch(gradient):
        with torch.enable_grad():
            mapped = _reference(x, index, weight, None).t()
            again = F.batch_norm(mapped, None, None, scale, shift, True, 0.0, ctx.epsilon)
            again = again.t().relu()
        inputs = {0: x, 2: weight, 3: scale, 4: shift}
        of_x, *others = _gradients(ctx, again, gradient, inputs)
        return of_x, None, *others, None
    given = (gradient, index, weight, scale, shift, ctx.epsilon, *trained, wanted[0])
    of_x, *others = _run(engine.train_backward, torch.ops.nrs.subspace_stage_backward, given)
    return of_x if wanted[0] else None, None, *others, None


def _needs_torch(gradient: Tensor) -> bool:
    """Whether a gradient is to be differentiated again, or is no single tensor."""
    return torch.is_grad_enabled() or transformed() or batched(gradient)


def _reference(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The map by torch's own operations, which can be differentiated any number of times."""
    groups, outputs, size = weight.shape
    cells = x.t().index_select(0, index.reshape(-1)).view(groups, size, x.shape[0])
    mapped = torch.bmm(weight, cells).view(groups * outputs, x.shape[0])
    return mapped if bias is None else mapped + bias[:, None]


def _gradients(
    ctx: Any, output: Tensor, gradient: Tensor, inputs: dict[int, Tensor]
) -> list[Tensor | None]:
    """Gradients that can be differentiated again, of the inputs at these places that want one."""
    wanted = [x for place, x in inputs.items() if ctx.needs_input_grad[place]]
    again = torch.is_grad_enabled()
    found = iter(torch.autograd.grad(output, wanted, gradient, create_graph=again))
    return [next(found) if ctx.needs_input_grad[place] else None for place in inputs]


class _Map(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        output = engine.apply(*given)
        _map_setup(ctx, given, output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _map_gradient(ctx, gradient)


class _Stage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, ...]:
        output = engine.train(*given)
        _stage_setup(ctx, given, output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, *others: Any) -> tuple[Tensor | None, ...]:
        return _stage_gradient(ctx, gradient)


def _map_shapes(
    x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, relu: bool
) -> Tensor:
    return x.new_empty(weight.shape[0] * weight.shape[1], x.shape[0])


def _map_backward_shapes(
    gradient: Tensor, x: Tensor, index: Tensor, weight: Tensor, inputs: bool
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0] if inputs else 0, x.shape[1]), weight.new_empty(weight.shape)


def _stage_shapes(
    x: Tensor, index: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (rows, features), outputs = x.shape, scale.shape[0]
    wide = engine.stride(rows)
    kept = x.new_empty(outputs if weight.shape[1] > 1 else 0, wide)
    statistics = x.new_empty(outputs), x.new_empty(outputs)
    return x.new_empty(outputs, rows), *statistics, x.new_empty(features, wide), kept


def _stage_backward_shapes(
    gradient: Tensor, index: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, epsilon: float,
    mean: Tensor, variance: Tensor, columns: Tensor, kept: Tensor, inputs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    of_x = gradient.new_empty(gradient.shape[1] if inputs else 0, columns.shape[0])
    return of_x, torch.empty_like(weight), torch.empty_like(scale), torch.empty_like(shift)


def _map_flops(
    x: tuple[int, ...], index: tuple[int, ...], weight: tuple[int, ...], *others: Any, **more: Any
) -> int:
    """A multiplication and an addition for each weight and row."""
    return 2 * x[0] * weight[0] * weight[1] * weight[2]


def _map_backward_flops(
    gradient: tuple[int, ...], x: tuple[int, ...], index: tuple[int, ...], weight: tuple[int, ...],
    inputs: bool, **more: Any,
) -> int:  # fmt: skip
    return _map_flops(x, index, weight) * (2 if inputs else 1)


def _stage_backward_flops(
    gradient: tuple[int, ...], index: tuple[int, ...], weight: tuple[int, ...], *others: Any,
    **more: Any,
) -> int:  # fmt: skip
    # Of one output a subspace the map is computed again.
    once = _map_flops((gradient[1],), index, weight)
    return once * (1 + bool(others[-1]) + (weight[1] == 1))


def _register() -> None:
    """Make them operators of torch."""
    of_norm = "Tensor scale, Tensor shift, float epsilon"
    trained = "Tensor mean, Tensor variance, Tensor columns, Tensor kept"
    for name, schema, function, shapes, flops in (
        (
            "subspace_map",
            "(Tensor x, Tensor index, Tensor weight, Tensor? bias, bool relu) -> Tensor",
            engine.apply, _map_shapes, _map_flops,
        ),
        (
            "subspace_map_backward",
            "(Tensor gradient, Tensor x, Tensor index, Tensor weight, bool inputs)"
            " -> (Tensor, Tensor)",
            engine.map_backward, _map_backward_shapes, _map_backward_flops,
        ),
        (
            "subspace_stage",
            f"(Tensor x, Tensor index, Tensor weight, {of_norm})"
            " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
            engine.train, _stage_shapes, _map_flops,
        ),
        (
            "subspace_stage_backward",
            f"(Tensor gradient, Tensor index, Tensor weight, {of_norm}, {trained}, bool inputs)"
            " -> (Tensor, Tensor, Tensor, Tensor)",
            engine.train_backward, _stage_backward_shapes, _stage_backward_flops,
        ),
    ):  # fmt: skip
        torch.library.define(f"nrs::{name}", schema)
        torch.library.impl(f"nrs::{name}", "CPU", function)
        torch.library.register_fake(f"nrs::{name}", shapes)
        register_flop_formula(getattr(torch.ops.nrs, name))(flops)
    for name, gradient, setup in (
        ("subspace_map", _map_gradient, _map_setup),
        ("subspace_stage", _stage_gradient, _stage_setup),
    ):
        torch.library.register_autograd(f"nrs::{name}", gradient, setup_context=setup)


_register()
