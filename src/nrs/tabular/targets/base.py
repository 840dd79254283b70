"""What a target is: the loss on labels, the joint answer of members, and its score out of bag."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from nrs._util.arrays import A
from nrs._util.lazy import torch
from nrs.tabular.encode.table import Table
from nrs.tabular.metrics import Metric, of_labels

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from torch import Tensor, nn

    from nrs.tabular.error_scale import ErrorScale
    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import ArrayLike, Json
    from nrs.training.schema import Schema

# Name, value, dtype and row shape of a result of an ONNX file.
Result = tuple[str, str, "DTypeLike", tuple[int, ...]]
Combine = Callable[[A, "A | None"], A]


def mean_values(outputs: A, weights: A | None = None) -> A:
    """Average the outputs of members as they are.

    **Shape** outputs ``(K, C, B)``, weights ``(K, B)`` or ``(K, 1)``, result ``(B, C)``; here and
    below, where arrays give arrays and tensors give tensors. Without weights members count equally.
    """
    return (outputs * _fractions(outputs, weights)).sum(0).T


def mean_probabilities(outputs: A, weights: A | None = None) -> A:
    """Average the members' class probabilities; the result is their logarithms.

    Examples
    --------
    >>> outputs = np.array([[[0.0], [0.0]], [[9.0], [-9.0]]])  # unsure, and sure of class 0
    >>> np.exp(mean_probabilities(outputs)).round(4)
    array([[0.75, 0.25]])
    """
    return logsumexp(log_softmax(outputs, 1) + log_fractions(outputs, weights), 0).T


def mean_odds(outputs: A, weights: A | None = None) -> A:
    """Average the members' probabilities of each label; the result is their log-odds."""
    logs = log_fractions(outputs, weights)
    yes = logsumexp(log_sigmoid(outputs) + logs, 0)
    no = logsumexp(log_sigmoid(-outputs) + logs, 0)
    return (yes - no).T


def _number(value: float) -> Tensor:
    # Predictions do not depend on torch's default dtype and device.
    return torch.tensor(value, dtype=torch.float32, device="cpu")


def _fractions(outputs: A, weights: A | None) -> A | float:
    if weights is None:
        return 1 / len(outputs)
    return (weights / weights.sum(0))[:, None]


def log_fractions(outputs: A, weights: A | None) -> A | float:
    """Logarithms of how much each member counts."""
    if weights is None:
        return -math.log(len(outputs))
    return log((weights / weights.sum(0))[:, None])


def log(x: A) -> A:
    """Natural logarithms; that of 0 is -inf."""
    if not isinstance(x, np.ndarray):
        return x.log()
    with np.errstate(divide="ignore"):
        return np.log(x)


def log_softmax(x: A, axis: int) -> A:
    """Logarithms of shares that sum to one along an axis.

    Examples
    --------
    >>> np.exp(log_softmax(np.array([0.0, 0.0]), 0))
    array([0.5, 0.5])
    """
    if not isinstance(x, np.ndarray):
        return x.log_softmax(axis)
    below = x - x.max(axis, keepdims=True)
    below -= np.log(np.exp(below).sum(axis, keepdims=True))
    return below


def logsumexp(x: A, axis: int) -> A:
    """Logarithms of the sums of exponentials along an axis, of which one at least is finite.

    Examples
    --------
    >>> float(np.exp(logsumexp(np.log(np.array([1.0, 2.0])), 0)).round(4))
    3.0
    """
    if not isinstance(x, np.ndarray):
        return x.logsumexp(axis)
    most = x.max(axis, keepdims=True)
    found: np.ndarray = np.log(np.exp(x - most).sum(axis)) + most.squeeze(axis)
    return found


def log_sigmoid(x: A) -> A:
    """Logarithms of sigmoids.

    Examples
    --------
    >>> np.exp(log_sigmoid(np.array([0.0, -1e3])))
    array([0.5, 0. ])
    """
    if not isinstance(x, np.ndarray):
        return torch.nn.functional.logsigmoid(x)
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


# Views are drawn so many times, the one that helps most each time; weights are how often.
DRAWS = 20
# What is gained must be so many standard errors above 0.
MIN_ERRORS = 2.0


@dataclass(frozen=True)
class OutOfBag:
    """Out-of-bag results: answers of all training rows, and what was learned from them.

    `residuals` are quantiles of the sizes of errors, for intervals, and `scales` says by how much
    they are larger or smaller in a row, of each output; outputs are divided by `temperature`;
    `views` says how much each view counts. `outputs` are those that the answers come from, and
    `more` are further fitted attributes, each with an entry per row.
    """

    answers: np.ndarray
    score: float | None
    residuals: np.ndarray | None = None
    temperature: float = 1.0
    views: Tensor = field(default_factory=lambda: torch.ones(1, dtype=torch.float32))
    scales: list[ErrorScale] | None = None
    outputs: Tensor | None = None
    more: dict[str, np.ndarray] = field(default_factory=dict)

    def of_rows(self, change: Callable[[np.ndarray], np.ndarray]) -> OutOfBag:
        """The same with other rows: `change` takes and gives an entry for each."""
        more = {name: change(values) for name, values in self.more.items()}
        return replace(self, answers=change(self.answers), more=more)


