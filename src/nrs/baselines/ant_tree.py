"""The adaptive neural tree as a module: transformers on edges, routers at nodes, solvers at leaves.

After Tanno et al., "Adaptive Neural Trees" (ICML 2019). The prediction of the tree is a mixture
of its leaves, p(y | x) = Σ_leaf π_leaf(x) · p_leaf(y | x), where π_leaf is the product of the
router probabilities on the way to the leaf. Everything is kept as logarithms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KINDS = ("classes", "multilabel", "regression")
# Rows are float32, whatever torch's default dtype.
linear = partial(nn.Linear, dtype=torch.float32)


def leaf_terms(kind: str, scores: Tensor) -> Tensor:
    """What a leaf adds to the mixture: log-probabilities, or values for regression.

    **Shape** ``(B, K)`` to ``(B, K)``, but ``(B, 2K)`` for ``"multilabel"``: the logarithms of
    the probability of every label and of its absence.
    """
    if kind == "classes":
        return scores.log_softmax(1)
    if kind == "multilabel":
        return F.logsigmoid(torch.cat([scores, -scores], 1))
    return scores


def pool(kind: str, log_reach: Sequence[Tensor], terms: Sequence[Tensor]) -> Tensor:
    """Mix leaves: log Σ π·p of log-probabilities, Σ π·value of values.

    **Shape** lists of ``(B, 1)`` and ``(B, P)``, to ``(B, P)``.

    Examples
    --------
    >>> half = torch.tensor([[0.5]]).log()
    >>> leaves = [torch.tensor([[0.2, 0.8]]).log(), torch.tensor([[0.6, 0.4]]).log()]
    >>> [round(p, 3) for p in pool("classes", [half, half], leaves).exp().flatten().tolist()]
    [0.4, 0.6]
    """
    reach, values = torch.stack(list(log_reach)), torch.stack(list(terms))
    if kind == "regression":
        return (reach.exp() * values).sum(0)
    return (reach + values).logsumexp(0)


def mixture_outputs(kind: str, pooled: Tensor) -> Tensor:
    """From mixed leaves to what a target reads: log-probabilities, log-odds, or values."""
    if kind == "multilabel":
        present, absent = pooled.chunk(2, 1)
        return present - absent
    return pooled


@dataclass
class Node:
    """A place in the tree: a leaf while it has no children, a router's node once it has.

    Attributes
    ----------
    parent : number of the node above, None for the root.
    transformers : how many transformers stand on the edge that leads here.
    children : numbers of the left and the right child.
    """

    parent: int | None = None
    transformers: int = 0
    children: tuple[int, int] | None = None


class AdaptiveTree(nn.Module):
    """A tree of small networks that grows; at first a single leaf.

    **Shape** input ``(B, in_features)``, output ``(B, out_features)``: log-probabilities of the
    classes, log-odds of the labels, or values.

    Parameters
    ----------
    in_features, out_features : widths of input and output.
    kind : {"classes", "multilabel", "regression"}
        What the leaves predict.
    width : units of a transformer, Linear → (BN) → ReLU.
    router_width : hidden units of a router, Linear → ReLU → Linear → σ; 0 for a linear one.
    batch_norm : whether transformers normalise.
    nodes : the shape of a tree that has grown already, parents before children.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> tree = AdaptiveTree(4, 3, kind="classes", width=8)
    >>> tree.deepen(0, tree.new_transformer(0), nn.Linear(8, 3))
    >>> tree.split(0, tree.new_router(0), [tree.new_solver(0), tree.new_solver(0)])
    (1, 2)
    >>> tree
    AdaptiveTree(4 → 3, classes, width 8)
    └ 0 transformer, router
      ├ 1 solver
      └ 2 solver
    >>> x = torch.randn(5, 4)
    >>> tree(x).exp().sum(1).allclose(torch.ones(5)), tree.leaf_log_reach(x).shape
    (True, torch.Size([5, 2]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        kind: str,
        width: int = 64,
        router_width: int = 16,
        batch_norm: bool = True,
        nodes: Sequence[Node] | None = None,
    ) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}; got {kind!r}")
        self.in_features, self.out_features, self.kind = in_features, out_features, kind
        self.width, self.router_width, self.batch_norm = width, router_width, batch_norm
        self.nodes: list[Node] = []
        self.edges = nn.ModuleList()
        self.routers = nn.ModuleDict()
        self.solvers = nn.ModuleDict()
        for number, node in enumerate(nodes or [Node()]):
            self._append(Node(node.parent))
            for _ in range(node.transformers):
                self._on_edge(number, self.new_transformer(number))
            self.nodes[number].children = node.children
            if node.children is None:
                self.solvers[str(number)] = self.new_solver(number)
            else:
                self.routers[str(number)] = self.new_router(number)

    def forward(self, x: Tensor) -> Tensor:
        log_reach, terms = [], []
        for number, features, reach in self.walk(x):
            if self.nodes[number].children is None:
                log_reach.append(reach)
                terms.append(leaf_terms(self.kind, self.solvers[str(number)](features)))
        return mixture_outputs(self.kind, pool(self.kind, log_reach, terms))

    def walk(self, x: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Every node, parents first: its number, its features (B, ·) and log π of it (B, 1)."""
        at: dict[int, tuple[Tensor, Tensor]] = {}
        for number, node in enumerate(self.nodes):
            features, reach = (x, x.new_zeros(len(x), 1)) if number == 0 else at.pop(number)
            features = self.edges[number](features)
            yield number, features, reach
            if node.children is not None:
                left, right = node.children
                odds = self.routers[str(number)](features)
                at[left] = features, reach + F.logsigmoid(odds)
                at[right] = features, reach + F.logsigmoid(-odds)

    def leaf_log_reach(self, x: Tensor) -> Tensor:
        """Logarithms of the probabilities of reaching each leaf, (B, leaves)."""
        leaves = set(self.leaves)
        return torch.cat([reach for number, _, reach in self.walk(x) if number in leaves], 1)

    def at_leaf(self, x: Tensor, leaf: int) -> Tensor:
        """All that the tree says about rows, as far as a change of one leaf is concerned.

        Columns of the result (B, features + 1 + P): the features at the leaf, log π of it, and
        the mixture of all the other leaves; :class:`nrs.baselines.ant_growth.Graft` reads it.
        """
        own: tuple[Tensor, ...] = ()
        log_reach, terms = [], []
        for number, features, reach in self.walk(x):
            if number == leaf:
                own = features, reach
            elif self.nodes[number].children is None:
                log_reach.append(reach)
                terms.append(leaf_terms(self.kind, self.solvers[str(number)](features)))
        if terms:
            others = pool(self.kind, log_reach, terms)
        else:
            columns = self.out_features * (2 if self.kind == "multilabel" else 1)
            nothing = 0.0 if self.kind == "regression" else -torch.inf
            others = x.new_full((len(x), columns), nothing)
        return torch.cat([*own, others], 1)

    # Growth.

    def deepen(self, leaf: int, transformer: nn.Module, solver: nn.Module) -> None:
        """Put one more transformer on the edge to a leaf, and a new solver behind it."""
        self._on_edge(leaf, transformer)
        self.solvers[str(leaf)] = solver

    def split(self, leaf: int, router: nn.Module, solvers: Sequence[nn.Module]) -> tuple[int, int]:
        """Give a leaf a router and two children with solvers; returns their numbers."""
        del self.solvers[str(leaf)]
        self.routers[str(leaf)] = router
        children = len(self.nodes), len(self.nodes) + 1
        self.nodes[leaf].children = children
        for number, solver in zip(children, solvers, strict=True):
            self._append(Node(leaf))
            self.solvers[str(number)] = solver
        return children

    def new_transformer(self, leaf: int) -> nn.Module:
        """A fresh transformer for the end of the edge to a node."""
        layers: list[nn.Module] = [linear(self.width_at(leaf), self.width)]
        if self.batch_norm:
            layers.append(nn.BatchNorm1d(self.width, dtype=torch.float32))
        return nn.Sequential(*layers, nn.ReLU())

    def new_router(self, leaf: int) -> nn.Module:
        """A fresh router for a node."""
        width = self.width_at(leaf)
        if self.router_width == 0:
            return linear(width, 1)
        hidden = linear(width, self.router_width)
        return nn.Sequential(hidden, nn.ReLU(), linear(self.router_width, 1))

    def new_solver(self, leaf: int) -> nn.Module:
        """A fresh solver on the features of a node."""
        return linear(self.width_at(leaf), self.out_features)

    # Questions.

    @property
    def leaves(self) -> list[int]:
        """Numbers of the leaves, in the order of the columns of `leaf_log_reach`."""
        return [number for number, node in enumerate(self.nodes) if node.children is None]

    @property
    def depth(self) -> int:
        """Most transformers and routers between the input and a solver."""
        return max(self.depth_at(leaf) for leaf in self.leaves)

    def depth_at(self, number: int) -> int:
        """Transformers and routers between the input and a node."""
        path = list(self._path(number))
        return sum(self.nodes[place].transformers for place in path) + len(path) - 1

    def width_at(self, number: int) -> int:
        """Number of features that a node reads."""
        changed = any(self.nodes[place].transformers for place in self._path(number))
        return self.width if changed else self.in_features

    def structure(self) -> list[dict[str, Any]]:
        """The shape of the tree as JSON values; `read_structure` reads it."""
        return [asdict(node) for node in self.nodes]

    def __repr__(self) -> str:
        lines: list[str] = []

        def draw(number: int, indent: str, mark: str) -> None:
            node = self.nodes[number]
            names = ["transformer"] * node.transformers
            names.append("solver" if node.children is None else "router")
            lines.append(f"{indent}{mark} {number} {', '.join(names)}")
            if node.children is not None:
                below = indent + ("│ " if mark == "├" else "  ")
                draw(node.children[0], below, "├")
                draw(node.children[1], below, "└")

        draw(0, "", "└")
        sizes = f"{self.in_features} → {self.out_features}, {self.kind}, width {self.width}"
        return "\n".join([f"AdaptiveTree({sizes})", *lines])

    def _path(self, number: int) -> Iterator[int]:
        place: int | None = number
        while place is not None:
            yield place
            place = self.nodes[place].parent

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self.edges.append(nn.Sequential())

    def _on_edge(self, number: int, transformer: nn.Module) -> None:
        edge = self.edges[number]
        assert isinstance(edge, nn.Sequential)
        edge.append(transformer)
        self.nodes[number].transformers += 1


def read_structure(structure: Sequence[dict[str, Any]]) -> list[Node]:
    """Read what :meth:`AdaptiveTree.structure` wrote.

    Raises
    ------
    ValueError
        If the nodes are not a tree whose children come after their parents.
    """
    nodes = [Node(**node) for node in structure]
    parents: list[int | None] = [None] * len(nodes)
    for number, node in enumerate(nodes):
        if node.children is not None:
            # JSON has no tuples.
            left, right = node.children = (node.children[0], node.children[1])
            if not number < min(left, right) <= max(left, right) < len(nodes) or left == right:
                raise ValueError(f"the children of node {number} must be two nodes after it")
            parents[left] = parents[right] = number
    if parents != [node.parent for node in nodes] or None in parents[1:]:
        raise ValueError("the nodes must be a tree: each but the first the child of its parent")
    return nodes
