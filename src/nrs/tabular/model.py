"""What is trained: one network, or a forest of cross-fitted members.

A model knows how it is made for encoded rows, trained, scored, calibrated and folded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nrs.core import fold
from nrs.engine import instructions
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.error_scale import Errors, deviations_of, find_scale, members_spread
from nrs.tabular.forest.bins import MAX_BINNED_FEATURES, all_values
from nrs.tabular.forest.compiled import steps_for, why_not
from nrs.tabular.forest.divide import answering, divided, division
from nrs.tabular.forest.folded import Folded
from nrs.tabular.forest.folds import NO_FOLDS, Folds
from nrs.tabular.forest.grow import MAX_ROWS, blank_forest, grow_forest, widen
from nrs.tabular.forest.network import (
    CompiledForest,
    FoldedForest,
    ForestNetwork,
    forest_loss,
    joint_slope,
    out_of_bag,
    passes,
    response,
)
from nrs.tabular.forest.pilot import choose_views, in_first_block
from nrs.tabular.forest.unseen import Unseen
from nrs.tabular.learned import Learned, check_forest
from nrs.tabular.network import TableNetwork, row_by_row
from nrs.tabular.recipe import MAX_FOLDS, Recipe
from nrs.tabular.rows.memory import (
    MAX_HELD_OUT,
    Batches,
    Rows,
    ShuffledBatches,
    forward_rows,
    spread_rows,
)
from nrs.tabular.run import Run, threads
from nrs.tabular.targets import OutOfBag, Target
from nrs.tabular.task import Task
from nrs.training import History, TrainSettings, load_network
from nrs.training.loop import Steps
from nrs.training.precision import plain_modes
from nrs.training.processes import ALONE, Processes

if TYPE_CHECKING:
    from nrs.tabular.types import Features, Json

Evaluate = Callable[[Any], dict[str, float]]
# Other numbers of rows take other kernels, which round differently: rows are padded to a multiple
# of this, so that a row's prediction does not depend on the rows next to it.
PREDICT_ROWS = 32
# Times that out-of-bag rows are scored during a fit.
CHECKS = 20
# Rows that are scored to see how long it takes, and the fewest that may score the forest.
MIN_SCORED = 512
# Rows from which it is seen how much members have in common.
SPREAD_ROWS = 2_000
# Rows that importances are averaged over; more change the third digit.
IMPORTANCE_ROWS = 1024
# Fewer rows cannot tell numbers from codes, nor is there time for it in fewer seconds. Cutting the
# pilot short instead would let a run that is started again come to another choice.
PILOT_ROWS, PILOT_SECONDS = 2_000, 60.0


@dataclass(frozen=True)
class Pace:
    """Seconds that a forest takes to score a row and to calibrate by it, and those of the fit.

    Examples
    --------
    >>> Pace(per_row=0.001, limit=50.0).affordable(0.1, most=20_000)
    5000
    """

    per_row: float
    limit: float
    calibration: float = 0.0

    @classmethod
    def measure(
        cls, network: ForestNetwork, rows: Rows, scores: Tensor, limit: float, target: Target
    ) -> Pace:
        """Score a few rows and see how long it takes."""
        few = rows.some(MIN_SCORED)
        training = network.training
        network.eval()
        for _ in range(2):  # The first time warms up.
            begin = time.monotonic()
            outputs = out_of_bag(network, few, scores)[0].t().cpu()
            seconds = time.monotonic() - begin
        network.train(training)
        truth, weights, _ = few.truth()
        begin = time.monotonic()
        target.calibrate(outputs, truth, weights)
        calibration = time.monotonic() - begin
        return cls(max(seconds, 1e-6) / len(few), limit, calibration / len(few))

    def affordable(self, share: float, most: int) -> int:
        """Rows that can be scored in a share of the limit, at most so many."""
        # The limit may be infinite, which is no integer.
        return int(min(most, max(MIN_SCORED, share * self.limit / self.per_row)))


class SingleModel:
    """One network, its target and its recipe: how it is made, trained, scored and folded.

    Attributes
    ----------
    network : nn.Module
    target : Target
    recipe : Recipe
        The settings it was made with; a model may decide some of them by itself.
    """

    network: Any
    # Known during a forest's fit with a time limit.
    pace: Pace | None = None
    # Whether `widen` lets it read more features.
    takes_levels = False
    # What trained it: the compiled engine, or torch, and why.
    engine = "torch"
    # Who answers out of bag for rows in memory, after a fit; a file does not hold it.
    unseen: Unseen | None = None

    def __init__(self, network: nn.Module, target: Target, recipe: Recipe) -> None:
        self.network, self.target, self.recipe = network, target, recipe

    @classmethod
    def fit(cls, task: Task) -> Learned:
        """Grow a model for encoded rows, train it and calibrate it."""
        model = cls.grow(task)
        history = model.learn(task)
        importances = model.importances(task.rows, task.encoder, model.importance_rows())
        scored = model.finish(task)
        predictor = model.predictor()
        return Learned(task.target, task.encoder, model, predictor, history, importances, scored)

    @classmethod
    def grow(cls, task: Task) -> Self:
        """Make an untrained model for encoded rows."""
        network = cls.make_network(task.encoder, task.target, task.recipe, task.run.seed)
        return cls(network.to(task.rows.device), task.target, task.recipe)

    @classmethod
    def make_network(
        cls, encoder: TableEncoder, target: Target, recipe: Recipe, seed: int
    ) -> nn.Module:
        """Make an untrained network."""
        return TableNetwork(
            encoder.n_features_out_,
            target.n_outputs,
            n_mul=recipe.n_mul,
            n_per=recipe.n_per,
            n_h=recipe.n_h,
            layout=recipe.layout,
            depth=recipe.depth,
            hidden=recipe.hidden,
            dropout=recipe.dropout,
            input_dropout=recipe.input_dropout,
            seed=seed,
        )

    @classmethod
    @plain_modes()
    def from_file(
        cls,
        header: Json,
        tensors: Mapping[str, Tensor],
        encoder: TableEncoder,
        target: Target,
        recipe: Recipe,
    ) -> Self:
        """Make the model of a file, once its header is known to be in order.

        Raises
        ------
        ModelFileError
            If the tensors are not those of the network that the header describes.
        """
        network = load_network(lambda: cls.blank_network(header, encoder, target, recipe), tensors)
        cls.check_network(network)
        return cls(network, target, recipe)

    @classmethod
    def blank_network(
        cls, header: Json, encoder: TableEncoder, target: Target, recipe: Recipe
    ) -> nn.Module:
        """The network that a header describes, whose tensors come from its file."""
        return cls.make_network(encoder, target, recipe, 0)

    @classmethod
    def check_network(cls, network: Any) -> None:
        """Raise ModelFileError if the tensors of a file are none that training gives."""

    def header(self) -> Json:
        """What a model file must say of the network's shape, as JSON values."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """The tensors that a model file must hold."""
        found: dict[str, Tensor] = self.network.state_dict()
        return found

    def batches(self, rows: Rows, group: Processes = ALONE) -> Batches:
        """The source of batches for training."""
        return ShuffledBatches(rows, self.recipe.batch_size)

    def pass_batches(self, rows: Rows, n_seen: int) -> Batches:
        """Batches of one pass of `partial_fit`, which has seen so many rows before."""
        return self.batches(rows)

    def widen(self, places: np.ndarray, columns: np.ndarray, seed: int) -> None:
        """Read features of `columns` (d,), of which those read so far have moved to `places`."""
        raise NotImplementedError

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        """The mean loss of a batch."""
        x, y, weights = batch
        return self.target.loss(network(x), y, weights)

    def settings(self, precision: str = "float32", *, stops: bool = False) -> TrainSettings:
        """How to train; `stops` where an evaluation can end it early."""
        recipe = self.recipe
        return TrainSettings(
            epochs=recipe.epochs,
            lr=recipe.lr,
            optimizer=recipe.optimizer,
            weight_decay=recipe.weight_decay,
            schedule=recipe.schedule,
            warmup=recipe.warmup,
            clip_norm=recipe.clip_norm,
            ema=recipe.ema,
            precision=precision,
            patience=recipe.patience if stops else None,
        )

    def evaluator(self, rows: Rows, held_out: Rows | None, group: Processes) -> Evaluate | None:
        """What measures a network after every epoch, if anything can."""
        if held_out is None:
            return None
        metric = self.target.check_metric(self.recipe.metric)
        truth, weights, _ = held_out.truth()

        def evaluate(network: nn.Module) -> dict[str, float]:
            outputs = torch.cat([network(x) for x, _, _ in held_out.in_order()])
            known = None if weights is None else weights.to(outputs.device)
            return self.target.evaluate(metric, outputs, truth.to(outputs.device), known)

        return evaluate

    def may_choose(self, held_out: Rows | None) -> bool:
        """Whether what :meth:`evaluator` measures may choose the epoch."""
        return True

    def learn(self, task: Task) -> History:
        """Train, keep the best epoch, and return the learning curve."""
        rows, held_out, run = task.rows, task.held_out, task.run
        with self.shared(rows, run) as (network, group):
            batches = self.batches(rows, group)
            evaluate = _agreed(self.evaluator(rows, held_out, group), group)
            choose = evaluate is not None and self.may_choose(held_out)
            settings = self.settings(run.precision, stops=choose)
            reserve = self.seconds_ahead(rows)
            identity = (rows, held_out, self.recipe)
            steps, self.engine = self.steps(network, settings, group)
            return run.train(
                network, batches, self.loss, settings, evaluate, group, reserve, identity,
                choose=choose, steps=steps,
            )  # fmt: skip

    def steps(
        self, network: nn.Module, settings: TrainSettings, group: Processes
    ) -> tuple[Steps | None, str]:
        """What takes the steps of training, None for torch; and its name, with why."""
        return None, "torch: the compiled engine trains forests"

    @contextmanager
    def shared(self, rows: Rows, run: Run) -> Iterator[tuple[nn.Module, Processes]]:
        """What this process trains within the block, and the processes it trains with."""
        yield self.network, ALONE

    def scored_rows(self) -> int:
        """Rows whose out-of-bag scores decide during a fit, at most."""
        if self.pace is None:
            return MAX_HELD_OUT
        return self.pace.affordable(0.4 / CHECKS, MAX_HELD_OUT)

    def importance_rows(self) -> int:
        """Rows over which importances are taken, at most."""
        if self.pace is None:
            return IMPORTANCE_ROWS
        return self.pace.affordable(0.05 / passes(self.target.n_outputs), IMPORTANCE_ROWS)

    def few(self, rows: Rows, most: int) -> Tensor:
        """Features of a few rows, by which a network is looked at."""
        return rows.inputs(most)

    def importances(
        self, rows: Rows, encoder: TableEncoder, max_rows: int = IMPORTANCE_ROWS
    ) -> np.ndarray:
        """Share of each source column in the sum of its features' `response`, (n_columns,).

        Columns that the encoder dropped have none.
        """
        moved = (
            response(self.network, self.few(rows, max_rows), self.target.choices)
            .double()
            .cpu()
            .numpy()
        )
        by_column = np.zeros(encoder.n_features_in_)
        np.add.at(by_column, encoder.groups_, moved)
        total = by_column.sum()
        return by_column / total if total > 0 else np.full(len(by_column), 1 / len(by_column))

    def seconds_ahead(self, rows: Rows) -> tuple[float, float]:
        """Seconds that an evaluation, and what follows training, will take."""
        if self.pace is None:
            return 0.0, 0.0
        responses = self.importance_rows() * passes(self.target.n_outputs)
        scored, pace = min(len(rows), self.scored_rows()), self.pace
        after = len(rows) + responses + min(len(rows), MAX_HELD_OUT)
        return pace.per_row * scored, pace.per_row * after + pace.calibration * len(rows)

    def finish(self, task: Task) -> OutOfBag | None:
        """Calibrate by out-of-bag rows, where there are any."""
        return None

    def predictor(self) -> nn.Module | Folded:
        """What predicts, by the compiled engine where it can; threads may share it."""
        return self.folded()

    def folded(self) -> nn.Module:
        """An immutable copy for prediction by torch."""
        self.network.eval()
        return row_by_row(fold(self.network)).requires_grad_(False)


