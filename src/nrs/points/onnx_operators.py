"""What torch's exporter to ONNX does not know, written in ONNX Script; needs onnxscript."""

# A language of its own in the clothes of Python, which types do not fit.
# mypy: ignore-errors

from typing import Any

import torch
from onnxscript import FLOAT, INT64, script
from onnxscript import opset18 as op

# More than any squared distance in the unit sphere.
FAR = 1e30


# The third argument, a start, is only given in training.
@script(default_opset=op)
def farthest_points(xyz: FLOAT[...], n: int) -> INT64[...]:
    """Farthest point sampling of (B, N, D), from the point farthest from the centroid: (B, n)."""
    offset = xyz - op.ReduceMean(xyz, op.Constant(value_ints=[1]))
    spread = op.ReduceSum(offset * offset, op.Constant(value_ints=[2]), keepdims=0)
    last = op.ArgMax(spread, axis=1, keepdims=1)
    chosen = last
    nearest = op.Min(spread + FAR, op.Constant(value_float=FAR))
    count = op.Constant(value_int=n)
    for _ in range(count - 1):
        place = op.Unsqueeze(last, op.Constant(value_ints=[2]))
        step = xyz - op.GatherND(xyz, place, batch_dims=1)
        distance = op.ReduceSum(step * step, op.Constant(value_ints=[2]), keepdims=0)
        nearest = op.Min(nearest, distance)
        last = op.ArgMax(nearest, axis=1, keepdims=1)
        chosen = op.Concat(chosen, last, axis=1)
    return chosen


def stable_sort(x: Any, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    """torch.sort(stable=True) along any but the last axis; TopK keeps the order of equal values."""
    size = op.Shape(x, start=dim, end=dim + 1)
    return op.TopK(x, size, axis=dim, largest=int(descending))


OPERATORS = {
    torch.ops.nrs.farthest_points.default: farthest_points,
    torch.ops.aten.sort.stable: stable_sort,
}
