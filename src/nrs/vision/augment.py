"""What is random in training pictures besides crop and flip: torchvision's transforms by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nrs.vision._torchvision import part

# Pairs of pictures and labels in, the same with mixed pictures and shares of classes out.
Mix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Augmentation:
    """How training pictures are changed at random.

    Parameters
    ----------
    randaugment : int
        How many operations of RandAugment each picture gets; 0 for none.
    magnitude : int
        How strong they are, from 0 to 30.
    jitter : float
        How far brightness, contrast and saturation vary, from 0 to 1; hue by a quarter of it.
    erase : float
        Probability that a rectangle of the picture is erased.
    mixup, cutmix : float
        Parameter of the Beta distribution from which a pair's shares are drawn; 0 for none. With
        both, each batch gets one of them.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> Augmentation(jitter=2.0)
    Traceback (most recent call last):
        ...
    ValueError: jitter must be from 0 to 1; got 2.0
    """

    randaugment: int = 0
    magnitude: int = 9
    jitter: float = 0.0
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0

    def __post_init__(self) -> None:
        for name, most in (
            ("randaugment", 16), ("magnitude", 30), ("jitter", 1), ("erase", 1), ("mixup", 100),
            ("cutmix", 100),
        ):  # fmt: skip
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise ValueError(f"{name} must be from 0 to {most}; got {value}")

    def of_pixels(self) -> list[Any]:
        """Transforms of a picture of bytes."""
        v2 = part("torchvision.transforms.v2")
        steps: list[Any] = []
        if self.jitter:
            colours = (self.jitter,) * 3
            steps.append(v2.ColorJitter(*colours, hue=self.jitter / 4))
        if self.randaugment:
            steps.append(v2.RandAugment(self.randaugment, self.magnitude))
        return steps

    def of_numbers(self) -> list[Any]:
        """Transforms of a normalised picture."""
        v2 = part("torchvision.transforms.v2")
        return [v2.RandomErasing(p=self.erase)] if self.erase else []

    def of_batch(self, num_classes: int) -> Mix | None:
        """What mixes the pictures of a batch, and their labels; None for nothing."""
        v2 = part("torchvision.transforms.v2")
        kinds = ((v2.MixUp, self.mixup), (v2.CutMix, self.cutmix))
        chosen = [kind(alpha=alpha, num_classes=num_classes) for kind, alpha in kinds if alpha]
        if not chosen:
            return None
        mix: Mix = chosen[0] if len(chosen) == 1 else v2.RandomChoice(chosen)
        return mix