class ForestModel(SingleModel):
    """Members trained together, each without one fold of the rows.

    Attributes
    ----------
    n_folds : int
        Of the training rows; 1 of a loaded model.
    sees, scoring : Tensor (members, folds)
        Which folds each member is trained on, and which it scores.
    in_order : bool
        Whether the folds are in order of time: then the members that score are not those that
        predict, and are gone after :meth:`finish`.
    """

    network: ForestNetwork
    takes_levels = True

    def __init__(
        self, network: ForestNetwork, target: Target, recipe: Recipe, folds: Folds = NO_FOLDS
    ) -> None:
        super().__init__(network, target, recipe)
        self.use_folds(folds)

    def use_folds(self, folds: Folds) -> None:
        """Train with other folds from now on."""
        device = self.network.index.device
        sees, scoring = folds.tables(self.network.n_members)
        self.n_folds, self.in_order = folds.n_folds, folds.scorers > 0
        self.sees, self.scoring = sees.to(device), scoring.to(device)

    @classmethod
    def grow(cls, task: Task) -> Self:
        tried = in_first_block(task) if task.folds.scorers else task
        if may_be_levels(tried.rows, task.recipe, tried.folds.n_folds, task.run.time_limit):
            task = replace(task, recipe=choose_views(tried))
        network = grow_forest(task).to(task.rows.device)
        return cls(network, task.target, task.recipe, task.folds)

    @classmethod
    def blank_network(
        cls, header: Json, encoder: TableEncoder, target: Target, recipe: Recipe
    ) -> nn.Module:
        return blank_forest(header["forest"], target, recipe)

    @classmethod
    def check_network(cls, network: ForestNetwork) -> None:
        bins = network.bins
        features = network.n_inputs - bins.n_bins - 1
        check_forest(network.state_dict(), {"in_features": features, "n_bins": bins.n_bins})

    def header(self) -> Json:
        bins = self.network.bins
        shape = {
            "in_features": self.network.n_inputs - bins.n_bins - 1,
            "index": list(self.network.index.shape),
            "n_bins": bins.n_bins,
            "n_levels": bins.n_levels,
        }
        return {"forest": shape}

    def batches(self, rows: Rows, group: Processes = ALONE) -> Batches:
        return rows.batches(self.recipe.batch_size, self.round_epochs, group)

    def pass_batches(self, rows: Rows, n_seen: int) -> Batches:
        # A row goes to a fold by its running number.
        self.use_folds(Folds(MAX_FOLDS))
        rows.folds = (n_seen + torch.arange(len(rows))) % MAX_FOLDS
        return rows.batches(self.recipe.batch_size, 1, ALONE)

    def widen(self, places: np.ndarray, columns: np.ndarray, seed: int) -> None:
        widen(self.network, places, columns, self.recipe.columns, seed)

    @property
    def round_epochs(self) -> int:
        """Passes over the rows between two checks."""
        return math.ceil(self.recipe.epochs / CHECKS)

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        assert isinstance(network, ForestNetwork)
        return forest_loss(network, batch, self.target, self.sees)

    def settings(self, precision: str = "float32", *, stops: bool = False) -> TrainSettings:
        chosen = self.recipe.patience
        rounds = math.ceil(self.recipe.epochs / self.round_epochs)
        patience: int | None = max(3, math.ceil(rounds / 3))
        if chosen is not None:
            patience = math.ceil(chosen / self.round_epochs)
        settings = super().settings(precision)
        patience, cycles = (patience, self.recipe.cycles) if stops else (None, 1)
        return replace(settings, epochs=rounds, patience=patience, cycles=cycles)

    def evaluator(self, rows: Rows, held_out: Rows | None, group: Processes) -> Evaluate | None:
        if held_out is not None:
            return super().evaluator(rows, held_out, group)
        if self.n_folds == 1:
            return None
        metric = self.target.check_metric(self.recipe.metric)
        scored = self.scorable(rows).some(self.scored_rows())

        def evaluate(network: nn.Module) -> dict[str, float]:
            outputs, truth, weights, _ = self.out_of_bag(network, scored, group)
            return self.target.evaluate(metric, outputs[0].t(), truth, weights)

        return evaluate

    def out_of_bag(
        self, network: nn.Module | CompiledForest, rows: Rows, group: Processes, n_views: int = 1
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Joint outputs of the members that score each row, within views, and its truth.

        **Shape** outputs ``(V, C, n_rows)``; then as of :meth:`Rows.truth`.
        """
        outputs = out_of_bag(network, rows, self.scoring, n_views, group).cpu()
        return outputs, *rows.truth()

    def may_choose(self, held_out: Rows | None) -> bool:
        # The best round of all blocks would be chosen by later targets.
        return held_out is not None or not self.in_order

    def scorable(self, rows: Rows) -> Rows:
        """The rows that some member scores: all, but those of the first block of time."""
        if not self.in_order:
            return rows
        assert rows.folds is not None
        return rows.subset(rows.index[rows.folds[rows.index] > 0])

    @contextmanager
    def shared(self, rows: Rows, run: Run) -> Iterator[tuple[nn.Module, Processes]]:
        group = run.group
        if group.size == 1:
            if run.time_limit is not None and self.n_folds > 1:
                known, limit = self.scorable(rows), run.time_limit
                self.pace = Pace.measure(self.network, known, self.scoring, limit, self.target)
            yield self.network, ALONE
            return
        what = division(self.recipe, run.divide, group.size)
        group = replace(group, divided=what, own_statistics=True)
        lanes = why_not(self.network, self.settings(run.precision), group) is not None
        with divided(self.network, group, keeps_lanes=lanes) as trained:
            yield trained, group

    def steps(
        self, network: nn.Module, settings: TrainSettings, group: Processes
    ) -> tuple[Steps | None, str]:
        name, reason = instructions()
        if name is None and group.size == 1:
            return None, f"torch: {reason}"
        assert isinstance(network, ForestNetwork)
        # The engine knows the mean of the losses of rows.
        of_rows = type(self).loss is ForestModel.loss
        target = self.target if of_rows else None
        size = self.recipe.batch_size
        return steps_for(network, settings, size, self.sees, target, group)

    def finish(self, task: Task) -> OutOfBag | None:
        if self.n_folds == 1:
            return None
        if self.in_order:
            return self._finish_in_order(task)
        # Views whose members score all rows between them can be weighed against each other.
        views = len(self.recipe.views)
        views = views if self.network.n_members // views >= self.n_folds else 1
        rows = task.rows
        scored = self.target.finish(*self.out_of_bag(self.answering(), rows, task.run.group, views))
        each = scored.views.repeat_interleave(self.network.n_members // views)
        self.network.shares.copy_(each)
        slope = self.slope(rows, self.scoring)
        kept = each.nonzero()[:, 0]
        if not each.all():
            self.network = self.network.keep(kept.to(rows.device))
        view = torch.arange(views).repeat_interleave(len(each) // views)
        self._remember(self.network, kept, each, view, scored.temperature, task.folds)
        return self._calibrated(scored, slope, rows, averaged_away(each, self.scoring.cpu()))

    def _remember(
        self, network: ForestNetwork, members: Tensor, shares: Tensor, views: Tensor,
        temperature: float, folds: Folds,
    ) -> None:  # fmt: skip
        """Know from now on which of these members answers out of bag for which row in memory."""
        self.unseen = None
        if folds.drawn is not None:
            scoring = self.scoring.cpu()[members]
            of_members = (scoring, shares[members], views[members])
            self.unseen = Unseen(network, *of_members, temperature, folds)

    def slope(self, rows: Rows, scores: Tensor) -> float:
        """How much sharper all members may answer than those that score a row."""
        if not self.target.has_temperature:
            return 1.0
        return joint_slope(self.answering(), self.few(rows, SPREAD_ROWS), scores, self.target)

    def _finish_in_order(self, task: Task) -> OutOfBag:
        """Score each block by its own members, then keep those that have seen all blocks."""
        rows, network = task.rows, self.network
        known = self.scorable(rows)
        assert known.folds is not None
        blocks = known.folds[known.index]
        outputs = self.out_of_bag(self.answering(), known, task.run.group)
        scored = self.target.finish_in_order(*outputs, blocks)
        network.settle()
        scorers, equal = self.scoring.any(1).nonzero()[:, 0], torch.ones(len(self.scoring))
        of_scorers = (network.keep(scorers), scorers.cpu(), equal, equal)
        self._remember(*of_scorers, scored.temperature, task.folds)
        self.network = network.keep(network.shares.nonzero()[:, 0])
        # As many members together as score a row.
        together = Folds(self.n_folds).tables(self.network.n_members)[1]
        slope = self.slope(rows, together)
        # The members that scored are others, which have seen fewer rows.
        found = self._calibrated(scored, slope, known, 0.0)
        own = np.flatnonzero(np.isin(rows.index.numpy(), known.index.numpy()))
        return found.of_rows(lambda values: _among(len(rows), own, values))

    def _calibrated(self, scored: OutOfBag, slope: float, known: Rows, averaged: float) -> OutOfBag:
        """Give the network its temperature; returns the results with the scale of their errors."""
        self.network.temperature.fill_(scored.temperature / slope)
        if self.target.task != "regression" or scored.residuals is None or scored.outputs is None:
            return scored
        chosen = spread_rows(len(known), min(len(known), MAX_HELD_OUT))
        few = known.subset(known.index[chosen])
        assert few.folds is not None
        folded, shares = self.answering(), self.network.shares
        parts = [members_spread(folded.each(x), shares).cpu() for x, _ in few.scored()]
        truth, _, counted = few.truth()
        outputs = scored.outputs[chosen]
        sizes, spread = (outputs - truth).abs(), torch.cat(parts)
        weights = torch.ones(len(few)) if counted is None else counted
        by_row = [one.double().numpy() for one in (weights, few.folds[few.index])]
        columns = [one.double().numpy().T for one in (outputs, spread, sizes)]
        errors = [Errors(*one, *by_row) for one in zip(*columns, strict=True)]
        scales, quantiles = zip(*(find_scale(one, averaged) for one in errors), strict=True)
        each = zip(scales, errors, strict=True)
        standard = np.column_stack([deviations_of(*one) for one in each])
        deviations = _among(len(known), chosen.numpy(), self.target.deviations(standard))
        return replace(
            scored,
            residuals=np.column_stack(quantiles),
            scales=list(scales),
            more=scored.more | {"oob_std_": deviations},
        )

    def predictor(self) -> nn.Module | Folded:
        found = self.answering()
        # The methods of a target that is no part of nrs take tensors.
        if isinstance(found, CompiledForest) and self.target.is_ours:
            return found.arrays
        return self.folded()

    def folded(self) -> FoldedForest:
        return self.network.eval().fold().requires_grad_(False)

    def answering(self) -> FoldedForest | CompiledForest:
        """What scores rows during a fit."""
        return self.network.eval().compiled() or self.folded()


def outputs_of(
    predictor: nn.Module | Folded, features: Features, width: int, device: torch.device,
    n_jobs: int | None, *, members: bool,
) -> np.ndarray:  # fmt: skip
    """The (n, width) joint outputs of encoded rows by torch, or with `members` those of each."""
    # One that was pickled where the compiled engine is.
    network: Any = FoldedForest(predictor) if isinstance(predictor, Folded) else predictor
    answer = network.each if members else network
    n_rows, step = features.shape[0], forward_rows(features.shape[1])
    shape = (network.n_members, n_rows, width) if members else (n_rows, width)
    found = np.empty(shape, dtype=np.float32)
    with threads(n_jobs), torch.inference_mode():
        for start in range(0, n_rows, step):
            part = features[start : start + step]
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            x = torch.from_numpy(dense).to(device)
            padded = functional.pad(x, (0, 0, 0, -len(x) % PREDICT_ROWS))
            found[..., start : start + step, :] = answer(padded)[..., : len(x), :].cpu().numpy()
    return found


def _among(n_rows: int, own: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values of some of the rows, NaN in the others."""
    found = np.full((n_rows, *values.shape[1:]), np.nan)
    found[own] = values
    return found


def averaged_away(shares: Tensor, scores: Tensor) -> float:
    """How much of the members' variance all members average away, and those of a fold do not.

    >>> averaged_away(torch.ones(4), torch.eye(2, dtype=torch.bool).repeat(2, 1))
    0.3333333333333333
    """
    shares, of_folds = shares.cpu().double(), shares.cpu().double()[:, None] * scores
    alone = (of_folds / of_folds.sum(0)).square().sum(0).mean()
    together = (shares / shares.sum()).square().sum()
    return float((alone - together) / (1 - together)) if together < 1 else 0.0


def may_be_levels(rows: Rows, recipe: Recipe, n_folds: int, time_limit: float | None) -> bool:
    """Whether there is a choice: columns of few values, rows enough to tell, and time for it."""
    if time_limit is not None and time_limit < PILOT_SECONDS:
        return False
    if len(rows.index) < PILOT_ROWS or n_folds == 1 or recipe.bins == 0 or rows.sparse:
        return False
    if recipe.levels == 0 or rows.features.shape[1] > MAX_BINNED_FEATURES:
        return False
    features = rows.sample(MAX_ROWS)[0]
    return any(all_values(values, recipe.levels) is not None for values in features.T)


def _agreed(evaluate: Evaluate | None, group: Processes) -> Evaluate | None:
    """What `evaluate` measures, the same in all processes that train together."""
    if evaluate is None or group.size == 1:
        return evaluate
    # The writer may know a metric that could not be sent to the others.
    return lambda network: group.of_writer(evaluate(answering(network, group)))
