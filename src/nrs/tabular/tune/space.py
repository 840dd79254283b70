"""Which settings a search tries: the documented space, and the user's own.

A space maps names of an estimator's arguments to a list of choices or to a range, a tuple
``(low, high)`` or ``(low, high, "log")``; whole numbers at both ends make a range of whole numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from nrs.tabular.recipe import FORESTS, given_of, is_single

# Arguments that belong to a process or a run.
OF_A_RUN = (
    "callbacks", "checkpoint", "device", "n_jobs", "random_state", "time_limit", "verbose",
)  # fmt: skip
# Arguments whose change makes scores incomparable, and why.
INCOMPARABLE = {
    "class_weight": "rows then count differently in the score itself",
    "metric": "it is what the score measures",
    "preset": "a forest is scored out of bag, by as many members as its preset leaves for a row, "
    "and a single network by held-out rows",
    "validation_fraction": "other rows are then scored",
}


def default_space(model: Any) -> dict[str, Any]:
    """The documented space, around the values that the preset took for this table.

    An argument that the user set stays as it is and is left out.

    Parameters
    ----------
    model : an estimator fitted at its defaults.

    Returns
    -------
    dict
        Learning rate, dropout, weight decay, subspaces and their size, widths, batch, epochs.

    Examples
    --------
    >>> from nrs import NRSClassifier
    >>> from sklearn.datasets import load_iris
    >>> model = NRSClassifier(preset="fast", epochs=4, random_state=0)
    >>> space = default_space(model.fit(*load_iris(return_X_y=True)))
    >>> space["dropout"], space["n_h"], "epochs" in space
    ((0.0, 0.5), [1, 2, 3, 4], False)
    """
    width = max(model.hidden_, default=64)
    space: dict[str, Any] = {
        "lr": (model.lr_ / 5, model.lr_ * 5, "log"),
        "dropout": (0.0, 0.5),
        "weight_decay": _with([0.0, 1e-3, 1e-2, 1e-1], model.weight_decay_),
        "n_h": _with([1, 2, 3, 4], model.n_h_),
        "hidden": _with(
            [[width // 2], [width], [width, width], [2 * width], [2 * width, 2 * width]],
            list(model.hidden_),
        ),
        "batch_size": _around(model.batch_size_),
        "epochs": _around(model.epochs_),
    }
    # A forest on a wide table has fewer subspaces than columns, which no n_mul can say; and
    # n_mul=0 is a plain MLP, which the user asked for.
    if model.n_mul_ > (1 if model.recipe_.members else 0):
        space["n_mul"] = _around(model.n_mul_)
    return {name: spec for name, spec in space.items() if getattr(model, name) is None}


def check_space(space: Any, estimator: Any) -> dict[str, Any]:
    """Check a space of the user's; gives it as a plain dict.

    Raises
    ------
    ValueError
        If it is no mapping or empty, names an argument that cannot be searched, or a list or
        range cannot be used.

    Examples
    --------
    >>> from nrs import NRSClassifier
    >>> check_space({"lr": (1e-4, 1e-2, "log"), "hidden": [64, [64, 64]]}, NRSClassifier())
    {'lr': (0.0001, 0.01, 'log'), 'hidden': [64, [64, 64]]}
    """
    if not isinstance(space, Mapping) or not space:
        raise ValueError(
            "space must map names of arguments to lists of choices or to ranges (low, high), "
            f"however: {space!r}; for instance {{'lr': (1e-4, 1e-2, 'log'), 'n_h': [1, 3]}}"
        )
    known = sorted(set(estimator.get_params(deep=False)) - {*OF_A_RUN, *INCOMPARABLE})
    for name, spec in space.items():
        if name in INCOMPARABLE:
            raise ValueError(
                f"space must name arguments that leave scores comparable, however: {name!r}; "
                f"{INCOMPARABLE[name]}; set it on the estimator"
            )
        if name not in known:
            raise ValueError(
                f"space must name arguments of {type(estimator).__name__} among {known}, however: "
                f"{name!r}"
            )
        if isinstance(spec, list):
            _check_choices(name, spec)
        else:
            _check_range(name, spec)
        _check_kind(name, spec, estimator)
    return dict(space)


def distribution(spec: Any) -> Any:
    """Optuna's form of a list of choices or of a range."""
    from optuna import distributions

    if isinstance(spec, list):
        # Texts, because a choice such as [128, 128] would not survive in a file of JSON lines.
        return distributions.CategoricalDistribution([json.dumps(choice) for choice in spec])
    low, high, log = spec[0], spec[1], len(spec) == 3
    if _is_whole(low) and _is_whole(high):
        return distributions.IntDistribution(int(low), int(high), log=log)
    return distributions.FloatDistribution(float(low), float(high), log=log)


