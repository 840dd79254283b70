"""Which settings a search tries: the default space, and the user's own.

A space maps names of an estimator's arguments to a list of choices or to a range, a tuple
``(low, high)`` or ``(low, high, "log")``; integers at both ends make a range of integers.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from typing import Any

from optuna import Trial
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial
from sklearn.base import clone

from nrs.tabular.estimator import TableEstimator
from nrs.tabular.recipe import is_number

Spec = list[Any] | tuple[Any, ...]
Distribution = CategoricalDistribution | FloatDistribution | IntDistribution
# Arguments that belong to a process or a run.
OF_A_RUN = (
    "callbacks", "checkpoint", "device", "n_jobs", "random_state", "time_limit", "verbose",
)  # fmt: skip
# Arguments whose change makes scores incomparable, and why.
INCOMPARABLE = {
    "class_weight": "rows then count differently in the score itself",
    "metric": "it is what the score measures",
    "preset": "a forest is scored out of bag, by its preset's members; a network on held-out rows",
    "validation_fraction": "other rows are then scored",
}


def default_space(model: TableEstimator) -> dict[str, Distribution]:
    """The space around the preset's values of a fitted model, without what the user set."""
    recipe = model.recipe_
    own, width = list(recipe.hidden), max(recipe.hidden, default=64)
    widths = [[width // 2], [width], [width, width], [2 * width], [2 * width, 2 * width]]
    space: dict[str, Spec] = {
        "lr": (recipe.lr / 5, recipe.lr * 5, "log"),
        "dropout": (0.0, 0.5),
        "weight_decay": sorted({0.0, 1e-3, 1e-2, 1e-1, recipe.weight_decay}),
        "n_h": sorted({1, 2, 3, 4, recipe.n_h}),
        "hidden": widths if own in widths else sorted([*widths, own]),
        "batch_size": _around(recipe.batch_size),
        "epochs": _around(recipe.epochs),
    }
    # A forest on a wide table has fewer subspaces than columns, which no n_mul can say; and
    # n_mul=0 is a plain MLP, which the user asked for.
    if recipe.n_mul > (1 if recipe.members else 0):
        space["n_mul"] = _around(recipe.n_mul)
    free = [name for name in space if getattr(model, name) is None]
    return {name: distribution(name, space[name]) for name in free}


def check_space(space: Mapping[str, Spec], estimator: TableEstimator) -> dict[str, Distribution]:
    """Give a space of the user's in Optuna's form.

    Raises ValueError if it is no mapping or empty, names an argument that cannot be searched, or
    holds values that the estimator refuses or that turn a forest into a single network or back.
    """
    if not isinstance(space, Mapping) or not space:
        raise ValueError(
            "space must map names of arguments to lists of choices or to ranges (low, high), such "
            f"as {{'lr': (1e-4, 1e-2, 'log'), 'n_h': [1, 3]}}; got {space!r}"
        )
    known = sorted(set(estimator.get_params(deep=False)) - {*OF_A_RUN, *INCOMPARABLE})
    for name in space:
        if name not in known:
            why = INCOMPARABLE.get(name)
            hint = f"{why}. Set it on the estimator." if why else f"choose among {known}."
            raise ValueError(
                f"space must name arguments of {type(estimator).__name__} that leave scores "
                f"comparable; got {name!r}: {hint}"
            )
    found = {name: distribution(name, spec) for name, spec in space.items()}
    # The size of a table decides neither which values are refused nor the kind of model.
    forest = estimator.resolve(1000, 10).members > 0
    before, after = ("forest", "single network") if forest else ("single network", "forest")
    for name, spec in space.items():
        for value in spec if isinstance(spec, list) else spec[:2]:
            changed = clone(estimator).set_params(**{name: value})
            if (changed.resolve(1000, 10).members > 0) != forest:
                raise ValueError(
                    f"space[{name!r}] must leave the estimator a {before}; got {value!r}, which "
                    f"makes it a {after}, scored by other rows; for networks set preset='single'"
                )
    return found


def distribution(name: str, spec: Spec) -> Distribution:
    """A list of choices or a range in Optuna's form; ValueError if it is neither."""
    if isinstance(spec, list):
        try:
            # Texts, because a choice such as [128, 128] would not survive in a file of JSON lines.
            return CategoricalDistribution([json.dumps(choice) for choice in spec])
        except (TypeError, ValueError):
            raise ValueError(
                f"space[{name!r}] must list one or more numbers, texts, None or lists of them; got "
                f"{spec!r}"
            ) from None
    if isinstance(spec, tuple) and len(spec) >= 2 and spec[2:] in ((), ("log",)):
        low, high, log = spec[0], spec[1], len(spec) == 3
        if all(is_number(end) and math.isfinite(end) for end in (low, high)):
            # Optuna refuses low > high, and 0 if "log".
            with contextlib.suppress(ValueError):
                if hasattr(low, "__index__") and hasattr(high, "__index__"):
                    return IntDistribution(int(low), int(high), log=log)
                return FloatDistribution(float(low), float(high), log=log)
    raise ValueError(
        f"space[{name!r}] must be a list of choices, or a tuple (low, high) or (low, high, 'log') "
        f"of finite numbers, low ≤ high, above 0 if 'log'; got {spec!r}"
    )


def settings_of(trial: Trial | FrozenTrial) -> dict[str, Any]:
    """What the estimator is given in a trial; nothing in that of the default."""
    if trial.user_attrs.get("default"):
        return {}
    return {
        name: json.loads(value) if isinstance(value, str) else value
        for name, value in trial.params.items()
    }


def place_of(model: TableEstimator, space: Mapping[str, Distribution]) -> dict[str, Any]:
    """A fitted model's own values as a trial's parameters, where they lie in a space."""
    found = {}
    for name, choices in space.items():
        value = getattr(model, f"{name}_", getattr(model, name))
        if isinstance(choices, CategoricalDistribution):
            value = json.dumps(value, default=repr)
            if value in choices.choices:
                found[name] = value
        elif value is not None and choices.low <= value <= choices.high:
            found[name] = value
    return found


def _around(value: int) -> list[int]:
    """Half, once and twice a number."""
    return sorted({max(1, value // 2), value, 2 * value})
