"""What `None` means: the values a preset takes for a table of a given size.

The only place where a default of the estimators is decided. `resolve` fills in a `Recipe` from
the preset, the size of the table and what the user set; every field of it can be read from a
fitted estimator as an attribute with a trailing underscore (``n_mul_``, ``epochs_``, …).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

PRESETS = ("default", "paper")


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
    validation_fraction: float = 0.0
    metric: Any = "default"

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values, but a callable metric by its name."""
        values = asdict(self)
        values["hidden"] = list(self.hidden)
        if callable(self.metric):
            values["metric"] = getattr(self.metric, "__name__", "callable")
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Read what :meth:`to_dict` wrote."""
        known = {field.name for field in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        return cls(**{**kept, "hidden": tuple(kept["hidden"])})


def resolve(preset: str, chosen: Mapping[str, Any], rows: int, features: int) -> Recipe:
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
        raise ValueError(f"preset must be one of {PRESETS}, however: preset={preset!r}")
    recipe = _paper(features) if preset == "paper" else _default(rows, features)
    given = {name: value for name, value in chosen.items() if value is not None}
    if "hidden" in given:
        given["hidden"] = _widths(given["hidden"])
    recipe = replace(recipe, **given)
    _check(recipe)
    return recipe


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


def _default(rows: int, features: int) -> Recipe:
    """A network that stops where held-out rows say so, with weights averaged over the last steps.

    Epochs fall as the table grows, since an epoch then holds more steps; a small table gets at
    least 400 steps in all. The smaller the table, the more units are dropped.
    """
    batch_size = 128 if rows < 20_000 else 256 if rows < 200_000 else 1024
    epochs = 40 if rows < 50_000 else 20 if rows < 500_000 else 10
    steps = max(1, math.ceil(rows / batch_size))
    return Recipe(
        n_mul=min(64, max(1, round(512 / features))),
        dropout=0.4 if rows < 2_000 else 0.2 if rows < 20_000 else 0.1,
        epochs=max(epochs, math.ceil(400 / steps)),
        batch_size=batch_size,
        lr=2e-3,
        optimizer="adamw",
        schedule="cosine",
        warmup=0.05,
        ema=0.99,
        patience=max(8, max(epochs, math.ceil(400 / steps)) // 3),
        # Fewer rows than this cannot spare any, and their score would be noise.
        validation_fraction=0.1 if rows >= 100 else 0.0,
    )


def _widths(hidden: Any) -> tuple[int, ...]:
    widths = (hidden,) if isinstance(hidden, int) else tuple(hidden)
    for width in widths:
        if not isinstance(width, int) or isinstance(width, bool) or width < 1:
            raise ValueError(
                "hidden must be a width or a sequence of widths of at least 1, however: "
                f"hidden={hidden!r}"
            )
    return widths


def _check(recipe: Recipe) -> None:
    at_least: dict[str, float] = {
        "n_mul": 0, "n_per": 1, "n_h": 1, "epochs": 1, "batch_size": 2, "patience": 1,
    }  # fmt: skip
    for name, least in at_least.items():
        value = getattr(recipe, name)
        if value is not None and (not _is_integer(value) or value < least):
            raise ValueError(f"{name} must be an integer of at least {least}, however: {value!r}")
    for name in ("dropout", "input_dropout", "validation_fraction"):
        value = getattr(recipe, name)
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, however: {name}={value!r}")
    if recipe.scale not in ("standard", "none"):
        raise ValueError(f"scale must be 'standard' or 'none', however: scale={recipe.scale!r}")


def _is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
