"""Whether numbers of few values are numbers, or the codes of categories.

A table says ``suit = 3`` of a card as it says ``rooms = 3`` of a flat. No rule tells them apart,
but the rows do: a small forest learns for a few hundred steps, a third of its members reading such
columns as numbers, a third with their bins, a third by a level for each value, and out-of-bag rows
judge the three. Numbers they stay unless levels are better than both by far: what lies beyond the
values of the training rows is told by numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.grow import (
    LEVELS,
    READINGS,
    ForestBatches,
    forest_loss,
    grow_forest,
    has_levels,
    out_of_bag,
)
from nrs.tabular.forest.shares import beyond_chance
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import Target
from nrs.training import DivergenceError, TrainSettings, train

# Fewer rows cannot tell; more are not needed for it.
LEAST_ROWS, MOST_ROWS = 2_000, 10_000
# The small forest: members of each reading, width, steps and their rows. What codes tell is learned
# late, so it hurries, without dropout.
MEMBERS, WIDTH, STEPS, BATCH_SIZE, LR = 4, 64, 400, 128, 1e-2
# How much lower the loss must be: nats of classes, shares of a number's variance.
LEAST_GAIN = 0.02
# A shorter time limit leaves no time for it. Cutting it short instead would let a run that is
# started again come to another choice.
LEAST_SECONDS = 60.0


def may_be_levels(rows: Rows, recipe: Recipe, n_folds: int, time_limit: float | None) -> bool:
    """Whether there is a choice: columns of few values, rows enough to tell, and time for it."""
    in_time = time_limit is None or time_limit >= LEAST_SECONDS
    return in_time and len(rows) >= LEAST_ROWS and n_folds > 1 and has_levels(rows, recipe)


def levels_tell_more(
    rows: Rows,
    encoder: TableEncoder,
    target: Target,
    recipe: Recipe,
    seed: int,
    folds: np.ndarray,
) -> bool:
    """Judge by out-of-bag rows whether numbers of few values should be read as categories.

    Parameters
    ----------
    rows : the training rows; some of them, if they are many.
    folds : the fold of each row of the whole table.
    """
    rows = rows.some(MOST_ROWS)
    n_folds = min(MEMBERS, int(folds.max()) + 1)
    folds = folds % n_folds
    small = replace(
        recipe,
        members=n_folds * len(READINGS),
        subspaces=WIDTH,
        hidden=(WIDTH,) * len(recipe.hidden),
        dropout=0.0,
        views=tuple((reading, 1.0) for reading in READINGS),
    )
    network = grow_forest(rows, encoder, target, small, seed, folds).to(rows.device)
    batches = ForestBatches(rows, min(recipe.batch_size, BATCH_SIZE), folds)
    settings = TrainSettings(
        epochs=math.ceil(STEPS / len(batches)), lr=LR, optimizer=recipe.optimizer,
        weight_decay=recipe.weight_decay, schedule=recipe.schedule, warmup=recipe.warmup,
    )  # fmt: skip

    def step(network: Any, batch: Any) -> torch.Tensor:
        return forest_loss(network, batch, target, n_folds)

    generator = torch.Generator().manual_seed(seed)
    try:
        train(network, batches, step, settings, generator=generator, steps_per_epoch=len(batches))
    except DivergenceError:
        # The forest itself learns more carefully, and tells what is wrong if it cannot.
        return False
    outputs = out_of_bag(network, rows, torch.from_numpy(folds), n_folds, len(READINGS)).cpu()
    losses = target.member_losses(outputs, rows.targets[rows.index])
    if rows.weights is not None:
        losses = losses * rows.weights[rows.index]
    *of_numbers, of_levels = losses.double()
    gains = [loss - of_levels for loss in of_numbers]
    return all(gained.mean() > LEAST_GAIN and beyond_chance(gained) for gained in gains)


def reading_levels(recipe: Recipe) -> Recipe:
    """The recipe with views that read numbers of few values as categories.

    All of them: members that read codes as numbers too learn several times as slowly.
    """
    return replace(recipe, views=tuple((LEVELS, times) for _, times in recipe.views))
