"""Which features each learner reads: the expansion step (paper, Section 3.2, Eq. 1-3)."""

from __future__ import annotations

import torch
from torch import Tensor

LAYOUTS = ("code", "paper")


def draw_index(
    in_features: int,
    n_mul: int,
    n_h: int,
    *,
    layout: str = "code",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw M = n_mul·n_h² permutations and lay them out over the C×n_h×n_h cells.

    Every feature occurs exactly M times. Two layouts are known:

    - ``"code"``: the permutations are concatenated and viewed as (C, n_h, n_h), so a filter reads
      n_h² consecutive entries, mostly of one permutation and so mostly distinct.
    - ``"paper"``: cell (i, j) of channel k reads entry k mod d of permutation
      ⌊k/d⌋·n_h² + i·n_h + j (Eq. 3); a filter may read one feature twice.

    Returns
    -------
    Tensor
        (C·n_h·n_h,) int64, C = n_mul·in_features, in the order in which a grouped convolution
        reads the cells: ``x[:, index].view(B, C, n_h, n_h)``.

    Examples
    --------
    >>> index = draw_index(5, n_mul=2, n_h=2, generator=torch.Generator().manual_seed(0))
    >>> index.shape, torch.bincount(index).tolist()
    (torch.Size([40]), [8, 8, 8, 8, 8])
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {LAYOUTS}, however: layout={layout!r}")
    cells = n_h * n_h
    # One sort of M rows instead of M calls of randperm: the layer of a wide table is drawn in
    # milliseconds. float64 keys make a tie, and so a bias, practically impossible.
    # On the CPU whatever torch's default device, since the generator is there.
    keys = torch.rand(
        n_mul * cells, in_features, generator=generator, dtype=torch.float64, device="cpu"
    )
    permutations = keys.argsort(dim=1)
    if layout == "code":
        return permutations.reshape(-1)
    by_channel = permutations.view(n_mul, cells, in_features).transpose(1, 2)
    return by_channel.reshape(-1)
