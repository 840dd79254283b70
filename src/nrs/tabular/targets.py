"""What is predicted: how labels become numbers, the loss on them, and the way back.

A new loss is one class: a subclass of :class:`Target`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import expit, softmax
from sklearn.metrics import r2_score
from sklearn.utils.class_weight import compute_sample_weight
from torch import Tensor, nn

from nrs.tabular.encode.number import LIMIT, MAX_FLOAT, moments
from nrs.tabular.encode.table import Table
from nrs.tabular.metrics import CLASS_METRICS, LABEL_METRICS, NUMBER_METRICS, Metric, of_labels
from nrs.tabular.threshold import Threshold, find_threshold, is_learned

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import ArrayLike, ClassWeights, Json

# Name, value, dtype and row shape of a result of an ONNX file.
Result = tuple[str, str, "DTypeLike", tuple[int, ...]]
Combine = Callable[[Tensor, "Tensor | None"], Tensor]


def mean_values(outputs: Tensor, weights: Tensor | None = None) -> Tensor:
    """Average the outputs of members as they are.

    **Shape** outputs ``(K, C, B)``, weights ``(K, B)`` or ``(K, 1)``, result ``(B, C)``; here and
    below. Without weights members count equally.
    """
    return (outputs * _fractions(outputs, weights)).sum(0).t()


def mean_probabilities(outputs: Tensor, weights: Tensor | None = None) -> Tensor:
    """Average the members' class probabilities; the result is their logarithms.

    Examples
    --------
    >>> outputs = torch.tensor([[[0.0], [0.0]], [[9.0], [-9.0]]])  # unsure, and sure of class 0
    >>> mean_probabilities(outputs).softmax(1)
    tensor([[0.7500, 0.2500]])
    """
    return (outputs.log_softmax(1) + _log_fractions(outputs, weights)).logsumexp(0).t()


def mean_odds(outputs: Tensor, weights: Tensor | None = None) -> Tensor:
    """Average the members' probabilities of each label; the result is their log-odds."""
    logs = _log_fractions(outputs, weights)
    yes = (F.logsigmoid(outputs) + logs).logsumexp(0)
    no = (F.logsigmoid(-outputs) + logs).logsumexp(0)
    return (yes - no).t()


def _number(value: float) -> Tensor:
    # Predictions do not depend on torch's default dtype and device.
    return torch.tensor(value, dtype=torch.float32, device="cpu")


