"""Which formulation `"auto"` takes: measured rules, all in this one place.

`python -m benchmarks.layer` measures the shapes the rules were read from (one core, float32), and
`python -m benchmarks.layer --formulations` measures every formulation at every shape, so a rule
can be checked or moved on another machine. Every formulation gives the same numbers: a wrong
choice costs time, never correctness.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Up to this many features the dense matrix costs no more than the sparse one.
DENSE_FEATURES = 64
# Several outputs a subspace: dense reads d features where blocks read F, but without a gather.
DENSE_BLOCK_RATIO = 2.0
DENSE_BLOCK_BATCH = 256
# A dense matrix made once (folded) has no scatter to pay for: it wins up to this many features,
# and for a single row only while the whole matrix stays in cache.
FOLDED_DENSE_FEATURES = 96
FOLDED_BLOCK_RATIO = 4.0
FOLDED_SINGLE_ROW_CELLS = 1 << 19
# Below this many rows, gathering row by row beats transposing the input first.
FEW_ROWS = 16
USUAL_BATCH = 128


def batch_size(x: Tensor) -> int:
    """Number of rows the rules should think of: a usual one where a graph must serve any."""
    return USUAL_BATCH if torch.compiler.is_compiling() else x.shape[0]


def choose(
    features: int,
    shape: Sequence[int],
    batch: int,
    *,
    on_cpu: bool = True,
    folded: bool = False,
) -> str:
    """Name the formulation for a map of G subspaces of F features and O outputs each.

    Parameters
    ----------
    features : d, the number of input features.
    shape : (G, O, F), the shape of the weights in :func:`nrs.core.subspace_map`.
    batch : number of rows.
    on_cpu : other devices follow the shape alone; the rules were measured on a CPU.
    folded : weights are constant, so that a dense matrix is made only once.

    Examples
    --------
    >>> choose(16, (1600, 1, 9), batch=128)
    'dense'
    >>> choose(780, (12480, 1, 9), batch=512)
    'bag'
    >>> choose(2048, (64, 64, 576), batch=32)
    'blocks'
    """
    groups, outputs, subspace = shape
    if batch == 0:
        return "dense"
    if folded and batch < FEW_ROWS and groups * outputs * features > FOLDED_SINGLE_ROW_CELLS:
        return "blocks"
    if features <= (FOLDED_DENSE_FEATURES if folded else DENSE_FEATURES):
        return "dense"
    if outputs == 1:
        if not on_cpu:
            return "conv"
        return "blocks" if batch < FEW_ROWS else "bag"
    if folded:
        return "dense" if features <= FOLDED_BLOCK_RATIO * subspace else "blocks"
    if batch >= DENSE_BLOCK_BATCH and features <= DENSE_BLOCK_RATIO * subspace:
        return "dense"
    return "blocks"
