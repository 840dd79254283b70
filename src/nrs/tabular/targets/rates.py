"""Counts, amounts and rates: losses with a log link, and offsets on its scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from nrs._util.arrays import A
from nrs._util.lazy import torch
from nrs.tabular.encode.number import MAX_FLOAT
from nrs.tabular.targets.base import Result, log_fractions, logsumexp
from nrs.tabular.targets.losses import LossTarget, in_range
from nrs.training.schema import flag, number

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import Json

# Logarithms beyond this are out of range for what is predicted.
MAX_LOG = 700.0


def mean_rates(outputs: A, weights: A | None = None) -> A:
    """Average what members predict; the result is its logarithm.

    Examples
    --------
    >>> outputs = np.log(np.array([[[1.0]], [[3.0]]]))
    >>> np.exp(mean_rates(outputs)).round(4)
    array([[2.]])
    """
    return logsumexp(outputs + log_fractions(outputs, weights), 0).T


class RateTarget(LossTarget):
    """Numbers that are not negative: a network's outputs are logarithms, relative to their mean.

    Labels are divided by their mean. An offset of a row is added to its outputs, as the logarithm
    of its exposure; it is one more column of the encoded labels.
    """

    takes_offset = True
    finite = True
    combine = staticmethod(mean_rates)
    schema: ClassVar = LossTarget.schema | {"with_offset": flag, "middle": number()}
    # What labels must be.
    wanted = "at least 0, and not all 0"

    def __init__(self) -> None:
        super().__init__()
        # Subtracted from offsets.
        self.middle = 0.0

    def check(self, y: np.ndarray) -> None:
        if (wrong := ~self._allowed(y)).any():
            raise ValueError(
                f"loss={self.kind!r} needs y {self.wanted}; got {y[wrong][0]:g}. Use another loss, "
                "or leave such rows out."
            )

    def _allowed(self, y: np.ndarray) -> np.ndarray:
        return y >= 0

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> Self:
        self.check(y)
        columns = y.reshape(len(y), -1)
        mean = (columns / len(columns)).sum(0)
        if not (mean > 0).all():
            raise ValueError(
                f"loss={self.kind!r} needs y {self.wanted}; got only 0 in training rows of a "
                "weight. Use another loss."
            )
        target = self._sized(mean, np.ones(len(mean)), single=y.ndim == 1)
        if offset is not None:
            # Exposures have a mean of one then.
            target.has_offset = True
            target.middle = float(np.logaddexp.reduce(offset) - np.log(len(offset)))
        return target

    def encode(self, y: np.ndarray) -> np.ndarray:
        self.check(y)
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_targets:
            raise ValueError(
                f"y must have {self.n_targets} outputs as in training; got {columns.shape[1]}"
            )
        return np.minimum(columns / self.mean, 1e18).astype(np.float32)

    def with_offset(self, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
        return np.column_stack([y, (offset - self.middle).astype(np.float32)])

    def placed(self, outputs: Tensor, y: Tensor) -> Tensor:
        if y.shape[1] == self.n_targets:
            return outputs
        return outputs + (y[:, -1:] + self.middle).to(outputs)

    def indicators(self, y: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        if y.shape[1] == self.n_targets:
            return super().indicators(y, outputs)
        # What exposure does not explain, in its usual deviation.
        usual = np.exp(np.clip(y[:, -1:].astype(np.float64), -30, 30))
        return super().indicators((y[:, :-1] - usual) / np.sqrt(usual), outputs)

    def units(self, y: np.ndarray, weights: np.ndarray) -> None:
        return None

    def _known(
        self, function: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor
    ) -> Tensor:
        offset = y[:, self.n_targets :].t()
        shifted = outputs + offset if len(offset) else outputs
        return function(shifted, y[:, : self.n_targets].t())

    def best(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        n = self.n_targets
        exposure = np.exp(y[n]) if len(y) > n else np.ones(y.shape[1])
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(y[:n] @ weights) - np.log(exposure @ weights), -MAX_LOG)

    def numbers(self, standard: np.ndarray) -> np.ndarray:
        """Labels in the user's units."""
        values = np.clip(standard * self.mean, -MAX_FLOAT, MAX_FLOAT)
        return values[:, 0] if self.single else values

    @property
    def level(self) -> np.ndarray:
        """What is added to outputs: the logarithm of the mean, at an offset of 0."""
        return np.log(self.mean) - self.middle

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        logs = np.asarray(outputs, dtype=np.float64) + self.level
        return self.numbers(np.exp(np.clip(logs, -MAX_LOG, MAX_LOG)) / self.mean)

    def truth(self, y: Tensor) -> np.ndarray:
        return self.numbers(y[:, : self.n_targets].double().cpu().numpy())

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> None:
        return None

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """The logarithm of what is predicted."""
        own = outputs.gather(1, chosen[:, None])[:, 0]
        return own + torch.from_numpy(self.level)[chosen]

    def to_torch(self) -> nn.Module:
        from nrs.tabular.targets.modules import Exponential

        return Exponential(self.level)

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        logs = graph.op("Add", graph.cast(outputs, np.float64), graph.constant(self.level))
        numbers = graph.op("Exp", logs)
        if self.single:
            return [("prediction", graph.reshape(numbers, -1), np.float64, ())]
        return [("prediction", numbers, np.float64, (self.n_targets,))]

    def state(self) -> Json:
        return super().state() | {"with_offset": self.has_offset, "middle": self.middle}

    @classmethod
    def from_state(cls, state: Json) -> Self:
        target = super().from_state(state)
        if not (target.mean > 0).all():
            raise ValueError("header.target.mean must be above 0 for a log link")
        target.has_offset, target.middle = state["with_offset"], state["middle"]
        return target


class PoissonTarget(RateTarget):
    """Counts: the Poisson deviance, with a log link."""

    kind = "poisson"

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        return outputs.exp() - y * outputs

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        return outputs.exp() - y

    def least(self, y: Tensor) -> Tensor:
        return y - torch.xlogy(y, y)


class GammaTarget(RateTarget):
    """Amounts above 0: the gamma deviance, with a log link."""

    kind = "gamma"
    wanted = "above 0"

    def _allowed(self, y: np.ndarray) -> np.ndarray:
        return y > 0

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        return outputs + y * (-outputs).exp()

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        return 1 - y * (-outputs).exp()

    def least(self, y: Tensor) -> Tensor:
        return y.log() + 1


class Tweedie(RateTarget):
    """Amounts of which many are 0: the Tweedie deviance, with a log link.

    Parameters
    ----------
    power : float, default=1.5
        Of the mean in the variance: between 1 (Poisson) and 2 (gamma).

    Examples
    --------
    >>> from nrs import NRSRegressor, Tweedie
    >>> model = NRSRegressor(loss=Tweedie(power=1.7))
    """

    kind = "tweedie"
    settings = ("power",)
    schema: ClassVar = RateTarget.schema | {"power": number(1, 2)}

    def __init__(self, power: float = 1.5) -> None:
        super().__init__()
        self.power = in_range("power", power, 1.01, 1.99)

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        below, above = self.power - 1, 2 - self.power
        return y * (-below * outputs).exp() / below + (above * outputs).exp() / above

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        below, above = self.power - 1, 2 - self.power
        return (above * outputs).exp() - y * (-below * outputs).exp()

    def least(self, y: Tensor) -> Tensor:
        above = 2 - self.power
        return y.pow(above) * (1 / (self.power - 1) + 1 / above)
