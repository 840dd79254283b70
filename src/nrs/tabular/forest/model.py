"""The forest as a model: cross-fitted members, out-of-bag scores, processes that share the work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.divide import answering, divided, division
from nrs.tabular.forest.folds import MAX_FOLDS, Folds
from nrs.tabular.forest.grow import blank_forest, grow_forest
from nrs.tabular.forest.network import FoldedForest, ForestNetwork, forest_loss
from nrs.tabular.forest.out_of_bag import OutOfBag, Pace, out_of_bag, weigh_views
from nrs.tabular.forest.pilot import levels_are_better, reading_levels
from nrs.tabular.importance import passes
from nrs.tabular.metrics import Evaluation
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import MAX_HELD_OUT, Rows
from nrs.tabular.single import Evaluate, SingleModel
from nrs.tabular.targets import Target
from nrs.training import TrainSettings
from nrs.training.processes import ALONE, Processes, present

if TYPE_CHECKING:
    from nrs.tabular.run import Run

# Times that out-of-bag rows are scored during a fit.
CHECKS = 20


class ForestModel(SingleModel):
    """Members trained together, each without one fold of the rows.

    Attributes
    ----------
    folds : Folds
        Of the training rows; of a loaded model those of one fold.
    sees : Tensor (members, folds)
        Which folds each member is trained on.
    """

    network: ForestNetwork
    # Known during a fit with a time limit.
    pace: Pace | None = None

    def __init__(
        self, network: ForestNetwork, target: Target, recipe: Recipe, folds: Folds | None = None
    ) -> None:
        super().__init__(network, target, recipe)
        self.use_folds(folds or Folds(1))

    def use_folds(self, folds: Folds) -> None:
        """Train with other folds from now on."""
        self.folds, self.sees = folds, folds.sees(self.network.n_members)

    @classmethod
    def grow(
        cls,
        rows: Rows,
        encoder: TableEncoder,
        target: Target,
        recipe: Recipe,
        folds: Folds | None,
        run: Run,
    ) -> Self:
        folds, group = folds or Folds(1), present()
        # Processes whose numbers round differently must not grow different forests.
        codes = group.is_writer and levels_are_better(rows, encoder, target, recipe, folds, run)
        if group.of_writer(codes):
            recipe = reading_levels(recipe)
        network = grow_forest(rows, encoder, target, recipe, folds, run.seed)
        return cls(network.to(rows.device), target, recipe, folds)

    @classmethod
    def from_header(
        cls, header: dict[str, Any], encoder: TableEncoder, target: Target, recipe: Recipe
    ) -> Self:
        return cls(blank_forest(header["forest"], target, recipe), target, recipe)

    def header(self) -> dict[str, Any]:
        bins = self.network.bins
        shape = {
            "in_features": self.network.n_inputs - bins.n_bins - 1,
            "index": list(self.network.index.shape),
            "n_bins": bins.n_bins,
            "n_levels": bins.n_levels,
        }
        return {"forest": shape}

    def batches(self, rows: Rows, group: Processes = ALONE) -> Any:
        return rows.batches(self.recipe.batch_size, self.round_epochs, group)

    def pass_batches(self, rows: Rows, n_seen: int) -> Any:
        # A row goes to a fold by its running number.
        self.use_folds(Folds(MAX_FOLDS))
        rows.folds = (n_seen + torch.arange(len(rows))) % MAX_FOLDS
        return rows.batches(self.recipe.batch_size, 1, ALONE)

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
        patience = max(3, math.ceil(rounds / 3))
        if chosen is not None:
            patience = math.ceil(chosen / self.round_epochs)
        settings = super().settings(precision)
        return replace(settings, epochs=rounds, patience=patience if stops else None)

    def evaluator(self, rows: Rows, held_out: Rows | None, group: Processes) -> Evaluate | None:
        if held_out is not None:
            return self._agreed(super().evaluator(rows, held_out, group), group)
        if self.folds.n_folds == 1:
            return None
        evaluation = Evaluation(self.recipe.metric, self.target)
        scored = rows.some(self._max_scored())
        truth, weights = scored.truth()

        def evaluate(network: Any) -> dict[str, float]:
            outputs = out_of_bag(network, scored, self.sees, group=group)[0].t().cpu()
            return evaluation(outputs, truth, weights)

        return self._agreed(evaluate, group)

    def _agreed(self, evaluate: Evaluate | None, group: Processes) -> Evaluate | None:
        """What `evaluate` measures, the same in all processes that train together."""
        if evaluate is None or group.size == 1:
            return evaluate
        # The writer may know a metric that could not be sent to the others.
        return lambda network: group.of_writer(evaluate(answering(network, group)))

    @contextmanager
    def shared(self, rows: Rows, run: Run) -> Iterator[tuple[Any, Processes]]:
        group = present()
        if group.size == 1:
            if run.time_limit is not None and self.folds.n_folds > 1:
                self.pace = Pace.measure(self.network, rows, self.sees, run.time_limit)
            yield self.network, ALONE
            return
        what = division(self.recipe, run.divide, group.size)
        group = replace(group, divided=what, own_statistics=True)
        with divided(self.network, group) as trained:
            yield trained, group

    def _max_scored(self) -> int:
        """Rows whose out-of-bag scores decide during a fit."""
        most = MAX_HELD_OUT
        return most if self.pace is None else self.pace.affordable(0.4 / CHECKS, most)

    def importance_rows(self) -> int:
        most = super().importance_rows()
        if self.pace is None:
            return most
        return self.pace.affordable(0.05 / passes(self.target.n_outputs), most)

    def seconds_ahead(self, rows: Rows) -> tuple[float, float]:
        if self.pace is None:
            return 0.0, 0.0
        responses = self.importance_rows() * passes(self.target.n_outputs)
        scored = min(len(rows), self._max_scored())
        return self.pace.per_row * scored, self.pace.per_row * (len(rows) + responses)

    def finish(self, rows: Rows) -> OutOfBag | None:
        if self.folds.n_folds == 1:
            return None
        # Views whose members score all rows between them can be weighed against each other.
        views = len(self.recipe.views)
        views = views if self.recipe.members // views >= self.folds.n_folds else 1
        outputs = out_of_bag(self.folded(), rows, self.sees, views, present()).cpu()
        truth, weights = rows.truth()
        of_views = weigh_views(outputs, truth, self.target, weights)
        joint = self.target.combine(outputs, of_views.unsqueeze(1))
        each = of_views.repeat_interleave(self.network.n_members // views)
        self.network.shares.copy_(each)
        self.network = self.network.keep(each.nonzero()[:, 0].to(rows.device))
        temperature = self.target.calibrate(joint, truth, weights)
        self.network.temperature.fill_(temperature)
        joint = joint / self.network.temperature.cpu()
        return OutOfBag(
            self.target.answer(joint),
            self.target.score(joint, truth, weights),
            self.target.residuals(joint, truth, weights),
        )

    def folded(self) -> FoldedForest:
        self.network.eval()
        return self.network.fold().requires_grad_(False)
