"""What is predicted: how labels become numbers, the loss on them, and the way back.

A new loss is one class: a subclass of :class:`Target`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nrs.tabular.targets.base import (
    Combine,
    OutOfBag,
    Target,
    beyond_chance,
    conformal_quantiles,
    find_temperature,
    mean_odds,
    mean_probabilities,
    mean_values,
    weigh_views,
)
from nrs.tabular.targets.classes import (
    ClassTarget,
    MultilabelTarget,
    OwnClasses,
    OwnLabels,
    class_target,
)
from nrs.tabular.targets.columns import (
    ColumnsTarget,
    counted_target,
    is_columns,
    label_columns,
    labels_target,
)
from nrs.tabular.targets.labels import (
    check_labelled,
    check_offset,
    refuse_dates,
    weights_of_classes,
    weights_of_labels,
    weights_of_rows,
)
from nrs.tabular.targets.losses import (
    AbsoluteTarget,
    Huber,
    LossTarget,
    OwnNumbers,
    SquaredTarget,
)
from nrs.tabular.targets.numbers import RegressionTarget
from nrs.tabular.targets.own import Loss, OwnTarget, RowLoss
from nrs.tabular.targets.quantiles import QuantileTarget
from nrs.tabular.targets.rates import GammaTarget, PoissonTarget, RateTarget, Tweedie
from nrs.tabular.targets.survival import SurvivalTarget, concordance

if TYPE_CHECKING:
    from nrs.tabular.types import Json

__all__ = [
    "SQUARED",
    "TARGETS",
    "AbsoluteTarget",
    "ClassTarget",
    "ColumnsTarget",
    "Combine",
    "GammaTarget",
    "Huber",
    "Loss",
    "LossTarget",
    "MultilabelTarget",
    "OutOfBag",
    "OwnClasses",
    "OwnLabels",
    "OwnNumbers",
    "PoissonTarget",
    "QuantileTarget",
    "RateTarget",
    "RegressionTarget",
    "RowLoss",
    "SquaredTarget",
    "SurvivalTarget",
    "Target",
    "Tweedie",
    "beyond_chance",
    "check_labelled",
    "check_offset",
    "class_target",
    "concordance",
    "conformal_quantiles",
    "counted_target",
    "find_loss",
    "find_temperature",
    "is_columns",
    "label_columns",
    "labels_target",
    "loss_names",
    "mean_odds",
    "mean_probabilities",
    "mean_values",
    "refuse_dates",
    "target_from_state",
    "target_state",
    "weigh_views",
    "weights_of_classes",
    "weights_of_labels",
    "weights_of_rows",
]

_NUMBERS: tuple[type[LossTarget], ...] = (
    SquaredTarget, AbsoluteTarget, Huber, QuantileTarget, PoissonTarget, GammaTarget, Tweedie,
    SurvivalTarget,
)  # fmt: skip
_LOSSES = {kind.kind: kind for kind in _NUMBERS}
SQUARED = SquaredTarget()
# By what a model file calls them.
_OTHERS: tuple[type[Target], ...] = (
    ClassTarget, MultilabelTarget, ColumnsTarget, RegressionTarget, OwnClasses, OwnLabels,
    OwnNumbers, OwnTarget,
)  # fmt: skip
TARGETS: dict[str, type[Target]] = {kind.kind: kind for kind in (*_OTHERS, *_NUMBERS)}


def loss_names() -> tuple[str, ...]:
    """Losses of numbers that are known by name."""
    return tuple(_LOSSES)


def find_loss(loss: Loss, quantiles: Sequence[float] | None = None) -> Target:
    """A loss of numbers by name, of quantiles, of a function, or a target itself; without labels.

    Raises
    ------
    ValueError
        If there is no such loss.

    Examples
    --------
    >>> find_loss("poisson").kind, find_loss("squared", (0.1, 0.9)).kind
    ('poisson', 'quantile')
    """
    if quantiles is not None:
        if not isinstance(loss, str) or loss not in ("squared", "quantile"):
            raise ValueError(
                f"quantiles are for loss='quantile'; got loss={loss!r}. Leave one of them out."
            )
        return QuantileTarget(quantiles)
    given = loss() if isinstance(loss, type) else loss
    if isinstance(given, Target):
        return given
    if callable(given):
        return OwnNumbers.made_of(given)
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss]()
    raise ValueError(
        f"loss must be one of {', '.join(map(repr, _LOSSES))}, a function or a Target; got {loss!r}"
    )


def target_state(target: Target) -> Json:
    """What a target's `state` says, with its name if it is no part of nrs."""
    if target.is_ours:
        return target.state()
    return {"kind": OwnTarget.kind, "name": type(target).__name__, "state": target.state()}


def target_from_state(state: Json) -> Target:
    """Read what :func:`target_state` wrote."""
    return TARGETS[state["kind"]].from_state(state)
