"""The ablation's stand-in for the permutation (paper, Section "Ablation Study")."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs.core.context import as_leaf
from nrs.core.layer import NRS
from nrs.core.permutations import IndexModule
from nrs.core.subspace_map import check_input


class FullyConnectedExpansion(IndexModule):
    """NRS with its permutations written as a fully connected layer, d → M·d without bias.

    A permutation is a linear map whose matrix has a single 1 a row. The paper asks what each of
    its two properties is worth: that it starts sparse, and that it stays fixed. Sparse and frozen
    together are NRS itself.

    **Shape** input ``(..., in_features)``, output ``(..., n_mul * in_features)``.

    Parameters
    ----------
    in_features, n_mul, n_per, n_h, layout, seed, device, dtype : as for :class:`nrs.NRS`.
    sparse_init : start from the permutations; otherwise from torch's initialisation of a Linear.
    frozen : leave the matrix as it was initialised.

    Examples
    --------
    >>> x = torch.randn(6, 5)
    >>> stand_in = FullyConnectedExpansion(5, n_mul=2, sparse_init=True, frozen=True, seed=3)
    >>> torch.allclose(stand_in(x), NRS(5, n_mul=2, seed=3)(x), atol=1e-5)
    True
    """

    def __init__(
        self,
        in_features: int,
        n_mul: int = 1,
        n_per: int = 1,
        n_h: int = 3,
        *,
        sparse_init: bool,
        frozen: bool,
        layout: str = "code",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.aggregation = NRS(
            in_features, n_mul, n_per, n_h, layout=layout, seed=seed, device=device, dtype=dtype
        )
        self.in_features = in_features
        self.out_features = self.aggregation.out_features
        self.sparse_init, self.frozen = sparse_init, frozen
        cells = self.aggregation.index.shape[0]
        weight = torch.empty(cells, in_features, device=device, dtype=dtype)
        self.expansion = nn.Parameter(weight, requires_grad=not frozen)
        # The convolution now reads the expanded cells in their own order.
        order = torch.arange(cells, device=device).view(self.out_features // n_per, -1)
        self.put_index("order", order, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw permutations and weights anew."""
        self.aggregation.reset_parameters()
        if self.expansion.is_meta:
            return
        order = self.get_buffer("order")
        cells = torch.arange(order.numel(), device=order.device)
        self.put_index("order", cells.view_as(order))
        with torch.no_grad():
            if self.sparse_init:
                rows = F.one_hot(self.aggregation.index, self.in_features)
                self.expansion.copy_(rows)
                return
            seed = self.aggregation.seed
            generator = None if seed is None else torch.Generator().manual_seed(seed + 1)
            bound = 1 / math.sqrt(self.in_features)
            shape, dtype = self.expansion.shape, self.expansion.dtype
            fresh = torch.empty(shape, dtype=dtype, device="cpu")
            self.expansion.copy_(fresh.uniform_(-bound, bound, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        if (traced := as_leaf(self, x)) is not None:
            return traced
        check_input(x, self.in_features)
        layer = self.aggregation
        cells = F.linear(x.reshape(-1, self.in_features), self.expansion)
        layer.check_statistics(x, cells.shape[0])
        order = self.read_index("order")
        h = layer.stage(cells, order, layer.weight, layer.bias, layer.norm)
        return h.view(*x.shape[:-1], self.out_features)

    def subspaces(self) -> Tensor:
        """Tell which features each group reads at the start when `sparse_init`; else all."""
        return self.aggregation.subspaces()

    def extra_repr(self) -> str:
        return f"{self.in_features}, sparse_init={self.sparse_init}, frozen={self.frozen}"
