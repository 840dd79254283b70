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
# Where nothing finer was measured (several outputs, other devices) dense serves so many features.
DENSE_FEATURES = 128


def batch_size(x: Tensor) -> int:
    """Number of rows the rules should think of: a usual one where a graph must serve any."""
    return USUAL_BATCH if torch.compiler.is_compiling() else x.shape[0]


def gradient_wanted(x: Tensor, weight: Tensor) -> str | None:
    """Of what a gradient will be asked: ``"inputs"`` (and weights), ``"weights"`` or None."""
    if not torch.is_grad_enabled():
        return None
    return "inputs" if x.requires_grad else "weights" if weight.requires_grad else None


def choose_for(x: Tensor, shape: Sequence[int], weight: Tensor) -> str:
    """Name the formulation for these inputs and weights, of which `shape` are one member's."""
    on_cpu, gradient = x.device.type == "cpu", gradient_wanted(x, weight)
    return choose(x.shape[-1], shape, batch_size(x), on_cpu=on_cpu, gradient=gradient)


def choose(
    features: int,
    shape: Sequence[int],
    batch: int,
    *,
    on_cpu: bool = True,
    folded: bool = False,
    gradient: str | None = None,
) -> str:
    """Name the formulation for a map of G subspaces of F features and O outputs each.

    Parameters
    ----------
    features : d, the number of input features.
    shape : (G, O, F), the shape of the weights in :func:`nrs.core.subspace_map`.
    batch : number of rows.
    on_cpu : other devices follow the shape alone; the rules were measured on a CPU.
    folded : weights are constant, so that a dense matrix is made only once.
    gradient : what :func:`gradient_wanted` says.

    Examples
    --------
    >>> choose(16, (1600, 1, 9), batch=128, gradient="weights")
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
