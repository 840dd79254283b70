"""The network of a model as ONNX operators, by torch's own exporter."""

from __future__ import annotations

import copy
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs._util.optional import import_optional
from nrs.core.fold import FoldedNRS
from nrs.core.subspace_map import dense_weight, map_rows
from nrs.tabular.export.graph import OPSETS, Graph
from nrs.tabular.forest.network import FoldedForest
from nrs.tabular.network import TableNetwork

# Up to so many cells the subspaces are written as one matrix, which every runtime multiplies fast;
# beyond it as the features that each one reads.
MAX_CELLS = 1 << 23


def add_network(graph: Graph, network: nn.Module, n_features: int, x: str) -> str:
    """Add a folded network to a graph; returns the name of its (rows, outputs) value.

    Parameters
    ----------
    graph : Graph
    network : nn.Module
        Takes (rows, n_features) float32.
    n_features : int
    x : str
        The name of the features.

    Raises
    ------
    ImportError
        Without onnxscript, which torch's exporter needs; the extra ``export`` installs it.
    """
    import_optional("onnxscript", "to_onnx", "export")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's deprecations of its own functions
        program = torch.onnx.export(
            for_export(network).eval(),
            (torch.zeros(2, n_features),),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            opset_version=OPSETS[""],
            verbose=False,
        )
    assert program is not None
    (output,) = graph.append(program.model_proto.graph, [x])
    return output


def for_export(network: nn.Module) -> nn.Module:
    """Copy a folded network as modules that a runtime computes fast; others stay as they are."""
    network = copy.deepcopy(network).cpu()
    if isinstance(network, FoldedForest):
        return _Forest(network)
    if isinstance(network, TableNetwork):
        return nn.Sequential(*map(_layer, network.layers))
    return network


def _layer(layer: nn.Module) -> nn.Module:
    if not isinstance(layer, FoldedNRS):
        return layer
    stages: list[nn.Module] = []
    features = layer.in_features
    for number in range(layer.depth):
        index, weight, bias = (
            layer.get_buffer(f"{name}{number}") for name in ("index", "weight", "bias")
        )
        stages.append(_subspaces(features, index, weight, bias))
        if layer.activation is not None:
            stages.append({"relu": nn.ReLU, "sigmoid": nn.Sigmoid}[layer.activation]())
        features = len(bias)
    return nn.Sequential(*stages)


def _subspaces(features: int, index: Tensor, weight: Tensor, bias: Tensor) -> _Map:
    """G linear maps of O outputs: index (G, F), weight (G, O, F), bias (G·O,)."""
    if len(bias) * features <= MAX_CELLS:
        return _Map(dense_weight(index, weight, features), bias)
    return _Map(weight, bias, index)


class _Map(nn.Module):
    """One linear map, or one for each row of `index`."""

    weight: Tensor
    bias: Tensor
    index: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor, index: Tensor | None = None) -> None:
        super().__init__()
        for name, values in (("weight", weight), ("bias", bias), ("index", index)):
            self.register_buffer(name, values)

    def forward(self, x: Tensor) -> Tensor:
        if self.index is None:
            return F.linear(x, self.weight, self.bias)
        return map_rows(x, self.index, self.weight, self.bias, "blocks")


class _Forest(nn.Module):
    """A folded forest with rows before features.

    A runtime prepares constants on the right of a product in advance: onnxruntime is two to four
    times as fast on a single row as with the forest's own layout.
    """

    shares: Tensor
    temperature: Tensor

    def __init__(self, forest: FoldedForest) -> None:
        super().__init__()
        self.combine = forest.combine
        self.n_members, self.bins = forest.n_members, forest.bins
        weight, shift = forest.weight, forest.shift.reshape(-1)
        # The last input is always 0; it need not be there if its weight is 0.
        if forest.wide:
            blank = forest.index == forest.n_inputs - 1
            index = forest.index.masked_fill(blank, 0).flatten(0, 1)
            weight = weight.masked_fill(blank.unsqueeze(2), 0).flatten(0, 1)
            self.first = _subspaces(forest.n_inputs - 1, index, weight, shift)
        else:
            self.first = _Map(weight[:, :-1], shift)
        names = [(f"weight{number}", f"shift{number}") for number in range(forest.n_hidden)]
        self.names = [*names, ("out_weight", "out_bias")]
        for name in (name for pair in self.names for name in pair):
            self.register_buffer(name, forest.get_buffer(name).transpose(1, 2).contiguous())
        self.register_buffer("shares", forest.shares)
        self.register_buffer("temperature", forest.temperature)

    def forward(self, x: Tensor) -> Tensor:
        inputs = torch.cat([x, self.bins(x)], 1) if self.bins.n_bins else x
        h = self.first(inputs).unflatten(1, (self.n_members, -1)).transpose(0, 1)
        for weight, shift in self.names:
            h = h.relu() @ self.get_buffer(weight) + self.get_buffer(shift)
        joint = self.combine(h.transpose(1, 2), self.shares.unsqueeze(1))
        return joint / self.temperature
