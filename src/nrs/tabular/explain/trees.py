"""The one-level oblique trees that a fitted model is: what each reads, its weights, what it counts.

Importance needs no data, because batch normalisation has kept what is needed of it. Over the
training rows the sum of a tree has the mean β and the standard deviation |γ| of its normalisation;
taken as normal, that gives the share of rows that say yes, Φ(β/|γ|), and how far the tree's output
varies. The same holds for the units after it, so the mean effect of a tree on the outputs is a
product of matrices.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nrs._util.optional import import_optional
from nrs.core.fold import folded_stage
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.network import ForestNetwork, affine
from nrs.tabular.network import TableNetwork

if TYPE_CHECKING:
    from pandas import DataFrame

    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.forest.estimator import ForestEstimator
    from nrs.tabular.types import Json, TableLike


def encoded(model: TableEstimator, X: TableLike) -> np.ndarray:
    """Features of a raw table as a dense array, (n_rows, n_features_out)."""
    features = model.encoder_.transform(model.read_table(X))
    dense: np.ndarray = features if isinstance(features, np.ndarray) else features.toarray()
    return dense


class Inputs:
    """What trees read: the encoder's features and, in a forest, their bins.

    names : a bin is called ``age[30…45]``, in the units of the table, and a level ``rooms[3]``.
    groups : (n_inputs,) the source column of each.
    column_names : names of the table's columns.
    """

    def __init__(self, model: TableEstimator) -> None:
        encoder, network = model.encoder_, model.network_
        bins = network.bins if isinstance(network, ForestNetwork) else PiecewiseLinear.blank(0)
        self._model, self._bins = model, bins
        self.column_names = encoder.column_names
        self.names: list[str] = encoder.feature_names_out_.tolist()
        source, low = bins.source.cpu().numpy(), bins.low.double().cpu().numpy()
        high = low + 1 / bins.rate.double().cpu().numpy()
        for place, (feature, *edges) in enumerate(zip(source.tolist(), low, high, strict=True)):
            ends = edges if place < bins.n_steps else edges[:1]
            shown = "…".join(encoder.original(feature, end) for end in ends)
            self.names.append(f"{self.names[feature]}[{shown}]")
        self.groups = np.append(encoder.groups_, encoder.groups_[source])

    def values(self, X: TableLike) -> np.ndarray:
        """All inputs for the rows of a raw table: (n_rows, n_inputs) float64."""
        features = encoded(self._model, X)
        with torch.no_grad():
            binned = self._bins(torch.from_numpy(features).to(self._bins.low.device))
        return np.hstack([features, binned.cpu().numpy()], dtype=np.float64)


@dataclass(frozen=True)
class Tree:
    """One tree: is ``Σ weight · input ≥ threshold``? If so, its output is the excess, else 0.

    Attributes
    ----------
    member, tree : member of the forest, 0 for a single network; number of the tree in it.
    columns : names of the columns that it reads.
    inputs : names of what it reads of them: encoded features and bins. A bin ``age[30…45]`` is 0
        below 30, 1 above 45, and linear in between.
    weights : of the inputs, with the normalisation folded in.
    threshold : what the weighted sum must reach.
    yes : about the share of training rows that reach it.
    importance : share of the model's response that is due to this tree; all trees sum to 1.
    """

    member: int
    tree: int
    columns: tuple[str, ...]
    inputs: tuple[str, ...]
    weights: tuple[float, ...]
    threshold: float
    yes: float
    importance: float

    def rule(self, most: int = 6) -> str:
        """Write the question as text, the heaviest inputs first.

        Parameters
        ----------
        most : the largest number of inputs to write; the others are counted.

        Examples
        --------
        >>> tree = Tree(0, 0, ("a", "b"), ("a", "b"), (0.5, -2.0), 1.0, 0.3, 0.1)
        >>> tree.rule()
        '-2.00·b +0.50·a ≥ 1.00'
        """
        terms = sorted(zip(self.weights, self.inputs, strict=True), key=lambda term: -abs(term[0]))
        text = " ".join(f"{weight:+.2f}·{name}" for weight, name in terms[:most])
        more = f" … ({len(terms) - most} more)" if len(terms) > most else ""
        return f"{text.removeprefix('+') or '0'}{more} ≥ {self.threshold:.2f}"


@dataclass(repr=False, eq=False)
class Trees:
    """A table of trees, the most important first; made by :meth:`nrs.NRSClassifier.trees`.

    ``trees[0]`` is a :class:`Tree`, ``trees["importance"]`` a column, ``trees[:5]`` a table.

    Attributes
    ----------
    columns : names of the table's columns.
    inputs : what the trees can read.
    weight, shift : (n_trees, n_inputs) and (n_trees,), the weighted sums minus the thresholds.
    member, tree, yes, importance : (n_trees,), as of :class:`Tree`.
    """

    columns: ClassVar[list[str]] = [field.name for field in fields(Tree)]
    inputs: Inputs
    weight: csr_array
    shift: np.ndarray
    member: np.ndarray
    tree: np.ndarray
    yes: np.ndarray
    importance: np.ndarray

    def __len__(self) -> int:
        return len(self.importance)

    def __iter__(self) -> Iterator[Tree]:
        return map(self._tree, range(len(self)))

    def __getitem__(self, key: str | int | slice | np.ndarray) -> Any:
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(f"No column {key!r}; the columns are {self.columns}")
            return [getattr(tree, key) for tree in self]
        if isinstance(key, (slice, np.ndarray)):
            inputs, *arrays = vars(self).values()
            return Trees(inputs, *(array[key] for array in arrays))
        return self._tree(range(len(self))[key])

    def _tree(self, place: int) -> Tree:
        read, weights = self.terms(place)
        columns = np.unique(self.inputs.groups[read])
        return Tree(
            member=int(self.member[place]),
            tree=int(self.tree[place]),
            columns=tuple(self.inputs.column_names[i] for i in columns),
            inputs=tuple(self.inputs.names[i] for i in read),
            weights=tuple(weights.tolist()),
            threshold=float(-self.shift[place]),
            yes=float(self.yes[place]),
            importance=float(self.importance[place]),
        )

    def terms(self, tree: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the inputs that a tree reads, each once, and their weights.

        Parameters
        ----------
        tree : number of the tree in this table.
        """
        row = self.weight[[tree]]
        return row.indices, row.data

    def sums(self, X: TableLike) -> np.ndarray:
        """Weighted sums of the rows minus the thresholds, (n_rows, n_trees); yes is at least 0.

        Parameters
        ----------
        X : a table as ``predict`` takes it.
        """
        sums: np.ndarray = self.inputs.values(X) @ self.weight.T + self.shift
        return sums

    def contributions(self, X: TableLike, tree: int) -> np.ndarray:
        """What each column adds to the weighted sum of one tree, (n_rows, len(tree.columns)).

        Parameters
        ----------
        X : a table as ``predict`` takes it.
        tree : number of the tree in this table.
        """
        return self._by_column(self.inputs.values(X), tree)[1]

    def _by_column(self, values: np.ndarray, tree: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the columns that a tree reads, and what each adds to its sum."""
        read, weights = self.terms(tree)
        columns, place = np.unique(self.inputs.groups[read], return_inverse=True)
        by_column = np.zeros((len(read), len(columns)))
        by_column[np.arange(len(read)), place] = weights
        return columns, values[:, read] @ by_column

    def __repr__(self) -> str:
        lines = ["member   tree  importance    yes  question"]
        for one in self[:10]:
            numbers = f"{one.member:>6}  {one.tree:>5}  {one.importance:>10.5f}  {one.yes:>5.2f}"
            lines.append(f"{numbers}  {one.rule(4)}")
        more = "… " if len(self) > 10 else ""
        return "\n".join([*lines, f"{more}{len(self)} trees"])

    def to_dicts(self) -> list[Json]:
        """The table as JSON values, one dictionary per tree."""
        return [
            {name: list(v) if isinstance(v, tuple) else v for name, v in vars(tree).items()}
            for tree in self
        ]

    def to_pandas(self) -> DataFrame:
        """The table as a ``pandas.DataFrame``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "Trees.to_pandas", "frames")
        return pandas.DataFrame(self.to_dicts(), columns=self.columns)


