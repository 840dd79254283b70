"""Which features each learner reads: the expansion step (paper, Section 3.2, Eq. 1-3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

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
        raise ValueError(f"layout must be one of {LAYOUTS}; got {layout!r}")
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


class IndexModule(nn.Module):
    """A module whose integer buffers survive averaging.

    Averages of a network (``torch.optim.swa_utils.AveragedModel(use_buffers=True)``, torchvision's
    ``ExponentialMovingAverage``) compute with buffers as floats and cut the fraction off: an index
    can only fall. A copy of each index is kept aside; an index that was written in place is
    compared with it before the next use. Where no entry rose, the copy is put back. Any other
    content is a new index (``load_state_dict``, the broadcast of ``DistributedDataParallel``).

    Buffers and state dict are as without this class.
    """

    # Permutations differ both ways. Where another index may have no entry that rises, set this: a
    # loaded index is then taken as it is.
    takes_loaded = False

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Tensor] = {}

    def put_index(self, name: str, index: Tensor, *, persistent: bool = True) -> None:
        """Register an int64 buffer of non-negative values, or replace its values.

        Parameters
        ----------
        name : of the buffer.
        index : its values; nothing else may write to them.
        persistent : whether a new buffer is part of the state dict.
        """
        if name in self._buffers:
            self._buffers[name] = index
        else:
            self.register_buffer(name, index, persistent=persistent)
        if not index.is_meta:
            self._kept[name] = index.clone()

    def read_index(self, name: str = "index") -> Tensor:
        """The index of that name, restored first if it was averaged.

        Raises
        ------
        ValueError
            If it was written to and :meth:`check_index` refuses what it holds now.
        """
        index: Tensor = getattr(self, name)
        # Torch counts writes to a tensor; a compiled graph has its buffers settled before.
        if torch.compiler.is_compiling() or index.is_meta or index.is_inference():
            return index
        return self._settled(name, index) if index._version else index

    def check_index(self, name: str, index: Tensor) -> None:
        """Raise ValueError for an index that the module cannot have; any is fine by default."""

    def settle(self) -> None:
        """Restore every index that was averaged, as the next forward pass would."""
        for name in self._index_names():
            self.read_index(name)

    def train(self, mode: bool = True) -> Self:
        self.settle()
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_kept": {}, **state})

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.settle()
        return super()._apply(fn, recurse)

    def _save_to_state_dict(self, *arguments: Any) -> None:
        self.settle()
        super()._save_to_state_dict(*arguments)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *others)
        errors: list[str] = others[-1]
        for name in self._index_names():
            index: Tensor = getattr(self, name)
            if prefix + name in state_dict and not index.is_meta:
                if self.takes_loaded:
                    self._kept.pop(name, None)
                try:
                    self._settled(name, index)
                except ValueError as error:
                    errors.append(f"{prefix}{name}: {error}")

    def _index_names(self) -> list[str]:
        buffers = self._buffers.items()
        return [name for name, b in buffers if b is not None and b.dtype == torch.int64]

    def _settled(self, name: str, index: Tensor) -> Tensor:
        # Usable in training too, wherever it was made.
        with torch.inference_mode(False), torch.no_grad():
            kept = self._kept.get(name)
            if kept is not None and kept.shape == index.shape:
                kept = kept.to(index.device)
                if not bool((index <= kept).all()):
                    kept = None
            else:
                kept = None
            if kept is None:
                self.check_index(name, index)
                kept = index.clone()
            # A tensor of its own, to which nobody has written yet.
            fresh = kept.clone()
        self._kept[name] = kept
        self._buffers[name] = fresh
        return fresh
