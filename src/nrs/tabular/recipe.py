"""What `None` means: the values a preset takes for a table of a given size.

The only place where a default of the estimators is decided. `resolve` fills in a `Recipe` from
the preset, the size of the table and what the user set; every field of it can be read from a
fitted estimator as an attribute with a trailing underscore (``n_mul_``, ``epochs_``, …).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np

# Folds of a forest that has rows enough.
MAX_FOLDS = 8
FORESTS = ("default", "fast", "best")
PRESETS = (*FORESTS, "single", "paper")
# Numbers as they are and in bins; then subspaces of other sizes too.
Views = tuple[tuple[str, float], ...]
TWO_VIEWS: Views = (("plain", 1.0), ("binned", 1.0))
SIX_VIEWS: Views = tuple(
    (name, times) for name in ("plain", "binned") for times in (1.0, 1 / 3, 3.0)
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from nrs.tabular.types import Json


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a fit besides the data and the seed."""

    n_mul: int
    n_per: int = 1
    n_h: int = 3
    layout: str = "code"
    depth: int = 1
    hidden: tuple[int, ...] = (256, 256)
    dropout: float = 0.0
    input_dropout: float = 0.0
    scale: Literal["standard", "none"] = "standard"
    epochs: int = 50
    batch_size: int = 128
    lr: float = 1e-4
    weight_decay: float = 0.0
    optimizer: str = "adam"
    schedule: str = "constant"
    warmup: float = 0.0
    ema: float | None = None
    clip_norm: float | None = None
    patience: int | None = None
    # How often a forest may run through its epochs: again while there is more to learn.
    cycles: int = 1
    validation_fraction: float = 0.0
    metric: str | Callable[..., float] = "default"
    # Of a forest: members, subspaces of a member, columns of a subspace, bins of a number.
    members: int = 0
    subspaces: int = 0
    columns: int = 0
    bins: int = 0
    # The views that members are divided among: how numbers are read, and how many times `columns`
    # a subspace takes. The scale of the least relevant column.
    views: Views = ()
    least_gain: float = 1.0
    # A number of at most so many values may be read as a category; 0 for never.
    levels: int = 0
    # Columns, by name or position, with which answers may only rise (1) or fall (-1).
    monotone: tuple[tuple[str | int, int], ...] = ()

    def to_dict(self) -> Json:
        """All fields as JSON values, functions by their names."""
        values = settings_to_dict(self)
        values["hidden"] = list(self.hidden)
        values["views"] = [list(view) for view in self.views]
        values["monotone"] = [list(pair) for pair in self.monotone]
        return values

    @classmethod
    def from_dict(cls, values: Json) -> Recipe:
        """Read what :meth:`to_dict` wrote."""
        known = {field.name for field in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        pairs = {name: tuple(map(tuple, kept.get(name, ()))) for name in ("views", "monotone")}
        return cls(**{**kept, "hidden": tuple(kept["hidden"]), **pairs})


def resolve(preset: str, chosen: Mapping[str, object], rows: int, features: int) -> Recipe:
    """Take the preset's values for a table of `rows` × `features`, then what the user chose.

    Parameters
    ----------
    chosen : values by the names of :class:`Recipe`; None means the preset's.

    Raises
    ------
    ValueError
        An unknown preset, or a value out of its range.

    Examples
    --------
    >>> resolve("paper", {}, rows=15000, features=16).n_mul
    45
    >>> resolve("paper", {"n_mul": 100}, rows=15000, features=16).hidden
    (256, 256)
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {PRESETS}; got {preset!r}")
    given = given_of(chosen)
    if preset in FORESTS and is_single(given):
        if preset != "default":
            raise ValueError(
                f"preset={preset!r} is a forest, which has no n_mul=0, n_per or layout. Leave "
                "them out, or use preset='single' or preset='paper'."
            )
        preset = "single"
    if preset in FORESTS:
        recipe = _forest(preset, rows, features)
        _forest_choices(given, features)
    else:
        recipe = _paper(features) if preset == "paper" else _single(rows, features)
    if "hidden" in given:
        given["hidden"] = _widths(given["hidden"])
    if "monotone" in given:
        given["monotone"] = _signs(given["monotone"])
        if given["monotone"] and preset not in FORESTS:
            raise ValueError(
                f"monotone needs a forest, not preset={preset!r} or n_mul=0, n_per and layout. Use "
                f"one of the presets {FORESTS}."
            )
    if "epochs" in given:
        # Whoever asks for so many gets so many.
        recipe = replace(recipe, cycles=1)
    recipe = replace(recipe, **given)
    _check(recipe)
    return recipe


def settings_to_dict(recipe: DataclassInstance) -> Json:
    """All fields of a recipe, functions by their names: they are not saved."""
    return {
        name: getattr(value, "__name__", "callable") if callable(value) else value
        for name, value in asdict(recipe).items()
    }


def given_of(chosen: Mapping[str, object]) -> Json:
    """What the user chose, without what is None; NumPy's numbers as Python's, which files take.

    Examples
    --------
    >>> import numpy as np
    >>> given_of({"epochs": np.int64(5), "lr": None})
    {'epochs': 5}
    """
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in chosen.items()
        if value is not None
    }


def _paper(features: int) -> Recipe:
    """The paper's network and protocol: Adam, lr 1e-4, a fixed number of epochs, the last one.

    The paper sets n_mul by hand so that n_mul·d stays "within a reasonable interval": 720 in the
    median, and at most 50 but for one set. Wide inputs have wider layers and batches in the
    authors' configurations (MNIST, GISETTE). Values are used as they come.
    """
    wide = features >= 700
    return Recipe(
        n_mul=min(50, max(1, round(720 / features))),
        hidden=(512, 512) if wide else (256, 256),
        batch_size=512 if wide else 128,
        scale="none",
    )


def _forest(preset: str, rows: int, features: int) -> Recipe:
    """Members that check each other: see :mod:`nrs.tabular.forest.network`.

    The larger the table, the fewer and the larger the steps, and the fewer the members: with many
    rows one member alone generalises, and time is what lacks. A small table gets at least 400
    steps in all, and drops more units.
    """
    batch_size = 128 if rows < 20_000 else 256 if rows < 200_000 else 1024
    epochs = 40 if rows < 50_000 else 20 if rows < 500_000 else 8
    members = 16 if rows < 10_000 else 8
    views = TWO_VIEWS
    width = 128
    lr = 3e-3
    if preset == "fast":
        members, width, epochs = 8, 64, max(4, epochs // 4)
        if rows >= 1_000:
            # Fewer steps, and larger ones. A small table would overfit.
            batch_size, lr = max(batch_size, 256), 1e-2
    elif preset == "best":
        # As many members of each view as there are folds, so that views can be weighed.
        views = SIX_VIEWS if rows < 100_000 else TWO_VIEWS
        members, epochs = MAX_FOLDS * len(views), round(1.5 * epochs)
    steps = max(1, math.ceil(rows / batch_size))
    least = 100 if preset == "fast" else 400
    return Recipe(
        n_mul=max(1, round(width / features)),
        members=members,
        subspaces=width,
        columns=9,
        bins=8,
        views=views,
        least_gain=0.1,
        # Trying it takes longer than a fast fit.
        levels=0 if preset == "fast" else 32,
        # A second layer pays off where there are rows enough to fit it.
        hidden=(width,) if rows < 1_000 else (width, width),
        dropout=0.2 if rows < 1_500 else 0.1,
        epochs=max(epochs, math.ceil(least / steps)),
        cycles=1 if preset == "fast" or rows >= 50_000 else 2 if rows >= 5_000 else 3,
        batch_size=batch_size,
        lr=lr,
        optimizer="adamw",
        schedule="cosine",
        warmup=0.05,
        ema=0.99,
    )


def is_single(given: Mapping[str, object]) -> bool:
    """Whether settings are among those that only a single NRS layer has."""
    return given.get("n_mul") == 0 or "n_per" in given or "layout" in given


def _forest_choices(given: Json, features: int) -> None:
    """Turn the paper's names for the size of a layer into those of a forest."""
    check_integers(given, n_mul=1, n_h=1)
    n_mul, n_h = given.pop("n_mul", None), given.pop("n_h", None)
    if n_mul is not None:
        given["subspaces"] = n_mul * features
    if n_h is not None:
        given["columns"] = n_h * n_h


def _single(rows: int, features: int) -> Recipe:
    """A network that stops where held-out rows say so, with weights averaged over the last steps.

    Epochs fall as the table grows, since an epoch then holds more steps; a small table gets at
    least 400 steps in all. The smaller the table, the more units are dropped.
    """
    batch_size = 128 if rows < 20_000 else 256 if rows < 200_000 else 1024
    epochs = 40 if rows < 50_000 else 20 if rows < 500_000 else 10
    epochs = max(epochs, math.ceil(400 / max(1, math.ceil(rows / batch_size))))
    return Recipe(
        n_mul=min(64, max(1, round(512 / features))),
        dropout=0.4 if rows < 2_000 else 0.2 if rows < 20_000 else 0.1,
        epochs=epochs,
        batch_size=batch_size,
        lr=2e-3,
        optimizer="adamw",
        schedule="cosine",
        warmup=0.05,
        ema=0.99,
        patience=max(8, epochs // 3),
        # Fewer rows than this cannot spare any, and their score would be noise.
        validation_fraction=0.1 if rows >= 100 else 0.0,
    )


def _widths(hidden: object) -> tuple[int, ...]:
    # NumPy's integers and arrays as Python's.
    given = hidden.tolist() if hasattr(hidden, "tolist") else hidden
    widths = tuple(given) if isinstance(given, Iterable) else (given,)
    for width in widths:
        if not _is_integer(width) or width < 1:
            raise ValueError(
                f"hidden must be a size or a sequence of sizes of at least 1; got {hidden!r}"
            )
    return tuple(int(width) for width in widths)


def _signs(monotone: object) -> tuple[tuple[str | int, int], ...]:
    expected = "monotone must say +1 or -1 for columns, such as {'age': 1, 'price': -1}"
    if not isinstance(monotone, Mapping):
        raise ValueError(f"{expected}; got {monotone!r}")
    for name, sign in monotone.items():
        if not _is_integer(sign) or sign not in (-1, 0, 1):
            raise ValueError(f"{expected}; got {sign!r} for {name!r}")
    # NumPy's integers as Python's.
    return tuple(
        (name.item() if isinstance(name, np.generic) else name, int(sign))
        for name, sign in monotone.items()
        if sign
    )


def check_integers(settings: Json, **least: int) -> None:
    """Refuse a setting that is no integer of at least so much; None is none.

    Examples
    --------
    >>> check_integers({"epochs": 0}, epochs=1)
    Traceback (most recent call last):
        ...
    ValueError: epochs must be an integer of at least 1; got 0
    """
    for name, smallest in least.items():
        value = settings.get(name)
        if value is not None and (not _is_integer(value) or value < smallest):
            raise ValueError(f"{name} must be an integer of at least {smallest}; got {value!r}")


def check_scale(scale: object) -> None:
    """Refuse another scale of numbers than those that an encoder knows."""
    if scale not in ("standard", "none"):
        raise ValueError(f"scale must be 'standard' or 'none'; got {scale!r}")


def _check(recipe: Recipe) -> None:
    check_integers(vars(recipe), n_mul=0, n_per=1, n_h=1, epochs=1, batch_size=2, patience=1)
    for name in ("dropout", "input_dropout", "validation_fraction"):
        value = getattr(recipe, name)
        if not is_number(value) or not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1; got {value!r}")
    for name, range_ in (("lr", "positive and finite"), ("weight_decay", "at least 0 and finite")):
        value = getattr(recipe, name)
        if not is_number(value):
            raise ValueError(f"{name} must be {range_}; got {value!r}")
    check_scale(recipe.scale)


def is_number(value: object) -> bool:
    """Whether a setting is a number of Python's or NumPy's; its range is another question."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
