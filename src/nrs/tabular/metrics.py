"""Metrics on held-out rows, by name or as a function; higher is always better inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from sklearn import metrics as sk
from torch import Tensor

from nrs.tabular.targets import ClassTarget, MultilabelTarget, RegressionTarget, Target

# name: (function, what it reads, sign that makes higher better)
_CLASSIFICATION: dict[str, tuple[Callable[..., float], str, int]] = {
    "accuracy": (sk.accuracy_score, "labels", 1),
    "balanced_accuracy": (sk.balanced_accuracy_score, "labels", 1),
    "f1": (lambda y, p: sk.f1_score(y, p, average="macro", zero_division=0), "labels", 1),
    "log_loss": (sk.log_loss, "probabilities", -1),
    # Label by label, see _roc_auc.
    "roc_auc": (sk.roc_auc_score, "probabilities", 1),
}
_REGRESSION: dict[str, tuple[Callable[..., float], str, int]] = {
    "r2": (sk.r2_score, "labels", 1),
    "rmse": (sk.root_mean_squared_error, "labels", -1),
    "mae": (sk.mean_absolute_error, "labels", -1),
}


class Evaluation:
    """Measure outputs against targets: a loss, an easily read metric, and the deciding score.

    ``"default"`` decides by accuracy − 0.1 · log-loss for classes (accuracy alone is too coarse
    on few rows, log-loss alone stops before accuracy peaks) and by the loss otherwise. A function
    is called as ``metric(y_true, y_predicted)`` on labels or values; higher is better.

    Examples
    --------
    >>> target = ClassTarget(np.array(["no", "yes"]))
    >>> evaluation = Evaluation("accuracy", target)
    >>> outputs = torch.tensor([[0.0, 9.0], [0.0, 9.0]])
    >>> evaluation(outputs, torch.tensor([1, 0]))["score"]
    0.5
    """

    def __init__(self, metric: str | Callable[..., float], target: Target) -> None:
        known = _REGRESSION if isinstance(target, RegressionTarget) else _CLASSIFICATION
        labels = ""
        if isinstance(target, MultilabelTarget):
            # Of several labels a row there is no one recall of a class.
            known = {name: one for name, one in known.items() if name != "balanced_accuracy"}
            labels = " where a row has several labels"
        if metric != "default" and not callable(metric) and metric not in known:
            raise ValueError(
                f"metric must be a function or one of {('default', *known)}{labels}, however: "
                f"metric={metric!r}"
            )
        self.metric, self.target = metric, target
        self._known = known

    def __call__(
        self, outputs: Tensor, y: Tensor, weights: Tensor | None = None
    ) -> dict[str, float]:
        measured = {"val_loss": float(self.target.loss(outputs, y, weights))}
        if isinstance(self.target, ClassTarget):
            measured["val_accuracy"] = float((outputs.argmax(1) == y).float().mean())
        if self.metric == "default":
            measured["score"] = self._default(measured, outputs, y, weights)
        else:
            name, value, sign = self._chosen(outputs, y)
            measured[f"val_{name}"] = value
            measured["score"] = sign * value
        return measured

    def _default(
        self, measured: dict[str, float], outputs: Tensor, y: Tensor, weights: Tensor | None
    ) -> float:
        if not isinstance(self.target, ClassTarget):
            return -measured["val_loss"]
        accuracy = measured["val_accuracy"]
        if weights is not None:
            # Rows that weigh nothing should not decide either.
            right = (outputs.argmax(1) == y).double() * weights
            accuracy = float(right.sum() / weights.sum().clamp_min(1e-30))
        return accuracy - 0.1 * measured["val_loss"]

    def _chosen(self, outputs: Tensor, y: Tensor) -> tuple[str, float, int]:
        truth = self._truth(y)
        if callable(self.metric):
            name = getattr(self.metric, "__name__", "metric")
            return name, float(self.metric(truth, self.target.labels(outputs))), 1
        function, reads, sign = self._known[self.metric]
        if reads == "labels":
            return self.metric, float(function(truth, self.target.labels(outputs))), sign
        if isinstance(self.target, RegressionTarget):
            raise AssertionError("metrics of numbers read values")
        predicted = self.target.probabilities(outputs)
        one_of = isinstance(self.target, ClassTarget)
        if self.metric == "roc_auc":
            applies = truth[:, None] == self.target.classes if one_of else truth == 1
            return self.metric, _roc_auc(applies, predicted, one_of=one_of), sign
        if not one_of:
            # scikit-learn's log-loss has no multi-label form: mean over labels of the binary one.
            clipped = np.clip(predicted, 1e-15, 1 - 1e-15)
            loss = F.binary_cross_entropy(torch.from_numpy(clipped), torch.from_numpy(truth * 1.0))
            return self.metric, float(loss), sign
        if len(self.target.classes) == 1:
            # Nor one of a single class, which is certain.
            return self.metric, 0.0, sign
        return self.metric, float(function(truth, predicted, labels=self.target.classes)), sign

    def _truth(self, y: Tensor) -> np.ndarray:
        if isinstance(self.target, ClassTarget):
            truth: np.ndarray = self.target.classes[y.cpu().numpy()]
            return truth
        if isinstance(self.target, MultilabelTarget):
            return y.cpu().numpy().astype(int)
        return self.target.labels(y)


def _roc_auc(applies: np.ndarray, predicted: np.ndarray, *, one_of: bool) -> float:
    """Mean over labels of the area under each one's curve, of those that have one.

    A curve needs rows with and rows without the label: a rare class may be in none of the held-out
    rows. Without any curve all epochs would be alike, and the first be taken for the best.

    **Shape** applies and predicted ``(n, labels)``.
    """
    if one_of and applies.shape[1] == 2:
        applies, predicted = applies[:, 1:], predicted[:, 1:]
    areas = [
        sk.roc_auc_score(label, chances)
        for label, chances in zip(applies.T, predicted.T, strict=True)
        if label.any() and not label.all()
    ]
    if not areas:
        raise ValueError(
            "metric='roc_auc' needs rows of at least two classes to judge by, however: there is "
            "one; use another metric, or give an eval_set of several"
        )
    return float(np.mean(areas))
