"""What `None` means for a ranker: the values of its presets, and the target they train."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit

from nrs._util.lazy import torch
from nrs.ranking.losses import GAIN_LOSSES, LOSSES, find_loss, mean_of_queries
from nrs.tabular.recipe import Recipe, given_of
from nrs.tabular.targets import Target

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.ranking.batches import QueryBatch
    from nrs.tabular.export.graph import Graph
    from nrs.tabular.targets.base import Result

# What only a ranker decides: a table's batches count rows.
_OWN = ("loss", "query_scale", "batch_size")
# Gains 2^y − 1 of float32, and sums of them, are finite up to this.
MAX_GRADE = 100


@dataclass(frozen=True)
class RankRecipe(Recipe):
    """Everything that decides a ranker's fit besides the data and the seed.

    `batch_size` counts queries.
    """

    loss: Any = "lambdarank"
    sigmoid: bool = False
    query_scale: Literal["none", "standard"] = "none"


def rank_recipe(
    preset: str, plain: Recipe, chosen: Mapping[str, Any], queries: int, rows: int
) -> RankRecipe:
    """Turn a table's recipe into a ranker's.

    Parameters
    ----------
    plain : what the preset and the user's choices give for a table.
    chosen : the user's choices; None means the preset's.
    queries, rows : number of training queries and of their documents.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """
    if plain.members:
        own = _forest(plain, queries, rows)
    else:
        own = _paper() if preset == "paper" else _single(queries)
    given = given_of(chosen)
    of_table = {field.name: getattr(plain, field.name) for field in fields(plain)}
    # What a table has too is in its recipe, as far as the user chose it.
    kept = {name: value for name, value in own.items() if name not in given}
    ours = {name: given[name] for name in _OWN if name in given}
    recipe = RankRecipe(**of_table | kept | ours)
    find_loss(recipe.loss)
    if not hasattr(recipe.batch_size, "__index__") or recipe.batch_size < 1:
        raise ValueError(
            f"batch_size must be a number of queries of at least 1; got {recipe.batch_size!r}"
        )
    if recipe.query_scale not in ("none", "standard"):
        raise ValueError(f"query_scale must be 'none' or 'standard'; got {recipe.query_scale!r}")
    return recipe


def _paper() -> dict[str, Any]:
    """The paper's protocol (Section "Document Retrieval Datasets").

    A feed-forward network of one layer with a sigmoid output and a dropout of 0.01 after NRS with
    n_mul 2; Adam, L2 regularisation, one query a step. The epoch is chosen on validation data; how
    many there are is not told.
    """
    return {
        "n_mul": 2, "hidden": (), "dropout": 0.01, "sigmoid": True, "scale": "standard",
        "lr": 1e-3, "weight_decay": 1e-3, "batch_size": 1, "epochs": 50, "patience": 10,
        "validation_fraction": 0.2,
    }  # fmt: skip


def _forest(plain: Recipe, queries: int, rows: int) -> dict[str, Any]:
    """A table's forest, with steps of about as many documents in whole queries."""
    batch_size = max(1, round(plain.batch_size * queries / rows))
    # Levels and cycles are decided by the losses of single rows, which a ranker has none of.
    return {"batch_size": batch_size, "levels": 0, "cycles": 1}


