"""What `None` means for an adaptive neural tree: the values of its presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nrs.tabular.recipe import check_integers, check_scale, given_of, settings_to_dict

# Fewer rows than this cannot spare any: they are trained and measured on.
_MIN_ROWS_TO_SPLIT = 20


@dataclass(frozen=True)
class ANTRecipe:
    """Everything that decides a fit besides the data and the seed.

    The fields are described at :class:`nrs.baselines.ant.ANTClassifier`. Their defaults
    are the CPU setting, ``preset="default"``.
    """

    width: int = 128
    router_width: int = 16
    batch_norm: bool = True
    max_depth: int = 8
    max_nodes: int = 15
    grow_epochs: int = 20
    patience: int = 5
    epochs: int = 40
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "cosine"
    ema: float | None = 0.99
    scale: str = "standard"
    validation_fraction: float = 0.1
    metric: Any = "default"

    # No forest, and no fields: what other recipes have.
    members, clip_norm = 0, None

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values, a function by its name."""
        return settings_to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ANTRecipe:
        """Read what :meth:`to_dict` wrote."""
        return cls(**values)


PRESETS = ("default", "paper")


def resolve(preset: str, chosen: Mapping[str, Any], rows: int) -> ANTRecipe:
    """Take the preset's values for a table of so many rows, then what the user chose.

    Raises
    ------
    ValueError
        An unknown preset, or a value out of its range.

    Examples
    --------
    >>> resolve("paper", {"width": 32}, rows=1000).epochs
    100
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {PRESETS}; got {preset!r}")
    recipe = ANTRecipe()
    if preset == "paper":
        recipe = ANTRecipe(
            width=256, batch_norm=False, max_depth=20, max_nodes=127, grow_epochs=50,
            epochs=100, schedule="constant", ema=None,
        )  # fmt: skip
    elif rows >= 20_000:
        recipe = replace(recipe, batch_size=256)
    if rows < _MIN_ROWS_TO_SPLIT:
        recipe = replace(recipe, validation_fraction=0.0)
    recipe = replace(recipe, **given_of(chosen))
    check_integers(
        vars(recipe), width=1, router_width=0, max_depth=0, max_nodes=1, grow_epochs=1, patience=1,
        epochs=1, batch_size=2,
    )  # fmt: skip
    if not 0 <= recipe.validation_fraction < 1:
        value = recipe.validation_fraction
        raise ValueError(f"validation_fraction must be at least 0 and below 1; got {value!r}")
    check_scale(recipe.scale)
    return recipe
