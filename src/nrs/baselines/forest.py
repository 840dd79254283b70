"""Neural decision forest: soft trees whose leaves are fitted in closed form.

The model of Kontschieder, Fiterau, Criminisi and Rota Bulò, "Deep Neural Decision Forests"
(ICCV 2015), on vectors. Every tensor with rows in it has them last: routing multiplies whole
levels of all trees at once, and neighbouring rows are neighbours in memory.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.core.permutations import IndexModule

# Share of the uniform distribution in a class prediction: its logarithm is finite for any leaf.
SMOOTHING = 1e-6
# Routing probabilities held at a time while leaves are fitted, 4 MB of float32: they stay in cache.
BLOCK = 1 << 20
# Rows that a block of them is padded to a multiple of at inference.
ROW_MULTIPLE = 32


class _Route(torch.autograd.Function):
    """Scores of the inner nodes → probabilities of the leaves, and the gradient in one pass up."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        left = scores.sigmoid()
        trees, nodes, rows = scores.shape
        reach = scores.new_ones(trees, 1, rows)
        for level in range(_depth(nodes + 1)):
            sides = scores.new_empty(trees, 2**level, 2, rows)
            torch.mul(reach, left[:, _nodes(level)], out=sides[:, :, 0])
            torch.sub(reach, sides[:, :, 0], out=sides[:, :, 1])
            reach = sides.flatten(1, 2)
        ctx.save_for_backward(left, reach)
        return reach

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        left, reach = ctx.saved_tensors
        # Sum over the leaves below a node of gradient · probability (their Equation 8).
        below = gradients[0] * reach
        gradient = torch.empty_like(left)
        for level in reversed(range(_depth(left.shape[1] + 1))):
            sides = below.unflatten(1, (-1, 2))
            below = sides[:, :, 0] + sides[:, :, 1]
            # (1 − d)·left − d·right, their Equation 7.
            here = _nodes(level)
            torch.mul(below, left[:, here], out=gradient[:, here])
            torch.sub(sides[:, :, 0], gradient[:, here], out=gradient[:, here])
        return gradient