def _fractions(outputs: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return _number(1 / len(outputs))
    return (weights / weights.sum(0)).unsqueeze(1)


def _log_fractions(outputs: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return _number(-math.log(len(outputs)))
    return _fractions(outputs, weights).log()


# Views are drawn so many times, the one that helps most each time; weights are how often.
DRAWS = 20
# What is gained must be so many standard errors above 0.
MIN_ERRORS = 2.0


@dataclass(frozen=True)
class OutOfBag:
    """Out-of-bag results: answers of all training rows, and what was learned from them.

    `residuals` are quantiles of the sizes of errors, for intervals, and `spread` is how far members
    disagree about all but a few training rows, of each output; outputs are divided by
    `temperature`; `views` says how much each view counts.
    """

    answers: np.ndarray
    score: float | None
    residuals: np.ndarray | None = None
    temperature: float = 1.0
    views: Tensor = field(default_factory=lambda: torch.ones(1, dtype=torch.float32))
    spread: np.ndarray | None = None


class Target:
    """One question to a table: encoding, loss, joint answer of members, calibration and score.

    `outputs` are a network's, before :meth:`answer`; `y` is what :meth:`encode` returned.

    Attributes
    ----------
    kind : str
        What it is called in model files.
    nouns : str
        What it is called in messages.
    n_outputs : int
    oob_name : str
        The fitted attribute that holds out-of-bag answers.
    criterion : callable
        The loss as a function of outputs, encoded labels and ``reduction``, such as torch's own.
    combine : callable
        Joint outputs of members, see :func:`mean_values`.
    metrics : dict of str to Metric
    """

    kind: str
    nouns: str
    n_outputs: int
    # Labels in the order of the outputs, of classes.
    classes: Any = None
    # Whether a row has several answers, each a column of its own.
    several = False
    oob_name = "oob_prediction_"
    criterion: Callable[..., Tensor]
    combine: Combine = staticmethod(mean_values)
    # Whether a temperature, which `calibrate` finds, divides the outputs.
    has_temperature = False
    metrics: ClassVar[dict[str, Metric]] = {}

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Labels as what the loss reads."""
        raise NotImplementedError

    def encode_column(self, table: Table) -> np.ndarray:
        """The only column of a table of labels, encoded: how files are read."""
        raise NotImplementedError

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Losses of the ``(K, C, B)`` outputs of K members: ``(K, B)``."""
        truth = y.t()
        each = self.criterion(outputs, truth.expand(len(outputs), *truth.shape), reduction="none")
        return each if each.ndim == 2 else each.mean(1)

    def loss(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        """Mean loss of ``(B, C)`` outputs; rows count by their weight."""
        if weights is None:
            return self.criterion(outputs, y)
        each, total = self.criterion(outputs, y, reduction="none"), weights.sum()
        each = each if each.ndim == 1 else each.mean(1)
        # A batch of rows that all have weight zero teaches nothing.
        return (each * weights).sum() / total.clamp_min(torch.finfo(total.dtype).tiny)

    def indicators(self, y: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        """Numbers of which a column may explain the variance, ``(n, outputs)``: all, or some."""
        columns = y.reshape(len(y), -1)
        return (columns if outputs is None else columns[:, outputs]).astype(np.float64)

    def frequency(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weighted sum of the squares of each indicator, ``(outputs,)``."""
        return weights @ self.indicators(y) ** 2

    def units(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Scale and level, (outputs,) each, at which outputs for these labels should begin.

        Of numbers their deviation and mean; None where outputs have no unit.
        """
        return None

    def answer(self, outputs: Tensor) -> np.ndarray:
        """Probabilities, or numbers in the units of the target."""
        raise NotImplementedError

    def labels(self, outputs: Tensor) -> np.ndarray:
        """What `predict` returns."""
        return self.answer(outputs)

    def truth(self, y: Tensor) -> np.ndarray:
        """The labels that were encoded."""
        raise NotImplementedError

    def odds(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """Joint (B, C) outputs of (K, C, B) ones, up to what changes no answer."""
        return self.combine(outputs, weights)

    def calibrate(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        """What to divide joint out-of-bag outputs by; 1 for numbers."""
        return 1.0

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> np.ndarray | None:
        """Quantiles of the sizes of out-of-bag errors, for intervals; None without a unit."""
        return None

    def default_score(
        self, measured: dict[str, float], outputs: Tensor, y: Tensor, weights: Tensor | None
    ) -> float:
        """What decides between epochs unless a metric is chosen; may add to `measured`."""
        return -measured["val_loss"]

    def check_metric(self, metric: str | Callable[..., float]) -> str | Callable[..., float]:
        """Refuse a metric that is neither known for this target nor a function."""
        if metric != "default" and not callable(metric) and metric not in self.metrics:
            raise ValueError(
                f"metric must be a function or one of {('default', *self.metrics)} for "
                f"{self.nouns}; got {metric!r}"
            )
        return metric

    def evaluate(
        self,
        metric: str | Callable[..., float],
        outputs: Tensor,
        y: Tensor,
        weights: Tensor | None = None,
    ) -> dict[str, float]:
        """Measure outputs: loss, metric, and the score that decides between epochs.

        A function is called as ``metric(y_true, y_predicted)`` on labels or values; higher is
        better.

        Examples
        --------
        >>> target = ClassTarget(np.array(["no", "yes"]))
        >>> outputs = torch.tensor([[0.0, 9.0], [0.0, 9.0]])
        >>> target.evaluate("accuracy", outputs, torch.tensor([1, 0]))["score"]
        0.5
        """
        measured = {"val_loss": float(self.loss(outputs, y, weights))}
        score = self.default_score(measured, outputs, y, weights)
        if metric == "default":
            return measured | {"score": score}
        if callable(metric):
            name, chosen = getattr(metric, "__name__", "metric"), Metric(of_labels(metric))
        else:
            name, chosen = metric, self.metrics[metric]
        value = chosen.measure(self, y, outputs)
        return measured | {f"val_{name}": value, "score": chosen.sign * value}

    def finish(
        self, views: Tensor, y: Tensor, weights: Tensor | None, counted: Tensor | None = None
    ) -> OutOfBag:
        """Weigh, join, calibrate and score the (V, C, n) out-of-bag outputs of views.

        Parameters
        ----------
        weights, counted : how much each row counts in losses, and in the score and residuals.
        """
        of_views = weigh_views(views, y, self, weights)
        outputs = self.combine(views, of_views.unsqueeze(1))
        temperature = self.calibrate(outputs, y, weights)
        outputs = outputs / _number(temperature)
        return OutOfBag(
            self.answer(outputs),
            self.score(outputs, y, counted),
            self.residuals(outputs, y, counted),
            temperature,
            of_views,
        )

    def finish_in_order(
        self,
        outputs: Tensor,
        y: Tensor,
        weights: Tensor | None,
        counted: Tensor | None,
        blocks: Tensor,
    ) -> OutOfBag:
        """:meth:`finish` for rows in blocks of time: answers of a block use none of its labels.

        What new rows are calibrated by comes of all blocks, a block's answers of those before it.
        """
        scored = self.finish(outputs, y, weights, counted)
        if not self.has_temperature:
            return scored
        answers, joint = scored.answers.copy(), self.combine(outputs, None)
        for block in blocks.unique().tolist():
            own, before = blocks == block, blocks < block
            temperature = 1.0
            if before.any():
                known = None if weights is None else weights[before]
                temperature = self.calibrate(joint[before], y[before], known)
            answers[own.numpy()] = self.answer(joint[own] / _number(temperature))
        return replace(scored, answers=answers)

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        """Out-of-bag score."""
        raise NotImplementedError

    def main_output(self, outputs: Tensor) -> Tensor:
        """Number of the output that an explanation is about, unless one is asked for."""
        return torch.zeros(len(outputs), dtype=torch.int64)

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """The number that an explanation adds up to, of one output per row."""
        return outputs.gather(1, chosen[:, None])[:, 0]

    def to_torch(self) -> nn.Module:
        """From (B, outputs) outputs to probabilities or numbers of the same shape."""
        raise NotImplementedError

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        """Add the results of an ONNX file: name, value, dtype and row shape of each."""
        raise NotImplementedError

    def state(self) -> Json:
        """Everything learned, as JSON values; read by :func:`target_from_state`."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: Json) -> Target:
        """Read what :meth:`state` wrote."""
        raise NotImplementedError


# Nats by which all rows must prefer a temperature of e, or of 1 / e, to 1.
PRIOR_OF_TEMPERATURE = 10.0


def find_temperature(
    target: Target, outputs: Tensor, y: Tensor, weights: Tensor | None = None
) -> float:
    """The number that divides out-of-bag outputs so that their loss is least.

    A few rows cannot tell, and lose little by a temperature near 1: its logarithm has a normal
    prior, which all rows together must outweigh; rows of weight 0 are none of them.

    Examples
    --------
    >>> sure, rows = torch.tensor([[4.0, 0.0]] * 400), torch.arange(400) % 4 == 0
    >>> round(find_temperature(ClassTarget(np.array([0, 1])), sure, rows.long()), 1)
    3.0
    >>> round(find_temperature(ClassTarget(np.array([0, 1])), sure[:4], rows[:4].long()), 1)
    1.2
    """
    choices = torch.logspace(-2, 2, 161, base=2.0, dtype=torch.float32)
    n_rows = len(y) if weights is None else max(1, int((weights > 0).sum()))
    prior = PRIOR_OF_TEMPERATURE * choices.log().square() / n_rows
    losses = [float(target.loss(outputs / choice, y, weights)) for choice in choices]
    return float(choices[int(np.argmin(np.add(losses, prior.numpy())))])


def weigh_views(
    outputs: Tensor, truth: Tensor, target: Target, weights: Tensor | None = None
) -> Tensor:
    """Choose weights of views by the loss of their joint out-of-bag outputs.

    Greedy selection with replacement (Caruana et al., 2004). Equal weights are kept unless the
    learned ones are better by more than chance: a small table cannot tell views apart.

    **Shape** outputs ``(V, C, n)``, truth ``(n,)`` or ``(n, C)``, result ``(V,)``, which sums to V.

    Examples
    --------
    >>> truth = torch.arange(100) % 2
    >>> right = torch.stack([1.0 - truth, 1.0 * truth]) * 4
    >>> target = ClassTarget(np.arange(2))
    >>> weigh_views(torch.stack([right, -right]), truth, target).tolist()
    [2.0, 0.0]
    >>> weigh_views(torch.stack([right, right]), truth, target).tolist()
    [1.0, 1.0]
    """
    n_views = len(outputs)
    equal, counts = outputs.new_ones(n_views), outputs.new_zeros(n_views)
    weight = outputs.new_ones(outputs.shape[2]) if weights is None else weights

    def losses(of_views: Tensor) -> Tensor:
        used = of_views > 0
        joint = target.combine(outputs[used], of_views[used].unsqueeze(1))
        return target.losses(joint.t().unsqueeze(0), truth)[0] * weight

    for _ in range(DRAWS):
        tried = [losses(counts + one).mean() for one in equal.diag()]
        counts[int(torch.stack(tried).argmin())] += 1
    learned = counts * (n_views / DRAWS)
    return learned if beyond_chance((losses(equal) - losses(learned)).double()) else equal


def beyond_chance(gained: Tensor) -> bool:
    """Whether the mean of what single rows gain is above 0 by more than their spread explains."""
    return bool(gained.mean() > MIN_ERRORS * gained.std() / len(gained) ** 0.5)


class ClassTarget(Target):
    """One of several classes: cross-entropy on one output per class."""

    kind, nouns = "classes", "classes"
    oob_name = "oob_decision_function_"
    criterion = staticmethod(F.cross_entropy)
    combine = staticmethod(mean_probabilities)
    metrics = CLASS_METRICS
    has_temperature, calibrate = True, find_temperature

    def odds(self, outputs: Tensor, weights: Tensor) -> Tensor:
        joint = self.combine(outputs, weights)
        return joint - joint.mean(1, keepdim=True)

    def __init__(self, classes: np.ndarray, threshold: Threshold = None) -> None:
        self.classes = classes
        self.n_outputs = len(classes)
        # Learned by `finish`, or given.
        self.rule: Threshold = None
        self.threshold: float | None = None
        if threshold is None:
            return
        if is_learned(threshold):
            self.rule = threshold
        else:
            self.threshold = float(threshold)  # type: ignore[arg-type]
        if len(classes) != 2:
            raise ValueError(
                f"threshold is for two classes; y has {len(classes)}. Leave threshold out."
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
                f"y holds the label {y[unknown][0]!r}, which is not among the classes "
                f"{_shown(self.classes)}"
            )
        return position.astype(np.int64)

    def encode_column(self, table: Table) -> np.ndarray:
        kind = self.classes.dtype.kind
        if kind == "U":
            column = table.column(0, "category")
            # Only the levels are looked up; the rows of each follow.
            return self.encode(np.array(column.levels))[column.values]
        values = table.column(0, "boolean" if kind == "b" else "number").values
        return self.encode(values.astype(self.classes.dtype))

    def indicators(self, y: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        hot: np.ndarray = y[:, None] == (np.arange(self.n_outputs) if outputs is None else outputs)
        return hot.astype(np.float64)

    def frequency(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        # One column per class would not fit in memory if they are many.
        return np.bincount(y, weights, self.n_outputs)

    def answer(self, outputs: Tensor) -> np.ndarray:
        # In float64, so that the rows sum to one as precisely as scikit-learn expects; by SciPy
        # (as sigmoids below), because torch rounds the last rows of a batch differently.
        return softmax(outputs.double().cpu().numpy(), axis=1)

    def labels(self, outputs: Tensor) -> np.ndarray:
        if self.threshold is not None:
            return self.choose(self.answer(outputs))
        return self.classes[outputs.argmax(1).cpu().numpy()]

    def choose(self, chances: np.ndarray) -> np.ndarray:
        """Labels from probabilities."""
        if self.threshold is not None:
            return self.classes[(chances[:, 1] >= self.threshold).astype(int)]
        return self.classes[chances.argmax(1)]

    def finish(
        self, views: Tensor, y: Tensor, weights: Tensor | None, counted: Tensor | None = None
    ) -> OutOfBag:
        scored = super().finish(views, y, weights, counted)
        if self.rule is not None:
            counts = None if counted is None else counted.numpy()
            chances = scored.answers[:, 1]
            self.threshold = find_threshold(self.rule, self.classes, y.numpy() > 0, chances, counts)
        if self.threshold is None:
            return scored
        right = torch.from_numpy(self.choose(scored.answers) == self.truth(y))
        return replace(scored, score=_mean(right, counted))

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
        return nn.Softmax(1)

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        classes = _onnx_labels(self.classes)
        shares = graph.op("Softmax", outputs, axis=1)
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
        state = {"kind": self.kind, "classes": _array_state(self.classes)}
        return state if self.threshold is None else {**state, "threshold": self.threshold}

    @classmethod
    def from_state(cls, state: Json) -> ClassTarget:
        return cls(_array_from_state(state["classes"]), state.get("threshold"))


class MultilabelTarget(Target):
    """Labels of which several may hold at once: binary cross-entropy on one output per label."""

    kind, nouns = "multilabel", "several labels per row"
    several = True
    oob_name = "oob_decision_function_"
    criterion = staticmethod(F.binary_cross_entropy_with_logits)
    combine = staticmethod(mean_odds)
    metrics = LABEL_METRICS
    has_temperature, calibrate = True, find_temperature

    def __init__(self, n_labels: int) -> None:
        self.n_outputs = n_labels
        self.classes = np.arange(n_labels)

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
        return np.ascontiguousarray(y, dtype=np.float32)

    def answer(self, outputs: Tensor) -> np.ndarray:
        return expit(outputs.double().cpu().numpy())

    def labels(self, outputs: Tensor) -> np.ndarray:
        return (outputs > 0).long().cpu().numpy()

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
        return nn.Sigmoid()

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        positive = graph.op("Greater", outputs, graph.constant(np.float32(0)))
        labels, shares = graph.cast(positive, np.int64), graph.op("Sigmoid", outputs)
        shape = (self.n_outputs,)
        return [("labels", labels, np.int64, shape), ("probabilities", shares, np.float32, shape)]

    def state(self) -> Json:
        return {"kind": self.kind, "n_labels": self.n_outputs}

    @classmethod
    def from_state(cls, state: Json) -> MultilabelTarget:
        return cls(state["n_labels"])


# Residuals are kept as so many quantiles: enough for intervals of 99.9 %.
N_QUANTILES = 2001


class RegressionTarget(Target):
    """One or several numbers: squared error on standardised values."""

    kind, nouns = "regression", "numbers"
    criterion = staticmethod(F.mse_loss)
    metrics = NUMBER_METRICS

    def __init__(self, mean: np.ndarray, std: np.ndarray, *, single: bool) -> None:
        self.mean, self.std, self.single = mean, std, single
        self.several = not single
        self.n_outputs = len(mean)

    @classmethod
    def of(cls, y: np.ndarray) -> RegressionTarget:
        """Learn mean and standard deviation of the (n,) or (n, outputs) training targets.

        Raises
        ------
        ValueError
            If the range of an output is beyond float64.
        """
        columns = y.reshape(len(y), -1)
        low, high = columns.min(0), columns.max(0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, std, wide = columns.mean(0), columns.std(0), ~np.isfinite(high - low)
        if wide.any():
            raise ValueError(
                f"y spans more than float64 can hold: from {low[wide][0]:g} to {high[wide][0]:g}. "
                "Divide it by a constant."
            )
        # Squares of 1e300 and of 1e-300 leave float64, and the mean of equal numbers may be none
        # of them.
        odd = ~np.isfinite(mean + std) | (std == 0) | (low == high)
        if odd.any():
            exact = moments(lambda: iter([(0, columns)]), len(odd), lambda row, column: None)
            mean, std = np.where(odd, exact.mean, mean), np.where(odd, exact.std, std)
        return cls(mean, std, single=y.ndim == 1)

    def varying(self) -> RegressionTarget:
        """The same target with a scale of 1 for a constant output, which other rows may vary."""
        return RegressionTarget(self.mean, self.scale, single=self.single)

    def units(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = weights if weights.any() else np.ones(len(y))
        mean = np.average(y.astype(np.float64), axis=0, weights=weights)
        std = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weights))
        return np.where(std > 0, std, 1.0), mean

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Standardised values, ``(n, outputs)``.

        Raises
        ------
        ValueError
            If the number of outputs is another one.
        """
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_outputs:
            raise ValueError(
                f"y must have {self.n_outputs} outputs as in training; got {columns.shape[1]}"
            )
        # A constant output has no scale, and is predicted as its mean whatever the network says.
        # A row of weight 0 may be far off, and 0 times infinity would be NaN in the loss.
        with np.errstate(over="ignore"):
            standard = (columns - self.mean) / self.scale
        return np.clip(standard, -LIMIT, LIMIT).astype(np.float32)

    @property
    def scale(self) -> np.ndarray:
        """The standard deviation of each output, 1 for a constant one."""
        return np.where(self.std > 0, self.std, 1.0)

    def encode_column(self, table: Table) -> np.ndarray:
        return self.encode(table.column(0, "number").values.astype(np.float64))

    def answer(self, outputs: Tensor) -> np.ndarray:
        # Of targets near the ends of float64, what would be beyond it is its end.
        with np.errstate(over="ignore"):
            values = outputs.double().cpu().numpy() * self.std + self.mean
        values = np.clip(values, -MAX_FLOAT, MAX_FLOAT)
        return values[:, 0] if self.single else values

    def truth(self, y: Tensor) -> np.ndarray:
        return self.answer(y)

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> np.ndarray:
        """Sizes of the out-of-bag errors in standardised units, (N_QUANTILES, n_outputs)."""
        errors = (outputs - y).abs().double().numpy()
        weight = np.ones(len(errors)) if weights is None else weights.double().numpy()
        levels = np.linspace(0, 1, N_QUANTILES)
        return np.column_stack([conformal_quantiles(one, weight, levels) for one in errors.T])

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        # A constant output is predicted as its mean, 0 here, whatever the network says.
        known, truth = outputs.numpy() * (self.std > 0), y.numpy()
        if weights is None:
            return float(r2_score(truth, known))
        counts = weights.numpy() > 0
        return float(r2_score(truth[counts], known[counts], sample_weight=weights[counts]))

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """The number in the units of the target."""
        mean, std = (torch.from_numpy(values)[chosen] for values in (self.mean, self.std))
        return super().explained(outputs, chosen) * std + mean

    def to_torch(self) -> nn.Module:
        return _Scale(self.mean, self.std)

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        numbers = graph.op("Mul", graph.cast(outputs, np.float64), graph.constant(self.std))
        numbers = graph.op("Add", numbers, graph.constant(self.mean))
        if self.single:
            return [("prediction", graph.reshape(numbers, -1), np.float64, ())]
        return [("prediction", numbers, np.float64, (self.n_outputs,))]

    def state(self) -> Json:
        return {
            "kind": self.kind,
            "mean": [value.hex() for value in self.mean.tolist()],
            "std": [value.hex() for value in self.std.tolist()],
            "single": self.single,
        }

    @classmethod
    def from_state(cls, state: Json) -> RegressionTarget:
        mean, std = (np.array([float.fromhex(v) for v in state[key]]) for key in ("mean", "std"))
        return cls(mean, std, single=state["single"])


class _Scale(nn.Module):
    """From standardised numbers to those of the target."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: np.ndarray, std: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.std + self.mean


_TARGETS: dict[str, type[Target]] = {
    kind.kind: kind for kind in (ClassTarget, MultilabelTarget, RegressionTarget)
}


def target_from_state(state: Json) -> Target:
    """Read what a target's `state` wrote."""
    return _TARGETS[state["kind"]].from_state(state)


def _onnx_labels(classes: np.ndarray) -> np.ndarray:
    """Labels as ONNX knows them: integers, floats, booleans or texts."""
    known: Json = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    if classes.dtype.kind in known:
        return classes.astype(known[classes.dtype.kind])
    return np.array([str(label) for label in classes.tolist()], dtype=object)


def conformal_quantiles(errors: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles of errors such that a new row's error is below each one often enough.

    Of n equally weighted errors it is the ⌈level · (n + 1)⌉-th; other rows count by their weight,
    the new row as much as a usual one, and rows of weight 0 not at all.

    Examples
    --------
    >>> conformal_quantiles(np.arange(9.0), np.ones(9), np.array([0.0, 0.5, 0.9])).tolist()
    [0.0, 4.0, 8.0]
    >>> conformal_quantiles(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([0.1])).tolist()
    [1.0]
    """
    counted = weights > 0
    order = np.argsort(errors[counted], kind="stable")
    weight = weights[counted][order]
    reached = np.cumsum(weight * (len(weight) / weight.sum()))
    # Sums of weights round: a millionth of a row does not decide.
    place = np.searchsorted(reached, levels * (len(weight) + 1) - 1e-6, side="left")
    return errors[counted][order][np.clip(place, 0, len(weight) - 1)]


def labels_as_array(y: ArrayLike) -> np.ndarray:
    """Labels of a list, an array, a pandas or polars series or frame, or a pyarrow array."""
    if hasattr(y, "to_numpy") and not type(y).__module__.startswith("pyarrow"):
        y = y.to_numpy()
    array = np.asarray(y)
    if array.dtype.kind == "O" and array.size:
        # Objects of one kind are better as that kind: integers of a nullable column, strings.
        cells = [_as_python(cell) for cell in array.flat]
        kinds = {type(cell) for cell in cells}
        if kinds <= {str} or kinds <= {int, float, bool}:
            return np.array(cells).reshape(array.shape)
    return array


def _as_python(cell: object) -> object:
    """NumPy's numbers, booleans and strings as Python's; anything else as it is."""
    return cell.item() if isinstance(cell, np.generic) and cell.dtype.kind in "biufU" else cell


def refuse_dates(y: np.ndarray) -> None:
    """Refuse dates and durations where numbers are needed: a unit would be a matter of luck."""
    if y.dtype.kind in "mM":
        held = "dates" if y.dtype.kind == "M" else "durations"
        raise ValueError(
            f"y must hold numbers; it holds {held}. Turn them into numbers, such as days."
        )


def check_labelled(n_rows: int, target: str, source: str) -> None:
    """Refuse a table (called `source`) with fewer than two rows that have a value of the target."""
    if n_rows < 2:
        raise ValueError(
            f"{source} must have at least two rows with a value of {target!r}; it has {n_rows}. "
            "Add rows, or choose another target."
        )


def weights_of_labels(class_weight: ClassWeights, labels: np.ndarray) -> np.ndarray:
    """The weight of each label by its class, as scikit-learn understands ``class_weight``.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or all are 0.

    Examples
    --------
    >>> weights_of_labels({"a": 1, "b": 3}, np.array(["b", "a"])).tolist()
    [3.0, 1.0]
    """
    weights: np.ndarray = compute_sample_weight(class_weight, labels)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(
            "class_weight must be finite, at least 0 and not 0 for all classes; got "
            f"{class_weight!r}"
        )
    return weights


def _mean(right: Tensor, weights: Tensor | None) -> float:
    """Share of rows, by weight."""
    if weights is None:
        return float(right.double().mean())
    return float((right.double() * weights).sum() / weights.sum().clamp_min(1e-30))


def _shown(values: np.ndarray, most: int = 8) -> str:
    shown = ", ".join(repr(value) for value in values[:most].tolist())
    return f"[{shown}{', …' if len(values) > most else ''}]"


def _array_state(values: np.ndarray) -> Json:
    kind, name = values.dtype.kind, values.dtype.str
    if kind == "O":
        name = "object"
        if not all(isinstance(value, (str, int, float, bool)) for value in values):
            raise ValueError(
                "class labels of mixed or unusual types cannot be saved; use strings or numbers"
            )
    cells = (values.astype(np.int64) if kind in "mM" else values).tolist()
    return {"dtype": name, "values": [cell.hex() for cell in cells] if kind == "f" else cells}


def _array_from_state(state: Json) -> np.ndarray:
    dtype, cells = np.dtype(state["dtype"]), state["values"]
    if dtype.kind == "f":
        cells = [float.fromhex(cell) for cell in cells]
    return np.array(cells, dtype=dtype)
