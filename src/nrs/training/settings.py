"""How to train: the settings, and the learning rate they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainSettings:
    """How to train.

    Parameters
    ----------
    epochs : int
        Passes over the data, at least 1.
    lr : float
        Peak learning rate.
    head_lr : float, optional
        That of the head, what follows a trunk that has learned before; it follows the same
        schedule. A pooling whose vectors have length one needs a far larger one.
    optimizer : {"adam", "adamw", "sgd"}
        With ``weight_decay``; ``momentum`` is for "sgd" only.
    schedule : {"constant", "cosine", "step"}
        "cosine" falls to ``lr_final`` over all steps after the warm-up; "step" multiplies the
        learning rate by ``step_gamma`` after every ``step_every`` epochs.
    warmup : float
        Fraction of all steps, from 0 to below 1, in which the learning rate rises linearly.
    clip_norm : float, optional
        Largest norm of the gradient of all weights together.
    ema : float, optional
        Decay of a moving average of the weights, which is then evaluated and kept.
    patience : int, optional
        Stop after so many epochs without a better score, in the first cycle. Needs ``evaluate``.
    cycles : int
        How often the schedule may be run through, each time over ``epochs``. Another cycle begins
        only where ``evaluate`` says that there is more to learn: see :func:`underfits`.
    precision : {"float32", "bf16", "fp16", "auto"}
        Type of the forward pass; "auto" is bf16 on CUDA devices that have it, else float32. With
        "fp16" losses are scaled so that small gradients do not vanish.
    accumulate : int
        Batches whose gradients make up one step of the optimizer.
    freeze : bool
        Whether only the head learns. All else stays as it is, running statistics too.
    layer_decay : float
        Each layer of a trunk learns at this share of the rate of the layer after it; 1 for the same
        rate everywhere.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> TrainSettings(epochs=10, optimizer="sgd", lr=0.1).schedule
    'constant'
    >>> TrainSettings(epochs=0)
    Traceback (most recent call last):
        ...
    ValueError: epochs must be at least 1; got 0
    """

    epochs: int = 50
    lr: float = 1e-3
    optimizer: str = "adamw"
    weight_decay: float = 0.0
    momentum: float = 0.9
    schedule: str = "constant"
    warmup: float = 0.0
    step_every: int = 20
    step_gamma: float = 0.1
    lr_final: float = 0.0
    clip_norm: float | None = None
    ema: float | None = None
    patience: int | None = None
    cycles: int = 1
    precision: str = "float32"
    head_lr: float | None = None
    accumulate: int = 1
    freeze: bool = False
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        def check(name: str, holds: bool, expected: str) -> None:
            value = getattr(self, name)
            if not holds:
                raise ValueError(f"{name} must be {expected}; got {value!r}")

        def one_of(name: str, *choices: str) -> None:
            check(name, getattr(self, name) in choices, f"one of {', '.join(map(repr, choices))}")

        check("epochs", self.epochs >= 1, "at least 1")
        check("lr", 0 < self.lr < math.inf, "positive and finite")
        head = self.head_lr
        check("head_lr", head is None or 0 < head < math.inf, "positive and finite, or None")
        one_of("optimizer", "adam", "adamw", "sgd")
        check("weight_decay", 0 <= self.weight_decay < math.inf, "at least 0 and finite")
        check("momentum", 0 <= self.momentum < 1, "at least 0 and below 1")
        one_of("schedule", "constant", "cosine", "step")
        check("warmup", 0 <= self.warmup < 1, "a fraction of all steps, at least 0 and below 1")
        check("step_every", self.step_every >= 1, "at least 1 epoch")
        check("step_gamma", 0 < self.step_gamma <= 1, "above 0 and at most 1")
        check("lr_final", 0 <= self.lr_final <= self.lr, f"from 0 to lr={self.lr}")
        clip = self.clip_norm
        check("clip_norm", clip is None or 0 < clip < math.inf, "positive and finite, or None")
        check("ema", self.ema is None or 0 < self.ema < 1, "between 0 and 1, or None")
        check("patience", self.patience is None or self.patience >= 1, "at least 1, or None")
        check("cycles", self.cycles >= 1, "at least 1")
        one_of("precision", "float32", "bf16", "fp16", "auto")
        check("accumulate", self.accumulate >= 1, "at least 1")
        check("layer_decay", 0 < self.layer_decay <= 1, "above 0 and at most 1")


def learning_rate(settings: TrainSettings, step: float, steps_per_epoch: int) -> float:
    """The learning rate of optimizer step 0, 1, …, or between them, in closed form.

    Examples
    --------
    >>> settings = TrainSettings(epochs=2, lr=1.0, schedule="cosine")
    >>> [round(learning_rate(settings, step, 2), 3) for step in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    lr = float(settings.lr)
    steps = settings.epochs * steps_per_epoch
    if settings.cycles > 1:
        step %= steps
    rising = settings.warmup * steps
    if step + 1 < rising:
        return lr * (step + 1) / rising
    if settings.schedule == "cosine":
        # An epoch may hold a few more steps than was told; the rate must not rise again.
        done = min(1.0, max(0.0, step - rising) / (steps - rising))
        return settings.lr_final + (lr - settings.lr_final) * (1 + math.cos(math.pi * done)) / 2
    if settings.schedule == "step":
        return lr * settings.step_gamma ** (step // steps_per_epoch // settings.step_every)
    return lr
