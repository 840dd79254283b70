"""The list of one-level oblique trees that a fitted model is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs._util.optional import import_optional
from nrs.tabular.explain.inputs import Inputs
from nrs.tabular.explain.stems import read_stems


@dataclass(frozen=True)
class Tree:
    """One tree: is ``Σ weight · input ≥ threshold``? If so, it passes on by how much.

    Attributes
    ----------
    member : the member of the forest that it belongs to; 0 for a single network.
    tree : its number in the member.
    columns : names of the columns that it reads.
    inputs : names of what it reads of them: encoded features and bins. A bin ``age[30…45]`` is 0
        below 30, 1 above 45 and in between how far the number has come.
    weights : of the inputs, with the normalisation folded in.
    threshold : what the weighted sum must reach.
    yes : about the share of training rows that reach it.
    importance : share of the model's response that is due to this tree; all trees sum to one.
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
        most : how many inputs to write; the others are counted.

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
    """

    columns: list[str] = [field.name for field in fields(Tree)]  # noqa: RUF012

    def __init__(
        self,
        model: Any,
        inputs: Inputs,
        order: np.ndarray,
        stems: Any,
        importance: np.ndarray,
    ) -> None:
        self._model, self._inputs = model, inputs
        self._order, self._stems, self._importance = order, stems, importance

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Tree]:
        return (self._tree(place) for place in self._order.tolist())

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(f"a column must be one of {self.columns}, however: {key!r}")
            return [getattr(tree, key) for tree in self]
        if isinstance(key, slice):
            order = self._order[key]
            return Trees(self._model, self._inputs, order, self._stems, self._importance)
        return self._tree(int(self._order[key]))

    def _tree(self, place: int) -> Tree:
        stems = self._stems
        read, weights = self._terms(place)
        return Tree(
            member=int(stems.member[place]),
            tree=int(stems.number[place]),
            columns=tuple(self._inputs.columns_of(read)),
            inputs=tuple(self._inputs.names[i] for i in read.tolist()),
            weights=tuple(weights.tolist()),
            threshold=float(-stems.shift[place]),
            yes=float(stems.yes[place]),
            importance=float(self._importance[place]),
        )

    def _terms(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs that the tree reads, each once, and their weights."""
        index, weights = self._stems.index[place], self._stems.weight[place]
        read, where = np.unique(index, return_inverse=True)
        summed = np.bincount(where.reshape(-1), weights, minlength=len(read))
        kept = read < len(self._inputs.names)
        return read[kept], summed[kept]

    def sums(self, X: Any) -> np.ndarray:
        """Weighted sums of the rows of a table minus the thresholds: (n_rows, n_trees).

        A tree says yes where its sum is at least 0, and passes it on; else it passes on 0.

        Parameters
        ----------
        X : a table as ``predict`` takes it.
        """
        inputs = self._inputs.values(self._model, X)
        result = np.empty((len(inputs), len(self)))
        for column, place in enumerate(self._order.tolist()):
            read, weights = self._terms(place)
            result[:, column] = inputs[:, read] @ weights + self._stems.shift[place]
        return result

    def contributions(self, X: Any, tree: int) -> np.ndarray:
        """What each column adds to the weighted sum of one tree: (n_rows, len(tree.columns)).

        They and ``-threshold`` add up to :meth:`sums`.

        Parameters
        ----------
        X : a table as ``predict`` takes it.
        tree : number of the tree in this table.
        """
        read, weights = self._terms(int(self._order[tree]))
        terms = self._inputs.values(self._model, X)[:, read] * weights
        groups, places = np.unique(self._inputs.groups[read], return_inverse=True)
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
        more = f"… {len(self)} trees" if len(self) > 10 else f"{len(self)} trees"
        return "\n".join([head, *lines, more])

    def to_dicts(self) -> list[dict[str, Any]]:
        """The table as JSON values, a dictionary a tree."""
        return [
            {
                name: list(value) if isinstance(value := getattr(tree, name), tuple) else value
                for name in self.columns
            }
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
        raise ValueError(f"n must be an integer of at least 1, or None for all, however: n={n!r}")
    stems = read_stems(model.network_)
    total = stems.response.sum()
    importance = stems.response / total if total > 0 else stems.response
    order = np.argsort(-importance, kind="stable")[:n]
    return Trees(model, Inputs.of(model), order, stems, importance)
