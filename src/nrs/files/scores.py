"""Predictions next to the truth, for rows that the model was not trained on, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nrs._util.text import plain
from nrs.files.queries import ScoredQueries
from nrs.tabular.predict_file import TargetColumns, with_offset
from nrs.tabular.targets.columns import ColumnsTarget
from nrs.tabular.targets.survival import concordance

if TYPE_CHECKING:
    import pyarrow

    from nrs.tabular.encode.column_encoder import Watch
    from nrs.tabular.types import ArrayLike, TableModel


# Of a 95 % interval of a mean.
_Z = 1.96
NO_BETTER = ": no better than guessing"


def _is_better(gains: np.ndarray) -> bool:
    """Whether the mean of what each row gains over guessing is surely above zero."""
    return bool(gains.mean() > _Z * gains.std() / np.sqrt(len(gains)))


@dataclass(frozen=True)
class Scored:
    """What was predicted for rows whose truth is known.

    Attributes
    ----------
    source : where the rows come from: "out-of-bag", "held-out rows", or a file.
    rows : (n,) their numbers in the table, from 0.
    truth, predicted : (n,) labels or numbers.
    probabilities : (n, n_classes), or None.
    classes : (n_classes,), or None for numbers.
    """

    source: str
    rows: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray | None = None
    classes: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.truth)

    def worst(self) -> np.ndarray:
        """Places of mispredicted rows, the surest first; of numbers the largest errors first."""
        if self.classes is None:
            return np.argsort(-np.abs(self.predicted - self.truth), kind="stable")
        wrong = np.flatnonzero(self.truth != self.predicted)
        if self.probabilities is None:
            return wrong
        return wrong[np.argsort(-self.probabilities.max(1)[wrong], kind="stable")]

    def headline(self) -> str:
        """The score next to that of always guessing the same, with its 95 % interval.

        Examples
        --------
        >>> truth = np.repeat([0, 1], [60, 40])
        >>> Scored("out-of-bag", np.arange(100), truth, truth, None, np.arange(2)).headline()
        '100.0 % ± 2.6 right, guessing 60.0 %'
        >>> Scored("out-of-bag", np.arange(100), truth * 1.0, np.full(100, 0.4)).headline()
        'RMSE 0.4899 ± 0.0196, guessing the mean 0.4899: no better than guessing'
        """
        n, truth, predicted = len(self), self.truth, self.predicted
        if self.classes is None:
            errors, guessed = (truth - predicted) ** 2, (truth - truth.mean()) ** 2
            rmse = float(np.sqrt(errors.mean()))
            # By the delta method.
            margin = _Z * float(errors.std()) / np.sqrt(n) / (2 * rmse) if rmse > 0 else 0.0
            said = f"RMSE {plain(rmse)} ± {plain(margin, 3)}, guessing the mean "
            said += plain(float(np.sqrt(guessed.mean())))
            return said + ("" if _is_better(guessed - errors) else NO_BETTER)
        labels, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
        right, majority = truth == predicted, codes == counts.argmax()
        share, guess = float(right.mean()), float(majority.mean())
        # By Agresti and Coull: all right in a few rows is not sure to be all right.
        wide = n + _Z**2
        middle = (n * share + _Z**2 / 2) / wide
        margin = _Z * np.sqrt(middle * (1 - middle) / wide)
        said = f"{100 * share:.1f} % ± {100 * margin:.1f} right, guessing {100 * guess:.1f} %"
        gains = right.astype(float) - majority
        if self.probabilities is not None and np.isin(labels, self.classes).all():
            # Probabilities may say more than the most probable class does.
            place = np.searchsorted(self.classes, truth)
            chances = np.clip(self.probabilities[np.arange(n), place], 1e-15, 1)
            gains = np.log(chances) - np.log(counts[codes] / n)
        return said + ("" if _is_better(gains) else NO_BETTER)

    def scores(self) -> dict[str, float]:
        """Accuracy and related scores of classes; R², RMSE and MAE of numbers."""
        from sklearn import metrics

        truth, predicted = self.truth, self.predicted
        if self.classes is None:
            return {
                "r2": float(metrics.r2_score(truth, predicted)) if len(self) > 1 else 0.0,
                "rmse": float(metrics.root_mean_squared_error(truth, predicted)),
                "mae": float(metrics.mean_absolute_error(truth, predicted)),
            }
        recalls = [(predicted[truth == label] == label).mean() for label in np.unique(truth)]
        found = {
            "accuracy": float((truth == predicted).mean()),
            "balanced_accuracy": float(np.mean(recalls)),
            "f1": float(metrics.f1_score(truth, predicted, average="macro", zero_division=0)),
        }
        # A label that the model does not know has no probability.
        known = np.isin(truth, self.classes)
        if self.probabilities is None or not known.any():
            return found
        chances, position = self.probabilities[known], np.searchsorted(self.classes, truth[known])
        chosen = np.clip(chances[np.arange(len(chances)), position], 1e-15, 1)
        found["log_loss"] = float(-np.log(chosen).mean())
        n_classes = len(self.classes)
        if len(np.unique(position)) == n_classes > 1:
            # Of two classes both areas are the same.
            each = [1] if n_classes == 2 else list(range(n_classes))
            areas = [metrics.roc_auc_score(position == k, chances[:, k]) for k in each]
            found["roc_auc"] = float(np.mean(areas))
        return found


@dataclass(frozen=True)
class ScoredTargets:
    """What was predicted for several targets: a :class:`Scored` for each, by name."""

    source: str
    rows: np.ndarray
    parts: dict[str, Scored]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def right(self) -> np.ndarray:
        """Whether each label was predicted correctly: (n, n_targets)."""
        return np.column_stack([one.truth == one.predicted for one in self.parts.values()])

    def scores(self) -> dict[str, float]:
        """Means over the targets; for classes also the share of rows with all targets right."""
        found = list(self.scores_by_target().values())
        if "accuracy" not in found[0]:
            # Errors in different units have no mean.
            return {"r2": float(np.mean([one["r2"] for one in found]))}
        shared = [name for name in found[0] if all(name in one for one in found)]
        means = {name: float(np.mean([one[name] for one in found])) for name in shared}
        return {"all_right": float(self.right.all(1).mean())} | means

    def scores_by_target(self) -> dict[str, dict[str, float]]:
        """The scores of each target, by name."""
        return {name: one.scores() for name, one in self.parts.items()}


@dataclass(frozen=True)
class ScoredTimes:
    """Times that were predicted, next to the bounds (n, 2) that are known of them."""

    source: str
    rows: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray

    def __len__(self) -> int:
        return len(self.truth)

    def scores(self) -> dict[str, float]:
        """Concordance: the share of pairs whose order is known that is predicted right."""
        return {"concordance": concordance(self.truth, self.predicted)}

    def headline(self) -> str:
        """The score next to that of guessing."""
        return f"concordance {self.scores()['concordance']:.4f}, guessing 0.5"


AnyScored = Scored | ScoredTimes | ScoredTargets | ScoredQueries


def model_outputs(
    model: TableModel,
    X: pyarrow.Table | np.ndarray,
    watch: Watch | None = None,
    added: Sequence[ArrayLike] = (),
) -> np.ndarray:
    """What a model is scored by: the probabilities of a classifier, the numbers of a regressor.

    `added` is the column of offsets, if there is one.
    """
    return model.target_.answer(with_offset(model, model.outputs(X, watch=watch), added))


def score_outputs(
    model: TableModel,
    outputs: np.ndarray,
    truth: np.ndarray,
    source: str,
    rows: np.ndarray,
    targets: TargetColumns | None = None,
    qid: np.ndarray | None = None,
) -> AnyScored:
    """Compare the outputs of a model with the truth.

    **Shape** outputs ``(n,)`` or ``(n, n_classes)``, truth ``(n,)``, rows ``(n,)`` their numbers in
    the whole table. With several targets outputs and truth are ``(n, n_targets)``; without names of
    these a truth of two columns is the bounds of times. `qid` is the query of each row.

    Examples
    --------
    >>> truth, targets = np.array([[1.0, 5.0], [2.0, 7.0]]), TargetColumns(["a", "b"])
    >>> found = score_outputs(None, truth, truth, "held-out rows", np.arange(2), targets)
    >>> found.scores(), found.scores_by_target()["b"]["mae"]
    ({'r2': 1.0}, 0.0)
    """
    if qid is not None:
        return ScoredQueries(source, rows, truth, outputs, qid)
    if targets is None and truth.ndim == 2:
        return ScoredTimes(source, rows, truth, outputs)
    if targets is None:
        classes = getattr(model, "classes_", None)
        if classes is None:
            return Scored(source, rows, truth, outputs)
        return Scored(source, rows, truth, model.target_.choose(outputs), outputs, classes)
    parts, target = {}, getattr(model, "target_", None)
    if isinstance(target, ColumnsTarget):
        known = zip(targets.names, target.classes, target.by_column(outputs), strict=True)
        for place, (name, classes, chances) in enumerate(known):
            kind = str if classes.dtype.kind in "UO" else classes.dtype
            labels = target.columns[place].choose(chances)
            true = truth[:, place].astype(kind)
            parts[name] = Scored(source, rows, true, labels, chances, classes)
        return ScoredTargets(source, rows, parts)
    for place, name in enumerate(targets.names):
        found, true = outputs[:, place], targets.decode(place, truth[:, place])
        if targets.labels is None:
            parts[name] = Scored(source, rows, true, found)
        else:
            chances = np.column_stack([1 - found, found])
            labels, classes = targets.decode(place, found > 0.5), np.asarray(targets.labels[place])
            parts[name] = Scored(source, rows, true, labels, chances, classes)
    return ScoredTargets(source, rows, parts)


def score_oob(
    model: TableModel,
    truth: np.ndarray,
    targets: TargetColumns | None = None,
    qid: np.ndarray | None = None,
) -> AnyScored | None:
    """Score a forest on its training rows, each by members not trained on it; else None."""
    outputs = getattr(model, "oob_decision_function_", getattr(model, "oob_prediction_", None))
    if outputs is None:
        return None
    # Of a fit in order of time, the earliest rows have none.
    rows = np.flatnonzero(~np.isnan(outputs).reshape(len(outputs), -1).any(1))
    queries = None if qid is None else qid[rows]
    return score_outputs(model, outputs[rows], truth[rows], "out-of-bag", rows, targets, queries)
