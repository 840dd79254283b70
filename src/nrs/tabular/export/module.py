"""A fitted model as a plain PyTorch module."""

from __future__ import annotations

import copy
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.number import LIMIT, NumberBlock, NumberEncoder
from nrs.tabular.targets import ClassTarget, MultilabelTarget, Target


class TableModule(nn.Module):
    """Folded network and what its outputs mean; made by :meth:`nrs.NRSClassifier.to_torch`.

    **Shape** input ``(B, features)`` float32, output ``(B, outputs)``: probabilities, or numbers
    in the units of the target.

    Attributes
    ----------
    numbers : :class:`NumberModule` or None
        The preprocessing, if it is part of the module.
    network : the folded network.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, target: Target, numbers: nn.Module | None) -> None:
        super().__init__()
        self.numbers = numbers
        self.network = network
        self.kind = target.kind
        if not isinstance(target, (ClassTarget, MultilabelTarget)):
            self.register_buffer("mean", torch.as_tensor(target.mean, dtype=torch.float32))
            self.register_buffer("std", torch.as_tensor(target.std, dtype=torch.float32))

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs before softmax or sigmoid, or in standardised units.

        Parameters
        ----------
        x : (B, features) as the module takes it.
        """
        result: Tensor = self.network(x if self.numbers is None else self.numbers(x))
        return result

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.outputs(x)
        if self.kind == "classes":
            return outputs.softmax(1)
        if self.kind == "multilabel":
            return outputs.sigmoid()
        return outputs * self.std + self.mean


class NumberModule(nn.Module):
    """The encoding of numbers and booleans: standardised, with a feature for what is missing.

    Made by :meth:`nrs.NRSClassifier.to_torch` with ``preprocessing=True``.

    **Shape** input ``(B, n_columns)``, NaN where a cell is missing; output ``(B, features)``
    float32. Give float64 where the digits of large numbers count: they are lost before the mean
    is subtracted otherwise.
    """

    source: Tensor
    center: Tensor
    scale: Tensor
    fill: Tensor
    order: Tensor

    def __init__(self, block: NumberBlock, n_features: int) -> None:
        super().__init__()
        self.n_features = n_features
        for name in ("source", "center", "scale", "fill"):
            self.register_buffer(name, torch.from_numpy(getattr(block, name).copy()))
        # Features among the values, then the missing flags, then a zero where there is neither.
        order = torch.full((n_features,), 2 * len(block.source))
        for offset, places in ((0, block.value_at), (len(block.source), block.missing_at)):
            for place, at in enumerate(places.tolist()):
                if at >= 0:
                    order[at] = offset + place
        self.register_buffer("order", order)

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
        others = sorted({
            kind
            for index, kind in enumerate(encoder.kinds_)
            if not isinstance(encoder.column_encoder(index), NumberEncoder)
        })  # fmt: skip
        if others or encoder.is_sparse_:
            raise ValueError(
                "preprocessing=True needs a model of numbers and booleans, since tensors hold no "
                f"texts, however: {others or ['a sparse matrix']}; encode rows with "
                "model.encoder_.transform, or use to_onnx()"
            )
        numbers = NumberModule(encoder.numbers, encoder.n_features_out_)
    network = copy.deepcopy(model.predictor_).cpu().requires_grad_(False)
    return TableModule(network, model.target_, numbers).eval()
