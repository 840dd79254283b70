"""The list of one-level oblique trees that a fitted model is, and the columns that they join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs._util.optional import import_optional
from nrs.tabular.explain.stems import Inputs, Stems, read_stems
from nrs.tabular.forest.estimator import ForestEstimator

if TYPE_CHECKING:
    from pandas import DataFrame


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


class Trees:
    """A table of trees, the most important first; made by :meth:`nrs.NRSClassifier.trees`.

    ``trees[0]`` is a :class:`Tree`, ``trees["importance"]`` a column, ``trees[:5]`` a table.

    Attributes
    ----------
    columns : names of the table's columns.
    inputs : what the trees can read.
    importance : (n_trees,)
    """

    columns: list[str] = [field.name for field in fields(Tree)]  # noqa: RUF012

    def __init__(self, inputs: Inputs, stems: Stems) -> None:
        self.inputs, self.importance, self._stems = inputs, stems.importance, stems

    def __len__(self) -> int:
        return len(self.importance)

    def __iter__(self) -> Iterator[Tree]:
        return map(self._tree, range(len(self)))

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(f"No column {key!r}; the columns are {self.columns}")
            return [getattr(tree, key) for tree in self]
        if isinstance(key, slice):
            return Trees(self.inputs, self._stems.take(key))
        return self._tree(range(len(self))[key])

    def _tree(self, place: int) -> Tree:
        stems, inputs = self._stems, self.inputs
        read, weights = self.terms(place)
        return Tree(
            member=int(stems.member[place]),
            tree=int(stems.number[place]),
            columns=tuple(inputs.column_names[i] for i in np.unique(inputs.groups[read])),
            inputs=tuple(inputs.names[i] for i in read),
            weights=tuple(weights.tolist()),
            threshold=float(-stems.shift[place]),
            yes=float(stems.yes[place]),
            importance=float(stems.importance[place]),
        )

    def terms(self, tree: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the inputs that a tree reads, each once, and their weights.

        Parameters
        ----------
        tree : number of the tree in this table.
        """
        row = self._stems.weight[[tree]]
        return row.indices, row.data

    def sums(self, X: Any) -> np.ndarray:
        """Weighted sums of the rows minus the thresholds, (n_rows, n_trees); yes is 0 or more.

        Parameters
        ----------
        X : a table as ``predict`` takes it.
        """
        sums: np.ndarray = self.inputs.values(X) @ self._stems.weight.T + self._stems.shift
        return sums

    def contributions(self, X: Any, tree: int) -> np.ndarray:
        """What each column of one tree adds to its weighted sum, (n_rows, len(tree.columns)).

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

    def to_dicts(self) -> list[dict[str, Any]]:
        """The table as JSON values, one dictionary per tree."""
        return [
            {name: list(v) if isinstance(v, tuple) else v for name, v in vars(tree).items()}
            for tree in self
        ]

    def to_pandas(self) -> DataFrame:
        """The table as a ``pandas.DataFrame``; pandas must be installed."""
        pandas = import_optional("pandas", "Trees.to_pandas", "frames")
        return pandas.DataFrame(self.to_dicts(), columns=self.columns)


def read_trees(model: ForestEstimator, n: int | None = None) -> Trees:
    """List the trees of a fitted model; see :meth:`nrs.NRSClassifier.trees`.

    Parameters
    ----------
    model : a fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`.
    n : how many trees, the most important first; None for all.
    """
    check_is_fitted(model)
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise ValueError(f"n must be an integer of at least 1, or None for all; got {n!r}")
    stems = read_stems(model.network_)
    order = np.argsort(-stems.importance, kind="stable")[:n]
    return Trees(Inputs(model), stems.take(order))


@dataclass(frozen=True)
class Interaction:
    """Names of two columns that act together, and their share of the strength of all pairs."""

    first: str
    second: str
    strength: float


def interactions(model: ForestEstimator, X: Any, n: int | None = 10) -> list[Interaction]:
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


def interaction_matrix(model: ForestEstimator, X: Any) -> np.ndarray:
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
