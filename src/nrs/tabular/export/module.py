"""A fitted model as plain PyTorch modules: to use as they are, and as ONNX runtimes are fast."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nrs.core.fold import FoldedNRS
from nrs.tabular.encode.number import MAX_STEPS, NumberBlock, NumberEncoder, step_beyond
from nrs.tabular.forest.network import FoldedForest
from nrs.tabular.network import TableNetwork
from nrs.tabular.targets import Target

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator

# Up to so many cells the subspaces are written as one matrix, which every runtime multiplies fast;
# beyond it as the features that each one reads.
MAX_CELLS = 1 << 23


class TableModule(nn.Module):
    """Folded network and what its outputs mean; made by :meth:`nrs.NRSClassifier.to_torch`.

    **Shape** input ``(B, features)`` float32, output ``(B, outputs)``: probabilities, or numbers
    in the units of the target.

    Attributes
    ----------
    numbers : :class:`NumberModule`, the preprocessing; None if it is not part of the module.
    network : the folded network.
    answer : from the network's outputs to probabilities or numbers.
    """

    def __init__(self, network: nn.Module, target: Target, numbers: nn.Module | None) -> None:
        super().__init__()
        self.numbers, self.network, self.answer = numbers, network, target.to_torch()

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs before softmax or sigmoid, or in standardised units.

        Parameters
        ----------
        x : (B, features) as the module takes it.
        """
        result: Tensor = self.network(x if self.numbers is None else self.numbers(x))
        return result

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.answer(self.outputs(x))
        return answer


class NumberModule(nn.Module):
    """The encoding of numbers and booleans; part of ``model.to_torch(preprocessing=True)``.

    **Shape** input ``(B, n_columns)``, NaN where a cell is missing; output ``(B, features)``
    float32. Pass float64 where the digits of large numbers count: float32 would lose them before
    the mean is subtracted.
    """

    source: Tensor
    center: Tensor
    scale: Tensor
    fill: Tensor
    low: Tensor
    high: Tensor
    step: Tensor
    order: Tensor

    def __init__(self, block: NumberBlock, n_features: int) -> None:
        super().__init__()
        for name in ("source", "center", "scale", "fill", "low", "high"):
            self.register_buffer(name, torch.from_numpy(getattr(block, name).copy()))
        self.register_buffer("step", torch.from_numpy(step_beyond(block.low, block.high)))
        # Features among the values, then the missing flags, then a zero where there is neither.
        places = np.append(block.value_at, block.missing_at)
        order = np.full(n_features, len(places))
        order[places[places >= 0]] = np.flatnonzero(places >= 0)
        self.register_buffer("order", torch.from_numpy(order))

    def forward(self, x: Tensor) -> Tensor:
        values = (x.index_select(1, self.source).double() - self.center) / self.scale
        missing = values.isnan()
        values = torch.where(missing, self.fill, values)
        # As nrs.tabular.encode.number.squash.
        near = values.clamp(self.low, self.high)
        beyond = values - near
        steps = (beyond.abs() / self.step).log1p().clamp_max(MAX_STEPS)
        values = near + beyond.sign() * self.step * steps
        zero = values.new_zeros(x.shape[0], 1)
        both = torch.cat([values, missing.double(), zero], 1).float()
        return both.index_select(1, self.order)


def to_torch(model: TableEstimator, *, preprocessing: bool = False) -> TableModule:
    """Copy a fitted model as a module; see :meth:`nrs.NRSClassifier.to_torch`."""
    check_is_fitted(model)
    encoder, numbers = model.encoder_, None
    if preprocessing:
        kinds = enumerate(encoder.kinds_)
        others = {k for i, k in kinds if not isinstance(encoder.column_encoder(i), NumberEncoder)}
        if others or encoder.is_sparse_:
            found = "a sparse matrix" if encoder.is_sparse_ else f"columns of {sorted(others)}"
            raise ValueError(
                "preprocessing=True needs a model of numbers and booleans only, since tensors hold "
                f"no texts; this one has {found}. Encode rows with model.encoder_.transform, or "
                "use to_onnx()."
            )
        numbers = NumberModule(encoder.numbers, encoder.n_features_out_)
    network = copy.deepcopy(model.model_.folded()).cpu().requires_grad_(False)
    return TableModule(network, model.target_, numbers).eval()


def for_export(network: nn.Module) -> nn.Module:
    """Copy a folded network as modules that a runtime computes fast; others stay as they are."""
    network = copy.deepcopy(network).cpu()
    if isinstance(network, FoldedForest):
        network = _Forest(network)
    elif isinstance(network, TableNetwork):
        split = [_stages(one) if isinstance(one, FoldedNRS) else [one] for one in network.layers]
        network = nn.Sequential(*itertools.chain(*split))
    return network.requires_grad_(False)


def _stages(layer: FoldedNRS) -> Iterator[FoldedNRS]:
    features = layer.in_features
    for number in range(layer.depth):
        parts = [layer.get_buffer(f"{name}{number}") for name in ("index", "weight", "bias")]
        stage = _subspaces(layer.activation, features, *parts)
        features = stage.out_features
        yield stage


def _subspaces(
    activation: str | None, features: int, index: Tensor, weight: Tensor, bias: Tensor
) -> FoldedNRS:
    """G linear maps of O outputs: index (G, F), weight (G, O, F), bias (G·O,)."""
    formulation = "dense" if len(bias) * features <= MAX_CELLS else "blocks"
    return FoldedNRS(features, [index], [(weight, bias)], activation, formulation)


class _Forest(nn.Module):
    """A folded forest with rows before features.

    A runtime prepares constants on the right of a product in advance: onnxruntime is two to four
    times as fast on a single row as with the forest's own layout.
    """

    def __init__(self, forest: FoldedForest) -> None:
        super().__init__()
        self.combine, self.n_members, self.bins = forest.combine, forest.n_members, forest.bins
        # The last input is always 0; it need not be there if its weight is 0.
        features, shift = forest.n_inputs - 1, forest.shift.reshape(-1)
        self.first: nn.Module = nn.Linear(features, len(shift))
        if forest.wide:
            blank = forest.index == features
            index = forest.index.masked_fill(blank, 0).flatten(0, 1)
            weight = forest.weight.masked_fill(blank.unsqueeze(2), 0).flatten(0, 1)
            self.first = _subspaces(None, features, index, weight, shift)
        else:
            self.first.load_state_dict({"weight": forest.weight[:, :-1], "bias": shift})
        names = [(f"weight{number}", f"shift{number}") for number in range(forest.n_hidden)]
        self.names = [*names, ("out_weight", "out_bias")]
        for name in (name for pair in self.names for name in pair):
            self.register_buffer(name, forest.get_buffer(name).transpose(1, 2).contiguous())
        for name in ("shares", "temperature"):
            self.register_buffer(name, forest.get_buffer(name))

    def forward(self, x: Tensor) -> Tensor:
        inputs = torch.cat([x, self.bins(x)], 1) if self.bins.n_bins else x
        h = self.first(inputs).unflatten(1, (self.n_members, -1)).transpose(0, 1)
        for weight, shift in self.names:
            h = h.relu() @ self.get_buffer(weight) + self.get_buffer(shift)
        joint = self.combine(h.transpose(1, 2), self.get_buffer("shares").unsqueeze(1))
        return joint / self.get_buffer("temperature")
