"""The last step of a model as a plain module: from a network's outputs to answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from nrs.tabular.targets.columns import ColumnsTarget
    from nrs.tabular.targets.quantiles import QuantileTarget


class Unweighted(nn.Module):
    """Probabilities of rows as they come, from outputs that were learned with class weights."""

    prior: Tensor

    def __init__(self, prior: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("prior", torch.as_tensor(prior, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.prior).softmax(1)


class Scale(nn.Module):
    """From standardised numbers to those of the target."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: np.ndarray, std: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.std + self.mean


class OfColumns(nn.Module):
    """Probabilities of the classes of each column, side by side."""

    def __init__(self, target: ColumnsTarget) -> None:
        super().__init__()
        self.sizes, self.temperatures = target.sizes, target.temperatures
        self.columns = nn.ModuleList(column.to_torch() for column in target.columns)

    def forward(self, x: Tensor) -> Tensor:
        each = zip(self.columns, x.split(self.sizes, 1), self.temperatures, strict=True)
        return torch.cat([column(part / one) for column, part, one in each], 1)


class Exponential(nn.Module):
    """From relative logarithms to numbers."""

    level: Tensor

    def __init__(self, level: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("level", torch.as_tensor(level, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.level).exp()


class Median(nn.Module):
    """From the location to the median time."""

    def __init__(self, mean: float, std: float) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x: Tensor) -> Tensor:
        return (x[:, :1] * self.std + self.mean).exp()


class Ascending(nn.Module):
    """Shifted, sorted and scaled quantiles."""

    shift: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, target: QuantileTarget) -> None:
        super().__init__()
        self.size = len(target.levels)
        for name in ("shift", "mean", "std"):
            values = torch.as_tensor(getattr(target, name), dtype=torch.float32)
            self.register_buffer(name, values)

    def forward(self, x: Tensor) -> Tensor:
        each = (x + self.shift).unflatten(1, (-1, self.size)).sort(2).values
        return (each * self.std[:, None] + self.mean[:, None]).flatten(1)
