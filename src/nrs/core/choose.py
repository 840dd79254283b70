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

# Up to this many features the dense matrix costs no more than the sparse one. Training steps at
# batch 128, dense and bag in ms: d=64 0.77 and 1.09, d=100 1.32 and 1.68, d=180 2.47 and 2.15.
DENSE_FEATURES = 128
# A bag pays for every feature a subspace reads: for more than the usual 3×3 dense is level up to
# about d = 14·F.
DENSE_SUBSPACE_RATIO = 14
USUAL_SUBSPACE = 9
# A dense matrix made once (folded) has no scatter to pay for, but neither has a bag a gradient: at
# d=100 both take 0.76 ms at batch 128. For a few rows the whole matrix must stay in cache.
FOLDED_DENSE_FEATURES = 96
FOLDED_SINGLE_ROW_CELLS = 1 << 19
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
        if subspace > USUAL_SUBSPACE and features <= DENSE_SUBSPACE_RATIO * subspace:
            return "dense"
        if not on_cpu:
            return "conv"
        return "blocks" if batch < FEW_ROWS else "bag"
    wide = features > (DENSE_BLOCK_RATIO + DENSE_BLOCK_GATHER / outputs) * subspace
    few = not folded and batch < DENSE_BLOCK_ROWS * outputs
    return "blocks" if wide or few else "dense"
