"""Batch normalisation and ReLU of a map that is laid out feature by feature.

The wide formulations give a (C, B) tensor: a row a channel. Statistics are then sums along
contiguous memory, and since every channel is normalised on its own, the work is done in slices of
channels that stay in cache. torch's kernels read and write the whole map five times instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from nrs.core.context import has_hooks

# Elements of a slice: 1 MB of float32, half of a usual level-2 cache.
SLICE_ELEMENTS = 1 << 18


def own_gradient_allowed() -> bool:
    """Whether an ``autograd.Function`` may be called.

    A compiler cannot see into one, transforms of ``torch.func`` have no rule for ours, and neither
    has forward-mode differentiation.
    """
    return not torch.compiler.is_compiling() and not transformed()


def transformed() -> bool:
    """Whether a transform of ``torch.func`` or forward-mode differentiation is at work."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


class BatchNormReLU(torch.autograd.Function):
    """relu(gamma · (h − mean) / sqrt(var + eps) + beta) with batch statistics, a row a channel.

    **Shape** h ``(C, B)``; gamma, beta ``(C,)``; returns output ``(C, B)``, mean and biased
    variance ``(C,)``.
    """

    # Written with ctx in forward: torch inspects the signature at every call otherwise, which
    # takes longer than a small layer.
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, gamma: Tensor, beta: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch = h.shape[1]
        output = torch.empty_like(h)
        mean = torch.empty_like(gamma)
        variance = torch.empty_like(gamma)
        for part in _slices(h):
            target = output[part]
            torch.mean(h[part], 1, out=mean[part])
            torch.sub(h[part], mean[part].unsqueeze(1), out=target)
            torch.div(torch.linalg.vector_norm(target, dim=1).square_(), batch, out=variance[part])
            scale = (variance[part] + eps).rsqrt_().mul_(gamma[part])
            target.mul_(scale.unsqueeze(1)).add_(beta[part].unsqueeze(1)).relu_()
        ctx.eps = eps
        ctx.mark_non_differentiable(mean, variance)
        ctx.save_for_backward(h, gamma, output, mean, variance)
        return output, mean, variance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        h, gamma, result, mean, variance = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*_differentiable_gradient(gradient * (result > 0), h, gamma, ctx.eps), None)
        inverse_std = (variance + ctx.eps).rsqrt_()
        grad_h = torch.empty_like(h)
        grad_gamma = torch.empty_like(gamma)
        grad_beta = torch.empty_like(gamma)
        for part in _slices(h):
            through = torch.ops.aten.threshold_backward(
                gradient[part].contiguous(), result[part], 0
            )
            of_h, of_gamma, of_beta = torch.ops.aten.native_batch_norm_backward(
                through.unsqueeze(0),
                h[part].unsqueeze(0),
                gamma[part],
                None,
                None,
                mean[part],
                inverse_std[part],
                True,
                ctx.eps,
                [True, True, True],
            )
            grad_h[part] = of_h[0]
            grad_gamma[part] = of_gamma
            grad_beta[part] = of_beta
        return grad_h, grad_gamma, grad_beta, None


def _differentiable_gradient(
    gradient: Tensor, h: Tensor, gamma: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by h, gamma and beta in operations that autograd can differentiate again.

    `gradient` is that of what the ReLU lets through, whose own second derivative is zero.
    """
    centred = h - h.mean(1, keepdim=True)
    inverse_std = (centred.square().mean(1, keepdim=True) + eps).rsqrt()
    standard = centred * inverse_std
    along = gradient * standard
    by_standard = gradient - gradient.mean(1, keepdim=True) - standard * along.mean(1, keepdim=True)
    return gamma.unsqueeze(1) * inverse_std * by_standard, along.sum(1), gradient.sum(1)


class ReducedBatchNormReLU(torch.autograd.Function):
    """:class:`BatchNormReLU` whose statistics are those of the rows of all processes together.

    `total` sums a tensor over the processes: once a pass forward, once back.

    **Shape** as of :class:`BatchNormReLU`, B being the rows of this process, of which there may be
    none; beside mean and variance the number of all rows is returned, a float64 scalar.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        gamma: Tensor,
        beta: Tensor,
        eps: float,
        total: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        channels, batch = h.shape
        # In float64: the mean square less the squared mean loses no digit that float32 has.
        sums = h.new_zeros(2 * channels + 1, dtype=torch.float64)
        sums[-1] = batch
        own = torch.zeros_like(gamma)
        output = torch.empty_like(h)
        for part in _slices(h) if batch else ():
            torch.mean(h[part], 1, out=own[part])
            # Not var_mean, which takes forty times as long on a CPU.
            torch.sub(h[part], own[part].unsqueeze(1), out=output[part])
            squares = torch.linalg.vector_norm(output[part], dim=1).double().square_()
            precise = own[part].double()
            sums[:channels][part] = precise * batch
            sums[channels:-1][part] = squares + precise.square() * batch
        sums = total(sums)
        count = sums[-1]
        precise = sums[:channels] / count
        mean = precise.to(h.dtype)
        variance = (sums[channels:-1] / count - precise.square()).clamp_min_(0).to(h.dtype)
        scale = (variance + eps).rsqrt_().mul_(gamma)
        # The output holds what is left without this process's own mean.
        shift = torch.addcmul(beta, own - mean, scale)
        for part in _slices(h):
            target = output[part]
            torch.addcmul(shift[part, None], target, scale[part, None], out=target).relu_()
        ctx.eps, ctx.total = eps, total
        ctx.mark_non_differentiable(mean, variance, count)
        ctx.save_for_backward(h, gamma, output, mean, variance, count)
        return output, mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "A normalisation over several processes has no second derivative. Call backward "
                "without create_graph."
            )
        h, gamma, result, mean, variance, count = ctx.saved_tensors
        inverse_std = (variance + ctx.eps).rsqrt_()
        own = h.new_empty(2, len(h))
        grad_h = torch.empty_like(h)
        for part in _slices(h):
            through = grad_h[part]
            torch.ops.aten.threshold_backward(
                gradient[part].contiguous(), result[part], 0, grad_input=through
            )
            torch.sum(through, 1, out=own[0, part])
            centred = h[part] - mean[part, None]
            torch.sum(centred.mul_(through), 1, out=own[1, part])
        # How the loss of all rows moves with the statistics that they share.
        by_mean, by_deviation = (ctx.total(own) / count.to(h.dtype)).unbind(0)
        factor = gamma * inverse_std
        by_deviation = by_deviation * inverse_std.square() * -factor
        by_mean = by_mean * -factor
        for part in _slices(h):
            centred = h[part] - mean[part, None]
            torch.addcmul(by_mean[part, None], centred, by_deviation[part, None], out=centred)
            through = grad_h[part]
            torch.addcmul(centred, through, factor[part, None], out=through)
        return grad_h, own[1] * inverse_std, own[0], None, None


