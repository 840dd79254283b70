"""How an adaptive neural tree grows: leaf by leaf, and only where held-out rows gain.

Tanno et al. (ICML 2019), Section 4.1: at every leaf, breadth first, compare leaving it alone with
deepening its edge by a transformer and with splitting it by a router. Only the new parts are
trained; the tree around them is frozen, so all it says about a row is computed once a leaf.
"""

from __future__ import annotations

import copy
import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.baselines.ant_tree import AdaptiveTree, leaf_terms, linear, mixture_outputs, pool
from nrs.tabular.rows.memory import Rows, ShuffledBatches
from nrs.tabular.targets import Target
from nrs.training import TrainSettings, train

logger = logging.getLogger("nrs.baselines")


@dataclass(frozen=True)
class GrowthSettings:
    """How far a tree may grow, and how its new parts are trained.

    Attributes
    ----------
    max_depth : most transformers and routers on the way to a leaf.
    max_nodes : most routers and leaves together.
    batch_size : rows of a step.
    training : epochs, patience, learning rate of one candidate.
    """

    max_depth: int
    max_nodes: int
    batch_size: int
    training: TrainSettings


class Graft(nn.Module):
    """New parts for one leaf, on top of what the frozen tree says about every row.

    **Shape** input ``(B, features + 1 + P)`` from :meth:`AdaptiveTree.at_leaf`, output that of the
    whole tree with the new parts in the leaf's place.

    Parameters
    ----------
    tree : the tree that stays as it is.
    leaf : the number of the leaf.
    action : {"keep", "deepen", "split"}
        A new solver; a transformer and a new solver; or a router and two solvers, copies of the
        leaf's at first.
    """

    def __init__(self, tree: AdaptiveTree, leaf: int, action: str) -> None:
        super().__init__()
        self.kind, self.action = tree.kind, action
        self.features = tree.width_at(leaf)
        self.transformer = tree.new_transformer(leaf) if action == "deepen" else nn.Identity()
        self.router = tree.new_router(leaf) if action == "split" else None
        if action == "deepen":
            solvers: list[nn.Module] = [linear(tree.width, tree.out_features)]
        elif action == "split":
            # Both sides begin as the leaf they replace, and differ as their rows do.
            solvers = [copy.deepcopy(tree.solvers[str(leaf)]) for _ in range(2)]
        else:
            solvers = [tree.new_solver(leaf)]
        self.solvers = nn.ModuleList(solvers)

    def forward(self, x: Tensor) -> Tensor:
        features, reach = x[:, : self.features], x[:, self.features : self.features + 1]
        others = x[:, self.features + 1 :]
        features = self.transformer(features)
        terms = [leaf_terms(self.kind, solver(features)) for solver in self.solvers]
        log_reach = [reach]
        if self.router is not None:
            odds = self.router(features)
            log_reach = [reach + F.logsigmoid(odds), reach + F.logsigmoid(-odds)]
        # The other leaves are mixed already, so they enter as one leaf that every row reaches.
        pooled = pool(self.kind, [torch.zeros_like(reach), *log_reach], [others, *terms])
        return mixture_outputs(self.kind, pooled)

    def apply_to(self, tree: AdaptiveTree, leaf: int) -> tuple[int, ...]:
        """Put the new parts into the tree; returns the numbers of the leaves that are new."""
        if self.action == "deepen":
            tree.deepen(leaf, self.transformer, self.solvers[0])
            return (leaf,)
        if self.router is not None:
            return tree.split(leaf, self.router, list(self.solvers))
        tree.solvers[str(leaf)] = self.solvers[0]
        return (leaf,)


