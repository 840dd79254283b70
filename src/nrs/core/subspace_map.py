"""The aggregation step as one function: many small linear maps, each on its own features.

Everything in the package that reads random subspaces calls :func:`subspace_map`. The grouped
convolution of the paper is one of five formulations of it; all give the same numbers.

`"auto"` takes one of them by measured rules, all in this one place. `python -m benchmarks.layer`
measures the shapes the rules were read from (one core, float32), and `python -m benchmarks.layer
--formulations` measures every formulation at every shape, so a rule can be checked or moved on
another machine. A wrong choice costs time, never correctness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nrs.core.compiled import compiled_applies, compiled_map, exporting
from nrs.core.context import counted
from nrs.core.norm import own_gradient_allowed, transformed

FORMULATIONS = ("conv", "dense", "bag", "blocks", "compiled")
# torch.embedding_bag's number for mode="sum"; the function around it costs as much as a small map.
_BAG_SUM = 0

# One output a subspace: a bag multiplies F features where dense multiplies d, at a fifth of the
# speed; for its gradient by the inputs the subspaces are sorted first. Dense wins up to d =
# ratio·F. Training steps of 2,844 subspaces at batch 512, dense and bag in ms: F=9 at d=32 6.5 and
# 5.2, at 64 9.0 and 4.4, at 180 20 and 11; F=25 at 64 8.3 and 8.6, at 128 14 and 9.1. With the
# inputs' gradient: F=9 at 64 12 and 13, at 96 16 and 11.
DENSE_RATIOS = {"weights": 5, "inputs": 10}
# Without a gradient the scatter weighs more: 1.2 and 0.8 ms at F=25, d=64, batch 128.
DENSE_RATIO_NO_GRADIENT = 2
# A matrix made once (folded) has no scatter to pay for. In a network at batch 512: F=9 at d=36 8.5
# and 8.6, at 64 10.4 and 10.0, at 96 8.4 and 7.2. For a few rows the gather costs more than a small
# matrix, as long as that stays in cache.
DENSE_RATIO_FOLDED = 5
FOLDED_FEW_ROWS_FEATURES = 96
FOLDED_SINGLE_ROW_CELLS = 1 << 19
# A folded forest maps the rows of a whole table; beyond so many inputs for each of a subspace it
# keeps its subspaces, which are far smaller than the matrix.
DENSE_RATIO_FOREST = 10
# Of so few rows the preparations of a bag's gradient take as long as the sums: 0.94 and 0.73 ms
# at F=4, d=96, batch 32, and 1.62 and 1.58 at F=9.
SMALL_BATCH = 64
# Several outputs a subspace: dense multiplies d features where blocks multiply F, but in one large
# product and without a gather, whose cost falls with the outputs O that share it. Dense wins up to
# d = (1.5 + 20 / O)·F. Batch 256, dense and blocks in ms: O=32 at d = 1.8·F 19 and 23, at 2.2·F 16
# and 15, at 3.6·F 17 and 13; O=8 at 3.6·F 8.5 and 9.6; O=64 at 3.6·F, folded, 55 and 32 (512 rows).
DENSE_BLOCK_RATIO = 1.5
DENSE_BLOCK_GATHER = 20.0
# The scatter is paid for every weight, the gather for every row and 1/O weight: O=32 is level at
# 128 rows (8.2 and 5.8 ms at 64); O=8 is nearly so at 32 (3.0 and 3.1 ms).
DENSE_BLOCK_ROWS = 4
# Below this many rows, gathering row by row beats transposing the input first.
FEW_ROWS = 16
USUAL_BATCH = 128
# Calling the engine takes 15 µs more than a product of torch's, which counts in a small map. Dense
# and compiled in µs, training and folded: 8,192 outputs of 16 features 154 and 156, 16 and 31;
# 23,040 of 36 features 238 and 222, 35 and 37; 204,800 of 16 features (folded) 97 and 75.
COMPILED_OUTPUTS = 1 << 15
# Where nothing finer was measured (several outputs, other devices) dense serves so many features.
DENSE_FEATURES = 128


def subspace_map(
    x: Tensor,
    index: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    formulation: str = "auto",
) -> Tensor:
    """Apply G linear maps, each to the F features it reads.

    Output g·O + o of a row is ``sum_f weight[g, o, f] * x[index[g, f]] + bias[g·O + o]``.

    **Shape**

    - x: ``(..., d)``
    - index: ``(G, F)`` int64, which F features each of the G groups reads
    - weight: ``(G, O, F)``, the O outputs of each group
    - bias: ``(G·O,)`` or None
    - output: ``(..., G·O)``; its memory may be laid out feature by feature

    With a member axis: x ``(B, K, d)``, index ``(K, G, F)``, weight ``(K, G, O, F)``, bias
    ``(K, G·O)``, output ``(B, K, G·O)``: member k of an ensemble maps ``x[:, k]``. With x
    ``(B, d)`` all members map the same rows.

    Parameters
    ----------
    x : the rows.
    index : which features each group reads.
    weight : of each group's outputs.
    bias : of all outputs; none if None.
    formulation : {"auto", "conv", "dense", "bag", "blocks", "compiled"}
        - ``"conv"``: gather the cells, then a grouped convolution (the paper, the reference);
        - ``"dense"``: scatter the weights into a (G·O, d) matrix, then one matrix product;
        - ``"bag"``: a weighted embedding bag over the transposed input, for O = 1;
        - ``"blocks"``: gather the cells, then one small matrix product a group;
        - ``"compiled"``: a kernel of :mod:`nrs.engine` that reads inputs by index, for float32 on a
          CPU; where it does not apply, as ``"auto"``;
        - ``"auto"``: chosen by shape, batch and device, see :func:`choose`.

    Raises
    ------
    ValueError
        Shapes that do not fit, an unknown formulation, or one that does not apply.
    TypeError
        Input that is not floating point, or of another dtype than the weights.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2.0, 3.0]])
    >>> index = torch.tensor([[0, 1], [2, 0]])             # two subspaces of two features
    >>> weight = torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]]])  # one output each
    >>> subspace_map(x, index, weight).tolist()
    [[3.0, 2.0]]
    """
    check_formulation(formulation)
    _check(x, index, weight, bias)
    if index.dim() == 3 and x.dim() == 2:
        return _shared_map(x, index, weight, bias, formulation)
    if index.dim() == 3:
        return _member_map(x, index, weight, bias, formulation)
    result = map_rows(x.reshape(-1, x.shape[-1]), index, weight, bias, formulation)
    return result.view(*x.shape[:-1], result.shape[1])


def map_rows(
    rows: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, formulation: str
) -> Tensor:
    """:func:`subspace_map` of a (B, d) tensor by a caller that has checked its arguments."""
    formulation = settled(formulation, rows, weight.shape, weight)
    return _map_by(formulation, rows, index, weight, bias)


def _map_by(
    formulation: str, rows: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    return as_autocast(_MAPS[formulation](rows, index, weight, bias))


def as_autocast(result: Tensor) -> Tensor:
    """Under autocast float32 comes out in its dtype, as of torch's products."""
    lower = autocast_dtype(result.device.type)
    return result.to(lower) if lower is not None and result.dtype == torch.float32 else result


