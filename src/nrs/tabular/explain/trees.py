"""The list of one-level oblique trees that a fitted model is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs._util.optional import import_optional
from nrs.tabular.explain.inputs import Inputs, Model
from nrs.tabular.explain.stems import Stems, read_stems


@dataclass(frozen=True)
class Tree:
    """One tree: is ``Σ weight · input ≥ threshold``? If so, its output is the excess, else 0.

    Attributes
    ----------
    member : the member of the forest that it belongs to; 0 for a single network.
    tree : its number in the member.
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
        order = sorted(range(len(self.inputs)), key=lambda i: -abs(self.weights[i]))
        terms = [f"{self.weights[i]:+.2f}·{self.inputs[i]}" for i in order[:most]]
        text = " ".join(terms).removeprefix("+") or "0"
        if len(order) > most:
            text += f" … ({len(order) - most} more)"
        return f"{text} ≥ {self.threshold:.2f}"


class Trees:
    """A table of trees, the most important first; made by :meth:`nrs.NRSClassifier.trees`.

    ``trees[0]`` is a :class:`Tree`, ``trees["importance"]`` a column, ``trees[:5]`` a part of the
    table.

    Attributes
    ----------
    columns : list of str, the names of the table's columns.
    inputs : Inputs, what the trees can read.
    importance : ndarray (n_trees,)
    """

    columns: list[str] = [field.name for field in fields(Tree)]  # noqa: RUF012

    def __init__(self, model: Model, inputs: Inputs, stems: Stems, importance: np.ndarray) -> None:
        self._model, self._stems = model, stems
        self.inputs, self.importance = inputs, importance

    def __len__(self) -> int:
        return len(self.importance)

    def __iter__(self) -> Iterator[Tree]:
        return map(self._tree, range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(f"No column {key!r}; the columns are {self.columns}")
            return [getattr(tree, key) for tree in self]
        if isinstance(key, slice):
            kept = self._stems.take(key)
            return Trees(self._model, self.inputs, kept, self.importance[key])
        return self._tree(range(len(self))[key])

    def _tree(self, place: int) -> Tree:
        stems = self._stems
        read, weights = self.terms(place)
        return Tree(
            member=int(stems.member[place]),
            tree=int(stems.number[place]),
            columns=tuple(self.inputs.columns_of(read)),
            inputs=tuple(self.inputs.names[i] for i in read.tolist()),
            weights=tuple(weights.tolist()),
            threshold=float(-stems.shift[place]),
            yes=float(stems.yes[place]),
            importance=float(self.importance[place]),
        )

    def terms(self, tree: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the inputs that a tree reads, each once, and their weights.

        Parameters
        ----------
        tree : number of the tree in this table.
        """
        index, weights = self._stems.index[tree], self._stems.weight[tree]
        read, where = np.unique(index, return_inverse=True)
        summed = np.bincount(where.reshape(-1), weights, minlength=len(read))
        kept = read < len(self.inputs.names)
        return read[kept], summed[kept]

    def sums(self, X: Any) -> np.ndarray:
        """Weighted sums of the rows of a table minus the thresholds: (n_rows, n_trees).

        A tree says yes where its sum is at least 0; its output is the sum there, and else 0.

        Parameters
        ----------
        X : a table as ``predict`` takes it.
        """
        inputs = self.inputs.values(self._model, X)
        result = np.empty((len(inputs), len(self)))
        for place in range(len(self)):
            read, weights = self.terms(place)
            result[:, place] = inputs[:, read] @ weights + self._stems.shift[place]
        return result

    def contributions(self, X: Any, tree: int) -> np.ndarray:
        """What each column adds to the weighted sum of one tree: (n_rows, len(tree.columns)).

        They and ``-threshold`` add up to :meth:`sums`.

        Parameters
        ----------
        X : a table as ``predict`` takes it.
        tree : number of the tree in this table.
        """
        read, weights = self.terms(tree)
        terms = self.inputs.values(self._model, X)[:, read] * weights
        groups, places = np.unique(self.inputs.groups[read], return_inverse=True)
        result = np.zeros((len(terms), len(groups)))
        np.add.at(result.T, places, terms.T)
        return result

    def __repr__(self) -> str:
        head = f"{'member':>6}  {'tree':>5}  {'importance':>10}  {'yes':>5}  question"
        lines = [
            f"{tree.member:>6}  {tree.tree:>5}  {tree.importance:>10.5f}  {tree.yes:>5.2f}  "
            f"{tree.rule(4)}"
            for tree in self[:10]
        ]
        more = "… " if len(self) > 10 else ""
        return "\n".join([head, *lines, f"{more}{len(self)} trees"])

    def to_dicts(self) -> list[dict[str, Any]]:
        """The table as JSON values, one dictionary per tree."""
        return [
            {name: list(v) if isinstance(v, tuple) else v for name, v in vars(tree).items()}
            for tree in self
        ]

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "Trees.to_pandas", "frames")
        return pandas.DataFrame(self.to_dicts(), columns=self.columns)


def read_trees(model: Any, n: int | None = None) -> Trees:
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
    total = stems.response.sum()
    importance = stems.response / total if total > 0 else stems.response
    order = np.argsort(-importance, kind="stable")[:n]
    return Trees(model, Inputs.of(model), stems.take(order), importance[order])
