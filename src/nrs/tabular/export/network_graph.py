"""Folded networks as ONNX operators: float32 features in, outputs out."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from nrs.core.dropout import PooledDropout
from nrs.core.fold import FoldedNRS
from nrs.core.subspace_map import dense_weight
from nrs.tabular.export.graph import Graph
from nrs.tabular.forest.network import FoldedForest
from nrs.tabular.single import TableNetwork

# Up to so many cells the subspaces are written as one matrix, which every runtime multiplies fast;
# beyond it as the features that each one reads.
MOST_CELLS = 1 << 23


def network(graph: Graph, module: nn.Module, x: str) -> str:
    """Add a folded network, and give the name of its (rows, outputs) outputs.

    Raises
    ------
    ValueError
        If it is not one that the estimators of :mod:`nrs.tabular` make.
    """
    if isinstance(module, FoldedForest):
        return _forest(graph, module, x)
    if isinstance(module, TableNetwork):
        for layer in module.layers:
            x = _layer(graph, layer, x)
        return x
    raise ValueError(
        "only the networks of NRSClassifier and NRSRegressor are exported, however: "
        f"{type(module).__name__}"
    )


def _layer(graph: Graph, layer: nn.Module, x: str) -> str:
    if isinstance(layer, FoldedNRS):
        features = layer.in_features
        for number in range(layer.depth):
            index, weight, bias = (
                layer.get_buffer(f"{name}{number}") for name in ("index", "weight", "bias")
            )
            x = _subspaces(graph, x, features, index, weight, bias)
            if layer.activation is not None:
                x = graph.op({"relu": "Relu", "sigmoid": "Sigmoid"}[layer.activation], x)
            features = len(bias)
        return x
    if isinstance(layer, nn.Linear):
        return _product(graph, x, layer.weight, layer.bias)
    if isinstance(layer, nn.ReLU):
        return graph.op("Relu", x)
    if isinstance(layer, (nn.Identity, PooledDropout)):
        return x
    raise ValueError(f"a layer of type {type(layer).__name__} cannot be exported")


def _subspaces(
    graph: Graph, x: str, features: int, index: Tensor, weight: Tensor, shift: Tensor
) -> str:
    """G linear maps of O outputs: index (G, F), weight (G, O, F), shift (G·O,)."""
    groups, outputs, size = weight.shape
    if groups * outputs * features <= MOST_CELLS:
        return _product(graph, x, dense_weight(index, weight, features), shift)
    cells = graph.reshape(graph.columns(x, index.reshape(-1).numpy()), -1, groups, 1, size)
    mapped = graph.op("MatMul", cells, graph.constant(_array(weight.transpose(1, 2))))
    flat = graph.reshape(mapped, -1, groups * outputs)
    return graph.op("Add", flat, graph.constant(_array(shift)))


def _product(graph: Graph, x: str, weight: Tensor, bias: Tensor) -> str:
    matrix = graph.constant(_array(weight.t()))
    return graph.op("Gemm", x, matrix, graph.constant(_array(bias)))


def _forest(graph: Graph, forest: FoldedForest, x: str) -> str:
    members = forest.n_members
    inputs = _bins(graph, forest, x)
    shift = forest.shift.reshape(-1)
    if forest.wide:
        # The last input is always 0; it need not be there if its weight is 0.
        blank = forest.index == forest.n_inputs - 1
        index = forest.index.masked_fill(blank, 0).flatten(0, 1)
        weight = forest.weight.masked_fill(blank.unsqueeze(2), 0).flatten(0, 1)
        h = _subspaces(graph, inputs, forest.n_inputs - 1, index, weight, shift)
    else:
        h = _product(graph, inputs, forest.weight[:, :-1], shift)
    h = graph.op("Relu", h)
    h = graph.op("Transpose", graph.reshape(h, -1, members, len(shift) // members), perm=[1, 0, 2])
    for number in range(forest.n_hidden):
        weight, shift = getattr(forest, f"weight{number}"), getattr(forest, f"shift{number}")
        h = graph.op("Relu", _by_member(graph, h, weight, shift))
    outputs = _by_member(graph, h, forest.out_weight, forest.out_bias)
    joint = _combine(graph, outputs, forest)
    return graph.op("Div", joint, graph.constant(_array(forest.temperature)))


def _bins(graph: Graph, forest: FoldedForest, x: str) -> str:
    bins = forest.bins
    if not bins.n_bins:
        return x
    zero, one = (graph.constant(np.float32(end)) for end in (0, 1))
    parts = [x]
    for is_level, own in ((False, slice(bins.n_steps)), (True, slice(bins.n_steps, None))):
        source, low, rate = (_array(values[own]) for values in (bins.source, bins.low, bins.rate))
        if not len(source):
            continue
        passed = graph.op("Sub", graph.columns(x, source), graph.constant(low))
        passed = graph.op("Mul", passed, graph.constant(rate))
        if is_level:
            passed = graph.op("Sub", one, graph.op("Abs", passed))
        parts.append(graph.op("Clip", passed, zero, one))
    return graph.op("Concat", *parts, axis=1)


def _by_member(graph: Graph, h: str, weight: Tensor, shift: Tensor) -> str:
    """(K, rows, in) times (K, out, in), plus (K, out, 1)."""
    product = graph.op("MatMul", h, graph.constant(_array(weight.transpose(1, 2))))
    return graph.op("Add", product, graph.constant(_array(shift.transpose(1, 2))))


def _combine(graph: Graph, outputs: str, forest: FoldedForest) -> str:
    """As :func:`nrs.tabular.forest.network.combine`, of (K, rows, outputs)."""
    shares = graph.constant(_array((forest.shares / forest.shares.sum()).view(-1, 1, 1)))
    if forest.kind == "classes":
        return _log_mean(graph, graph.op("LogSoftmax", outputs, axis=2), shares)
    if forest.kind == "multilabel":
        # log σ(x) = −softplus(−x)
        negative = graph.op("Neg", outputs)
        yes, no = (
            _log_mean(graph, graph.op("Neg", graph.op("Softplus", value)), shares)
            for value in (negative, outputs)
        )
        return graph.op("Sub", yes, no)
    return _sum(graph, graph.op("Mul", outputs, shares))


def _log_mean(graph: Graph, logs: str, shares: str) -> str:
    """log of the weighted mean over members of e^logs, whose largest is taken out first."""
    largest = graph.op("ReduceMax", logs, axes=[0], keepdims=1)
    parts = graph.op("Mul", graph.op("Exp", graph.op("Sub", logs, largest)), shares)
    squeezed = graph.op("Squeeze", largest, graph.constant(np.array([0])))
    return graph.op("Add", graph.op("Log", _sum(graph, parts)), squeezed)


def _sum(graph: Graph, values: str) -> str:
    """Over the members."""
    return graph.op("ReduceSum", values, graph.constant(np.array([0])), keepdims=0)


def _array(values: Tensor) -> np.ndarray:
    array: np.ndarray = values.detach().cpu().contiguous().numpy()
    return array