def settings_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """What the estimator is given for a trial's parameters.

    >>> settings_of({"hidden": "[128, 128]", "lr": 0.01})
    {'hidden': [128, 128], 'lr': 0.01}
    """
    return {
        name: json.loads(value) if isinstance(value, str) else value
        for name, value in params.items()
    }


def place_of(model: Any, space: Mapping[str, Any]) -> dict[str, Any]:
    """A fitted model's own values as a trial's parameters, where they lie in a space.

    Parameters
    ----------
    space : distributions by name, as :func:`distribution` makes them.
    """
    found = {}
    for name, choices in space.items():
        value = getattr(model, f"{name}_", getattr(model, name))
        if hasattr(choices, "choices"):
            text = json.dumps(as_json(value))
            if text in choices.choices:
                found[name] = text
        elif value is not None and choices.low <= value <= choices.high:
            found[name] = value
    return found


def as_json(value: Any) -> Any:
    """An argument's value in JSON's types: functions by their names, other objects as texts.

    >>> import numpy as np
    >>> as_json({np.int64(0): (1, np.float64(0.5))}), as_json(max)
    ({'0': [1, 0.5]}, 'max')
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_json(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__name__", repr(value))


def _with(choices: list[Any], own: Any) -> list[Any]:
    return choices if own in choices else sorted([*choices, own])


def _around(value: int) -> list[int]:
    """Half, once and twice a number."""
    return sorted({max(1, value // 2), value, 2 * value})


def _check_choices(name: str, choices: list[Any]) -> None:
    if not choices:
        raise ValueError(f"space[{name!r}] must have a choice, however: the list is empty")
    try:
        json.dumps(choices)
    except (TypeError, ValueError):
        raise ValueError(
            f"space[{name!r}] must list numbers, texts, None and lists of them, however: "
            f"{choices!r}"
        ) from None


def _check_range(name: str, spec: Any) -> None:
    right = (
        isinstance(spec, tuple)
        and (len(spec) == 2 or (len(spec) == 3 and spec[2] == "log"))
        and all(_is_number(end) for end in spec[:2])
        and spec[0] <= spec[1]
        and (len(spec) == 2 or spec[0] > 0)
    )
    if not right:
        raise ValueError(
            f"space[{name!r}] must be a list of choices, or a tuple (low, high) or (low, high, "
            f"'log') of finite numbers, low ≤ high, above 0 if 'log', however: {spec!r}"
        )


def _check_kind(name: str, spec: Any, estimator: Any) -> None:
    """Refuse choices that make a single network of a forest, or a forest of a single network."""
    if not estimator._has_forest or estimator.preset not in FORESTS:
        return
    own = {name: getattr(estimator, name) for name in ("n_mul", "n_per", "layout")}
    single = is_single(given_of(own))
    for choice in spec if isinstance(spec, list) else spec[:2]:
        if name in own and is_single(given_of(own | {name: choice})) != single:
            before, after = ("single network", "forest") if single else ("forest", "single network")
            raise ValueError(
                f"space[{name!r}] must leave the estimator a {before}, however: {choice!r} makes "
                f"it a {after}, which is scored by other rows; to search single networks set "
                "preset='single'"
            )


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__")


def _is_number(value: Any) -> bool:
    number = isinstance(value, float) or _is_whole(value)
    return number and not isinstance(value, bool) and math.isfinite(value)
