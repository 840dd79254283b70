"""What classifiers of tables share: labels in, probabilities and labels out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nrs.tabular.encode.columns import missing_cells
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.targets import (
    ClassTarget,
    MultilabelTarget,
    labels_as_array,
    weights_of_labels,
)


class TableClassifier(ClassifierMixin, TableEstimator):
    """Common base of :class:`nrs.NRSClassifier` and of the networks it is compared with."""

    def __init__(self, *, class_weight: Any = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.class_weight = class_weight

    @property
    def classes_(self) -> np.ndarray:
        """The class labels, in the order of the columns of `predict_proba`."""
        try:
            return self.target_.classes  # type: ignore[union-attr]
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take one pass over more rows, keeping what was learned.

        The first call learns the encoding of the columns, later ones use it; so the first rows
        should be typical ones. The optimizer's state is kept from call to call.

        Parameters
        ----------
        X, y, sample_weight : as of :meth:`fit`.
        classes : array, optional
            All labels that will ever come; at the first call only, where `y` may lack some. Not
            needed where a row has several labels, whose columns tell them all.
        """
        known = None if classes is None else _all_classes(classes)
        return self._partial_fit(X, y, sample_weight, known)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the labels: (n_rows,), or a 0/1 array (n_rows, n_labels) for multi-label.

        Parameters
        ----------
        X : a table with the columns of the fit.
        """
        check_is_fitted(self)
        return self.target_.labels(self._outputs(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities: (n_rows, n_classes).

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        """
        check_is_fitted(self)
        outputs = self._outputs(X)
        return self.target_.probabilities(outputs)  # type: ignore[union-attr]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict logarithms of the probabilities."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    def decision_function(self, X: Any) -> np.ndarray:
        """Tell the network's outputs; for two classes the log-odds of the second, (n_rows,).

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        """
        check_is_fitted(self)
        outputs = self._outputs(X).double().numpy()
        if isinstance(self.target_, ClassTarget) and outputs.shape[1] == 2:
            odds: np.ndarray = outputs[:, 1] - outputs[:, 0]
            return odds
        return outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _check_labels(self, y: Any) -> np.ndarray:
        y = y if hasattr(y, "toarray") else labels_as_array(y)
        if not hasattr(y, "toarray"):
            _check_cells(y, "y")
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind == "multilabel-indicator":
            several = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
            if not np.isin(several, (0, 1)).all():
                raise ValueError(
                    "y with several labels a row must hold 1 where a label applies, else 0, "
                    f"however: {np.unique(several).tolist()}; give y == {several.max()}"
                )
            return several
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return y

    def _make_target(
        self, labels: np.ndarray, rows: np.ndarray | None
    ) -> ClassTarget | MultilabelTarget:
        # A class that is only among the held-out rows still is a class.
        if labels.ndim == 2:
            return MultilabelTarget(labels.shape[1])
        return ClassTarget(np.unique(labels))

    def _strata(self, labels: np.ndarray) -> np.ndarray:
        # Numbers of the classes, so that labels of any dtype are spread alike.
        return labels if labels.ndim == 2 else np.unique(labels, return_inverse=True)[1]

    def _class_weights(self, labels: np.ndarray) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        return weights_of_labels(self.class_weight, labels)


def _all_classes(classes: Any) -> np.ndarray:
    """The labels that a user lists, in any collection."""
    ordered = list(classes) if isinstance(classes, (set, frozenset)) else classes
    found = labels_as_array(ordered)
    if found.ndim != 1 or missing_cells(found).any():
        raise ValueError(
            f"classes must list all labels, none of them missing, however: classes={classes!r}"
        )
    _check_cells(found, "classes")
    return found


def _check_cells(labels: np.ndarray, name: str) -> None:
    """Refuse labels that are missing, or that have no order among each other."""
    if missing_cells(labels).any():
        raise ValueError(f"Input {name} contains NaN or None; every row needs a label")
    if labels.dtype.kind != "O" or not labels.size:
        return
    types = sorted({type(label).__name__ for label in labels.flat})
    if types != ["str"]:
        raise ValueError(
            f"{name} must hold strings, numbers or booleans, not several of them, however: "
            f"{', '.join(types)}; turn the labels into strings"
        )