def read_trees(model: ForestEstimator, n: int | None = None) -> Trees:
    """List the trees of a fitted model; see :meth:`nrs.NRSClassifier.trees`."""
    check_is_fitted(model)
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise ValueError(f"n must be an integer of at least 1, or None for all; got {n!r}")
    trees = _all_trees(model)
    chosen: Trees = trees[np.argsort(-trees.importance, kind="stable")[:n]]
    return chosen


@torch.no_grad()
def _all_trees(model: ForestEstimator) -> Trees:
    """The trees of a forest or of a single network, member by member."""
    network = copy.deepcopy(model.network_).cpu().double()
    if isinstance(network, ForestNetwork):
        n_inputs, index = network.n_inputs - 1, network.index.flatten(0, 1)
        scale, shift = affine(network.norm)
        weight = network.scaled_weight().flatten(0, 2) * scale
        layers = network.layer_weights()
    elif isinstance(network, TableNetwork) and network.subspaces is not None:
        first = network.subspaces
        if first.depth > 1:
            raise ValueError(
                f"Only trees of one level can be listed; this layer has depth={first.depth}. "
                "Fit with depth 1."
            )
        n_inputs, index = first.in_features, first.subspaces().repeat_interleave(first.n_per, 0)
        weight, shift = folded_stage(first.weight, first.bias, first.norm)
        layers = [one.weight[None] for one in network.layers if isinstance(one, nn.Linear)]
    else:
        raise ValueError(
            f"The model is a plain MLP ({type(network).__name__}) and has no trees. Fit with n_mul "
            "of at least 1."
        )
    # That of the trees comes first.
    norm, *norms = (one for one in network.modules() if isinstance(one, nn.BatchNorm1d))
    members, _, trees = layers[0].shape
    effect = torch.eye(trees, dtype=weight.dtype)
    for layer, after in zip(layers[:-1], norms, strict=True):
        slope = affine(after)[0] * _cut_off(after)[0].unsqueeze(1)
        effect = slope.view(members, -1, 1) * (layer @ effect)
    effect = layers[-1] @ effect
    if effect.shape[1] > 1:
        # Only differences between classes count.
        effect = effect - effect.mean(1, keepdim=True)
    yes, spread = _cut_off(norm)
    response = effect.norm(dim=1).flatten() * spread
    # Numbers beyond the last input read nothing; an input may be read twice.
    tree, place = torch.nonzero(index < n_inputs, as_tuple=True)
    read = weight.flatten(1)[tree, place], (tree, index[tree, place])
    return Trees(
        Inputs(model),
        weight=csr_array(read, shape=(members * trees, n_inputs)),
        shift=shift.flatten().numpy(),
        member=np.repeat(np.arange(members), trees),
        tree=np.tile(np.arange(trees), members),
        yes=yes.numpy(),
        importance=(response / response.sum() if response.any() else response).numpy(),
    )


