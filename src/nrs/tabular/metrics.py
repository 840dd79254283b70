"""Metrics on held-out rows, by name or as a function; higher is always better inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn import metrics as sk
from torch import Tensor

if TYPE_CHECKING:
    from nrs.tabular.targets import Target

Measure = Callable[["Target", Tensor, Tensor], float]


class Metric(NamedTuple):
    """A function of a target, encoded truths and outputs; `sign` is 1 where higher is better."""

    measure: Measure
    sign: int = 1


def of_labels(function: Callable[[np.ndarray, np.ndarray], float]) -> Measure:
    """A metric of true and predicted labels or numbers, in the user's own values."""
    return lambda target, y, outputs: float(function(target.truth(y), target.labels(outputs)))


def macro_f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """F1 score of each class, averaged."""
    return float(sk.f1_score(truth, predicted, average="macro", zero_division=0))


def class_log_loss(target: Target, y: Tensor, outputs: Tensor) -> float:
    """Log-loss of classes; that of a single class, which is certain, is 0."""
    if target.n_outputs == 1:
        return 0.0
    labels = np.arange(target.n_outputs)
    return float(sk.log_loss(y.cpu().numpy(), target.answer(outputs), labels=labels))


def label_log_loss(target: Target, y: Tensor, outputs: Tensor) -> float:
    """Mean over labels of the binary log-loss: scikit-learn's has no multi-label form."""
    truth, p = y.cpu().numpy(), np.clip(target.answer(outputs), 1e-15, 1 - 1e-15)
    return float(-(truth * np.log(p) + (1 - truth) * np.log(1 - p)).mean())


def class_roc_auc(target: Target, y: Tensor, outputs: Tensor) -> float:
    """Area under the ROC curve of the second class, or the mean over several classes."""
    applies, chances = (
        y.cpu().numpy()[:, None] == np.arange(target.n_outputs),
        target.answer(outputs),
    )
    second = slice(1 if target.n_outputs == 2 else 0, None)
    return mean_roc_auc(applies[:, second], chances[:, second])


def label_roc_auc(target: Target, y: Tensor, outputs: Tensor) -> float:
    """Mean over labels of the area under each one's ROC curve."""
    return mean_roc_auc(y.cpu().numpy() > 0.5, target.answer(outputs))


def mean_roc_auc(applies: np.ndarray, predicted: np.ndarray) -> float:
    """Mean area under the ROC curve, over the labels that have one.

    A curve needs rows with and rows without the label: a rare class may be in none of the held-out
    rows. Without any curve all epochs would be alike, and the first be taken for the best.

    **Shape** both ``(n, labels)``.
    """
    areas = [
        sk.roc_auc_score(label, chances)
        for label, chances in zip(applies.T, predicted.T, strict=True)
        if label.any() and not label.all()
    ]
    if not areas:
        raise ValueError(
            "metric='roc_auc' needs rows of at least two classes to score; all held-out rows have "
            "one. Use another metric, or give an eval_set with several classes."
        )
    return float(np.mean(areas))


CLASS_METRICS: dict[str, Metric] = {
    "accuracy": Metric(of_labels(sk.accuracy_score)),
    "balanced_accuracy": Metric(of_labels(sk.balanced_accuracy_score)),
    "f1": Metric(of_labels(macro_f1)),
    "log_loss": Metric(class_log_loss, -1),
    "roc_auc": Metric(class_roc_auc),
}
# There is no one recall of a class where a row has several labels.
LABEL_METRICS: dict[str, Metric] = {
    "accuracy": CLASS_METRICS["accuracy"],
    "f1": CLASS_METRICS["f1"],
    "log_loss": Metric(label_log_loss, -1),
    "roc_auc": Metric(label_roc_auc),
}
NUMBER_METRICS: dict[str, Metric] = {
    "r2": Metric(of_labels(sk.r2_score)),
    "rmse": Metric(of_labels(sk.root_mean_squared_error), -1),
    "mae": Metric(of_labels(sk.mean_absolute_error), -1),
}
