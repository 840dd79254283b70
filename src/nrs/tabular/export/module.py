"""A fitted model as a plain PyTorch module."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.number import LIMIT, NumberBlock, NumberEncoder
from nrs.tabular.targets import Target


class TableModule(nn.Module):
    """Folded network and what its outputs mean; made by :meth:`nrs.NRSClassifier.to_torch`.

    **Shape** input ``(B, features)`` float32, output ``(B, outputs)``: probabilities, or numbers
    in the units of the target.

    Attributes
    ----------
    numbers : :class:`NumberModule` or None
        The preprocessing, if it is part of the module.
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
    """The encoding of numbers and booleans: standardised, with a feature for missing cells.

    Made by :meth:`nrs.NRSClassifier.to_torch` with ``preprocessing=True``.

    **Shape** input ``(B, n_columns)``, NaN where a cell is missing; output ``(B, features)``
    float32. Pass float64 where the digits of large numbers count: float32 would lose them before
    the mean is subtracted.
    """

    source: Tensor
    center: Tensor
    scale: Tensor
    fill: Tensor
    order: Tensor

    def __init__(self, block: NumberBlock, n_features: int) -> None:
        super().__init__()
        for name in ("source", "center", "scale", "fill"):
            self.register_buffer(name, torch.from_numpy(getattr(block, name).copy()))
        # Features among the values, then the missing flags, then a zero where there is neither.
        places = np.append(block.value_at, block.missing_at)
        order = np.full(n_features, len(places))
        order[places[places >= 0]] = np.flatnonzero(places >= 0)
        self.register_buffer("order", torch.from_numpy(order))

    def forward(self, x: Tensor) -> Tensor:
        values = (x.index_select(1, self.source).double() - self.center) / self.scale
        missing = values.isnan()
        values = torch.where(missing, self.fill, values).clamp(-LIMIT, LIMIT)
        zero = values.new_zeros(x.shape[0], 1)
        both = torch.cat([values, missing.double(), zero], 1).float()
        return both.index_select(1, self.order)


def to_torch(model: Any, *, preprocessing: bool = False) -> TableModule:
    """Copy a fitted model as a module; see :meth:`nrs.NRSClassifier.to_torch`.

    Parameters
    ----------
    model : the fitted estimator.
    preprocessing : whether the module takes raw rows of numbers instead of encoded features.
    """
    check_is_fitted(model)
    numbers = None
    if preprocessing:
        encoder: TableEncoder = model.encoder_
        columns = enumerate(encoder.kinds_)
        others = {k for i, k in columns if not isinstance(encoder.column_encoder(i), NumberEncoder)}
        if others or encoder.is_sparse_:
            found = "a sparse matrix" if encoder.is_sparse_ else f"columns of {sorted(others)}"
            raise ValueError(
                "preprocessing=True needs a model of numbers and booleans only, since tensors hold "
                f"no texts; this one has {found}. Encode rows with model.encoder_.transform, or "
                "use to_onnx()."
            )
        numbers = NumberModule(encoder.numbers, encoder.n_features_out_)
    network = copy.deepcopy(model.predictor_).cpu().requires_grad_(False)
    return TableModule(network, model.target_, numbers).eval()
