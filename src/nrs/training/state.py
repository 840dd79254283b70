"""Where a run of the training loop stands: what callbacks see and checkpoints save."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nrs.training.history import History
from nrs.training.settings import TrainSettings

if TYPE_CHECKING:
    from nrs.training.loop import WeightAverage


@dataclass
class TrainState:
    """The running state of `nrs.training.train`.

    Attributes
    ----------
    module, settings, optimizer, generator, device
        What is trained, how, with what, in which order, and where.
    noise : list of torch.Generator
        What the module draws from: on the CPU, then on the GPU that it is on.
    history : History
        A row for each epoch that is complete.
    average : WeightAverage or None
        The moving average of the weights, if ``settings.ema`` is set.
    epoch : int
        The epoch that is running, from 0; once it is complete (in `on_epoch_end`) still the same.
        At the beginning of a run: the epoch it begins with, more than 0 if it is resumed.
    step : int
        Optimizer steps taken since the beginning of epoch 0.
    step_in_epoch : int
        Batches taken in this epoch; each is an optimizer step, unless ``settings.accumulate``.
    steps_per_epoch : int or None
        How many batches an epoch has, if that is known.
    lr : float
        The learning rate of the last step.
    loss : Tensor or None
        The loss of the last step, detached; reading its value may wait for the device.
    metrics : dict
        What ``evaluate`` gave after the last complete epoch.
    best_weights, best_score
        Weights of the best epoch so far and its score, if there is an ``evaluate``.
    monitor : str or None
        The metric that tells the best epoch, if one is selected.
    stop : bool
        A callback sets this to end training after the present epoch.
    scaler : torch.amp.GradScaler or None
        Scales losses where ``settings.precision`` is "fp16".
    time_passed : float
        Share of the time for training that has passed, where a callback limits it. If that is more
        than the share of steps, the learning rate falls to its end by time.
    """

    module: nn.Module
    settings: TrainSettings
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    noise: list[torch.Generator]
    device: torch.device
    history: History = field(default_factory=History)
    average: WeightAverage | None = None
    epoch: int = 0
    step: int = 0
    step_in_epoch: int = 0
    steps_per_epoch: int | None = None
    lr: float = math.nan
    loss: Tensor | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    best_weights: dict[str, Tensor] | None = None
    best_score: float = math.nan
    monitor: str | None = None
    stop: bool = False
    scaler: torch.amp.GradScaler | None = None
    time_passed: float = 0.0