def _cut_off(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """How often normalised units are positive, and their standard deviation after a ReLU."""
    mean, std = norm.bias, norm.weight.abs().clamp_min(1e-12)
    share = torch.special.ndtr(mean / std)
    density = (mean / std).square().div(-2).exp() / math.sqrt(2 * math.pi)
    first = mean * share + std * density
    second = (mean**2 + std**2) * share + mean * std * density
    return share, (second - first**2).clamp_min(0).sqrt()


@dataclass(frozen=True)
class Interaction:
    """Names of two columns that act together, and their share of the strength of all pairs."""

    first: str
    second: str
    strength: float


def interactions(model: ForestEstimator, X: TableLike, n: int | None = 10) -> list[Interaction]:
    """List the pairs of columns that important trees read together, the strongest first.

    A column's part in a tree is the standard deviation, over the rows of `X`, of what it adds to
    the tree's weighted sum, as a share of all columns of the tree. A pair counts in a tree by the
    product of its parts, since a tree that depends on one column alone joins it with no other.
    Trees are weighted by importance. Strength proves no interaction, which needs shared trees: two
    columns with strong effects of their own also meet in many.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X : rows to measure on; a few hundred are enough.
    n : how many pairs; None for all.

    Examples
    --------
    >>> from nrs import NRSClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, X[:, 0] * X[:, 2] > 0)
    >>> pair = interactions(model, X)[0]
    >>> pair.first, pair.second
    ('x0', 'x2')
    """
    strengths, names = interaction_matrix(model, X), model.encoder_.column_names
    pairs = np.column_stack(np.triu_indices(len(names), 1))
    order = np.argsort(-strengths[tuple(pairs.T)], kind="stable")[:n]
    return [Interaction(names[i], names[j], float(strengths[i, j])) for i, j in pairs[order]]


def interaction_matrix(model: ForestEstimator, X: TableLike) -> np.ndarray:
    """All strengths: symmetric (n_columns, n_columns), zeros on the diagonal, 1 above it in total.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    X : rows to measure on; a few hundred are enough.
    """
    trees = model.trees()
    values = trees.inputs.values(X)
    values -= values.mean(0)
    result = np.zeros((len(trees.inputs.column_names),) * 2)
    for place, importance in enumerate(trees.importance.tolist()):
        columns, parts = trees._by_column(values, place)
        spread = parts.std(0)
        if spread.sum() > 0:
            share = spread / spread.sum()
            result[np.ix_(columns, columns)] += importance * np.outer(share, share)
    np.fill_diagonal(result, 0)
    total = result.sum() / 2
    return result / total if total > 0 else result