def check_formulation(formulation: str) -> None:
    """Refuse a formulation that does not exist."""
    if formulation != "auto" and formulation not in FORMULATIONS:
        raise ValueError(
            f"formulation must be 'auto' or one of {FORMULATIONS}; got {formulation!r}"
        )


def check_input(x: Tensor, in_features: int) -> None:
    """Refuse anything but a floating-point tensor whose last dimension is `in_features`."""
    if not isinstance(x, Tensor):
        raise TypeError(f"the input must be a torch.Tensor; got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(
            f"the input must be floating point; got {x.dtype}. Convert it with x.float()."
        )
    if x.dim() == 0 or x.shape[-1] != in_features:
        raise ValueError(
            f"the last dimension of the input must be the number of features {in_features}; "
            f"got input of shape {tuple(x.shape)}"
        )


def autocast_dtype(device: str) -> torch.dtype | None:
    """The dtype of products under autocast; None outside of it, and on meta, which has none."""
    if device == "meta" or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def check_dtype(x: Tensor, weight: Tensor) -> None:
    """Refuse input of another dtype than the weights, unless autocast reconciles them."""
    if x.dtype != weight.dtype and autocast_dtype(x.device.type) is None:
        raise TypeError(
            f"input and weights must have one dtype; got input {x.dtype}, weights "
            f"{weight.dtype}. Convert one with .to(...)."
        )


