"""`NRSClassifier`: classes from a raw table."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nrs.tabular.base import TableEstimator
from nrs.tabular.targets import ClassTarget, MultilabelTarget, labels_as_array


class NRSClassifier(ClassifierMixin, TableEstimator):
    """Classify the rows of a raw table with a Neural Random Subspace network.

    Numbers, strings, categories, booleans, dates and missing values are taken as they are, from
    NumPy, pandas, polars, pyarrow and SciPy's sparse matrices. Targets are binary, multi-class or
    multi-label.

    Parameters
    ----------
    preset : {"default", "paper"}
        ``"default"`` holds out a tenth of the rows and stops where they say so; ``"paper"`` is
        the network and protocol of the paper: a fixed number of epochs of Adam, the last one, on
        values as they are. Every parameter whose default is None takes the preset's value, which
        the fitted attribute of its name with a trailing underscore tells.
    n_mul, n_per, n_h, layout : optional
        Of the layer, see :class:`nrs.NRS`. ``n_mul=0`` leaves it out: a plain MLP.
    hidden : int or sequence of int, optional
        Widths of the fully connected layers after it.
    dropout : float, optional
        Probability of dropping a unit after each ReLU.
    scale : {"standard", "none"}, optional
        Whether numbers are standardised.
    epochs, batch_size, lr, weight_decay : optional
    validation_fraction : float, optional
        Part of the rows that is held out to choose the epoch; 0 trains on all rows to the end.
    patience : int, optional
        Epochs without improvement after which training stops.
    metric : str or callable, optional
        What is measured on the held-out rows: "default", "accuracy", "balanced_accuracy", "f1",
        "log_loss", "roc_auc", or a function ``metric(y_true, y_predicted)``, higher being better.
    class_weight : dict, "balanced" or None
    categorical_features : list of names, list of indices or boolean mask, optional
        Columns to take as categories beside those whose dtype says so.
    random_state : int, RandomState or None
    n_jobs : int or None
        Threads; None is one, -1 all cores.
    device : str
        "auto" (a GPU where there is one), "cpu", "cuda", …
    verbose : int
        0 silence, 1 a progress bar on a terminal, 2 also log lines elsewhere.
    callbacks : list of :class:`nrs.training.Callback`, optional
    checkpoint : path, optional
        Directory in which every epoch is saved: a fit that was killed and is started again with
        the same arguments ends with the same bits.

    Attributes
    ----------
    classes_ : ndarray of the labels.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    history_ : :class:`nrs.training.History`, a table of losses and metrics by epoch.
    feature_importances_ : ndarray (n_columns,)
    network_, encoder_, recipe_ : the trained module, the learned encoding, all settings used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = NRSClassifier(epochs=20, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    >>> model.score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        *,
        preset: str = "default",
        n_mul: int | None = None,
        n_per: int | None = None,
        n_h: int | None = None,
        layout: str | None = None,
        hidden: Any = None,
        dropout: float | None = None,
        scale: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        validation_fraction: float | None = None,
        patience: int | None = None,
        metric: Any = None,
        class_weight: Any = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: int = 1,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            preset=preset,
            n_mul=n_mul,
            n_per=n_per,
            n_h=n_h,
            layout=layout,
            hidden=hidden,
            dropout=dropout,
            scale=scale,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            weight_decay=weight_decay,
            validation_fraction=validation_fraction,
            patience=patience,
            metric=metric,
            categorical_features=categorical_features,
            random_state=random_state,
            n_jobs=n_jobs,
            device=device,
            verbose=verbose,
            callbacks=callbacks,
            checkpoint=checkpoint,
        )
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
        classes : array, optional
            All labels that will ever come; at the first call only, where `y` may lack some.
        """
        return self._partial_fit(
            X, y, sample_weight, None if classes is None else np.asarray(classes)
        )

    def predict(self, X: Any) -> np.ndarray:
        """Predict the labels: (n_rows,), or a 0/1 array (n_rows, n_labels) for multi-label."""
        check_is_fitted(self)
        return self.target_.labels(self._outputs(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities: (n_rows, n_classes)."""
        check_is_fitted(self)
        outputs = self._outputs(X)
        return self.target_.probabilities(outputs)  # type: ignore[union-attr]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict logarithms of the probabilities."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    def decision_function(self, X: Any) -> np.ndarray:
        """Tell the network's outputs; for two classes the log-odds of the second, (n_rows,)."""
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
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind == "multilabel-indicator":
            return np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if y.dtype.kind == "O" and any(label is None or label != label for label in y):
            raise ValueError("Input y contains NaN or None; every row needs a label")
        return y

    def _make_target(
        self, labels: np.ndarray, rows: np.ndarray | None
    ) -> ClassTarget | MultilabelTarget:
        # A class that is only among the held-out rows still is a class.
        if labels.ndim == 2:
            return MultilabelTarget(labels.shape[1])
        return ClassTarget(np.unique(labels))

    def _class_weights(self, labels: np.ndarray) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        weights: np.ndarray = compute_sample_weight(self.class_weight, labels)
        return weights
