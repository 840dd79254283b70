"""What the adaptive-tree estimators share: a fit that grows a tree and refines it, and its file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nrs._util.seeds import seeded
from nrs.baselines.ant_growth import GrowthSettings, grow
from nrs.baselines.ant_recipe import ANTRecipe, resolve
from nrs.baselines.ant_tree import AdaptiveTree, read_structure
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.importance import column_importances
from nrs.tabular.rows.memory import Rows, ShuffledBatches
from nrs.tabular.runtime import threads
from nrs.tabular.targets import ClassTarget
from nrs.training import TrainSettings, train
from nrs.training.weights import copy_weights, put_weights


class AdaptiveTreeEstimator(TableEstimator):
    """Common base of :class:`nrs.baselines.ant.ANTClassifier` and its regressor."""

    # The base's are a table network and its recipe.
    network_: Any
    recipe_: Any
    _recipe_type: Any = ANTRecipe

    def __init__(
        self,
        *,
        preset: str = "default",
        width: int | None = None,
        router_width: int | None = None,
        batch_norm: bool | None = None,
        max_depth: int | None = None,
        max_nodes: int | None = None,
        grow_epochs: int | None = None,
        patience: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        scale: str | None = None,
        validation_fraction: float | None = None,
        metric: Any = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: int = 1,
        callbacks: Any = None,
    ) -> None:
        self.preset = preset
        self.width = width
        self.router_width = router_width
        self.batch_norm = batch_norm
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.grow_epochs = grow_epochs
        self.patience = patience
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.scale = scale
        self.validation_fraction = validation_fraction
        self.metric = metric
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> Self:
        """Grow a tree on a table, then refine it.

        Parameters
        ----------
        X : array, data frame (pandas, polars, pyarrow) or sparse matrix, (n_rows, n_columns)
            Numbers, strings, categories, booleans, dates and missing values, as they are.
        y : array (n_rows,) or (n_rows, n_outputs)
        sample_weight : array (n_rows,), optional
        eval_set : (X, y), optional
            Rows that decide about growth and the best epoch, instead of a held-out part of `X`.

        Raises
        ------
        ValueError
            Bad input, with what came, what was expected and what to do.
        nrs.training.DivergenceError
            If the loss becomes NaN or infinite.
        """
        with threads(self.n_jobs):
            rows, validation, seed = self._prepare(X, y, sample_weight, eval_set)
            self._grow_and_refine(rows, rows if validation is None else validation, seed)
            self.nodes_ = self._describe(rows)
            self._importances = column_importances(self.network_, rows, self.encoder_)
        self._fold()
        return self

    def leaf_probabilities(self, X: Any) -> np.ndarray:
        """Probability of reaching each leaf, (n_rows, n_leaves), by the order of `tree_.leaves`."""
        check_is_fitted(self)
        features = self.encoder_.transform(self._read_table(X, reset=False))
        rows = Rows(features, np.zeros(features.shape[0], np.float32))
        device = next(self.network_.parameters()).device
        with threads(self.n_jobs), torch.inference_mode():
            parts = [self.tree_.leaf_log_reach(x.to(device)) for x, _, _ in rows.in_order()]
        values: np.ndarray = torch.cat(parts).double().softmax(1).cpu().numpy()
        return values

    def plot_tree(self, ax: Any = None) -> Any:
        """Draw the grown tree with matplotlib; returns the axes."""
        check_is_fitted(self)
        from nrs.baselines.ant_plot import plot_tree

        classes = getattr(self.target_, "classes", None)
        return plot_tree(self.nodes_, None if classes is None else list(classes), ax)

    @property
    def tree_(self) -> AdaptiveTree:
        """The fitted tree, a torch module whose `repr` is a drawing in characters."""
        if not hasattr(self, "network_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        tree: AdaptiveTree = self.network_
        return tree

    # What a tree has not.

    @property
    def partial_fit(self) -> Any:
        raise AttributeError(f"{type(self).__name__} grows from all rows at once; use fit")

    def _extra_header(self) -> dict[str, Any]:
        return {"tree": self.tree_.structure(), "growth": self.growth_, "nodes": self.nodes_}

    def _restore_extra(self, header: dict[str, Any]) -> None:
        self.growth_, self.nodes_ = header["growth"], header["nodes"]
        self._structure = header["tree"]

    def _make_network(self, seed: int, rows: Any) -> Any:
        """The tree whose structure was read from a model file."""
        return self._make_tree(seed, self._structure)

    # The steps of a fit.

    def _resolve(self, rows: int, features: int) -> Any:
        names = [name for name in asdict(ANTRecipe()) if name not in ("schedule", "ema")]
        return resolve(self.preset, {name: getattr(self, name) for name in names}, rows)

    def _make_tree(self, seed: int, structure: Any = None) -> AdaptiveTree:
        with seeded(seed):
            return AdaptiveTree(
                self.encoder_.n_features_out_,
                self.target_.n_outputs,
                kind=self.target_.kind,
                width=self.recipe_.width,
                router_width=self.recipe_.router_width,
                batch_norm=self.recipe_.batch_norm,
                nodes=None if structure is None else read_structure(structure),
            )

    def _grow_and_refine(self, rows: Rows, validation: Rows, seed: int) -> None:
        recipe: ANTRecipe = self.recipe_
        generator = torch.Generator().manual_seed(seed)
        tree = self._make_tree(seed).to(rows.device)
        local = TrainSettings(
            epochs=recipe.grow_epochs, lr=recipe.lr, optimizer="adam",
            weight_decay=recipe.weight_decay, patience=recipe.patience,
        )  # fmt: skip
        limits = GrowthSettings(recipe.max_depth, recipe.max_nodes, recipe.batch_size, local)
        self.growth_ = grow(tree, rows, validation, self.target_, limits, generator)

        evaluate = self._evaluator(rows, validation)
        with torch.no_grad():
            grown_score, grown = evaluate(tree)["score"], copy_weights(tree)
        batches = ShuffledBatches(rows, recipe.batch_size)
        whole = TrainSettings(
            epochs=recipe.epochs, lr=recipe.lr, optimizer="adam",
            weight_decay=recipe.weight_decay, schedule=recipe.schedule, ema=recipe.ema,
        )  # fmt: skip
        self.history_ = train(
            tree, batches, self._step, whole,
            generator=generator, evaluate=evaluate, steps_per_epoch=len(batches),
            callbacks=self._callbacks(),
        )  # fmt: skip
        if not max(self.history_["score"]) >= grown_score:
            put_weights(tree, grown)
            self.history_.best_epoch = None
        self.network_ = tree

    @torch.no_grad()
    def _describe(self, rows: Rows) -> list[dict[str, Any]]:
        """What goes through every node: share of the rows, and their mean target."""
        tree = self.tree_
        reach = torch.zeros(len(tree.nodes), dtype=torch.float64)
        values = torch.zeros(len(tree.nodes), self.target_.n_outputs, dtype=torch.float64)
        for x, y, weights in rows.in_order():
            shown = self._shown(y)
            for number, _, log_reach in tree.walk(x):
                share = log_reach.double().exp().cpu()
                if weights is not None:
                    share = share * weights.cpu().unsqueeze(1)
                reach[number] += share.sum()
                values[number] += (share * shown).sum(0)
        values /= reach.clamp_min(torch.finfo(reach.dtype).tiny).unsqueeze(1)
        return [
            {
                "node": number,
                "kind": "solver" if node.children is None else "router",
                "parent": node.parent,
                "transformers": node.transformers,
                "depth": tree.depth_at(number),
                "reach": float(reach[number] / reach[0].clamp_min(1e-300)),
                "value": values[number].tolist(),
            }
            for number, node in enumerate(tree.nodes)
        ]

    def _shown(self, y: Tensor) -> Tensor:
        """Targets as numbers whose mean means something: one-hot classes, labels, or values."""
        if isinstance(self.target_, ClassTarget):
            return torch.nn.functional.one_hot(y.cpu(), self.target_.n_outputs).double()
        if self.target_.kind == "multilabel":
            return y.cpu().double()
        values = np.asarray(self.target_.labels(y)).reshape(len(y), -1)
        return torch.from_numpy(values)