def route(scores: Tensor) -> Tensor:
    """Probability of each leaf: the product of the decisions on its path.

    **Shape** input ``(trees, 2**depth - 1, rows)``, the scores of the inner nodes level by level;
    output ``(trees, 2**depth, rows)``, summing to one over the leaves.

    Examples
    --------
    >>> route(torch.zeros(1, 3, 1)).flatten()
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return _Route.apply(scores)


class NeuralForest(IndexModule):
    """Linear features, soft trees on a random part of them, the mean over trees of their leaves.

    **Shape** input ``(B, in_features)``, output ``(B, out_features)``: log-probabilities of the
    classes, or the predicted numbers.

    Parameters
    ----------
    in_features, out_features : widths of input and output.
    n_trees, depth : size of the forest; a tree has ``2**depth`` leaves.
    n_features : features that one linear map makes of the input.
    feature_fraction : part of these that a tree reads.
    classes : whether leaves hold distributions over classes, or means of numbers.
    seed : the same seed gives the same forest.

    Examples
    --------
    >>> forest = NeuralForest(16, 26, n_trees=4, depth=3, seed=0)
    >>> forest(torch.randn(8, 16)).exp().sum(1).allclose(torch.ones(8))
    True
    """

    subset: Tensor
    leaves: Tensor
    takes_loaded = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        n_trees: int = 100,
        depth: int = 10,
        n_features: int = 1024,
        feature_fraction: float = 0.5,
        classes: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("n_trees", n_trees), ("depth", depth), ("n_features", n_features)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}")
        if not 0 < feature_fraction <= 1:
            raise ValueError(
                f"feature_fraction must be above 0 and at most 1; got {feature_fraction}"
            )
        self.classes = classes
        self.depth = depth
        width = max(1, round(n_features * feature_fraction))
        nodes, leaves = 2**depth - 1, 2**depth
        with seeded(seed):
            self.features = nn.Linear(in_features, n_features, dtype=torch.float32)
            self.weight = nn.Parameter(torch.empty(n_trees, nodes, width, dtype=torch.float32))
            self.bias = nn.Parameter(torch.zeros(n_trees, nodes, dtype=torch.float32))
            nn.init.uniform_(self.weight, -1 / math.sqrt(width), 1 / math.sqrt(width))
            keys = torch.rand(n_trees, n_features, dtype=torch.float32)
            subset = keys.argsort(1)[:, :width].sort(1).values
        self.put_index("subset", subset)
        start = 1 / out_features if classes else 0.0
        shape = (n_trees, leaves, out_features)
        self.register_buffer("leaves", torch.full(shape, start, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.folded()(x)
        return mean_prediction(self.scores(x), self.leaves, self.classes)

    def scores(self, x: Tensor, trees: slice = slice(None)) -> Tensor:
        """Scores of the inner nodes of some trees: (trees, nodes, B).

        Both maps are linear, so that the shorter way is taken: through the features of the rows,
        or, with more rows than inputs, through the product of the two maps.
        """
        bias = self.bias[trees]
        if len(x) > x.shape[1]:
            matrix = self.routing_map(trees).flatten(0, 1)
            inputs = nn.functional.pad(x, (0, 1), value=1.0).t()
            return torch.addmm(bias.view(-1, 1), matrix, inputs).view(*bias.shape, -1)
        features = torch.addmm(self.features.bias.unsqueeze(1), self.features.weight, x.t())
        return self._node_map(features, trees) + bias.unsqueeze(2)

    def routing_map(self, trees: slice = slice(None)) -> Tensor:
        """The two maps in one, without the nodes' bias: (trees, nodes, in_features + 1).

        The last column belongs to an input that is always 1.
        """
        layer = self.features
        return self._node_map(torch.cat((layer.weight, layer.bias.unsqueeze(1)), 1), trees)

    def _node_map(self, values: Tensor, trees: slice) -> Tensor:
        """Apply the nodes' weights to (n_features, columns), each tree to its own features."""
        subset = self.read_index("subset")[trees]
        own = values.index_select(0, subset.flatten()).view(*subset.shape, -1)
        return torch.bmm(self.weight[trees], own)

    def check_index(self, name: str, index: Tensor) -> None:
        """Refuse features that do not exist."""
        n_features = self.features.out_features
        if not 0 <= int(index.min()) <= int(index.max()) < n_features:
            raise ValueError(f"the forest has {n_features} features, and its trees read others")

    def folded(self) -> FoldedForest:
        """A copy for inference, in which the two linear maps are one."""
        return FoldedForest(self.routing_map(), self.bias, self.leaves, self.classes)

    @torch.no_grad()
    def fit_leaves(
        self, x: Tensor, y: Tensor, weights: Tensor | None = None, iterations: int = 20
    ) -> None:
        """Fit the leaves to rows, with the routing as it is.

        Parameters
        ----------
        x : (n, in_features)
        y : (n,) class positions, or (n, out_features) numbers.
        weights : (n,), optional
        iterations : fixed-point iterations, each of which lowers no tree's likelihood.
        """
        trees, leaves, outputs = self.leaves.shape
        if self.classes:
            truth = nn.functional.one_hot(y, outputs).t().to(x.dtype)
        else:
            truth = y.t()
        # A block of trees at a time: the probabilities of all leaves for all rows are many.
        block = max(1, BLOCK // (leaves * len(x)))
        for start in range(0, trees, block):
            part = slice(start, start + block)
            reach = route(self.scores(x, part))
            update = update_distributions if self.classes else update_means
            for _ in range(iterations):
                self.leaves[part] = update(self.leaves[part], reach, truth, weights)


class FoldedForest(nn.Module):
    """The forest for inference: one linear map, then the trees, a block of rows at a time.

    **Shape** input ``(B, in_features)``, output as of :class:`NeuralForest`.
    """

    weight: Tensor
    bias: Tensor
    leaves: Tensor

    def __init__(self, matrix: Tensor, bias: Tensor, leaves: Tensor, classes: bool) -> None:
        super().__init__()
        matrix, bias = matrix.detach(), bias.detach()
        self.classes = classes
        self.register_buffer("weight", matrix[:, :, :-1].flatten(0, 1).contiguous())
        self.register_buffer("bias", matrix[:, :, -1] + bias)
        self.register_buffer("leaves", leaves.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        rows = max(1, BLOCK // self.leaves[:, :, 0].numel())
        outputs = []
        for part in x.split(rows):
            # Whole vectors of rows: the remainder of one takes other instructions, which round
            # differently, and a prediction would depend on where its row stands.
            padded = nn.functional.pad(part, (0, 0, 0, -len(part) % ROW_MULTIPLE))
            scores = torch.addmm(self.bias.view(-1, 1), self.weight, padded.t())
            scores = scores.view(*self.bias.shape, -1)
            mean = mean_prediction(scores, self.leaves, self.classes)
            outputs.append(mean[: len(part)])
        return torch.cat(outputs)


def mean_prediction(scores: Tensor, leaves: Tensor, classes: bool) -> Tensor:
    """Mean over trees of Σ μ·π, its logarithm for classes.

    **Shape** scores ``(trees, nodes, B)``, leaves ``(trees, leaves, outputs)``; output
    ``(B, outputs)``.
    """
    # One product over all leaves of all trees.
    mean = (leaves.flatten(0, 1).t() @ route(scores).flatten(0, 1)).t() / len(leaves)
    if not classes:
        return mean
    return mean.mul(1 - SMOOTHING).add(SMOOTHING / mean.shape[1]).log()


def update_distributions(
    leaves: Tensor, reach: Tensor, truth: Tensor, weights: Tensor | None = None
) -> Tensor:
    """One fixed-point iteration on class distributions (Kontschieder et al., Equation 11).

    It is a step of expectation maximisation on each tree's likelihood
    Σ log((1 − ε) Σ μ·π + ε / classes), so that it never lowers it.

    **Shape** leaves ``(trees, leaves, classes)``, reach ``(trees, leaves, rows)``, truth one-hot
    ``(classes, rows)``, weights ``(rows,)``; output like leaves.

    Examples
    --------
    >>> leaves, reach = torch.full((1, 2, 2), 0.5), torch.eye(2)[None]
    >>> update_distributions(leaves, reach, truth=torch.eye(2))
    tensor([[[1., 0.],
             [0., 1.]]])
    """
    classes = leaves.shape[2]
    predicted = torch.bmm(leaves.transpose(1, 2), reach).mul_(1 - SMOOTHING)
    share = (truth if weights is None else truth * weights) / predicted.add_(SMOOTHING / classes)
    counts = leaves * torch.bmm(reach, share.transpose(1, 2))
    total = counts.sum(2, keepdim=True)
    # A leaf that no row reaches keeps what it has.
    known = total > torch.finfo(total.dtype).tiny
    return torch.where(known, counts / total.where(known, torch.ones_like(total)), leaves)


def update_means(
    leaves: Tensor, reach: Tensor, truth: Tensor, weights: Tensor | None = None
) -> Tensor:
    """One fixed-point iteration on means: each moves by the mean residual of what reaches it.

    With Σ μ = 1 the squared error after moving the means by δ is at most Σ μ·(residual − δ)², by
    convexity, which the weighted mean of the residuals minimises. So no tree's squared error
    rises, nor its Gaussian likelihood falls; the fixed point is the least-squares solution.

    **Shape** leaves ``(trees, leaves, outputs)``, reach ``(trees, leaves, rows)``, truth
    ``(outputs, rows)``, weights ``(rows,)``; output like leaves.

    Examples
    --------
    >>> update_means(torch.zeros(1, 2, 1), torch.eye(2)[None], truth=torch.tensor([[3.0, 5.0]]))
    tensor([[[3.],
             [5.]]])
    """
    residual = truth - torch.bmm(leaves.transpose(1, 2), reach)
    if weights is not None:
        residual, reached = residual * weights, reach @ weights
    else:
        reached = reach.sum(2)
    tiny = torch.finfo(reached.dtype).tiny
    moved = torch.bmm(reach, residual.transpose(1, 2)) / reached.clamp_min(tiny).unsqueeze(2)
    return leaves + moved


def _nodes(level: int) -> slice:
    """Where the nodes of a level are among all inner nodes."""
    return slice(2**level - 1, 2 ** (level + 1) - 1)


def _depth(leaves: int) -> int:
    return leaves.bit_length() - 1
