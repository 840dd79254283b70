"""`NDFClassifier` and `NDFRegressor`: neural decision forests on raw tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from nrs.baselines.forest import NeuralForest
from nrs.tabular.classifier import TableClassifier
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.header import COUNT, SIZE, recipe_schema, require
from nrs.tabular.model import SingleModel
from nrs.tabular.parameters import CheckpointParameters, parameters
from nrs.tabular.recipe import Recipe, check_integers, given_of
from nrs.tabular.regressor import TableRegressor
from nrs.tabular.rows.memory import Batch, Rows, ShuffledBatches
from nrs.tabular.targets import ClassTarget, Target
from nrs.training.processes import ALONE, Processes
from nrs.training.schema import integer, number


@dataclass(frozen=True)
class ForestRecipe(Recipe):
    """A recipe with the settings of a neural decision forest; the values are the paper's.

    The paper names 100 trees (50 in its table of speeds), linear features, half of them a tree
    and 20 iterations; depth 10 is that of Kontschieder et al. on tables.
    """

    n_trees: int = 100
    tree_depth: int = 10
    n_features: int = 1024
    feature_fraction: float = 0.5
    leaf_iterations: int = 20
    leaf_rows: int = 100_000


_OWN = tuple(ForestRecipe.__annotations__)


@contextmanager
def tiny_is_zero() -> Iterator[None]:
    """Take numbers below the smallest normal one as zero in this block, where the CPU can.

    The probability of a leaf is a product of many, and often so small that a processor falls back
    to microcode: a fit on MNIST takes four times as long.

    Examples
    --------
    >>> with tiny_is_zero():
    ...     routed = torch.full((1,), 1e-30) * 1e-30
    """
    before = float(torch.full((1,), 1e-40, dtype=torch.float32, device="cpu") * 1.0) == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class LeafFittingBatches(ShuffledBatches):
    """Fits a forest's leaves at the beginning of every epoch, then gives its batches."""

    def __init__(self, rows: Rows, forest: NeuralForest, recipe: ForestRecipe) -> None:
        super().__init__(rows, recipe.batch_size)
        self.forest = forest
        self.recipe = recipe

    def __call__(self, epoch: int, generator: torch.Generator) -> Iterator[Batch]:
        index = self.rows.index
        if len(index) > self.recipe.leaf_rows:
            index = index[torch.randperm(len(index), generator=generator)[: self.recipe.leaf_rows]]
        x, y, weights = self.rows.take(index)
        self.forest.fit_leaves(x, y, weights, self.recipe.leaf_iterations)
        yield from super().__call__(epoch, generator)


class NeuralForestModel(SingleModel):
    """A neural decision forest: its leaves are fitted at the beginning of every epoch."""

    network: NeuralForest
    recipe: ForestRecipe

    @classmethod
    def make_network(
        cls, encoder: TableEncoder, target: Target, recipe: Recipe, seed: int
    ) -> NeuralForest:
        assert isinstance(recipe, ForestRecipe)
        return NeuralForest(
            encoder.n_features_out_,
            target.n_outputs,
            n_trees=recipe.n_trees,
            depth=recipe.tree_depth,
            n_features=recipe.n_features,
            feature_fraction=recipe.feature_fraction,
            classes=isinstance(target, ClassTarget),
            seed=seed,
        )

    @classmethod
    def check_network(cls, network: NeuralForest) -> None:
        shares = not network.classes or bool((network.leaves >= 0).all())
        require(shares, "the leaves of classes must be at least 0")

    def batches(self, rows: Rows, group: Processes = ALONE) -> ShuffledBatches:
        return LeafFittingBatches(rows, self.network, self.recipe)

    def folded(self) -> nn.Module:
        return self.network.eval().folded()