def _slices(h: Tensor) -> list[slice]:
    if h.device.type != "cpu":
        return [slice(None)]
    channels, batch = h.shape
    step = max(1, SLICE_ELEMENTS // max(1, batch))
    return [slice(start, start + step) for start in range(0, channels, step)]


def bias_cancels(norm: nn.BatchNorm1d) -> bool:
    """Whether `norm` subtracts the batch mean, and with it any bias added before.

    A norm with hooks is called as a module instead.
    """
    return (
        type(norm) is nn.BatchNorm1d
        and norm.training
        and norm.affine
        and norm.track_running_stats
        and norm.momentum is not None
        and not has_hooks(norm)
    )


def normalise_together(
    h: Tensor, norm: nn.BatchNorm1d, total: Callable[[Tensor], Tensor]
) -> Tensor:
    """Normalise (C, B) activations with the statistics of all processes' rows, then ReLU.

    Parameters
    ----------
    total : sums a tensor over the processes, giving each the same bits.
    """
    assert norm.momentum is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # Under autocast activations may come in a lower precision.
    output, mean, variance, count = ReducedBatchNormReLU.apply(
        h.to(norm.weight.dtype), norm.weight, norm.bias, norm.eps, total
    )
    with torch.no_grad():
        unbiased = (count / (count - 1)).to(variance.dtype)
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(variance * unbiased, norm.momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    activated: Tensor = output
    return activated


def normalise(h: Tensor, bias: Tensor | None, norm: nn.BatchNorm1d, *, relu: bool) -> Tensor:
    """Normalise ``h + bias`` with batch statistics and update the running ones; maybe ReLU.

    `h` is a (B, C) map computed without its bias, which :func:`bias_cancels` allows: the bias
    enters the running mean only, and its gradient is exactly zero.
    """
    beta = shift_of(norm, bias)
    if relu and _slices_apply(h, norm):
        output, mean, variance = BatchNormReLU.apply(h.t(), norm.weight, beta, norm.eps)
        track(norm, mean, variance, bias, h.shape[0])
        return output.t()
    momentum, running_mean, running_var = _tracked(norm)
    shift = None if bias is None else bias.detach()
    # A copy of the running mean: autograd keeps what batch_norm is given.
    mean = running_mean.clone() if shift is None else running_mean - shift
    h = F.batch_norm(h, mean, running_var, norm.weight, beta, True, momentum, norm.eps)
    # In place: the normalisation does not need its output, and memory is what this costs.
    h = torch.relu_(h) if relu else h
    with torch.no_grad():
        running_mean.copy_(mean if shift is None else mean + shift)
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    return h


def shift_of(norm: nn.BatchNorm1d, bias: Tensor | None) -> Tensor:
    """What is added after the scale; a bias of the map is in its graph with factor zero.

    So the gradient of that bias is zero, and not None.
    """
    return norm.bias if bias is None else torch.add(norm.bias, bias, alpha=0)


def track(
    norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, bias: Tensor | None, rows: int
) -> None:
    """Move the running statistics towards those of a batch.

    Parameters
    ----------
    mean, variance : of a map without its bias; the variance is the biased one.
    """
    momentum, running_mean, running_var = _tracked(norm)
    with torch.no_grad():
        running_mean.lerp_(mean if bias is None else mean + bias, momentum)
        running_var.lerp_(variance * (rows / (rows - 1)), momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)


def _tracked(norm: nn.BatchNorm1d) -> tuple[float, Tensor, Tensor]:
    momentum, mean, variance = norm.momentum, norm.running_mean, norm.running_var
    if momentum is None or mean is None or variance is None:
        raise AssertionError("bias_cancels() admits only a norm that tracks running statistics")
    return momentum, mean, variance


def _slices_apply(h: Tensor, norm: nn.BatchNorm1d) -> bool:
    return (
        h.device.type == "cpu"
        and h.dtype == norm.weight.dtype
        # torch's kernels sum half precision in float32, and know that no rows have no statistics.
        and h.dtype in (torch.float32, torch.float64)
        and h.shape[0] > 0
        and h.t().is_contiguous()
        # A compiler fuses the plain operations by itself.
        and own_gradient_allowed()
    )
