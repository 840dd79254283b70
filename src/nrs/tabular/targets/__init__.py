"""What is predicted: how labels become numbers, the loss on them, and the way back.

A new loss is one class: a subclass of :class:`Target`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nrs.tabular.targets.base import (
    Combine,
    OutOfBag,
    Target,
    beyond_chance,
    find_temperature,
    mean_odds,
    mean_probabilities,
    mean_values,
    weigh_views,
)
from nrs.tabular.targets.classes import ClassTarget, MultilabelTarget
from nrs.tabular.targets.labels import check_labelled, refuse_dates, weights_of_labels
from nrs.tabular.targets.numbers import RegressionTarget, conformal_quantiles

if TYPE_CHECKING:
    from nrs.tabular.types import Json

__all__ = [
    "ClassTarget",
    "Combine",
    "MultilabelTarget",
    "OutOfBag",
    "RegressionTarget",
    "Target",
    "beyond_chance",
    "check_labelled",
    "conformal_quantiles",
    "find_temperature",
    "mean_odds",
    "mean_probabilities",
    "mean_values",
    "refuse_dates",
    "target_from_state",
    "weigh_views",
    "weights_of_labels",
]

_TARGETS: dict[str, type[Target]] = {
    kind.kind: kind for kind in (ClassTarget, MultilabelTarget, RegressionTarget)
}


def target_from_state(state: Json) -> Target:
    """Read what a target's `state` wrote."""
    return _TARGETS[state["kind"]].from_state(state)
