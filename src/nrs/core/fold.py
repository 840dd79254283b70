"""Inference: batch normalisation folded into the map, for the layer and for a whole network."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import fuse_linear_bn_eval

from nrs.core.compiled import compiled_map
from nrs.core.context import as_leaf
from nrs.core.permutations import IndexModule
from nrs.core.subspace_map import (
    FEW_ROWS,
    as_autocast,
    check_dtype,
    check_input,
    choose,
    dense_weight,
    map_rows,
    settled,
)


def folded_stage(
    weight: Tensor, bias: Tensor | None, norm: nn.Module | None
) -> tuple[Tensor, Tensor]:
    """Fold a batch normalisation in its eval mode into the kernel and bias before it."""
    kernel = weight.detach().clone()
    shift = torch.zeros_like(kernel[:, 0, 0, 0]) if bias is None else bias.detach().clone()
    if norm is not None and not isinstance(norm, nn.Identity):
        # SyncBatchNorm too, which several GPUs have in its place.
        if not isinstance(norm, _BatchNorm):
            raise ValueError(
                "only batch normalisation can be folded; the layer has a "
                f"{type(norm).__name__}. Use the layer itself."
            )
        if norm.running_mean is None or norm.running_var is None:
            raise ValueError(
                "a normalisation without running statistics cannot be folded: it depends on the "
                "batch; train with track_running_stats=True"
            )
        scale = torch.rsqrt(norm.running_var + norm.eps)
        if norm.affine:
            scale = scale * norm.weight.detach()
        shift = (shift - norm.running_mean) * scale
        if norm.affine:
            shift = shift + norm.bias.detach()
        kernel *= scale.view(-1, 1, 1, 1)
    return kernel, shift


class FoldedNRS(IndexModule):
    """The NRS layer for inference: one linear map (two at depth 2), then the activation.

    Made by :meth:`nrs.NRS.fold`. It has no parameters, only buffers, and gives the numbers of the
    layer in eval mode. Where the full (C, d) matrix is small it is made once and kept.

    **Shape** input ``(..., in_features)``, output ``(..., out_features)``.
    """

    def __init__(
        self,
        in_features: int,
        indices: Sequence[Tensor],
        stages: Sequence[tuple[Tensor, Tensor]],
        activation: str | None,
        formulation: str = "auto",
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = stages[-1][1].shape[0]
        self.activation = activation
        self.formulation = formulation
        self.depth = len(stages)
        features = in_features
        for number, (index, (weight, bias)) in enumerate(zip(indices, stages, strict=True)):
            n_per = weight.shape[1]
            kernels = weight.reshape(self.out_features // n_per, 1, n_per, -1)
            # The nine windows of the first of two stages share one kernel.
            windows = index.shape[0] // kernels.shape[0]
            kernels = kernels.expand(-1, windows, -1, -1).flatten(0, 1).contiguous()
            shift = bias.view(-1, 1, n_per).expand(-1, windows, -1).reshape(-1)
            self.put_index(f"index{number}", index.clone())
            self.register_buffer(f"weight{number}", kernels)
            self.register_buffer(f"bias{number}", shift.clone())
            matrix = None
            if _keeps_matrix(formulation, features, kernels):
                matrix = _input_major(dense_weight(index, kernels, features))
            self.register_buffer(f"matrix{number}", matrix, persistent=False)
            features = shift.shape[0]
        self.register_load_state_dict_post_hook(_make_matrices)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if (traced := as_leaf(self, x)) is not None:
            return traced
        check_input(x, self.in_features)
        check_dtype(x, self.get_buffer("bias0"))
        h = x.reshape(-1, self.in_features)
        for number in range(self.depth):
            h = self._stage(h, number)
        return h.view(*x.shape[:-1], self.out_features)

    def _stage(self, h: Tensor, number: int) -> Tensor:
        # Not get_buffer, whose 4 µs are noticeable beside the 10 µs of a single row.
        weight, bias = getattr(self, f"weight{number}"), getattr(self, f"bias{number}")
        matrix = getattr(self, f"matrix{number}")
        relu = self.activation == "relu"
        formulation = settled(self.formulation, h, weight.shape, weight, folded=True)
        if formulation == "dense" and matrix is not None:
            h = F.linear(h, matrix, bias)
        else:
            index = self.read_index(f"index{number}")
            if relu and formulation == "compiled":
                return as_autocast(compiled_map(h, index, weight, bias, relu=True))
            h = map_rows(h, index, weight, bias, formulation)
        if relu:
            return F.relu(h, inplace=True)
        return h if self.activation is None else torch.sigmoid(h)

    def matrices(self) -> list[tuple[Tensor, Tensor]]:
        """The full matrix (outputs, inputs) and the bias of each stage."""
        found, features = [], self.in_features
        for number in range(self.depth):
            weight, bias = getattr(self, f"weight{number}"), getattr(self, f"bias{number}")
            index = self.read_index(f"index{number}")
            found.append((dense_weight(index, weight, features), bias))
            features = len(bias)
        return found

    def extra_repr(self) -> str:
        return f"{self.in_features}, out_features={self.out_features}"


def _make_matrices(folded: FoldedNRS, incompatible: object) -> None:
    """Make the matrices that a folded layer keeps anew, of the weights that it has loaded."""
    features = folded.in_features
    for number in range(folded.depth):
        index, weight, bias, matrix = (
            getattr(folded, f"{part}{number}") for part in ("index", "weight", "bias", "matrix")
        )
        if matrix is not None:
            setattr(folded, f"matrix{number}", _input_major(dense_weight(index, weight, features)))
        features = bias.shape[0]


def _keeps_matrix(formulation: str, features: int, weight: Tensor) -> bool:
    if formulation != "auto":
        return formulation == "dense"
    batches = (1, FEW_ROWS)
    return "dense" in [choose(features, weight.shape, n, folded=True) for n in batches]


def _input_major(weight: Tensor) -> Tensor:
    """The same (out, in) matrix, its memory transposed.

    A product of a Linear's with it measured 1.5 to 1.9 times as fast for 16 rows, 1.1 to 1.25
    times for 128, and level for 512 and more.
    """
    return weight.t().contiguous().t()


def fold(module: nn.Module) -> nn.Module:
    """Copy a network for inference, with every NRS layer and every Linear + BatchNorm1d folded.

    Pairs are found inside ``nn.Sequential``; everything else is copied as it is. The copy is in
    eval mode and gives the outputs of the original in eval mode. Weights of its Linear layers have
    their memory transposed, which is faster; a file format that refuses this wants
    ``weight.contiguous()``.

    Parameters
    ----------
    module : a network, or the layer alone; it stays as it is.

    Examples
    --------
    >>> from nrs import NRS
    >>> network = nn.Sequential(NRS(8, n_mul=2), nn.Linear(16, 4), nn.BatchNorm1d(4)).eval()
    >>> x = torch.randn(5, 8)
    >>> torch.allclose(fold(network)(x), network(x), atol=1e-5)
    True
    """
    return _fold(copy.deepcopy(module).eval())


def _foldable(module: nn.Module, features: int) -> TypeGuard[nn.BatchNorm1d]:
    """Whether a module after a Linear is a normalisation that can become part of it."""
    return (
        type(module) is nn.BatchNorm1d
        and module.affine
        and module.running_mean is not None
        # Of a sequence a normalisation may be that of its places.
        and module.num_features == features
    )


def _fold(module: nn.Module) -> nn.Module:
    from nrs.core.layer import NRS  # the layer offers fold() itself

    if isinstance(module, NRS):
        return module.fold()
    for name, child in module.named_children():
        setattr(module, name, _fold(child))
    if isinstance(module, nn.Sequential):
        # Not children(), which leaves out a module that comes a second time.
        children = list(module)
        for position in range(len(children) - 1):
            first, second = children[position], children[position + 1]
            if type(first) is nn.Linear and _foldable(second, first.out_features):
                module[position] = fuse_linear_bn_eval(first, second)
                module[position + 1] = nn.Identity()
    for child in module.children():
        if type(child) is nn.Linear:
            child.weight.data = _input_major(child.weight.data)
    return module
