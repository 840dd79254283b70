"""Classes and labels: cross-entropy, temperature, the threshold between two classes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import expit, softmax

from nrs._util.lazy import torch
from nrs.tabular.encode.table import Table
from nrs.tabular.metrics import CLASS_METRICS, LABEL_METRICS
from nrs.tabular.targets.base import (
    Functional,
    Result,
    Target,
    conformal_quantiles,
    find_temperature,
    mean_odds,
    mean_probabilities,
)
from nrs.tabular.targets.labels import array_from_state, array_state, onnx_labels, shown
from nrs.tabular.targets.own import Loss, OwnLoss
from nrs.tabular.threshold import Threshold, find_threshold, is_learned

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import Json


NONE = np.empty(0)


class ClassTarget(Target):
    """One of several classes: cross-entropy on one output per class.

    Parameters
    ----------
    classes : the labels, ascending.
    threshold : of two classes, see :mod:`nrs.tabular.threshold`.
    class_weights : (n_classes,) how much rows count in training by their class, equally by default.
        Outputs are then the log-probabilities of rows that come so much more often, and say which
        class is predicted; probabilities are those of rows as they come.
    """

    kind, nouns, task = "classes", "classes", "classes"
    oob_name = "oob_decision_function_"
    criterion = Functional("cross_entropy")
    combine = staticmethod(mean_probabilities)
    metrics = CLASS_METRICS
    has_temperature, calibrate = True, find_temperature

    def __init__(
        self,
        classes: np.ndarray = NONE,
        threshold: Threshold = None,
        class_weights: np.ndarray | None = None,
    ) -> None:
        self._take(classes)
        self.class_weights = class_weights
        # Learned by `settle`, or given.
        self.rule: Threshold = None
        self.threshold: float | None = None
        if threshold is not None:
            self.decide_by(threshold)

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> Self:
        target = copy.copy(self)
        target._take(np.unique(y))
        return target

    def _take(self, classes: np.ndarray) -> None:
        self.classes, self.n_outputs = classes, len(classes)
        self.choices = [self.n_outputs]

    def decide_by(self, threshold: Threshold) -> None:
        """Predict the second of two classes from this probability on; a rule finds it."""
        if is_learned(threshold):
            self.rule = threshold
        else:
            self.threshold = float(threshold)  # type: ignore[arg-type]
        if len(self.classes) != 2:
            raise ValueError(
                f"threshold is for two classes; y has {len(self.classes)}. Leave threshold out."
            )

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Positions of the labels among the classes.

        Raises
        ------
        ValueError
            If a label is not one of the classes, or a row has several.
        """
        if y.ndim != 1:
            raise ValueError(
                f"y must have one label per row as in training; its shape is {y.shape}. Pass "
                "labels of shape (n_rows,), or fit again."
            )
        position = np.searchsorted(self.classes, y)
        position = np.minimum(position, len(self.classes) - 1)
        unknown = self.classes[position] != y
        if unknown.any():
            raise ValueError(
                f"y holds the label {y[unknown].tolist()[0]!r}, which is not among the classes "
                f"{shown(self.classes)}"
            )
        return position.astype(np.int64)

    def encode_column(self, table: Table) -> np.ndarray:
        return self.encode_place(table, 0, slice(None))

    def encode_place(self, table: Table, place: int, rows: np.ndarray | slice) -> np.ndarray:
        """Some rows of a column of a table of labels, encoded."""
        kind = self.classes.dtype.kind
        if kind == "U":
            column = table.column(place, "category")
            # Only the levels are looked up; the rows of each follow.
            return self.encode(np.array(column.levels))[column.values[rows]]
        values = table.column(place, "boolean" if kind == "b" else "number").values[rows]
        return self.encode(values.astype(self.classes.dtype))

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        return outputs.softmax(1) - torch.nn.functional.one_hot(y, self.n_outputs).t()

    def indicators(self, y: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        hot: np.ndarray = y[:, None] == (np.arange(self.n_outputs) if outputs is None else outputs)
        return hot.astype(np.float64)

    def frequency(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        # One column per class would not fit in memory if they are many.
        return np.bincount(y, weights, self.n_outputs)

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        # In float64, so that the rows sum to one as precisely as scikit-learn expects; by SciPy
        # (as sigmoids below), because torch rounds the last rows of a batch differently.
        return softmax(np.asarray(outputs, dtype=np.float64) - self.prior, axis=1)

    @property
    def prior(self) -> np.ndarray:
        """Logarithms of the classes' weights, (n_classes,)."""
        if self.class_weights is None:
            return np.zeros(self.n_outputs)
        # A class of weight 0 is never learned.
        return np.log(np.where(self.class_weights > 0, self.class_weights, 1.0))

    @property
    def directions(self) -> list[int]:
        if self.n_outputs > 2:
            raise ValueError(
                f"monotone is for numbers and for two classes; y has {self.n_outputs} classes. "
                "Leave monotone out."
            )
        return [-1, 1][: self.n_outputs]

    def labels(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        if self.threshold is not None:
            return self.choose(self.answer(outputs))
        return self.classes[np.asarray(outputs, dtype=np.float64).argmax(1)]

    def choose(self, chances: np.ndarray) -> np.ndarray:
        """Labels from probabilities."""
        if self.threshold is not None:
            return self.classes[(chances[:, 1] >= self.threshold).astype(int)]
        weights = 1.0 if self.class_weights is None else self.class_weights
        return self.classes[(chances * weights).argmax(1)]

    @property
    def cut(self) -> float:
        """The probability from which on the second of two classes is predicted."""
        if self.threshold is not None:
            return self.threshold
        if self.class_weights is None:
            return 0.5
        return float(self.class_weights[0] / self.class_weights.sum())

    def settle(
        self, outputs: Tensor, y: Tensor, counted: Tensor | None
    ) -> tuple[np.ndarray, float, np.ndarray | None]:
        answers, errors = self.answer(outputs), self.residuals(outputs, y, counted)
        if self.rule is not None:
            counts = None if counted is None else counted.numpy()
            chances = answers[:, 1]
            self.threshold = find_threshold(self.rule, self.classes, y.numpy() > 0, chances, counts)
        if self.threshold is None:
            return answers, self.score(outputs, y, counted), errors
        right = torch.from_numpy(self.choose(answers) == self.truth(y))
        return answers, _mean(right, counted), errors

    def truth(self, y: Tensor) -> np.ndarray:
        return self.classes[y.cpu().numpy()]

    def default_score(
        self, measured: dict[str, float], outputs: Tensor, y: Tensor, weights: Tensor | None
    ) -> float:
        right = outputs.argmax(1) == y
        measured["val_accuracy"] = accuracy = float(right.float().mean())
        if weights is not None:
            # Rows that weigh nothing should not decide either.
            accuracy = _mean(right, weights)
        return accuracy - 0.1 * measured["val_loss"]

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        return _mean(outputs.argmax(1) == y, weights)

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> np.ndarray | None:
        """How improbable the labels of out-of-bag rows are, (N_QUANTILES, 1)."""
        missed = 1 - self.answer(outputs)[np.arange(len(y)), y.cpu().numpy()]
        weight = np.ones(len(missed)) if weights is None else weights.double().cpu().numpy()
        return conformal_quantiles(missed, weight)[:, None]

    def entropy(self, p: np.ndarray) -> np.ndarray:
        """Entropy of probabilities as a share of the largest possible one, ``(n,)``."""
        p = np.clip(p, np.finfo(np.float64).tiny, 1)
        return -(p * np.log(p)).sum(1) / np.log(max(2, p.shape[1]))

    def decision(self, outputs: np.ndarray) -> np.ndarray:
        """What `decision_function` returns: for two classes the log-odds of the second."""
        if self.n_outputs != 2:
            return outputs
        return outputs[:, 1] - outputs[:, 0]

    def main_output(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(1) if self.n_outputs > 2 else torch.ones(len(outputs)).long()

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """The log-odds of a class against all others."""
        own = super().explained(outputs, chosen)
        if self.n_outputs == 1:
            return own
        return own - outputs.scatter(1, chosen[:, None], -torch.inf).logsumexp(1)

    def to_torch(self) -> nn.Module:
        from nrs.tabular.targets.modules import Unweighted

        return torch.nn.Softmax(1) if self.class_weights is None else Unweighted(self.prior)

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        classes, unweighted = onnx_labels(self.classes), outputs
        if self.class_weights is not None:
            prior = graph.constant(self.prior.astype(np.float32))
            unweighted = graph.op("Sub", outputs, prior)
        shares = graph.op("Softmax", unweighted, axis=1)
        if self.threshold is None:
            best = graph.op("ArgMax", outputs, axis=1, keepdims=0)
        else:
            second = graph.reshape(graph.columns(shares, [1]), -1)
            level = graph.constant(np.float32(self.threshold))
            best = graph.cast(graph.op("GreaterOrEqual", second, level), np.int64)
        label = graph.op("Gather", graph.constant(classes), best, axis=0)
        shape = (self.n_outputs,)
        return [("label", label, classes.dtype, ()), ("probabilities", shares, np.float32, shape)]

    def state(self) -> Json:
        state: Json = {"kind": self.kind, "classes": array_state(self.classes)}
        if self.threshold is not None:
            state["threshold"] = self.threshold
        if self.class_weights is not None:
            state["class_weights"] = [weight.hex() for weight in self.class_weights.tolist()]
        return state

    @classmethod
    def from_state(cls, state: Json) -> Self:
        weights = state.get("class_weights")
        if weights is not None:
            weights = np.array([float.fromhex(weight) for weight in weights])
        return cls(array_from_state(state["classes"]), state.get("threshold"), weights)


class MultilabelTarget(Target):
    """Labels of which several may hold at once: binary cross-entropy on one output per label."""

    kind, nouns, task = "multilabel", "several labels per row", "multilabel"
    several = True
    oob_name = "oob_decision_function_"
    criterion = Functional("binary_cross_entropy_with_logits")
    combine = staticmethod(mean_odds)
    metrics = LABEL_METRICS
    has_temperature, calibrate = True, find_temperature

    def __init__(self, n_labels: int = 0) -> None:
        self.n_outputs = n_labels
        self.classes = np.arange(n_labels)

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> Self:
        target = copy.copy(self)
        target.n_outputs = y.shape[1]
        target.classes = np.arange(target.n_outputs)
        return target

    def encode(self, y: np.ndarray) -> np.ndarray:
        """The 0/1 labels as float32, ``(n, labels)``.

        Raises
        ------
        ValueError
            If the number of labels is another one than in training.
        """
        if y.ndim != 2 or y.shape[1] != self.n_outputs:
            raise ValueError(
                f"y must have {self.n_outputs} labels per row, each 0 or 1, as in training; its "
                f"shape is {y.shape}. Pass labels of shape ({len(y)}, {self.n_outputs}), or fit "
                "again."
            )
        if y.dtype.kind == "O" and not np.isin(y, (0, 1)).all():
            raise ValueError("y must hold 0 or 1 in each column, as in training; it holds others")
        return np.ascontiguousarray(y, dtype=np.float32)

    def encode_column(self, table: Table) -> np.ndarray:
        columns = [table.column(place, "number").values for place in range(table.n_columns)]
        return self.encode(np.column_stack(columns))

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs.sigmoid() - y.t()) / self.n_outputs

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        return expit(np.asarray(outputs, dtype=np.float64))

    def labels(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        return (np.asarray(outputs, dtype=np.float64) > 0).astype(np.int64)

    def truth(self, y: Tensor) -> np.ndarray:
        return y.cpu().numpy().astype(int)

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        return _mean(((outputs > 0) == (y > 0.5)).all(1), weights)

    def entropy(self, p: np.ndarray) -> np.ndarray:
        """Mean entropy of the labels in bits, ``(n,)``."""
        tiny = np.finfo(np.float64).tiny
        p, q = np.clip(p, tiny, 1), np.clip(1 - p, tiny, 1)
        return -(p * np.log2(p) + q * np.log2(q)).mean(1)

    def decision(self, outputs: np.ndarray) -> np.ndarray:
        """What `decision_function` returns: the log-odds of each label."""
        return outputs

    def to_torch(self) -> nn.Module:
        return torch.nn.Sigmoid()

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        positive = graph.op("Greater", outputs, graph.constant(np.float32(0)))
        labels, shares = graph.cast(positive, np.int64), graph.op("Sigmoid", outputs)
        shape = (self.n_outputs,)
        return [("labels", labels, np.int64, shape), ("probabilities", shares, np.float32, shape)]

    def state(self) -> Json:
        return {"kind": self.kind, "n_labels": self.n_outputs}

    @classmethod
    def from_state(cls, state: Json) -> Self:
        return cls(state["n_labels"])


class OwnClasses(OwnLoss, ClassTarget):
    """One of several classes; the labels are their numbers, and probabilities a softmax."""

    kind = "own_classes"

    def calibrate(self, outputs: Tensor, y: Tensor, weights: Tensor | None = None) -> float:
        # Probabilities are right by their own loss.
        return find_temperature(ClassTarget(self.classes), outputs, y, weights)


class OwnLabels(OwnLoss, MultilabelTarget):
    """Several labels per row, 0 or 1 each; probabilities are sigmoids."""

    kind = "own_multilabel"

    def calibrate(self, outputs: Tensor, y: Tensor, weights: Tensor | None = None) -> float:
        return find_temperature(MultilabelTarget(self.n_outputs), outputs, y, weights)


def class_target(
    classes: np.ndarray,
    loss: Loss = "log_loss",
    threshold: Threshold = None,
    class_weights: np.ndarray | None = None,
) -> Target:
    """The target of one of these classes, ascending, by its loss.

    `class_weights` are those of :class:`ClassTarget`; of another loss they count in training only.

    Raises
    ------
    ValueError
        If there is no such loss, or a threshold is not for this target.
    """
    if loss == "log_loss":
        return ClassTarget(classes, threshold, class_weights)
    target = own_target(loss, OwnClasses()).learned(classes)
    if isinstance(target, ClassTarget) and threshold is not None:
        target.decide_by(threshold)
    return target


def own_target(loss: Loss, of_function: OwnClasses | OwnLabels) -> Target:
    """A loss of the user's own: a target, or a function that `of_function` is made for."""
    given = loss() if isinstance(loss, type) else loss
    if isinstance(given, Target):
        return given
    if callable(given):
        return of_function.use(given)
    raise ValueError(f"loss must be 'log_loss', a function or a Target; got {loss!r}")


def _mean(right: Tensor, weights: Tensor | None) -> float:
    """Share of rows, by weight."""
    if weights is None:
        return float(right.double().mean())
    return float((right.double() * weights).sum() / weights.sum().clamp_min(1e-30))
