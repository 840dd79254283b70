"""The compiled layer: many small linear maps, with batch normalisation and ReLU in training.

The library reads and writes where it is told to. So every tensor that goes in is checked here, the
numbers of an index too, and nothing is checked behind this border. Tensors are float32, on the CPU.

**Shapes** x ``(B, d)``; index ``(G, F)`` int64; weight ``(G, O, F)``; what belongs to an output
``(G·O,)``; outputs ``(G·O, B)``, an output's rows side by side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch
from torch import Tensor

from nrs.engine.forest import library

# Multiply-adds for which a thread is worth its start.
THREAD_WORK = 4_000_000
# Rows of a map that a thread takes at least.
_THREAD_ROWS = 64


class _Layer(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int64) for name in ("rows", "features", "groups", "outputs", "size")],
        *[(name, ctypes.c_void_p) for name in ("index", "weight", "columns")],
    ]  # fmt: skip


class _BatchNorm(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_void_p) for name in ("scale", "shift", "mean", "variance")],
        ("epsilon", ctypes.c_double),
    ]  # fmt: skip


class _Gradients(ctypes.Structure):
    _fields_ = [
        ("of_output", ctypes.c_void_p), ("row_step", ctypes.c_int64),
        ("output_step", ctypes.c_int64),
        *[(name, ctypes.c_void_p) for name in ("of_weight", "of_scale", "of_shift", "of_columns")],
    ]  # fmt: skip


def _declared(found: ctypes.CDLL | None) -> ctypes.CDLL | None:
    """The library with the types of its functions; None without one, or with an older one."""
    count, address = ctypes.c_int64, ctypes.c_void_p
    if found is None or not hasattr(found, "nrs_layer_train"):
        return None
    for name, result, arguments in (
        ("reads_within", ctypes.c_int, [address, count, count]),
        ("stride", count, [count]),
        ("map_size", count, [address]),
        ("backward_size", count, [address]),
        ("columns", None, [address, *[count] * 3, address]),
        ("rows", None, [address, count, count, address]),
        ("map", None,
         [address, address, count, address, ctypes.c_int, count, count, address, address]),
        ("train", None, [address, address, count, count, address, address]),
        ("backward", None, [*[address] * 4, count, count, address]),
    ):  # fmt: skip
        function = getattr(found, f"nrs_layer_{name}")
        function.restype, function.argtypes = result, arguments
    return found


_LIBRARY = _declared(library())
# Whether the layer is compiled here.
AVAILABLE = _LIBRARY is not None


def stride(rows: int) -> int:
    """Floats from one column to the next; written out for shapes that have no number yet."""
    return (rows + 15) // 16 * 16 + 16


def apply(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, positive: bool) -> Tensor:
    """weight · x + bias of each subspace, maybe with ReLU."""
    layer, maps = _layer(x, index, weight), _loaded()
    rows, outputs = layer.rows, layer.groups * layer.outputs
    output = x.new_empty(outputs, rows)
    x = _by_rows(x)
    given = None if bias is None else _address(bias, (outputs,))
    size = maps.nrs_layer_map_size(ctypes.addressof(layer))

    def part(first: int, last: int) -> None:
        memory = x.new_empty(size)
        maps.nrs_layer_map(
            ctypes.addressof(layer), x.data_ptr(), x.stride(0), given, positive, first, last,
            output.data_ptr(), memory.data_ptr(),
        )  # fmt: skip

    _in_parts(part, rows, layer, _THREAD_ROWS)
    return output


def train(
    x: Tensor, index: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The map of a batch, normalised by its own statistics, then ReLU; mean and biased variance.

    The columns of x and the map itself (of one output a subspace: nothing) are for the way back.
    """
    layer, maps = _layer(x, index, weight), _loaded()
    rows, outputs = layer.rows, layer.groups * layer.outputs
    wide = maps.nrs_layer_stride(rows)
    columns = _columns(layer, x)
    output, mean, variance = x.new_empty(outputs, rows), x.new_empty(outputs), x.new_empty(outputs)
    several = layer.outputs > 1
    kept = x.new_empty(outputs if several else 0, wide)
    norm = _norm(outputs, scale, shift, mean, variance, epsilon)

    def part(first: int, last: int) -> None:
        h = kept if several else x.new_empty(wide)
        maps.nrs_layer_train(
            ctypes.addressof(layer), ctypes.addressof(norm), first, last, h.data_ptr(),
            output.data_ptr(),
        )  # fmt: skip

    _in_parts(part, layer.groups, layer)
    return output, mean, variance, columns, kept