@parameters
class _NeuralForestEstimator(CheckpointParameters, TableEstimator):
    """What the two estimators share: the forest instead of the network."""

    n_trees: int | None = None
    tree_depth: int | None = None
    n_features: int | None = None
    feature_fraction: float | None = None
    leaf_iterations: int | None = None
    leaf_rows: int | None = None

    _recipe_type = ForestRecipe
    _recipe_schema = recipe_schema(
        ForestRecipe,
        n_trees=SIZE,
        tree_depth=integer(1, 32),
        n_features=SIZE,
        feature_fraction=number(0, 1),
        leaf_iterations=COUNT,
        leaf_rows=COUNT,
    )

    # Wherever rows are routed.
    fit = tiny_is_zero()(TableEstimator.fit)
    _partial_fit = tiny_is_zero()(TableEstimator._partial_fit)
    outputs = tiny_is_zero()(TableEstimator.outputs)

    def _chosen(self) -> dict[str, Any]:
        return super()._chosen() | {"n_mul": 0}

    def resolve(self, rows: int, features: int) -> ForestRecipe:
        plain = super().resolve(rows, features)
        given = given_of(self._chosen() | {name: getattr(self, name) for name in _OWN})
        if self.preset == "paper":
            # The paper states no rate for this model; 1e-3 is usual, and 1e-4 is far from done.
            own: dict[str, Any] = {"lr": 1e-3}
        else:
            own = _cpu_setting(rows, plain.batch_size)
        recipe = ForestRecipe(**vars(plain) | own | given)
        check_integers(vars(recipe), leaf_iterations=1, leaf_rows=1)
        return recipe

    def model_type(self, recipe: Recipe) -> type[SingleModel]:
        return NeuralForestModel


@parameters
class NDFClassifier(_NeuralForestEstimator, TableClassifier):
    """Classify the rows of a raw table with a deep neural decision forest.

    Kontschieder et al., "Deep Neural Decision Forests" (ICCV 2015): a linear map makes features,
    every tree routes a row softly by a random half of them, and the mean over trees of the
    distributions in the leaves it reaches is the prediction. Routing is learned by the gradient
    of the log-loss; leaves by fixed-point iterations at the beginning of every epoch.

    Parameters
    ----------
    preset : {"default", "paper"}
        ``"paper"``: 100 trees of depth 10, 20 iterations, 50 epochs of Adam on values as they
        are. ``"default"`` is meant for one core: 12 trees of depth 8, 10 iterations, standardised
        values, a tenth of the rows held out to choose the epoch.
    n_trees, tree_depth : int, optional
        Size of the forest; a tree has ``2**tree_depth`` leaves.
    n_features : int, optional
        Features that the linear map makes.
    feature_fraction : float, optional
        Part of them that a tree reads.
    leaf_iterations : int, optional
        Fixed-point iterations on the leaves at the beginning of an epoch.
    leaf_rows : int, optional
        Most rows that the leaves are fitted to, drawn anew every epoch.
    scale, epochs, batch_size, lr, weight_decay, validation_fraction, patience, metric, \
class_weight, categorical_features, text_features, random_state, n_jobs, device, verbose, \
callbacks, checkpoint
        As of :class:`nrs.NRSClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NDFClassifier(n_trees=4, tree_depth=3, epochs=30, lr=0.01, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    def _check_labels(self, y: Any) -> np.ndarray:
        labels = super()._check_labels(y)
        if labels.ndim == 2:
            raise ValueError(
                f"a leaf holds one distribution over classes; y has {labels.shape[1]} labels per "
                "row. Fit one NDFClassifier per label (sklearn.multioutput)."
            )
        return labels


@parameters
class NDFRegressor(_NeuralForestEstimator, TableRegressor):
    """Predict one or several numbers with a neural decision forest.

    As :class:`NDFClassifier`, but leaves hold means and the squared error is minimised: an
    iteration moves each mean by the mean residual of the rows that reach it, weighted by their
    probability to, which never raises a tree's squared error.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NDFRegressor(n_trees=4, tree_depth=3, epochs=20, random_state=0)
    >>> model.fit(X, y).predict(X).shape
    (442,)
    """


def _cpu_setting(rows: int, batch_size: int) -> dict[str, Any]:
    """Fewer, shallower trees, which one core fits to letter in a minute or two.

    Depth counts for more than trees: on letter 12 trees of depth 8 reach 95 %, 32 of depth 6
    only 91 %.
    """
    epochs = max(20, math.ceil(400 / math.ceil(rows / batch_size)))
    return {
        "n_trees": 12,
        "tree_depth": 8,
        "leaf_iterations": 10,
        "leaf_rows": 20_000,
        "epochs": epochs,
        "patience": max(8, epochs // 3),
    }
