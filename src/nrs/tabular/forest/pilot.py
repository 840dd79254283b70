"""Whether numbers of few values are numbers, or the codes of categories.

A table says ``suit = 3`` of a card as it says ``rooms = 3`` of a flat. No rule tells them apart,
but the rows do: a small forest learns for a few hundred steps, a third of its members reading such
columns as numbers, a third with their bins, a third by a level for each value, and out-of-bag rows
score the three. Numbers they stay unless levels are better than both by far: only numbers say
anything about values beyond those of the training rows.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nrs.tabular.forest.compiled import steps_for
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.grow import LEVELS, MAX_ROWS, READINGS, grow_forest
from nrs.tabular.forest.network import forest_loss, out_of_bag
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import ShuffledBatches
from nrs.tabular.targets import beyond_chance
from nrs.tabular.task import Task
from nrs.training import DivergenceError, TrainSettings, train

# The small forest: members of each reading, width, steps and their rows. What codes tell is learned
# late, so it hurries, without dropout.
MEMBERS, WIDTH, STEPS, BATCH_SIZE, LR = 4, 64, 400, 128, 1e-2
# How much lower the loss must be: nats of classes, shares of a number's variance.
MIN_GAIN = 0.02


def choose_views(task: Task) -> Recipe:
    """The task's recipe, with views by levels where these are better.

    All views then: members that read codes as numbers too learn several times as slowly.
    """
    recipe, run = task.recipe, task.run
    # Processes whose numbers round differently must not grow different forests.
    if not run.group.of_writer(run.group.is_writer and levels_are_better(task)):
        return recipe
    return replace(recipe, views=tuple((LEVELS, times) for _, times in recipe.views))


def in_first_block(task: Task) -> Task:
    """The task of the rows that all members see in order of time, with folds drawn anew.

    What is chosen for all members may know no later targets: means by level are left out too.
    """
    rows, encoder = copy.copy(task.rows), copy.copy(task.encoder)
    assert rows.folds is not None
    rows.index = rows.index[rows.folds[rows.index] == 0]
    rows.folds = torch.arange(len(rows.folds)) % MEMBERS
    encoder.variants_ = np.where(encoder.variants_ < 0, -1, MEMBERS)
    return replace(task, rows=rows, encoder=encoder, folds=Folds(MEMBERS, task.folds.seed))


def levels_are_better(task: Task) -> bool:
    """Decide by out-of-bag rows whether numbers of few values should be read as categories."""
    recipe, target, seed = task.recipe, task.target, task.run.seed
    rows = copy.copy(task.rows.some(MAX_ROWS))
    folds = Folds(min(MEMBERS, task.folds.n_folds), task.folds.seed)
    assert rows.folds is not None
    rows.folds = rows.folds.remainder(folds.n_folds)
    small = replace(
        recipe,
        members=folds.n_folds * len(READINGS),
        subspaces=WIDTH,
        hidden=(WIDTH,) * len(recipe.hidden),
        dropout=0.0,
        views=tuple((reading, 1.0) for reading in READINGS),
    )
    network = grow_forest(replace(task, rows=rows, recipe=small, folds=folds)).to(rows.device)
    batches = ShuffledBatches(rows, min(recipe.batch_size, BATCH_SIZE))
    settings = TrainSettings(
        epochs=math.ceil(STEPS / len(batches)), lr=LR, optimizer=recipe.optimizer,
        weight_decay=recipe.weight_decay, schedule=recipe.schedule, warmup=recipe.warmup,
    )  # fmt: skip
    sees, scores = folds.tables(small.members)

    def step(network: Any, batch: Any) -> torch.Tensor:
        return forest_loss(network, batch, target, sees)

    generator = torch.Generator().manual_seed(seed)
    steps, _ = steps_for(network, settings, batches.batch_size, sees, target)
    try:
        train(
            network, batches, step, settings,
            generator=generator, steps_per_epoch=len(batches), global_draws=False, steps=steps,
        )  # fmt: skip
    except DivergenceError:
        # The forest itself learns more carefully, and says what is wrong if it cannot.
        return False
    truth, weights, _ = rows.truth()
    losses = target.losses(out_of_bag(network, rows, scores, len(READINGS)).cpu(), truth)
    if weights is not None:
        losses = losses * weights
    *of_numbers, of_levels = losses.double()
    gains = [loss - of_levels for loss in of_numbers]
    return all(gained.mean() > MIN_GAIN and beyond_chance(gained) for gained in gains)