class Functional:
    """A loss of torch by its name, found when it is first asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.owner, self.attribute = owner, attribute

    def __get__(self, target: object, kind: type | None = None) -> Callable[..., Tensor]:
        found: Callable[..., Tensor] = getattr(torch.nn.functional, self.name)
        setattr(self.owner, self.attribute, staticmethod(found))
        return found


def mean_loss(target: Target, outputs: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
    """:meth:`Target.loss` of a target that has only :meth:`Target.losses`."""
    each = target.losses(outputs.t()[None], y)[0]
    if weights is None:
        return each.mean()
    return (each * weights).sum() / weights.sum().clamp_min(torch.finfo(each.dtype).tiny)


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
        Of a network; :attr:`n_targets` is what a row has to predict.
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
    # The kind of question, whatever the loss.
    task = ""
    oob_name = "oob_prediction_"
    criterion: Callable[..., Tensor]
    combine: Combine = staticmethod(mean_values)
    # Whether an offset on the scale of the outputs may be given for each row.
    takes_offset = False
    # Whether it was, in the fit.
    has_offset = False
    # Whether labels may be missing or infinite.
    finite: bool | Literal["allow-nan"] = True
    # Where the outputs begin, (outputs,); None for 0.
    start: np.ndarray | None = None
    # What a model file says of it, besides `kind`, each entry with its schema.
    schema: ClassVar[Mapping[str, Schema[object]]] = {}
    # Whether it is part of nrs: then its answers need no torch.
    is_ours: ClassVar[bool] = True
    # Sizes of the groups of outputs, side by side, within which only differences count.
    choices: Sequence[int] = ()
    # Whether a temperature, which `calibrate` finds, divides the outputs.
    has_temperature = False
    metrics: ClassVar[dict[str, Metric]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.is_ours = cls.__module__.split(".")[0] == __name__.split(".")[0]

    @property
    def n_targets(self) -> int:
        """Answers of a row."""
        return self.n_outputs

    def learned(self, y: np.ndarray, offset: np.ndarray | None = None) -> Target:
        """This target for these training labels: a copy that knows their scale.

        Parameters
        ----------
        y : (n,) or (n, targets), rows that weigh something.
        offset : (n,), where :attr:`takes_offset`.

        Raises
        ------
        ValueError
            If the loss cannot take these labels.
        """
        raise NotImplementedError

    def of_moments(self, mean: np.ndarray, std: np.ndarray) -> Target | None:
        """:meth:`learned` of mean and deviation of the labels alone, if these will do."""
        return None

    def varying(self) -> Target:
        """This target with a scale for outputs that are constant in the rows it has learned."""
        return self

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Labels as what the loss reads."""
        raise NotImplementedError

    def with_offset(self, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Encoded labels with an offset of each row."""
        raise NotImplementedError

    def placed(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(B, C) outputs with the offsets that are part of encoded labels, if they have any."""
        return outputs

    def encode_column(self, table: Table) -> np.ndarray:
        """The columns of a table of labels, encoded: how files are read."""
        raise NotImplementedError

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Losses of the ``(K, C, B)`` outputs of K members: ``(K, B)``."""
        truth = y.t()
        each = self.criterion(outputs, truth.expand(len(outputs), *truth.shape), reduction="none")
        return each if each.ndim == 2 else each.mean(1)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Gradients of :meth:`losses` with respect to the outputs: (K, C, B)."""
        with torch.enable_grad():
            free = outputs.detach().requires_grad_()
            (found,) = torch.autograd.grad(self.losses(free, y).sum(), free)
        return found

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

    @property
    def directions(self) -> list[int]:
        """How each output moves when what is predicted rises: 1, or -1; 0 if it is free to move.

        Raises
        ------
        ValueError
            If there is nothing that could rise.
        """
        return [1] * self.n_outputs

    def taken(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs as the methods below take them: as tensors if the target is no part of nrs."""
        return outputs if self.is_ours else torch.from_numpy(outputs)  # type: ignore[return-value]

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        """Probabilities, or numbers in the units of the target."""
        raise NotImplementedError

    def deviations(self, standard: np.ndarray) -> np.ndarray:
        """Deviations (B, C) of outputs in the units of :meth:`answer`, and shaped as it."""
        raise NotImplementedError

    def presented(self, answers: np.ndarray) -> np.ndarray | list[np.ndarray]:
        """Answers as users get them: of several columns of classes a list."""
        return answers

    def listed_classes(self) -> list[object]:
        """The labels as JSON values, in the order of the outputs."""
        plain = (bool, int, float, str)
        return [one if isinstance(one, plain) else str(one) for one in self.classes.tolist()]

    def answer_names(self) -> list[str] | None:
        """What each column of :meth:`answer` is the probability of; None of numbers."""
        return None if self.classes is None else [str(label) for label in self.classes.tolist()]

    def more(self, outputs: np.ndarray | Tensor) -> dict[str, np.ndarray]:
        """Further columns of predictions, by name."""
        return {}

    def labels(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        """What `predict` returns."""
        return self.answer(outputs)

    def truth(self, y: Tensor) -> np.ndarray:
        """The labels that were encoded."""
        raise NotImplementedError

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
        >>> from nrs.tabular.targets import ClassTarget
        >>> target = ClassTarget(np.array(["no", "yes"]))
        >>> outputs = torch.tensor([[0.0, 9.0], [0.0, 9.0]])
        >>> target.evaluate("accuracy", outputs, torch.tensor([1, 0]))["score"]
        0.5
        """
        measured = {"val_loss": float(self.loss(outputs, y, weights))}
        outputs = self.placed(outputs, y)
        score = self.default_score(measured, outputs, y, weights)
        if metric == "default":
            return measured | {"score": score}
        if callable(metric):
            name, chosen = getattr(metric, "__name__", "metric"), Metric(of_labels(metric))
        else:
            name, chosen = metric, self.metrics[metric]
        value = chosen.measure(self, y.cpu(), outputs.cpu())
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
        answers, score, residuals = self.settle(outputs, y, counted)
        more = self.beside(outputs)
        return OutOfBag(
            answers, score, residuals, temperature, of_views, outputs=outputs, more=more
        )

    def beside(self, outputs: Tensor) -> dict[str, np.ndarray]:
        """Fitted attributes besides out-of-bag answers, each with an entry per row."""
        return {}

    def settle(
        self, outputs: Tensor, y: Tensor, counted: Tensor | None
    ) -> tuple[np.ndarray, float, np.ndarray | None]:
        """Answers of calibrated out-of-bag outputs, their score, and their errors."""
        answers = self.answer(self.placed(outputs, y))
        return answers, self.score(outputs, y, counted), self.residuals(outputs, y, counted)

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
            known = None if weights is None else weights[before]
            answers[own.numpy()] = self.answer_after(joint[own], joint[before], y[before], known)
        return replace(scored, answers=answers)

    def answer_after(
        self, outputs: Tensor, earlier: Tensor, y: Tensor, weights: Tensor | None
    ) -> np.ndarray:
        """:meth:`answer`, calibrated by outputs and labels of earlier rows, if there are any."""
        temperature = self.calibrate(earlier, y, weights) if len(y) else 1.0
        return self.answer(outputs / _number(temperature))

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        """Out-of-bag score."""
        raise NotImplementedError

    def rate(self, y: ArrayLike, answers: np.ndarray, weights: ArrayLike | None = None) -> float:
        """What `score` of an estimator gives for labels and what `predict` says: accuracy."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, answers, sample_weight=weights))

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

    def again(self, loss: Callable[..., Tensor] | Target | None) -> Target:
        """This target, read from a model file, with the loss that the user gives again.

        Raises
        ------
        ValueError
            If it needs one that is not given, or is given one that the file holds.
        """
        if loss is not None:
            raise ValueError(
                f"loss must be left out: the model was fitted with {self.kind!r}, which its file "
                "holds"
            )
        return self

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
    >>> from nrs.tabular.targets import ClassTarget
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
    >>> from nrs.tabular.targets import ClassTarget
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


# Residuals are kept as so many quantiles: enough for intervals of 99.9 %.
N_QUANTILES = 2001


def conformal_quantiles(
    errors: np.ndarray, weights: np.ndarray, levels: np.ndarray | None = None
) -> np.ndarray:
    """Quantiles of errors such that a new row's error is below each one often enough.

    Of n equally weighted errors it is the ⌈level · (n + 1)⌉-th; other rows count by their weight,
    the new row as much as a usual one, and rows of weight 0 not at all. The levels are
    `N_QUANTILES` by default.

    Examples
    --------
    >>> conformal_quantiles(np.arange(9.0), np.ones(9), np.array([0.0, 0.5, 0.9])).tolist()
    [0.0, 4.0, 8.0]
    >>> conformal_quantiles(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([0.1])).tolist()
    [1.0]
    """
    levels = np.linspace(0, 1, N_QUANTILES) if levels is None else levels
    counted = weights > 0
    order = np.argsort(errors[counted], kind="stable")
    weight = weights[counted][order]
    reached = np.cumsum(weight * (len(weight) / weight.sum()))
    # Sums of weights round: a millionth of a row does not decide.
    place = np.searchsorted(reached, levels * (len(weight) + 1) - 1e-6, side="left")
    return errors[counted][order][np.clip(place, 0, len(weight) - 1)]
