"""Numbers with a loss other than the squared error, and numbers of which some are missing.

A further loss is a subclass of :class:`LossTarget`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from nrs._util.lazy import torch
from nrs.tabular.targets.base import conformal_quantiles, mean_loss
from nrs.tabular.targets.numbers import RegressionTarget
from nrs.tabular.targets.own import OwnLoss
from nrs.training.schema import flag, hex_number, list_of, number

if TYPE_CHECKING:
    from torch import Tensor

    from nrs.tabular.types import Json

# Mean absolute deviations of a normal distribution in a standard deviation.
NORMAL = float(np.sqrt(np.pi / 2))


class LossTarget(RegressionTarget):
    """One or several numbers: a loss on standardised values, which a subclass names.

    A user makes it without labels; :meth:`learned` gives a copy that knows their scale. It is
    robust: the mean absolute deviation around the median. Of several numbers of a row some may be
    missing (NaN): these count in no loss.

    A subclass has at least :meth:`each`, and :meth:`best` for its score.

    Examples
    --------
    >>> class Squared(LossTarget):
    ...     kind = "own squared"
    ...
    ...     def each(self, outputs, y):
    ...         return (outputs - y) ** 2
    ...
    ...     def best(self, y, weights):
    ...         return np.array([np.average(one, weights=weights) for one in y])
    >>> target = Squared().learned(np.array([1.0, 2.0, 9.0]))
    >>> target.encode(np.array([2.0])), target.answer(np.zeros((1, 1)))
    (array([[0.]], dtype=float32), array([2.]))
    """

    finite: bool | Literal["allow-nan"] = "allow-nan"
    loss = mean_loss
    # Outputs of each number.
    outputs_of_target = 1
    # What the constructor takes, all of them numbers.
    settings: ClassVar[tuple[str, ...]] = ()
    schema: ClassVar = {
        "mean": list_of(hex_number(), 1),
        "std": list_of(hex_number(0), 1),
        "single": flag,
        "start": list_of(number()),
    }

    def __init__(self) -> None:
        super().__init__(np.zeros(1), np.ones(1), single=True)

    # What a subclass says.

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Loss of each number, (K, T, B), of (K, C, B) outputs and (T, B) labels."""
        raise NotImplementedError

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Derivatives of :meth:`each`, (K, C, B), if there is a closed form."""
        raise NotImplementedError

    def best(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The constant outputs (C,) of least loss for (T, n) labels; scores are relative to it."""
        raise NotImplementedError

    def least(self, y: Tensor) -> Tensor:
        """The least possible loss of each label."""
        return torch.zeros_like(y)

    def check(self, y: np.ndarray) -> None:
        """Raise ValueError if the loss cannot take these labels."""
        if y.ndim == 1 and np.isnan(y).any():
            raise ValueError(
                f"y must not be missing (NaN); row {int(np.isnan(y).argmax())} is. Leave such rows "
                "out: only one of several outputs may be missing."
            )

    # What follows from it.

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> RegressionTarget:
        self.check(y)
        columns = y.reshape(len(y), -1)
        found = [
            _robust(column[~np.isnan(column)], place) for place, column in enumerate(columns.T)
        ]
        mean, std = map(np.array, zip(*found, strict=True))
        target = self._sized(mean, std, single=y.ndim == 1)
        encoded = target.encode(y).astype(np.float64)
        target.start = target.best(encoded.T, np.ones(len(y)))
        return target

    def _sized(self, mean: np.ndarray, std: np.ndarray, *, single: bool) -> Self:
        """A copy for outputs of these scales."""
        target = copy.copy(self)
        target.mean, target.std, target.single = mean, std, single
        target.several = not single
        target.n_outputs = len(mean) * self.outputs_of_target
        return target

    @property
    def n_targets(self) -> int:
        return len(self.mean)

    def varying(self) -> Self:
        target = copy.copy(self)
        target.std = self.scale
        return target

    def units(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        weights = weights if weights.any() else np.ones(len(y))
        level = self.best(y.T.astype(np.float64), weights)
        columns = y.astype(np.float64).T
        apart = [np.nan_to_num(np.abs(one - np.nanmedian(one))) for one in columns]
        scale = NORMAL * np.array([np.average(one, weights=weights) for one in apart])
        return np.repeat(np.where(scale > 0, scale, 1.0), self.outputs_of_target), level

    def encode(self, y: np.ndarray) -> np.ndarray:
        self.check(y)
        return super().encode(y)

    def indicators(self, y: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        return np.nan_to_num(super().indicators(y[:, : self.n_targets], outputs))

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self._known(self.each, outputs, y).mean(1)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        if type(self).slopes is LossTarget.slopes:
            return super().gradient(outputs, y)
        return self._known(self.slopes, outputs, y) / self.n_targets

    def _known(
        self, function: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor
    ) -> Tensor:
        """A function of outputs and labels, 0 where a label is missing."""
        truth = y.t()
        if self.single:
            return function(outputs, truth)
        found, missing = function(outputs, truth.nan_to_num()), truth[: self.n_targets].isnan()
        each = missing.repeat_interleave(found.shape[1] // len(missing), 0)
        return torch.where(each, torch.zeros_like(found), found)

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        """D²: the share of the deviance of the best constant that is explained."""
        count = torch.ones(len(y)) if weights is None else weights
        varies = torch.from_numpy(np.repeat(self.std > 0, self.outputs_of_target))
        constant = self.best(y.double().numpy().T, count.double().numpy())
        known, known_of_constant = (
            (self._known(self._deviances, one.double().t()[None], y.double())[0] * count).sum(1)
            for one in (outputs * varies, torch.from_numpy(constant).expand(len(y), -1))
        )
        nothing = known_of_constant <= 0
        share = 1 - known / torch.where(nothing, torch.ones_like(known), known_of_constant)
        return float(torch.where(nothing, (known <= 0).double(), share).mean())

    def _deviances(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.each(outputs, y) - self.least(y)

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> np.ndarray | None:
        errors = (outputs - y).abs().double().numpy()
        weight = np.ones(len(errors)) if weights is None else weights.double().numpy()
        columns = ((one[~np.isnan(one)], weight[~np.isnan(one)]) for one in errors.T)
        return np.column_stack([conformal_quantiles(*one) for one in columns])

    def state(self) -> Json:
        state = super().state() | {name: getattr(self, name) for name in self.settings}
        return state | {"start": [] if self.start is None else self.start.tolist()}

    @classmethod
    def from_state(cls, state: Json) -> Self:
        plain = cls(**{name: state[name] for name in cls.settings})
        mean, std = (np.array([float.fromhex(v) for v in state[key]]) for key in ("mean", "std"))
        target = plain._sized(mean, std, single=state["single"])
        target.start = np.array(state["start"]) if state["start"] else None
        return target


class SquaredTarget(LossTarget):
    """Squared error on standardised values of which some are missing."""

    kind = "squared"

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> RegressionTarget:
        if np.isnan(y).any():
            return super().learned(y)
        # Without missing labels, in fewer steps.
        return RegressionTarget.of(y)

    def of_moments(self, mean: np.ndarray, std: np.ndarray) -> RegressionTarget:
        return RegressionTarget(mean, std, single=True)

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - y).square()

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        return 2 * (outputs - y)

    def best(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        found = [~np.isnan(one) for one in y]
        return np.array([average(one[at], weights[at]) for one, at in zip(y, found, strict=True)])


class AbsoluteTarget(LossTarget):
    """Absolute error: predicts the median."""

    kind = "absolute"

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - y).abs()

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - y).sign()

    def best(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.concatenate([quantiles_of(one, weights, np.array([0.5])) for one in y])


class Huber(AbsoluteTarget):
    """Squared error up to `delta` scales of the target, absolute error beyond.

    Parameters
    ----------
    delta : float, default=1.35
        In standard deviations, as the mean absolute deviation estimates them.

    Examples
    --------
    >>> from nrs import Huber, NRSRegressor
    >>> model = NRSRegressor(loss=Huber(delta=2.0))
    """

    kind = "huber"
    settings = ("delta",)
    schema: ClassVar = LossTarget.schema | {"delta": number(1e-6, 1e6)}

    def __init__(self, delta: float = 1.35) -> None:
        super().__init__()
        self.delta = in_range("delta", delta, 1e-6, 1e6)

    def best(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        found = super().best(y, weights)
        for _ in range(100):
            apart = np.nan_to_num(np.clip(y - found[:, None], -self.delta, self.delta))
            found = found + [average(one, weights) for one in apart]
        return found

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        apart = (outputs - y).abs()
        near = apart.clamp_max(self.delta)
        return near * (apart - near / 2)

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - y).clamp(-self.delta, self.delta)


class OwnNumbers(OwnLoss, RegressionTarget):
    """Numbers: outputs and labels come in the units of the target, and the start is its mean."""

    kind = "own_regression"

    def __init__(self, mean: np.ndarray, std: np.ndarray, *, single: bool) -> None:
        super().__init__(mean, std, single=single)

    @classmethod
    def made_of(cls, function: Callable[..., Tensor]) -> Self:
        """The target of a function, without labels."""
        return cls(np.zeros(1), np.ones(1), single=True).use(function)

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> Self:
        target = copy.copy(self)
        plain = RegressionTarget.of(y)
        RegressionTarget.__init__(target, plain.mean, plain.std, single=plain.single)
        return target

    def varying(self) -> Self:
        target = copy.copy(self)
        target.std = self.scale
        return target

    def shown(self, outputs: Tensor) -> Tensor:
        scale, mean = (torch.as_tensor(one).to(outputs) for one in (self.scale, self.mean))
        return outputs * scale + mean

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        return -float(self.loss(outputs, y, weights))


def in_range(name: str, value: float, low: float, high: float) -> float:
    """A setting of a loss as a float of this range, both ends included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise ValueError(f"{name} must be a number; got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low:g} to {high:g}; got {value!r}")
    return float(value)


def average(values: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean; the plain one if nothing weighs anything."""
    return float(np.average(values, weights=weights if weights.any() else None))


def quantiles_of(values: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Weighted quantiles of values that are not missing: each minimises its pinball loss.

    Examples
    --------
    >>> quantiles_of(np.array([3.0, 1.0, 2.0, np.nan]), np.ones(4), np.array([0.2, 0.5])).tolist()
    [1.0, 2.0]
    """
    known = ~np.isnan(values) & (weights > 0)
    known = known if known.any() else ~np.isnan(values)
    order = np.argsort(values[known], kind="stable")
    reached = np.cumsum(np.maximum(weights[known][order], 1e-300))
    # A level that rows reach together, up to rounding, is reached.
    place = np.searchsorted(reached, levels * reached[-1] * (1 - 1e-12), side="left")
    found: np.ndarray = values[known][order][np.minimum(place, len(order) - 1)]
    return found


def _robust(values: np.ndarray, place: int) -> tuple[float, float]:
    """Median and scale of one output; mean and 0 of a constant one."""
    if not len(values):
        raise ValueError(f"y must have a value in each column; column {place} has none")
    plain = RegressionTarget.of(values)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = float(np.median(values))
        scale = NORMAL * float(np.abs(values - middle).mean())
    if plain.std[0] == 0 or not np.isfinite(scale) or scale == 0:
        return float(plain.mean[0]), float(plain.std[0])
    return middle, scale
