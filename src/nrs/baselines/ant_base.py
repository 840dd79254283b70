"""What the adaptive-tree estimators share: a model that grows a tree and refines it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nrs._util.seeds import seeded
from nrs.baselines.ant_growth import GrowthSettings, grow
from nrs.baselines.ant_recipe import ANTRecipe, resolve
from nrs.baselines.ant_tree import AdaptiveTree, read_structure
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.header import COUNT, RECIPE_FIELDS, SIZE, require
from nrs.tabular.model import SingleModel
from nrs.tabular.parameters import parameters
from nrs.tabular.rows.memory import Rows, ShuffledBatches
from nrs.tabular.run import threads
from nrs.tabular.targets import Target
from nrs.tabular.task import Task
from nrs.training import History, TrainSettings, train
from nrs.training.loop import copy_weights, put_weights
from nrs.training.processes import ALONE
from nrs.training.schema import (
    Schema,
    field_defaults,
    flag,
    integer,
    list_of,
    mapping,
    optional,
    plain,
    record,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Of a tree in a file.
MAX_NODES = 1 << 16


class AdaptiveTreeModel(SingleModel):
    """A tree that grows while held-out rows gain by it, and is then refined as a whole.

    Attributes
    ----------
    growth, nodes : list of dict
        See :class:`nrs.baselines.ant.ANTClassifier`.
    """

    network: AdaptiveTree
    recipe: Any
    growth: list[dict[str, Any]]
    nodes: list[dict[str, Any]]

    @classmethod
    def make_network(
        cls, encoder: TableEncoder, target: Target, recipe: Any, seed: int, structure: Any = None
    ) -> AdaptiveTree:
        with seeded(seed):
            return AdaptiveTree(
                encoder.n_features_out_,
                target.n_outputs,
                kind=target.kind,
                width=recipe.width,
                router_width=recipe.router_width,
                batch_norm=recipe.batch_norm,
                nodes=None if structure is None else read_structure(structure),
            )

    @classmethod
    def from_file(
        cls,
        header: dict[str, Any],
        tensors: Mapping[str, Tensor],
        encoder: TableEncoder,
        target: Target,
        recipe: Any,
    ) -> Self:
        parts = sum(1 + node["transformers"] for node in header["tree"])
        require(parts <= len(tensors), "header.tree must not have more parts than tensors")
        model = super().from_file(header, tensors, encoder, target, recipe)
        model.growth, model.nodes = header["growth"], header["nodes"]
        return model

    @classmethod
    def blank_network(
        cls, header: dict[str, Any], encoder: TableEncoder, target: Target, recipe: Any
    ) -> AdaptiveTree:
        return cls.make_network(encoder, target, recipe, 0, header["tree"])

    def header(self) -> dict[str, Any]:
        return {"tree": self.network.structure(), "growth": self.growth, "nodes": self.nodes}

    def learn(self, task: Task) -> History:
        """Grow the tree, then refine it; the grown tree is kept if no epoch is better."""
        recipe, tree, rows = self.recipe, self.network, task.rows
        held_out = task.held_out or rows
        generator = torch.Generator().manual_seed(task.run.seed)
        local = TrainSettings(
            epochs=recipe.grow_epochs, lr=recipe.lr, optimizer="adam",
            weight_decay=recipe.weight_decay, patience=recipe.patience,
        )  # fmt: skip
        limits = GrowthSettings(recipe.max_depth, recipe.max_nodes, recipe.batch_size, local)
        self.growth = grow(tree, rows, held_out, self.target, limits, generator)
        evaluate = self.evaluator(rows, held_out, ALONE)
        assert evaluate is not None
        with torch.no_grad():
            grown_score, grown = evaluate(tree)["score"], copy_weights(tree)
        batches = ShuffledBatches(rows, recipe.batch_size)
        whole = TrainSettings(
            epochs=recipe.epochs, lr=recipe.lr, optimizer="adam",
            weight_decay=recipe.weight_decay, schedule=recipe.schedule, ema=recipe.ema,
        )  # fmt: skip
        history = train(
            tree, batches, self.loss, whole,
            generator=generator, evaluate=evaluate, steps_per_epoch=len(batches),
            callbacks=task.run.callbacks_of(), global_draws=False,
        )  # fmt: skip
        if not max(history["score"]) >= grown_score:
            put_weights(tree, grown)
            history.best_epoch = None
        self.nodes = self._describe(rows)
        return history

    @torch.no_grad()
    def _describe(self, rows: Rows) -> list[dict[str, Any]]:
        """What goes through every node: share of the rows, and their mean target."""
        tree = self.network
        reach = torch.zeros(len(tree.nodes), dtype=torch.float64)
        values = torch.zeros(len(tree.nodes), self.target.n_outputs, dtype=torch.float64)
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
        if self.target.classes is not None:
            return torch.from_numpy(self.target.indicators(y.cpu().numpy()))
        return torch.from_numpy(self.target.labels(y).reshape(len(y), -1))


_NODE: dict[str, Schema[Any]] = {
    "parent": optional(COUNT),
    "transformers": integer(0, MAX_NODES),
    "children": optional(list_of(COUNT, 2, 2)),
}


@parameters
class AdaptiveTreeEstimator(TableEstimator):
    """Common base of :class:`nrs.baselines.ant.ANTClassifier` and its regressor."""

    width: int | None = None
    router_width: int | None = None
    batch_norm: bool | None = None
    max_depth: int | None = None
    max_nodes: int | None = None
    grow_epochs: int | None = None

    _recipe_type = ANTRecipe  # type: ignore[assignment]
    _recipe_schema = record(
        {name: RECIPE_FIELDS[name] for name in asdict(ANTRecipe()) if name in RECIPE_FIELDS}
        | {
            "width": SIZE,
            "router_width": COUNT,
            "batch_norm": flag,
            "max_depth": COUNT,
            "max_nodes": COUNT,
            "grow_epochs": COUNT,
        },
        defaults=field_defaults(ANTRecipe),
    )
    _own_schema: ClassVar[Mapping[str, Schema[Any]]] = {
        "tree": list_of(record(_NODE), 1, MAX_NODES),
        "growth": list_of(mapping(plain)),
        "nodes": list_of(mapping(plain)),
    }

    def leaf_probabilities(self, X: Any) -> np.ndarray:
        """Probability of reaching each leaf, (n_rows, n_leaves), by the order of `tree_.leaves`."""
        check_is_fitted(self)
        features = self.encoder_.transform(self.read_table(X))
        rows = Rows(features, np.zeros(features.shape[0], np.float32))
        device = next(self.network_.parameters()).device
        with threads(self.n_jobs), torch.inference_mode():
            parts = [self.tree_.leaf_log_reach(x.to(device)) for x, _, _ in rows.in_order()]
        return torch.cat(parts).double().softmax(1).cpu().numpy()

    def plot_tree(self, ax: Axes | None = None) -> Axes:
        """Draw the grown tree with matplotlib; returns the axes."""
        check_is_fitted(self)
        from nrs.baselines.ant_plot import plot_tree

        classes = getattr(self.target_, "classes", None)
        return plot_tree(self.nodes_, None if classes is None else list(classes), ax)

    @property
    def tree_(self) -> AdaptiveTree:
        """The fitted tree, a torch module whose `repr` is a drawing in characters."""
        return self._fitted_model().network

    @property
    def growth_(self) -> list[dict[str, Any]]:
        """One row per visited leaf: what was tried there, and the held-out loss of each."""
        return self._fitted_model().growth

    @property
    def nodes_(self) -> list[dict[str, Any]]:
        """One row per node: its kind, place, and what reaches it."""
        return self._fitted_model().nodes

    def _fitted_model(self) -> AdaptiveTreeModel:
        if not hasattr(self, "model_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return cast(AdaptiveTreeModel, self.model_)

    # What a tree has not.

    @property
    def partial_fit(self) -> Any:
        raise AttributeError(f"{type(self).__name__} grows from all rows at once; use fit")

    def resolve(self, rows: int, features: int) -> Any:
        names = [name for name in asdict(ANTRecipe()) if name not in ("schedule", "ema")]
        return resolve(self.preset, {name: getattr(self, name) for name in names}, rows)

    def model_type(self, recipe: Any) -> type[SingleModel]:
        return AdaptiveTreeModel
