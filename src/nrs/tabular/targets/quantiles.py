"""Several quantiles of a number by one network, which never cross."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from nrs._util.lazy import torch
from nrs.tabular.targets.base import Result, beyond_chance
from nrs.tabular.targets.losses import LossTarget, quantiles_of
from nrs.training.schema import list_of, number

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import Json

# The median, and between the others nine rows in ten.
QUANTILES = (0.05, 0.5, 0.95)
MAX_QUANTILES = 1000


class QuantileTarget(LossTarget):
    """Quantiles of one or several numbers: the mean of their pinball losses.

    A network has an output for each quantile of each number. Sorting joint outputs makes them
    ascend, and never makes the loss larger (Chernozhukov et al., 2010). Where out-of-bag rows show
    by more than chance that a quantile is too high or low, it is shifted.

    Parameters
    ----------
    levels : sequence of float
        Ascending, between 0 and 1. What is predicted is the one nearest to 0.5.
    """

    kind = "quantile"
    schema: ClassVar = LossTarget.schema | {
        "levels": list_of(number(0, 1), 1, MAX_QUANTILES),
        "shift": list_of(number(-1e18, 1e18)),
    }

    def __init__(self, levels: Sequence[float] = QUANTILES) -> None:
        super().__init__()
        self.levels = _checked(levels)
        self.shift = np.zeros(1)
        self.outputs_of_target = self.n_outputs = len(self.levels)
        # The first of the two nearest ones, should there be two.
        self.middle = int(np.argmin(np.abs(self.levels - 0.5).round(9)))

    def _sized(self, mean: np.ndarray, std: np.ndarray, *, single: bool) -> Self:
        target = super()._sized(mean, std, single=single)
        target.shift = np.zeros(target.n_outputs)
        return target

    def _by_level(self, outputs: Tensor) -> Tensor:
        """(…, C, B) outputs as (…, T, Q, B)."""
        return outputs.unflatten(-2, (self.n_targets, len(self.levels)))

    def _level(self, like: Tensor) -> Tensor:
        return torch.from_numpy(self.levels).to(like).view(-1, 1)

    def each(self, outputs: Tensor, y: Tensor) -> Tensor:
        short, level = y.unsqueeze(1) - self._by_level(outputs), self._level(outputs)
        return torch.maximum(level * short, (level - 1) * short).mean(2)

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        short, level = y.unsqueeze(1) - self._by_level(outputs), self._level(outputs)
        # At 0 the mean of both sides, as torch's maximum has it.
        above = (short.sign() + 1) / 2
        return ((1 - above) - level).flatten(1, 2) / len(self.levels)

    def best(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.concatenate([quantiles_of(one, weights, self.levels) for one in y])

    def settle(
        self, outputs: Tensor, y: Tensor, counted: Tensor | None
    ) -> tuple[np.ndarray, float, None]:
        count = torch.ones(len(y)) if counted is None else counted
        weights, truth = count.double().numpy(), y.double().numpy().T
        joint = self._by_level(outputs.double().t()).numpy()
        shift = np.zeros((self.n_targets, len(self.levels)))
        for place, (own, known) in enumerate(zip(joint, truth, strict=True)):
            for at, level in enumerate(self.levels):
                error = known - own[at]
                tried = quantiles_of(error, weights, np.array([level]))[0]
                gained = (_pinball(error, level) - _pinball(error - tried, level)) * weights
                if beyond_chance(torch.from_numpy(gained[~np.isnan(gained)])):
                    shift[place, at] = tried
        self.shift = shift.ravel()
        ascending = torch.from_numpy(self._ascending(outputs)).to(outputs).flatten(1)
        return self.answer(outputs), self.score(ascending, y, counted), None

    def _ascending(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        """Shifted and sorted outputs, in standardised units: (B, T, Q)."""
        shifted = np.asarray(outputs, dtype=np.float64) + self.shift
        return np.sort(shifted.reshape(len(outputs), self.n_targets, -1), axis=2)

    def quantiles(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        """Quantiles in the units of the target: (B, Q), or (B, T, Q) of several numbers."""
        found = np.moveaxis(self._ascending(outputs), 2, 0)
        each = np.stack([self.numbers(one) for one in found], axis=-1)
        # Products and sums round monotonically: what ascends still does.
        return each

    def beside(self, outputs: Tensor) -> dict[str, np.ndarray]:
        return {"oob_quantiles_": self.quantiles(outputs)}

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        return self.numbers(self._ascending(outputs)[:, :, self.middle])

    def more(self, outputs: np.ndarray | Tensor) -> dict[str, np.ndarray]:
        each = self.quantiles(outputs)
        levels = enumerate(self.levels.tolist())
        return {f"quantile_{level:g}": each[..., place] for place, level in levels}

    def truth(self, y: Tensor) -> np.ndarray:
        return self.numbers(y.double().cpu().numpy())

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> None:
        return None

    def main_output(self, outputs: Tensor) -> Tensor:
        return torch.full((len(outputs),), self.middle, dtype=torch.int64)

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        own, place = outputs.gather(1, chosen[:, None])[:, 0], chosen // len(self.levels)
        mean, std = (torch.from_numpy(values)[place] for values in (self.mean, self.std))
        return (own + torch.from_numpy(self.shift)[chosen]) * std + mean

    def to_torch(self) -> nn.Module:
        """From outputs to all quantiles, (B, T · Q)."""
        from nrs.tabular.targets.modules import Ascending

        return Ascending(self)

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        size = len(self.levels)
        shifted = graph.op("Add", graph.cast(outputs, np.float64), graph.constant(self.shift))
        each = graph.reshape(shifted, -1, self.n_targets, size)
        # Of so few values ranks are quick: TopK orders them, the smallest first.
        found = graph.sort(each, size)
        numbers = graph.op("Mul", found, graph.constant(self.std[:, None]))
        numbers = graph.op("Add", numbers, graph.constant(self.mean[:, None]))
        middle = graph.op("Gather", numbers, graph.constant(np.int64(self.middle)), axis=2)
        if not self.single:
            shape = (self.n_targets,)
            return [
                ("prediction", middle, np.float64, shape),
                ("quantiles", numbers, np.float64, (*shape, size)),
            ]
        return [
            ("prediction", graph.reshape(middle, -1), np.float64, ()),
            ("quantiles", graph.reshape(numbers, -1, size), np.float64, (size,)),
        ]

    def state(self) -> Json:
        learned = {"levels": self.levels.tolist(), "shift": self.shift.tolist()}
        return super().state() | learned

    @classmethod
    def from_state(cls, state: Json) -> Self:
        mean, std = (np.array([float.fromhex(v) for v in state[key]]) for key in ("mean", "std"))
        target = cls(state["levels"])._sized(mean, std, single=state["single"])
        target.start = np.array(state["start"]) if state["start"] else None
        target.shift = np.array(state["shift"], dtype=np.float64)
        if target.shift.shape != (target.n_outputs,):
            raise ValueError("header.target.shift must have one number per output")
        return target


def _pinball(short: np.ndarray, level: float) -> np.ndarray:
    return np.maximum(level * short, (level - 1) * short)


def _checked(levels: Sequence[float]) -> np.ndarray:
    try:
        found = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    wrong = found.ndim != 1 or not 1 <= len(found) <= MAX_QUANTILES
    if wrong or not ((found > 0) & (found < 1)).all() or (np.diff(found) <= 0).any():
        raise ValueError(
            f"quantiles must be ascending numbers between 0 and 1, such as {QUANTILES}; got "
            f"{levels!r}"
        )
    return found