def _single(queries: int) -> dict[str, Any]:
    """A small network that stops where held-out queries say so, with averaged weights."""
    batch_size = 16 if queries < 5_000 else 64
    epochs = max(20, math.ceil(1_000 * batch_size / max(1, queries)))
    return {
        "n_mul": 2, "hidden": (64,), "batch_size": batch_size, "epochs": min(epochs, 200),
        "patience": max(8, min(epochs, 200) // 3),
        # Fewer queries than this cannot spare any.
        "validation_fraction": 0.2 if queries >= 10 else 0.0,
    }  # fmt: skip


class RankTarget(Target):
    """Grades of relevance: one score a document, and the loss on padded queries."""

    kind, nouns, task = "ranking", "grades", "ranking"
    n_outputs = 1

    def __init__(self, loss: Any, *, sigmoid: bool = False) -> None:
        self.loss_name = getattr(loss, "__name__", "callable") if callable(loss) else str(loss)
        self._loss = None if loss is None else find_loss(loss)
        if callable(loss) and LOSSES.get(self.loss_name, loss) is not loss:
            # A function of the user's own that is called like one of ours.
            self.loss_name = "callable"
        self.sigmoid = sigmoid

    def again(self, loss: Any) -> RankTarget:
        if loss is not None and self._loss is None:
            return RankTarget(loss, sigmoid=self.sigmoid)
        super().again(loss)
        return self

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Labels as float32.

        Raises
        ------
        ValueError
            If the loss takes gains and a label is negative, fractional or above `MAX_GRADE`, or
            a label is beyond float32.
        """
        if self.loss_name in GAIN_LOSSES and not are_grades(y):
            wrong = y[not_grades(y)][0]
            raise ValueError(
                f"y must hold grades 0, 1, 2, … up to {MAX_GRADE} for loss={self.loss_name!r}, "
                f"which takes gains 2^y − 1; got {wrong:g}. Map the labels to grades, or use a "
                "loss without gains ('ranknet', 'listnet', 'rank_cosine')."
            )
        most = float(np.finfo(np.float32).max)
        if np.abs(y).max() > most:
            raise ValueError(
                f"y must hold numbers up to {most:.2g}; got {np.abs(y).max():g}. Divide the "
                "labels by a constant."
            )
        return y.astype(np.float32)

    def scores(self, output: Tensor) -> Tensor:
        """Scores of documents from the network's outputs: (n, 1) to (n,)."""
        scores = output[:, 0]
        return scores.sigmoid() if self.sigmoid else scores

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        scores = np.asarray(outputs[:, 0], dtype=np.float64)
        return expit(scores) if self.sigmoid else scores

    def to_torch(self) -> nn.Module:
        return torch.nn.Sigmoid() if self.sigmoid else torch.nn.Identity()

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        scores = graph.op("Sigmoid", outputs) if self.sigmoid else outputs
        flat = graph.reshape(graph.cast(scores, np.float64), -1)
        return [("score", flat, np.float64, ())]

    def padded_loss(
        self,
        scores: Tensor,
        labels: Tensor,
        mask: Tensor,
        weights: Tensor | None = None,
        propensity: Tensor | None = None,
    ) -> Tensor:
        """The loss of a rectangle; weights are (queries,), the rest (queries, documents)."""
        if self._loss is None:
            raise ValueError(
                "the loss of a loaded ranker was a function, which is not saved. Load it with "
                "load(path, loss=…) to train it further."
            )
        if self._loss in LOSSES.values():
            return self._loss(scores, labels, mask, weights=weights, propensity=propensity)
        if propensity is not None:
            raise ValueError(
                "propensity needs a loss of nrs.ranking.losses; got a function. Weigh the clicks "
                "in it, or pass a name."
            )
        if weights is None:
            return self._loss(scores, labels, mask)
        # A function gives the mean of a batch: of one query at a time.
        each = [
            self._loss(*(part[k, None] for part in (scores, labels, mask)))
            for k in range(len(scores))
        ]
        return mean_of_queries(torch.stack(each), weights)

    def batch_loss(self, scores: Tensor, batch: QueryBatch, chosen: Tensor | None = None) -> Tensor:
        """The loss of documents' scores, (documents,) or (members, documents).

        Parameters
        ----------
        chosen : (members, queries) bool, the queries that each member learns from; None for all.
        """
        padded = batch.padded(scores)
        parts: list[Tensor | None] = [batch.padded(batch.y), batch.mask(), batch.weights]
        parts += [None if batch.propensity is None else batch.padded(batch.propensity)]
        if scores.ndim == 2:
            parts = [None if one is None else one.expand(len(scores), *one.shape) for one in parts]

        def flat(one: Tensor | None) -> Any:
            if one is None or scores.ndim == 1:
                return one
            return one.flatten(0, 1) if chosen is None else one[chosen]

        return self.padded_loss(flat(padded), *map(flat, parts))

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "loss": self.loss_name, "sigmoid": self.sigmoid}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> RankTarget:
        known = state["loss"] if state["loss"] in LOSSES else None
        return cls(known, sigmoid=state["sigmoid"])


def not_grades(y: np.ndarray) -> np.ndarray:
    """Which labels are not whole numbers from 0 to `MAX_GRADE`.

    >>> not_grades(np.array([0.0, 0.5, 2.0, 365.0])).tolist()
    [False, True, False, True]
    """
    return ~((y >= 0) & (y == np.floor(y)) & (y <= MAX_GRADE))


def are_grades(y: np.ndarray) -> bool:
    """Whether all labels are whole numbers from 0, of which gains can be taken.

    >>> are_grades(np.array([0.0, 2.0])), are_grades(np.array([0.5]))
    (True, False)
    """
    return not not_grades(y).any()
