"""Sums over pairs of documents, block by block: memory stays bounded however long a query is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nrs._util.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

# Pairs of a block, at least: 32 MB in float32, which the allocator of Linux returns as soon as they
# are free. Smaller blocks leave holes: the same loss took 0.2 or 2.9 GB. Batches of several queries
# have fewer pairs.
BLOCK_PAIRS = 1 << 23


def by_blocks(block: Callable[[Tensor, Tensor], Tensor], scores: Tensor) -> list[Tensor]:
    """Call a function of pairs for some documents after the other, each with all documents.

    What a block holds is computed again in the backward pass.

    Parameters
    ----------
    block : takes the (queries, documents) scores, and the numbers of those documents that are
        first in a pair.
    scores : (queries, documents).

    Examples
    --------
    >>> def larger(scores, first):
    ...     return (scores[:, first, None] > scores[:, None, :]).sum((1, 2))
    >>> sum(by_blocks(larger, torch.tensor([[3.0, 1.0, 2.0]])))
    tensor([3])
    """
    return _by_blocks(block, scores, torch.arange(scores.shape[1], device=scores.device))


def by_blocks_of(
    block: Callable[[Tensor, Tensor], Tensor], scores: Tensor, matters: Tensor
) -> list[Tensor]:
    """:func:`by_blocks` without documents that are nothing as the first in a pair.

    Parameters
    ----------
    matters : (queries, documents) bool. Where all pairs fit at once, they are taken all.
    """
    first = torch.arange(scores.shape[1], device=scores.device)
    if scores.numel() * scores.shape[1] > BLOCK_PAIRS:
        first = first[matters.any(0)]
    return _by_blocks(block, scores, first)


def _by_blocks(
    block: Callable[[Tensor, Tensor], Tensor], scores: Tensor, first: Tensor
) -> list[Tensor]:
    n_blocks = scores.numel() * len(first) // (BLOCK_PAIRS + scores.numel())
    if n_blocks < 2:
        return [block(scores, first)]
    from torch.utils.checkpoint import checkpoint

    return [
        checkpoint(block, scores, part, use_reentrant=False, preserve_rng_state=False)
        for part in first.tensor_split(n_blocks)
    ]
