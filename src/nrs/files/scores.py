"""Predictions beside the truth, for rows that the model did not learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.tabular.targets import ClassTarget

if TYPE_CHECKING:
    from nrs.files.targets import JudgedTargets, SeveralTargets


@dataclass(frozen=True)
class Judged:
    """What was predicted for rows whose truth is known.

    Attributes
    ----------
    source : str
        Where the rows come from: "out-of-bag", "held-out rows", or a file.
    rows : ndarray (n,)
        Their numbers in the table, from 0.
    truth, predicted : ndarray (n,)
        Labels or numbers.
    probabilities : ndarray (n, n_classes) or None
    classes : ndarray (n_classes,) or None
        None for numbers.

    Examples
    --------
    >>> truth = np.array([1.0, 2.0])
    >>> Judged("held-out rows", np.arange(2), truth, truth).scores()["mae"]
    0.0
    """

    source: str
    rows: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray | None = None
    classes: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.truth)

    def scores(self) -> dict[str, float]:
        """Accuracy and its kin for classes; R², RMSE and MAE for numbers."""
        from sklearn import metrics

        if self.classes is None:
            return {
                "r2": float(metrics.r2_score(self.truth, self.predicted)) if len(self) > 1 else 0.0,
                "rmse": float(metrics.root_mean_squared_error(self.truth, self.predicted)),
                "mae": float(metrics.mean_absolute_error(self.truth, self.predicted)),
            }
        found = {"accuracy": float((self.truth == self.predicted).mean())}
        recalls = [
            float((self.predicted[self.truth == label] == label).mean())
            for label in np.unique(self.truth)
        ]
        found["balanced_accuracy"] = float(np.mean(recalls))
        found["f1"] = float(
            metrics.f1_score(self.truth, self.predicted, average="macro", zero_division=0)
        )
        return found | self._of_probabilities()

    def _of_probabilities(self) -> dict[str, float]:
        from sklearn import metrics

        # A label that the model does not know has no probability.
        if self.probabilities is None or self.classes is None:
            return {}
        known = np.isin(self.truth, self.classes)
        if not known.any():
            return {}
        truth, chances = self.truth[known], self.probabilities[known]
        position = np.searchsorted(self.classes, truth)
        chosen = np.clip(chances[np.arange(len(truth)), position], 1e-15, 1)
        found = {"log_loss": float(-np.log(chosen).mean())}
        present = np.unique(position)
        if len(self.classes) == 2 and len(present) == 2:
            found["roc_auc"] = float(metrics.roc_auc_score(position == 1, chances[:, 1]))
        elif len(present) == len(self.classes) > 2:
            each = [metrics.roc_auc_score(position == k, chances[:, k]) for k in present]
            found["roc_auc"] = float(np.mean(each))
        return found


def scored(model: Any, X: Any) -> np.ndarray:
    """What a model is judged by: probabilities of a classifier, numbers of a regressor."""
    values: np.ndarray = model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)
    return values


def beside(
    model: Any,
    values: np.ndarray,
    truth: np.ndarray,
    source: str,
    rows: np.ndarray,
    several: SeveralTargets | None = None,
) -> Judged | JudgedTargets:
    """Set what :func:`scored` gave beside the truth.

    **Shape** values ``(n,)`` or ``(n, n_classes)``, truth ``(n,)``, rows ``(n,)`` their numbers in
    the whole table; of several targets values and truth ``(n, n_targets)``.
    """
    if several is not None:
        return several.judged(values, truth, source, rows)
    if not isinstance(model.target_, ClassTarget):
        return Judged(source, rows, truth, values)
    classes = model.classes_
    return Judged(source, rows, truth, classes[values.argmax(1)], values, classes)


def judge(
    model: Any,
    X: Any,
    truth: np.ndarray,
    source: str,
    rows: np.ndarray,
    several: SeveralTargets | None = None,
) -> Judged | JudgedTargets:
    """Predict rows whose truth is known; shapes as in :func:`beside`."""
    return beside(model, scored(model, X), truth, source, rows, several)


def out_of_bag(
    model: Any, truth: np.ndarray, several: SeveralTargets | None = None
) -> Judged | JudgedTargets | None:
    """What a just fitted forest predicted for every training row by members that never saw it."""
    for name in ("oob_decision_function_", "oob_prediction_"):
        if hasattr(model, name):
            rows = np.arange(len(truth))
            return beside(model, getattr(model, name), truth, "out-of-bag", rows, several)
    return None