def grow(
    tree: AdaptiveTree,
    rows: Rows,
    validation: Rows,
    target: Target,
    settings: GrowthSettings,
    generator: torch.Generator,
) -> list[dict[str, Any]]:
    """Train the root's solver, then grow the tree in place until no leaf gains by it.

    Returns
    -------
    list of dict
        A row for every visit of a leaf: ``node``; ``action``, what was done ("keep", "deepen" or
        "split"); and the loss on the held-out rows with each of the three, None where a limit
        forbade it. The losses of what was done never rise from row to row.
    """

    def trained(leaf: int, action: str, cached: Rows, held_out: Rows) -> tuple[float, Graft]:
        # The first weights of new parts come from the generator alone.
        with seeded(int(torch.randint(2**62, (), generator=generator))):
            graft = Graft(tree, leaf, action).to(rows.device)
        return _train(graft, cached, held_out, target, settings, generator), graft

    loss, graft = trained(0, "keep", at_leaf(tree, rows, 0), at_leaf(tree, validation, 0))
    graft.apply_to(tree, 0)
    visits: list[dict[str, Any]] = []
    waiting = deque([0])
    while waiting:
        leaf = waiting.popleft()
        visit: dict[str, Any] = {"node": leaf, "action": "keep", "keep": loss}
        visit |= {"deepen": None, "split": None}
        visits.append(visit)
        actions = _allowed(tree, leaf, settings)
        if not actions:
            continue
        cached, held_out = at_leaf(tree, rows, leaf), at_leaf(tree, validation, leaf)
        grafts: dict[str, Graft] = {}
        for action in actions:
            visit[action], grafts[action] = trained(leaf, action, cached, held_out)
        # A loss that is NaN compares as no gain.
        better = [action for action in actions if visit[action] < loss]
        if better:
            best = min(better, key=lambda action: visit[action])
            visit["action"], loss = best, visit[best]
            waiting.extend(grafts[best].apply_to(tree, leaf))
        logger.info("node %d: %s, held-out loss %.4g", leaf, visit["action"], loss)
    tree.eval()
    return visits


def _allowed(tree: AdaptiveTree, leaf: int, settings: GrowthSettings) -> list[str]:
    if tree.depth_at(leaf) >= settings.max_depth:
        return []
    roomy = len(tree.nodes) + 2 <= settings.max_nodes
    return ["deepen", "split"] if roomy else ["deepen"]


@torch.no_grad()
def at_leaf(tree: AdaptiveTree, rows: Rows, leaf: int) -> Rows:
    """What the frozen tree says about rows, seen from a leaf, as a table of its own."""
    tree.eval()
    parts = [(tree.at_leaf(x, leaf), y, w) for x, y, w in rows.in_order()]
    weights = None
    if rows.weights is not None:
        weights = torch.cat([w for _, _, w in parts if w is not None]).cpu().numpy()
    features = torch.cat([features for features, _, _ in parts]).cpu().numpy()
    targets = torch.cat([y for _, y, _ in parts]).cpu().numpy()
    return Rows(features, targets, weights, None, rows.device)


def _train(
    graft: Graft,
    cached: Rows,
    held_out: Rows,
    target: Target,
    settings: GrowthSettings,
    generator: torch.Generator,
) -> float:
    """Train new parts to their best epoch; returns the loss on the held-out rows there."""
    batches = ShuffledBatches(cached, settings.batch_size)

    def step(module: nn.Module, batch: Any) -> Tensor:
        x, y, weights = batch
        return target.loss(module(x), y, weights)

    def evaluate(module: nn.Module) -> dict[str, float]:
        loss = _loss(module, held_out, target)
        return {"val_loss": loss, "score": -loss}

    history = train(
        graft, batches, step, settings.training,
        generator=generator, evaluate=evaluate, steps_per_epoch=len(batches),
        global_draws=False,
    )  # fmt: skip
    if history.best_epoch is None:
        return math.inf
    return history["val_loss"][history.best_epoch]


def _loss(module: nn.Module, rows: Rows, target: Target) -> float:
    parts: Sequence[Any] = [(module(x), y, w) for x, y, w in rows.in_order()]
    outputs, targets = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
    weights = None if rows.weights is None else torch.cat([p[2] for p in parts])
    return float(target.loss(outputs, targets, weights))
