"""One network as a model: the paper's NRS layer, then fully connected layers.

:class:`SingleModel` is also the base of every other model: what trains, stops, scores and folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.core import NRS, fold
from nrs.core.dropout import PooledDropout
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.folds import Folds
from nrs.tabular.importance import MAX_ROWS, column_importances
from nrs.tabular.metrics import Evaluation
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows, ShuffledBatches
from nrs.tabular.targets import Target
from nrs.training import History, TrainSettings, train
from nrs.training.processes import ALONE, Processes

if TYPE_CHECKING:
    from nrs.tabular.forest.out_of_bag import OutOfBag
    from nrs.tabular.run import Run

Evaluate = Callable[[Any], dict[str, float]]


class TableNetwork(nn.Module):
    """NRS → (Linear → BN → ReLU) × len(hidden) → Linear (paper, Section 4.2).

    **Shape** input ``(B, in_features)``, output ``(B, out_features)``.

    Parameters
    ----------
    in_features, out_features : widths of input and output.
    n_mul, n_per, n_h, layout, depth : of the layer; ``n_mul=0`` leaves it out: a plain MLP.
    hidden : widths of the fully connected layers.
    dropout : probability of dropping a unit after each ReLU in training.
    input_dropout : the same for the input features (the paper's MLP-D).
    seed : the same seed gives the same network.

    Examples
    --------
    >>> network = TableNetwork(16, 26, n_mul=100, hidden=(256, 256), seed=0)
    >>> network(torch.randn(8, 16)).shape
    torch.Size([8, 26])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        n_mul: int = 1,
        n_per: int = 1,
        n_h: int = 3,
        layout: str = "code",
        depth: int = 1,
        hidden: Sequence[int] = (256, 256),
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        with seeded(seed):
            layers: list[nn.Module] = []
            if input_dropout:
                layers.append(PooledDropout(input_dropout))
            width = in_features
            if n_mul:
                subspaces = NRS(in_features, n_mul, n_per, n_h, layout=layout, depth=depth)
                layers.append(subspaces)
                width = subspaces.out_features
                if dropout:
                    layers.append(PooledDropout(dropout))
            for units in hidden:
                layers += [nn.Linear(width, units), nn.BatchNorm1d(units), nn.ReLU()]
                if dropout:
                    layers.append(PooledDropout(dropout))
                width = units
            layers.append(nn.Linear(width, out_features))
            self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output

    @property
    def subspaces(self) -> NRS | None:
        """The NRS layer, or None for a plain MLP."""
        for layer in self.layers:
            if isinstance(layer, NRS):
                return layer
        return None


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

    def __init__(self, network: nn.Module, target: Target, recipe: Recipe) -> None:
        self.network, self.target, self.recipe = network, target, recipe

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
        """Make an untrained model for encoded rows."""
        network = cls.make_network(encoder, target, recipe, run.seed)
        return cls(network.to(rows.device), target, recipe)

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
    def from_header(
        cls, header: dict[str, Any], encoder: TableEncoder, target: Target, recipe: Recipe
    ) -> Self:
        """Make the model of a file, whose tensors are then put into its network."""
        return cls(cls.make_network(encoder, target, recipe, 0), target, recipe)

    def header(self) -> dict[str, Any]:
        """What a model file must say of the network's shape, as JSON values."""
        return {}

    def batches(self, rows: Rows, group: Processes = ALONE) -> Any:
        """The source of batches for training."""
        return ShuffledBatches(rows, self.recipe.batch_size)

    def pass_batches(self, rows: Rows, n_seen: int) -> Any:
        """Batches of one pass of `partial_fit`, which has seen so many rows before."""
        return self.batches(rows)

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
        evaluation = Evaluation(self.recipe.metric, self.target)
        truth, weights = held_out.truth()

        def evaluate(network: nn.Module) -> dict[str, float]:
            outputs = torch.cat([network(x) for x, _, _ in held_out.in_order()])
            known = None if weights is None else weights.to(outputs.device)
            return evaluation(outputs, truth.to(outputs.device), known)

        return evaluate

    def learn(self, rows: Rows, held_out: Rows | None, run: Run) -> History:
        """Train, keep the best epoch, and return the learning curve."""
        with self.shared(rows, run) as (network, group):
            batches = self.batches(rows, group)
            evaluate = self.evaluator(rows, held_out, group)
            return train(
                network,
                batches,
                self.loss,
                self.settings(run.precision, stops=evaluate is not None),
                steps_per_epoch=len(batches),
                generator=torch.Generator().manual_seed(run.seed),
                evaluate=evaluate,
                callbacks=run.callbacks_of(*self.seconds_ahead(rows)),
                checkpoint=run.checkpoint_of(self.recipe, rows, held_out, group),
                group=group,
            )

    @contextmanager
    def shared(self, rows: Rows, run: Run) -> Iterator[tuple[Any, Processes]]:
        """What this process trains within the block, and the processes it trains with."""
        yield self.network, ALONE

    def seconds_ahead(self, rows: Rows) -> tuple[float, float]:
        """Seconds that an evaluation, and what follows training, will take."""
        return 0.0, 0.0

    def importances(self, rows: Rows, encoder: TableEncoder) -> np.ndarray:
        """How strongly the outputs respond to each column; measured after training."""
        return column_importances(self.network, rows, encoder, self.importance_rows())

    def importance_rows(self) -> int:
        """Rows over which importances are taken."""
        return MAX_ROWS

    def finish(self, rows: Rows) -> OutOfBag | None:
        """Calibrate by out-of-bag rows, where there are any."""
        return None

    def folded(self) -> nn.Module:
        """An immutable copy for prediction, which threads may share."""
        self.network.eval()
        return fold(self.network).requires_grad_(False)
