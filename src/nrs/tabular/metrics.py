"""Metrics on held-out rows, by name or as a function; higher is always better inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from nrs.tabular.targets import Target

Measure = Callable[["Target", "Tensor", "Tensor"], float]


class Metric(NamedTuple):
    """A function of a target, encoded truths and outputs; `sign` is 1 where higher is better."""

    measure: Measure
    sign: int = 1


def scikit_learn(name: str) -> Callable[..., float]:
    """A metric of scikit-learn, which predictions need not import."""

    def measure(*args: np.ndarray, **options: object) -> float:
        from sklearn import metrics

        return float(getattr(metrics, name)(*args, **options))

    return measure


def of_labels(function: Callable[[np.ndarray, np.ndarray], float]) -> Measure:
    """A metric of true and predicted labels or numbers, in the user's own values."""
    return lambda target, y, outputs: float(function(target.truth(y), target.labels(outputs)))


def macro_f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """F1 score of each class, averaged."""
    return scikit_learn("f1_score")(truth, predicted, average="macro", zero_division=0)


def class_log_loss(target: Target, y: Tensor, outputs: Tensor) -> float:
    """Log-loss of classes; that of a single class, which is certain, is 0."""
    if target.n_outputs == 1:
        return 0.0
    labels = np.arange(target.n_outputs)
    return scikit_learn("log_loss")(y.cpu().numpy(), target.answer(outputs), labels=labels)


def label_log_loss(target: Target, y: Tensor, outputs: Tensor) -> float:
    """Mean over labels of the binary log-loss: scikit-learn's has no multi-label form."""
    truth, p = y.cpu().numpy(), np.clip(target.answer(outputs), 1e-15, 1 - 1e-15)
    return float(-(truth * np.log(p) + (1 - truth) * np.log(1 - p)).mean())


def of_curves(area: Callable[[np.ndarray, np.ndarray], float], name: str) -> Measure:
    """Area under a curve of the second class, or the mean over several classes or labels."""

    def measure(target: Target, y: Tensor, outputs: Tensor) -> float:
        truth, chances = y.cpu().numpy(), target.answer(outputs)
        if truth.ndim == 2:
            return mean_area(truth > 0.5, chances, area, name)
        second = slice(1 if target.n_outputs == 2 else 0, None)
        applies = truth[:, None] == np.arange(target.n_outputs)
        return mean_area(applies[:, second], chances[:, second], area, name)

    return measure


def mean_area(
    applies: np.ndarray,
    predicted: np.ndarray,
    area: Callable[[np.ndarray, np.ndarray], float],
    name: str,
) -> float:
    """Mean area under a curve, over the labels that have one.

    A curve needs rows with and rows without the label: a rare class may be in none of the held-out
    rows. Without any curve all epochs would be alike, and the first be taken for the best.

    **Shape** both ``(n, labels)``.
    """
    areas = [
        area(label, chances)
        for label, chances in zip(applies.T, predicted.T, strict=True)
        if label.any() and not label.all()
    ]
    if not areas:
        raise ValueError(
            f"metric={name!r} needs rows of at least two classes to score; all held-out rows have "
            "one. Use another metric, or give an eval_set with several classes."
        )
    return float(np.mean(areas))


ROC_AUC = Metric(of_curves(scikit_learn("roc_auc_score"), "roc_auc"))
AVERAGE_PRECISION = Metric(of_curves(scikit_learn("average_precision_score"), "average_precision"))
CLASS_METRICS: dict[str, Metric] = {
    "accuracy": Metric(of_labels(scikit_learn("accuracy_score"))),
    "balanced_accuracy": Metric(of_labels(scikit_learn("balanced_accuracy_score"))),
    "f1": Metric(of_labels(macro_f1)),
    "log_loss": Metric(class_log_loss, -1),
    "roc_auc": ROC_AUC,
    "average_precision": AVERAGE_PRECISION,
}
# There is no one recall of a class where a row has several labels.
LABEL_METRICS: dict[str, Metric] = {
    "accuracy": CLASS_METRICS["accuracy"],
    "f1": CLASS_METRICS["f1"],
    "log_loss": Metric(label_log_loss, -1),
    "roc_auc": ROC_AUC,
    "average_precision": AVERAGE_PRECISION,
}
NUMBER_METRICS: dict[str, Metric] = {
    "r2": Metric(of_labels(scikit_learn("r2_score"))),
    "rmse": Metric(of_labels(scikit_learn("root_mean_squared_error")), -1),
    "mae": Metric(of_labels(scikit_learn("mean_absolute_error")), -1),
}
