"""Losses of the user's own: a function of outputs and labels, or a target of another package."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Self

from nrs._util.lazy import torch
from nrs.tabular.targets.base import Target, mean_loss

if TYPE_CHECKING:
    from torch import Tensor

    from nrs.tabular.types import Json

# (rows, outputs) outputs and labels in, one loss per row out.
RowLoss = Callable[["Tensor", "Tensor"], "Tensor"]
# What users pass: a name, a function, or a target or its class.
Loss = str | RowLoss | Target | type[Target]


class OwnLoss(Target):
    """Part of a target whose loss is a function: (rows, n_outputs) outputs and labels in."""

    function: RowLoss | None = None
    name = ""
    loss = mean_loss

    def use(self, function: Callable[..., Tensor]) -> Self:
        """A copy with this function."""
        target = copy.copy(self)
        target.function = function
        target.name = str(getattr(function, "__name__", "loss"))
        return target

    def again(self, loss: RowLoss | Target | None) -> Target:
        if loss is not None and callable(loss):
            return self.use(loss)
        warnings.warn(
            f"the model was fitted with a loss of your own, {self.name!r}, which a model file does "
            "not hold. It predicts without it; to train it further, load it with "
            f"load(path, loss={self.name}).",
            stacklevel=5,
        )
        return self

    def shown(self, outputs: Tensor) -> Tensor:
        """(rows, n_outputs) outputs as the function takes them."""
        return outputs

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        if self.function is None:
            raise ValueError(
                f"the loss of this model is a function, {self.name!r}, which a model file does not "
                "hold. Load it with load(path, loss=…) to train it further."
            )
        members, _, n_rows = outputs.shape
        # All members' rows in one call: rows do not depend on each other.
        rows = outputs.transpose(1, 2).flatten(0, 1)
        labels = y.repeat(members, *[1] * (y.ndim - 1))
        each = self.function(self.shown(rows), self.shown(labels))
        if not isinstance(each, torch.Tensor) or each.shape != (members * n_rows,):
            got = tuple(each.shape) if isinstance(each, torch.Tensor) else type(each).__name__
            raise ValueError(
                f"loss {self.name!r} must return one loss per row, a tensor of shape "
                f"({members * n_rows},) for outputs of shape {tuple(rows.shape)}; got {got}"
            )
        return each.view(members, n_rows)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        # Whatever a subclass has in closed form is that of its own loss.
        return Target.gradient(self, outputs, y)

    def state(self) -> Json:
        return super().state() | {"name": self.name}

    @classmethod
    def from_state(cls, state: Json) -> Self:
        target: Self = super().from_state(state)  # type: ignore[assignment]
        target.name = state["name"]
        return target


class OwnTarget(Target):
    """What a model file says of a target that is no part of nrs: its class must be given again."""

    kind = "own"
    schema: ClassVar = {}

    def __init__(self, name: str, state_of: Json) -> None:
        self.name, self.state_of = name, state_of

    def again(self, loss: RowLoss | Target | None) -> Target:
        if not isinstance(loss, Target):
            raise ValueError(
                f"the model was fitted with a loss of your own, {self.name!r}, which a model file "
                f"does not hold. Load it with load(path, loss={self.name}())."
            )
        return type(loss).from_state(self.state_of)

    @classmethod
    def from_state(cls, state: Json) -> Self:
        return cls(state["name"], state["state"])
