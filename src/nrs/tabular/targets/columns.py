"""Several columns of classes: a cross-entropy for each, of which some labels may be missing."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from nrs._util.arrays import A, concatenate, split
from nrs._util.lazy import torch
from nrs.tabular.encode.columns import labels_as_array, missing_cells, read_labels
from nrs.tabular.metrics import CLASS_METRICS, Metric
from nrs.tabular.targets.base import (
    Result,
    Target,
    find_temperature,
    mean_loss,
    mean_probabilities,
)
from nrs.tabular.targets.classes import ClassTarget, MultilabelTarget, OwnLabels, own_target
from nrs.tabular.targets.labels import weights_of_classes
from nrs.tabular.targets.own import Loss
from nrs.tabular.threshold import Threshold

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.tabular.encode.table import Table
    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import ArrayLike, ClassWeights, Json

# The number of a label that is missing.
MISSING = -1


def _of_columns(metric: Metric) -> Metric:
    """The mean of a metric of classes over the columns, each by its known labels."""

    def measure(target: Target, y: Tensor, outputs: Tensor) -> float:
        assert isinstance(target, ColumnsTarget)
        found = [
            metric.measure(column, labels[known], part[known])
            for column, part, labels, known in target.known(outputs, y)
            if known.any()
        ]
        return float(np.mean(found))

    return Metric(measure, metric.sign)


class ColumnsTarget(Target):
    """Several columns of classes: the mean of their cross-entropies.

    A network has an output for each class of each column. Encoded labels are the numbers of the
    classes, -1 where one is missing: these count in no loss, score or calibration. Each column has
    a temperature of its own.

    Parameters
    ----------
    columns : sequence of ClassTarget
        Weights of classes are those of the losses, not of the rows.

    Examples
    --------
    >>> labels = np.array([["red", 1], ["blue", None], ["red", 3]], dtype=object)
    >>> target = ColumnsTarget.of(labels)
    >>> [one.tolist() for one in target.classes], target.encode(labels).tolist()
    ([['blue', 'red'], [1, 3]], [[1, 0], [0, -1], [1, 1]])
    """

    kind, nouns, task = "columns", "several columns of classes", "columns"
    several = True
    oob_name = "oob_decision_function_"
    loss = mean_loss
    has_temperature, calibrate = True, find_temperature
    metrics = {name: _of_columns(one) for name, one in CLASS_METRICS.items()}  # noqa: RUF012

    def __init__(self, columns: Sequence[ClassTarget] = ()) -> None:
        self.columns = list(columns)
        self.choices = self.sizes = [one.n_outputs for one in self.columns]
        self.n_outputs = sum(self.sizes)
        self.classes = [one.classes for one in self.columns]
        # What divides the outputs of each column, besides the temperature of all.
        self.temperatures = [1.0] * len(self.columns)

    @classmethod
    def of(
        cls,
        labels: np.ndarray,
        class_weight: ClassWeights | Sequence[ClassWeights] = None,
        classes: Sequence[np.ndarray] | np.ndarray | None = None,
    ) -> Self:
        """The target of labels as :func:`label_columns` gives them.

        Parameters
        ----------
        class_weight : "balanced", or one for each column, as of :class:`nrs.NRSClassifier`.
        classes : all that will ever come, of each column.

        Raises
        ------
        ValueError
            If a column has no label, or `class_weight` is not for these columns.
        """
        n = labels.shape[1]
        if classes is not None and len(classes) != n:
            raise ValueError(f"classes must list the labels of all {n} columns of y, in a list")
        counts = [np.unique(_known(one, k), return_counts=True) for k, one in enumerate(labels.T)]
        every = [None] * n if classes is None else classes
        return cls.counted(counts, class_weight, every)

    @classmethod
    def counted(
        cls,
        counts: Sequence[tuple[np.ndarray, np.ndarray]],
        class_weight: ClassWeights | Sequence[ClassWeights] = None,
        classes: Sequence[np.ndarray | None] | np.ndarray = (),
    ) -> Self:
        """As :meth:`of`, from the labels of each column, ascending, and how many rows have each."""
        found = []
        each = itertools.zip_longest(counts, _of_each(class_weight, len(counts)), classes)
        for (known, rows), weight, listed in each:
            every = known if listed is None else np.unique(listed)
            target = ClassTarget(every)
            if weight is not None:
                own = weights_of_classes(weight, known, rows)
                weights = np.ones(len(every))
                weights[target.encode(known)] = own * rows.sum() / (own @ rows)
                target = ClassTarget(every, None, weights)
            found.append(target)
        return cls(found)

    @property
    def n_targets(self) -> int:
        return len(self.columns)

    def known(
        self, outputs: Tensor, y: Tensor
    ) -> Iterator[tuple[ClassTarget, Tensor, Tensor, Tensor]]:
        """Each column with its (B, C) outputs, its labels, and which of these are known."""
        for column, part, labels in zip(self.columns, self._parts(outputs), y.t(), strict=True):
            yield column, part, labels, labels >= 0

    def _parts(self, outputs: A) -> list[A]:
        """(B, C) outputs by column, each by its temperature."""
        parts = split(outputs, self.sizes, 1)
        return [part / one for part, one in zip(parts, self.temperatures, strict=True)]

    def by_column(self, values: np.ndarray) -> list[np.ndarray]:
        """(…, C) values of all classes as one array per column."""
        return np.split(values, np.cumsum(self.sizes)[:-1], axis=-1)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Numbers of the classes, (n, columns); -1 where a label is missing.

        Raises
        ------
        ValueError
            If there are more or fewer columns than in training, or a label is not known.
        """
        if y.ndim != 2 or y.shape[1] != self.n_targets:
            raise ValueError(
                f"y must have {self.n_targets} labels per row as in training; its shape is "
                f"{y.shape}. Pass labels of shape ({len(y)}, {self.n_targets}), or fit again."
            )
        found = np.full(y.shape, MISSING, dtype=np.int64)
        for place, (column, labels) in enumerate(zip(self.columns, y.T, strict=True)):
            known = ~missing_cells(labels)
            if known.any():
                found[known, place] = column.encode(read_labels(labels[known], "y"))
        return found

    def encode_column(self, table: Table) -> np.ndarray:
        found = np.full((table.n_rows, self.n_targets), MISSING, dtype=np.int64)
        for place, column in enumerate(self.columns):
            known = ~table.column(place).missing()
            found[known, place] = column.encode_place(table, place, known)
        return found

    def combine(self, outputs: A, weights: A | None = None) -> A:
        parts = split(outputs, self.sizes, 1)
        return concatenate([mean_probabilities(part, weights) for part in parts], 1)

    def _by_row(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        outputs: Tensor,
        y: Tensor,
    ) -> list[Tensor]:
        """A function of each column's (K, C, B) outputs and labels, weighted; 0 if missing."""
        found = []
        for column, part, labels in zip(
            self.columns, outputs.split(self.sizes, 1), y.t(), strict=True
        ):
            label = labels.clamp_min(0)
            weight = (labels >= 0).to(outputs.dtype)
            if column.class_weights is not None:
                weight = weight * torch.as_tensor(column.class_weights).to(outputs)[label]
            found.append(function(part, label) * (weight / self.n_targets))
        return found

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        def entropy(part: Tensor, label: Tensor) -> Tensor:
            labels = label.expand(len(part), -1)
            return torch.nn.functional.cross_entropy(part, labels, reduction="none")

        return torch.stack(self._by_row(entropy, outputs, y)).sum(0)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        def slope(part: Tensor, label: Tensor) -> Tensor:
            return part.softmax(1) - torch.nn.functional.one_hot(label, part.shape[1]).t()

        return torch.cat(self._by_row(slope, outputs, y), 1)

    def indicators(self, y: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        places = np.arange(self.n_outputs) if outputs is None else outputs
        column = np.repeat(np.arange(self.n_targets), self.sizes)[places]
        number = np.concatenate([np.arange(size) for size in self.sizes])[places]
        return (y[:, column] == number).astype(np.float64)

    def frequency(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        known = [labels >= 0 for labels in y.T]
        each = zip(y.T, known, self.sizes, strict=True)
        return np.concatenate([np.bincount(of[k], weights[k], size) for of, k, size in each])

    @property
    def directions(self) -> list[int]:
        raise ValueError(
            "monotone is for numbers and for two classes; y has several columns. Leave monotone "
            "out, or fit a model to each column."
        )

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        """Probabilities of all classes of all columns, (B, C)."""
        parts = zip(self.columns, self._parts(np.asarray(outputs)), strict=True)
        return np.concatenate([column.answer(part) for column, part in parts], axis=1)

    def presented(self, answers: np.ndarray) -> list[np.ndarray]:
        return self.by_column(answers)

    def listed_classes(self) -> list[object]:
        return [column.listed_classes() for column in self.columns]

    def answer_names(self) -> list[str]:
        each = enumerate(self.columns)
        names = ((place, column.answer_names() or ()) for place, column in each)
        return [f"{place}: {name}" for place, own in names for name in own]

    def labels(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        return self.choose(self.answer(outputs))

    def choose(self, chances: np.ndarray) -> np.ndarray:
        """Labels (n, columns) from probabilities (n, C)."""
        parts = zip(self.columns, self.by_column(chances), strict=True)
        return _side_by_side([column.choose(part) for column, part in parts])

    def truth(self, y: Tensor) -> np.ndarray:
        """The labels (n, columns) that were encoded; None where one is missing."""
        numbers = y.cpu().numpy().T
        found = _side_by_side([c.classes[n] for c, n in zip(self.columns, numbers, strict=True)])
        if (numbers < 0).any():
            found = found.astype(object)
            found[numbers.T < 0] = None
        return found

    def _right(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Whether each label is predicted, (B, columns)."""
        chosen = [part.argmax(1) for part in self._parts(outputs)]
        return torch.stack(chosen, 1) == y

    def default_score(
        self, measured: dict[str, float], outputs: Tensor, y: Tensor, weights: Tensor | None
    ) -> float:
        known = (y >= 0).double()
        known = known if weights is None else known * weights[:, None]
        right = (self._right(outputs, y) * known).sum(0) / known.sum(0).clamp_min(1e-30)
        measured["val_accuracy"] = accuracy = float(right.mean())
        return accuracy - 0.1 * measured["val_loss"]

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        """Share of rows whose known labels are all right; rows without one do not count."""
        right = (self._right(outputs, y) | (y < 0)).all(1)
        known = (y >= 0).any(1).double()
        known = known if weights is None else known * weights
        return float((right * known).sum() / known.sum().clamp_min(1e-30))

    def rate(self, y: ArrayLike, answers: np.ndarray, weights: ArrayLike | None = None) -> float:
        codes, found = self.encode(label_columns(y)), self.encode(answers)
        right, known = ((codes == found) | (codes < 0)).all(1), (codes >= 0).any(1)
        weight = known if weights is None else known * np.asarray(weights)
        return float(np.average(right, weights=weight))

    def settle(
        self, outputs: Tensor, y: Tensor, counted: Tensor | None
    ) -> tuple[np.ndarray, float, None]:
        self.temperatures = [1.0] * self.n_targets
        self.temperatures = self._temperatures(outputs, y, counted)
        return self.answer(outputs), self.score(outputs, y, counted), None

    def _temperatures(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> list[float]:
        """What divides the outputs of each column so that its loss is least."""
        found = []
        for column, part, labels, known in self.known(outputs, y):
            weight = torch.ones(len(y)) if weights is None else weights
            if column.class_weights is not None:
                weight = weight * torch.as_tensor(column.class_weights).to(part)[labels]
            known = known & (weight > 0)
            found.append(
                find_temperature(column, part[known], labels[known], weight[known])
                if known.any()
                else 1.0
            )
        return found

    def answer_after(
        self, outputs: Tensor, earlier: Tensor, y: Tensor, weights: Tensor | None
    ) -> np.ndarray:
        target = copy.copy(self)
        target.temperatures = [1.0] * self.n_targets
        if len(y):
            target.temperatures = target._temperatures(earlier, y, weights)
        return target.answer(outputs)

    def entropy(self, p: np.ndarray) -> np.ndarray:
        """Mean over the columns of what :meth:`ClassTarget.entropy` says, ``(n,)``."""
        parts = zip(self.columns, self.by_column(p), strict=True)
        return np.mean([column.entropy(part) for column, part in parts], axis=0)

    def decision(self, outputs: np.ndarray) -> list[np.ndarray]:
        """What `decision_function` returns: that of each column."""
        each = zip(self.columns, self._parts(outputs), strict=True)
        return [column.decision(part) for column, part in each]

    def main_output(self, outputs: Tensor) -> Tensor:
        """The most probable class of the first column."""
        return self.columns[0].main_output(self._parts(outputs)[0])

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """The log-odds of a class against all others of its column."""
        each = []
        for column, part in zip(self.columns, self._parts(outputs), strict=True):
            places = torch.arange(part.shape[1]).expand(len(part), -1).t()
            each += [column.explained(part, place) for place in places]
        return torch.stack(each, 1).gather(1, chosen[:, None])[:, 0]

    def to_torch(self) -> nn.Module:
        """From outputs to the probabilities of all classes of all columns, (B, C)."""
        from nrs.tabular.targets.modules import OfColumns

        return OfColumns(self)

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        results, start = [], 0
        for place, (column, size) in enumerate(zip(self.columns, self.sizes, strict=True)):
            part = graph.columns(outputs, np.arange(start, start + size))
            divisor = graph.constant(np.float32(self.temperatures[place]))
            found = column.to_onnx(graph, graph.op("Div", part, divisor))
            results += [(f"{one[0]}_{place}", *one[1:]) for one in found]
            start += size
        return results

    def state(self) -> Json:
        return {
            "kind": self.kind,
            "columns": [one.state() for one in self.columns],
            "temperatures": [one.hex() for one in self.temperatures],
        }

    @classmethod
    def from_state(cls, state: Json) -> Self:
        target = cls([ClassTarget.from_state(one) for one in state["columns"]])
        target.temperatures = [float.fromhex(one) for one in state["temperatures"]]
        return target


def labels_target(
    labels: np.ndarray,
    loss: Loss = "log_loss",
    threshold: Threshold = None,
    class_weight: ClassWeights | Sequence[ClassWeights] = None,
    classes: Sequence[np.ndarray] | np.ndarray | None = None,
) -> Target:
    """The target of several labels per row (n, labels): 0 and 1, or objects of several columns.

    `class_weight` and `classes` are those of :meth:`ColumnsTarget.of`.

    Raises
    ------
    ValueError
        If there is no such loss, or a threshold is given.
    """
    if threshold is not None:
        raise ValueError("threshold is for two classes; y has several labels per row")
    if labels.dtype.kind != "O":
        target = MultilabelTarget() if loss == "log_loss" else own_target(loss, OwnLabels())
        return target.learned(labels)
    if loss == "log_loss":
        return ColumnsTarget.of(labels, class_weight, classes)
    given = loss() if isinstance(loss, type) else loss
    if not isinstance(given, Target):
        raise ValueError(
            "loss must be 'log_loss' or a Target for several columns of classes; got "
            f"{loss!r}. Fit a model to each column."
        )
    return given.learned(labels)


def counted_target(
    counts: Sequence[tuple[np.ndarray, np.ndarray]],
    loss: Loss = "log_loss",
    threshold: Threshold = None,
    class_weight: ClassWeights | Sequence[ClassWeights] = None,
    *,
    may_be_missing: bool = False,
) -> Target:
    """As :func:`labels_target`, from the labels of each column and how many rows have each."""
    of_zero_and_one = all(np.isin(known, (0, 1)).all() for known, _ in counts)
    if of_zero_and_one and not may_be_missing:
        if class_weight is not None:
            raise ValueError(
                "class_weight is for one column of classes, or several of which one is not 0 and 1 "
                "alone, in a Table. Leave it out, or pass a column of sample weights."
            )
        return labels_target(np.zeros((0, len(counts)), dtype=int), loss, threshold)
    if threshold is not None:
        raise ValueError("threshold is for two classes; y has several labels per row")
    if loss != "log_loss":
        raise ValueError(
            "loss must be 'log_loss' for several columns of classes of a Table; got "
            f"{loss!r}. Read the rows into memory for a Target of your own."
        )
    return ColumnsTarget.counted(counts, class_weight)


def is_columns(y: ArrayLike) -> bool:
    """Whether labels are those of several columns of classes, and not 0 and 1 for each label.

    Examples
    --------
    >>> is_columns([[0, 1], [2, 0]]), is_columns([[0, 1], [1, None]]), is_columns([["a", "b"]])
    (True, True, True)
    >>> is_columns([[0, 1], [1, 0]]), is_columns([0, 1, 2])
    (False, False)
    """
    if hasattr(y, "toarray"):
        return False
    labels = labels_as_array(y)
    if labels.ndim != 2 or labels.shape[1] < 2 or not labels.size:
        return False
    odd = labels.dtype.kind in "OUS" or bool(missing_cells(labels).any())
    return odd or len(np.unique(labels)) > 2


def label_columns(y: ArrayLike) -> np.ndarray:
    """Labels of several columns as they are, each of its own type: (n, columns) of objects."""
    table = np.array(y, dtype=object) if isinstance(y, (list, tuple)) else y
    shape: tuple[int, ...] = getattr(table, "shape", ())
    if len(shape) != 2:
        raise ValueError(f"y must have several columns, (n_rows, n_columns); its shape is {shape}")
    found = np.empty(shape, dtype=object)
    for place in range(shape[1]):
        if hasattr(table, "column"):
            found[:, place] = labels_as_array(table.column(place).to_pylist())
        else:
            own = operator.getitem(getattr(table, "iloc", table), (slice(None), place))
            found[:, place] = labels_as_array(own)
    return found


def _of_each(class_weight: ClassWeights | Sequence[ClassWeights], n: int) -> Sequence[ClassWeights]:
    """The weights of classes of each column."""
    if class_weight is None or isinstance(class_weight, str):
        return [class_weight] * n
    if isinstance(class_weight, Mapping) or len(class_weight) != n:
        raise ValueError(
            f"class_weight must be 'balanced' or a list with an item for each of the {n} columns "
            f"of y; got {class_weight!r}"
        )
    return class_weight


def _known(column: np.ndarray, place: int) -> np.ndarray:
    """The labels of a column that are not missing."""
    known = column[~missing_cells(column)]
    if not len(known):
        raise ValueError(f"y must have a label in each column; column {place} has none")
    labels = read_labels(known, f"column {place} of y")
    if labels.dtype.kind in "mM":
        raise ValueError(f"column {place} of y must hold labels; it holds dates. Make them texts.")
    check_classification_targets(labels)
    return labels


def _side_by_side(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Labels (n, columns), as objects where the columns hold different things."""
    if len({column.dtype.kind for column in columns}) == 1:
        return np.stack(columns, axis=1)
    return np.stack([column.astype(object) for column in columns], axis=1)