def dense_weight(index: Tensor, weight: Tensor, features: int) -> Tensor:
    """Scatter subspace weights into one matrix, accumulating features that are read twice.

    **Shape** index ``(..., G, F)``, weight ``(..., G, O, F)``, result ``(..., G·O, features)``.

    Examples
    --------
    >>> dense_weight(torch.tensor([[2, 0, 2]]), torch.tensor([[[1.0, 5.0, 2.0]]]), 3).tolist()
    [[5.0, 0.0, 3.0]]
    """
    zeros = weight.new_zeros(*weight.shape[:-1], features)
    full = zeros.scatter_add(-1, index.unsqueeze(-2).expand_as(weight), weight)
    return full.flatten(-3, -2)


def _conv(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    groups, outputs, subspace = weight.shape
    cells = x.index_select(1, index.reshape(-1)).view(x.shape[0], groups, subspace, 1)
    kernels = weight.reshape(groups * outputs, 1, subspace, 1)
    return F.conv2d(cells, kernels, bias, groups=groups).flatten(1)


def _dense(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, dense_weight(index, weight, x.shape[1]), bias)


def _bag(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    outputs = weight.shape[1]
    if outputs != 1:
        raise ValueError(
            "formulation='bag' computes one output per subspace; got "
            f"{outputs} outputs (n_per={outputs}). Use formulation='blocks'."
        )
    if autocast_dtype(x.device.type) is not None:
        # An embedding bag has no autocast rule, so it keeps the dtype of the weights.
        with torch.autocast(x.device.type, enabled=False):
            return _bag(x.to(weight.dtype), index, weight, bias)
    if not torch.compiler.is_compiling() and transformed():
        # Neither has it a rule for them.
        return _blocks(x, index, weight, bias)
    offsets = bag_offsets(index.shape[0], index.shape[1], index.device)
    own_gradient = (
        gradient_wanted(x, weight) is not None and x.device.type == "cpu" and own_gradient_allowed()
    )
    sums = _Bag.apply if own_gradient else _sum_bags
    return bag_rows(x, index.reshape(-1), offsets, weight.reshape(-1), bias, sums)


def bag_offsets(bags: int, size: int, device: torch.device | None = None) -> Tensor:
    """Where each of the bags begins in a flat index.

    Offsets rather than a matrix of indices, from which torch takes three times as long.
    """
    return torch.arange(0, bags * size, size, device=device)


def _sum_bags(by_feature: Tensor, flat: Tensor, offsets: Tensor, weight: Tensor) -> Tensor:
    """Weighted sums of the rows of `by_feature` that `flat` names, a bag from each offset on."""
    sums: Tensor = torch.embedding_bag(
        by_feature, flat, offsets, mode=_BAG_SUM, per_sample_weights=weight
    )[0]
    return sums


def bag_rows(
    x: Tensor,
    flat: Tensor,
    offsets: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sums: Callable[..., Tensor] = _sum_bags,
) -> Tensor:
    """The bag formulation in a straight line, for a caller that has prepared all it takes.

    **Shape** x ``(B, d)``, flat and weight ``(G·F,)``, offsets and bias ``(G,)``, output
    ``(B, G)``, laid out feature by feature.
    """
    result = sums(x.t().contiguous(), flat, offsets, weight)
    if bias is not None:
        result = result.add_(bias.unsqueeze(1))
    return result.t()


class _Bag(torch.autograd.Function):
    """:func:`_sum_bags` with a gradient that takes a fraction of the time of torch's own."""

    @staticmethod
    def forward(
        ctx: Any, by_feature: Tensor, flat: Tensor, offsets: Tensor, weight: Tensor
    ) -> Tensor:
        ctx.save_for_backward(by_feature, flat, offsets, weight)
        # Detached, lest torch prepare for its own gradient.
        return _sum_bags(by_feature.detach(), flat, offsets, weight.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        by_feature, flat, offsets, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        size = len(flat) // len(offsets)
        if torch.is_grad_enabled():  # To be differentiated again.
            by_cell = gradient.repeat_interleave(size, 0)
            weighted = by_cell * weight.unsqueeze(1)
            summed = torch.zeros_like(by_feature).index_add(0, flat, weighted)
            return summed, None, None, (by_cell * by_feature[flat]).sum(1)
        of_features = of_weight = None
        if ctx.needs_input_grad[0]:
            # The other way round: a bag a feature, over the subspaces that read it.
            order = flat.argsort(stable=True)
            subspaces = order.div(size, rounding_mode="floor")
            times = flat.bincount(minlength=len(by_feature))
            of_features = _sum_bags(gradient, subspaces, times.cumsum(0) - times, weight[order])
        if ctx.needs_input_grad[3]:
            bags = torch.arange(len(offsets)).repeat_interleave(size)
            of_weight = torch.ops.aten._embedding_bag_per_sample_weights_backward(
                gradient, by_feature, flat, offsets, bags, _BAG_SUM
            )
        return of_features, None, None, of_weight


def _blocks(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    groups, outputs, subspace = weight.shape
    batch = x.shape[0]
    flat = index.reshape(-1)
    if batch_size(x) < FEW_ROWS:
        cells = x.index_select(1, flat).view(batch, groups, subspace)
        # A counter of operations knows products, not sums.
        if outputs == 1 and not counted():
            result = (cells * weight.view(groups, subspace)).sum(2)
        else:
            by_group = torch.bmm(cells.transpose(0, 1), weight.transpose(1, 2))
            result = by_group.transpose(0, 1).reshape(batch, groups * outputs)
        return result if bias is None else result + bias
    cells = x.t().contiguous().index_select(0, flat).view(groups, subspace, batch)
    if bias is None:
        result = torch.bmm(weight, cells)
    else:
        result = torch.baddbmm(bias.view(groups, outputs, 1), weight, cells)
    return result.view(groups * outputs, batch).t()


_MAPS = {
    "conv": _conv, "dense": _dense, "bag": _bag, "blocks": _blocks, "compiled": compiled_map,
}  # fmt: skip


def _member_map(
    x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, formulation: str
) -> Tensor:
    """K maps side by side: dense as one batched product, the rest as one map of K·G groups."""
    members, groups, outputs, _ = weight.shape
    batch, _, features = x.shape
    formulation = settled(formulation, x, weight.shape[1:], weight)
    if formulation == "dense":
        matrices = dense_weight(index, weight, features).transpose(1, 2)
        by_member = x.transpose(0, 1)
        if bias is None:
            result = torch.bmm(by_member, matrices)
        else:
            result = torch.baddbmm(bias.unsqueeze(1), by_member, matrices)
        return result.transpose(0, 1)
    offsets = torch.arange(members, device=index.device).view(members, 1, 1) * features
    result = _map_by(
        formulation,
        x.reshape(batch, members * features),
        (index + offsets).flatten(0, 1),
        weight.flatten(0, 1),
        None if bias is None else bias.reshape(-1),
    )
    return result.view(batch, members, groups * outputs)


def _shared_map(
    x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, formulation: str
) -> Tensor:
    """K maps of the same rows: one map of K·G groups, laid out feature by feature."""
    members, groups, outputs, _ = weight.shape
    index, weight = index.flatten(0, 1), weight.flatten(0, 1)
    bias = None if bias is None else bias.reshape(-1)
    formulation = settled(formulation, x, weight.shape, weight)
    if formulation == "dense":
        matrix = dense_weight(index, weight, x.shape[1])
        by_feature = matrix @ x.t() if bias is None else torch.addmm(bias[:, None], matrix, x.t())
    else:
        by_feature = _map_by(formulation, x, index, weight, bias).t()
    return by_feature.reshape(members, groups * outputs, x.shape[0]).permute(2, 0, 1)


def _check(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if index.dim() not in (2, 3) or weight.dim() != index.dim() + 1:
        raise ValueError(
            "index must be (G, F) with weight (G, O, F), or (K, G, F) with (K, G, O, F); got "
            f"index {tuple(index.shape)}, weight {tuple(weight.shape)}"
        )
    if index.shape != weight.shape[:-2] + weight.shape[-1:]:
        raise ValueError(
            "index and weight must agree on the number of subspaces and their size; got "
            f"index {tuple(index.shape)}, weight {tuple(weight.shape)}"
        )
    if index.dtype != torch.int64:
        raise TypeError(f"index must be int64; got {index.dtype}. Use index.long().")
    check_input(x, x.shape[-1] if isinstance(x, Tensor) and x.dim() else 1)
    if index.dim() == 3 and x.dim() != 2 and (x.dim() != 3 or x.shape[1] != index.shape[0]):
        raise ValueError(
            f"with {index.shape[0]} members the input must be (B, {index.shape[0]}, d), or (B, d) "
            f"for all of them; got input of shape {tuple(x.shape)}"
        )
    check_dtype(x, weight)
    expected = (*weight.shape[:-3], weight.shape[-3] * weight.shape[-2])
    if bias is not None and bias.shape != expected:
        raise ValueError(
            f"bias must have the shape {tuple(expected)} of the outputs; got {tuple(bias.shape)}"
        )


def batch_size(x: Tensor) -> int:
    """Number of rows the rules should think of: a usual one where a graph must serve any."""
    return USUAL_BATCH if torch.compiler.is_compiling() else x.shape[0]


def gradient_wanted(x: Tensor, weight: Tensor) -> str | None:
    """Of what a gradient will be asked: ``"inputs"`` (and weights), ``"weights"`` or None."""
    if not torch.is_grad_enabled():
        return None
    return "inputs" if x.requires_grad else "weights" if weight.requires_grad else None


def settled(
    formulation: str, x: Tensor, shape: Sequence[int], weight: Tensor, *, folded: bool = False
) -> str:
    """Name the formulation that is computed for one that was asked for.

    Parameters
    ----------
    shape : of the weights of one member.
    """
    applies = compiled_applies(x, weight)
    if formulation != "auto" and (formulation != "compiled" or applies):
        return formulation
    on_cpu, gradient = x.device.type == "cpu", gradient_wanted(x, weight)
    # torch's own products are the quicker ones in half precision, and run anywhere.
    lower = autocast_dtype(x.device.type) is not None
    applies = applies and not exporting() and not (lower and shape[1] > 1)
    return choose(
        x.shape[-1], shape, batch_size(x), on_cpu=on_cpu, folded=folded, gradient=gradient,
        compiled=applies,
    )  # fmt: skip


def choose(
    features: int,
    shape: Sequence[int],
    batch: int,
    *,
    on_cpu: bool = True,
    folded: bool = False,
    gradient: str | None = None,
    compiled: bool = False,
) -> str:
    """Name the formulation for a map of G subspaces of F features and O outputs each.

    Parameters
    ----------
    features : d, the number of input features.
    shape : (G, O, F), the shape of the weights in :func:`subspace_map`.
    batch : number of rows.
    on_cpu : other devices follow the shape alone; the rules were measured on a CPU.
    folded : weights are constant, so that a dense matrix is made only once.
    gradient : what :func:`gradient_wanted` says.
    compiled : whether that formulation applies.

    Examples
    --------
    >>> choose(16, (1600, 1, 9), batch=128, gradient="weights")
    'dense'
    >>> choose(780, (12480, 1, 9), batch=512)
    'bag'
    >>> choose(2048, (64, 64, 576), batch=32)
    'blocks'
    >>> choose(2048, (64, 64, 576), batch=32, compiled=True)
    'compiled'
    """
    groups, outputs, _ = shape
    if batch == 0:
        return "dense"
    found = _choose_of_torch(features, shape, batch, on_cpu, folded, gradient)
    small = found == "dense" and batch * groups * outputs < COMPILED_OUTPUTS
    return "compiled" if compiled and not small else found


def _choose_of_torch(
    features: int,
    shape: Sequence[int],
    batch: int,
    on_cpu: bool,
    folded: bool,
    gradient: str | None,
) -> str:
    """The formulation in torch's own operations."""
    groups, outputs, subspace = shape
    if folded and batch < FEW_ROWS and groups * outputs * features > FOLDED_SINGLE_ROW_CELLS:
        return "blocks"
    if features <= DENSE_FEATURES and (outputs > 1 or not on_cpu):
        return "dense"
    if outputs == 1:
        if not on_cpu:
            return "conv"
        few_folded = folded and batch < FEW_ROWS and features <= FOLDED_FEW_ROWS_FEATURES
        if few_folded or features <= _dense_ratio(batch, folded, gradient) * subspace:
            return "dense"
        return "blocks" if batch < FEW_ROWS else "bag"
    wide = features > (DENSE_BLOCK_RATIO + DENSE_BLOCK_GATHER / outputs) * subspace
    few = not folded and batch < DENSE_BLOCK_ROWS * outputs
    return "blocks" if wide or few else "dense"


def _dense_ratio(batch: int, folded: bool, gradient: str | None) -> int:
    """Features of the input for each of a subspace up to which dense is the faster."""
    if gradient is not None:
        return DENSE_RATIOS[gradient] * (2 if batch < SMALL_BATCH else 1)
    return DENSE_RATIO_FOLDED if folded else DENSE_RATIO_NO_GRADIENT
