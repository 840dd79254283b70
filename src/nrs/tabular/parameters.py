"""The constructor's arguments, each declared once, and as JSON values in a model file.

A class takes the groups that apply to it; the documentation is that of
:class:`nrs.NRSClassifier`. Every argument whose default is None takes the preset's value.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import numpy as np

if TYPE_CHECKING:
    from nrs.tabular.types import Categorical, ClassWeights
    from nrs.training.callbacks import Callback

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def parameters(cls: type[T]) -> type[T]:
    """Make fields of a class its constructor's keyword arguments, as scikit-learn wants them."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


# What other packages call an argument, and what it is here.
FAMILIAR = {
    "n_estimators": "epochs, time_limit or preset; the rows decide how many members there are",
    "num_boost_round": "epochs",
    "iterations": "epochs",
    "max_iter": "epochs",
    "n_iter_no_change": "patience",
    "early_stopping_rounds": "patience",
    "early_stopping": "patience",
    "learning_rate": "lr",
    "eta": "lr",
    "cat_features": "categorical_features",
    "categorical_feature": "categorical_features",
    "enable_categorical": "categorical_features",
    "text_feature": "text_features",
    "seed": "random_state",
    "random_seed": "random_state",
    "n_threads": "n_jobs",
    "num_threads": "n_jobs",
    "thread_count": "n_jobs",
    "nthread": "n_jobs",
    "eval_metric": "metric",
    "scoring": "metric",
    "verbosity": "verbose",
    "reg_lambda": "weight_decay",
    "l2_leaf_reg": "weight_decay",
    "task_type": "device",
    "max_time": "time_limit",
    "class_weights": "class_weight",
    "scale_pos_weight": "class_weight",
    "auto_class_weights": "class_weight='balanced'",
}


def unknown_argument(owner: str, name: str, known: Collection[str]) -> str:
    """What to say of an argument that a class does not have."""
    if name == "divide" and "n_workers" in known:
        return f"{owner} has no divide: its processes (n_workers) train some of the members each"
    if name in ("n_workers", "divide"):
        return f"{owner} is fitted by one process and has no {name}; n_jobs is its threads"
    ours = FAMILIAR.get(name)
    # A relative may lack what most have.
    if ours is None or (ours.isidentifier() and ours not in known):
        close = difflib.get_close_matches(name, known, 1)
        ours = close[0] if close else None
    advice = f"; here it is {ours}" if ours else f"; its arguments are {', '.join(sorted(known))}"
    return f"{owner} got an unexpected keyword argument {name!r}{advice}"


@parameters
class RunParameters:
    """Where and how one fit runs: these are not part of a model file."""

    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    device: str = "auto"
    verbose: int = 1
    callbacks: Sequence[Callback] | None = None


@parameters
class CheckpointParameters:
    """Where a fit leaves checkpoints."""

    checkpoint: str | os.PathLike[str] | None = None


@parameters
class TrainParameters(RunParameters):
    """How a network is trained on a table."""

    preset: str = "default"
    scale: str | None = None
    epochs: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    weight_decay: float | None = None
    validation_fraction: float | None = None
    patience: int | None = None
    metric: str | Callable[..., float] | None = None
    categorical_features: Categorical = None
    text_features: Categorical = None
    convert: bool = True


@parameters
class HeadParameters:
    """The fully connected layers."""

    hidden: int | Sequence[int] | None = None
    dropout: float | None = None


@parameters
class LayerParameters:
    """The NRS layer."""

    n_mul: int | None = None
    n_per: int | None = None
    n_h: int | None = None
    layout: str | None = None
    time_limit: float | None = None


@parameters
class WorkerParameters:
    """Processes that train a forest together."""

    n_workers: int = 1
    divide: str = "auto"
    precision: str = "float32"


@parameters
class ClassWeight:
    """How much each class counts."""

    class_weight: ClassWeights = None


@parameters
class MonotoneParameters:
    """With which columns answers may only rise, or fall."""

    monotone: Mapping[str | int, int] | None = None


# Arguments that belong to one process, not to the model.
NOT_SAVED = (
    "callbacks", "checkpoint", "verbose", "device", "n_jobs", "n_workers", "divide", "precision",
    "random_state",
)  # fmt: skip
# Under this name stand the entries of a mapping whose keys JSON would turn into strings.
_PAIRS = "pairs"


def to_json(value: object) -> object:
    """A number, string, list or mapping, of NumPy's types too, as JSON values.

    Raises
    ------
    TypeError
        If it cannot be written.

    Examples
    --------
    >>> to_json({np.int64(0): 1.0, 1: (2, 3)})
    {'pairs': [[0, 1.0], [1, [2, 3]]]}
    >>> to_json({"no": 1.0})
    {'no': 1.0}
    """
    # NumPy's numbers and arrays, and the series and indices of frames, such as names of columns.
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif hasattr(value, "to_list"):
        value = value.to_list()
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: to_json(entry) for key, entry in value.items()}
        return {_PAIRS: [[to_json(key), to_json(entry)] for key, entry in value.items()]}
    if isinstance(value, (list, tuple, range)):
        return [to_json(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"a parameter of type {type(value).__name__} cannot be saved in a model file; use numbers, "
        "strings and lists"
    )


def from_json(value: Any) -> Any:
    """Read what :func:`to_json` wrote; tuples come back as lists.

    Examples
    --------
    >>> from_json({"pairs": [[0, 1.0], [1, 2.0]]})
    {0: 1.0, 1: 2.0}
    """
    if isinstance(value, list):
        return [from_json(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    # A class of that name has a number for its weight.
    if value.keys() == {_PAIRS} and isinstance(value[_PAIRS], list):
        return {from_json(key): from_json(entry) for key, entry in value[_PAIRS]}
    return {key: from_json(entry) for key, entry in value.items()}