def map_backward(
    gradient: Tensor, x: Tensor, index: Tensor, weight: Tensor, inputs: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of x (of no rows unless `inputs`) and weight of a map without ReLU."""
    layer = _layer(x, index, weight)
    columns = _columns(layer, x)
    return _backward(layer, columns, None, None, gradient, weight, inputs)[:2]


def train_backward(
    gradient: Tensor, index: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, epsilon: float,
    mean: Tensor, variance: Tensor, columns: Tensor, kept: Tensor, inputs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x (of no rows unless `inputs`), weight, scale and shift of :func:`train`."""
    layer = _shaped(gradient.shape[1], columns.shape[0], index, weight)
    wide, outputs = _loaded().nrs_layer_stride(layer.rows), layer.groups * layer.outputs
    layer.columns = _address(columns, (layer.features, wide))
    given = _address(kept, (outputs if layer.outputs > 1 else 0, wide))
    norm = _norm(outputs, scale, shift, mean, variance, epsilon)
    return _backward(layer, columns, norm, given, gradient, weight, inputs)


def _backward(
    layer: _Layer, columns: Tensor, norm: _BatchNorm | None, kept: int | None, gradient: Tensor,
    weight: Tensor, inputs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    maps, rows, outputs = _loaded(), layer.rows, layer.groups * layer.outputs
    gradient = _by_rows_or_columns(gradient)
    of_output = _address(gradient, (outputs, rows), contiguous=False)
    of_weight = weight.new_empty(weight.shape)
    of_scale, of_shift = (weight.new_empty(outputs if norm else 0) for _ in range(2))
    size = maps.nrs_layer_backward_size(ctypes.addressof(layer))
    sums: dict[int, Tensor] = {}

    def part(first: int, last: int) -> None:
        memory = weight.new_empty(size)
        # Threads would add to the same columns.
        of_columns = torch.zeros_like(columns) if inputs else None
        gradients = _Gradients(
            of_output, gradient.stride(1), gradient.stride(0), of_weight.data_ptr(),
            of_scale.data_ptr(), of_shift.data_ptr(),
            None if of_columns is None else of_columns.data_ptr(),
        )  # fmt: skip
        maps.nrs_layer_backward(
            ctypes.addressof(layer), None if norm is None else ctypes.addressof(norm), kept,
            ctypes.addressof(gradients), first, last, memory.data_ptr(),
        )  # fmt: skip
        if of_columns is not None:
            sums[first] = of_columns

    _in_parts(part, layer.groups, layer)
    of_x = weight.new_empty(rows if inputs else 0, layer.features)
    if inputs:
        # In one order, whoever was first.
        for part_of in sorted(sums)[1:]:
            sums[0].add_(sums[part_of])
        maps.nrs_layer_rows(sums[0].data_ptr(), rows, layer.features, of_x.data_ptr())
    return of_x, of_weight, of_scale, of_shift


def _layer(x: Tensor, index: Tensor, weight: Tensor) -> _Layer:
    """What the library must know of a layer, checked."""
    if x.dim() != 2 or 0 in x.shape:
        raise ValueError(f"the compiled layer expects rows (B, d); got {tuple(x.shape)}")
    _address(x, tuple(x.shape), contiguous=False)
    return _shaped(x.shape[0], x.shape[1], index, weight)


def _shaped(rows: int, features: int, index: Tensor, weight: Tensor) -> _Layer:
    groups, outputs, size = weight.shape
    if 0 in weight.shape:
        raise ValueError(
            f"the compiled layer expects weights (G, O, F); got {groups, outputs, size}"
        )
    where = _address(index, (groups, size), torch.int64)
    if not _loaded().nrs_layer_reads_within(where, groups * size, features):
        raise IndexError(
            f"index must be from 0 to {features - 1}, the features of the input; got "
            f"{int(index.min())} to {int(index.max())}"
        )
    return _Layer(
        rows, features, groups, outputs, size, where, _address(weight, (groups, outputs, size))
    )


def _norm(
    outputs: int, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> _BatchNorm:
    parts = (scale, shift, mean, variance)
    return _BatchNorm(*[_address(part, (outputs,)) for part in parts], epsilon)


def _address(
    tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32,
    contiguous: bool = True,
) -> int:  # fmt: skip
    """Where a tensor is, if it is what is expected."""
    if (
        tensor.dtype is not dtype
        or not tensor.is_cpu
        or tensor.shape != shape
        or (contiguous and not tensor.is_contiguous())
    ):
        raise ValueError(
            f"the compiled layer expects a {'contiguous ' if contiguous else ''}tensor {shape} of "
            f"{dtype} on the CPU; got {tuple(tensor.shape)} of {tensor.dtype} on {tensor.device}"
        )
    return tensor.data_ptr()


def _by_rows(x: Tensor) -> Tensor:
    """x, or a copy, of which a row's features lie side by side."""
    return x if x.stride(1) == 1 and x.stride(0) >= x.shape[1] else x.contiguous()


def _by_rows_or_columns(gradient: Tensor) -> Tensor:
    """A gradient (G·O, B), or a copy, whose rows or outputs lie side by side."""
    along, across = gradient.stride(), gradient.shape
    if (along[1] == 1 and along[0] >= across[1]) or (along[0] == 1 and along[1] >= across[0]):
        return gradient
    return gradient.contiguous()


def _columns(layer: _Layer, x: Tensor) -> Tensor:
    """The columns of x, of which the layer reads."""
    maps, x = _loaded(), _by_rows(x)
    columns = x.new_empty(layer.features, maps.nrs_layer_stride(layer.rows))
    maps.nrs_layer_columns(
        x.data_ptr(), x.stride(0), layer.rows, layer.features, columns.data_ptr()
    )
    layer.columns = columns.data_ptr()
    return columns


def _loaded() -> ctypes.CDLL:
    if _LIBRARY is None:
        raise RuntimeError("the compiled layer cannot be used: see nrs.show_config()")
    return _LIBRARY


def _in_parts(
    function: Callable[[int, int], None], count: int, layer: _Layer, least: int = 1
) -> None:
    """Call a function for parts of the numbers below `count`, in as many threads as torch uses."""
    work = layer.rows * layer.groups * layer.outputs * layer.size
    threads = min(torch.get_num_threads(), work // THREAD_WORK, count // least)
    if threads < 2:
        function(0, count)
        return
    ends = [count * k // threads for k in range(threads + 1)]
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(function, *pair) for pair in pairwise(ends[1:])]
        function(0, ends[1])
        for other in others:
            other.result()
