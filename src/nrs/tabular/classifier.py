"""`NRSClassifier`: classes from a raw table."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrs.tabular.forest.estimator import ForestEstimator
from nrs.tabular.open_model import OpenModel
from nrs.tabular.table_classifier import TableClassifier
from nrs.tabular.targets import ClassTarget


class NRSClassifier(TableClassifier, OpenModel, ForestEstimator):
    """Classify the rows of a raw table with a Neural Random Subspace network.

    Numbers, strings, categories, booleans, dates and missing values are taken as they are, from
    NumPy, pandas, polars, pyarrow and SciPy's sparse matrices. Targets are binary, multi-class or
    multi-label.

    Parameters
    ----------
    preset : {"default", "fast", "best", "single", "paper"}
        ``"default"`` is a forest: members trained side by side, each without one fold of the rows,
        so that every row is judged by members that never saw it. These out-of-bag predictions
        decide when to stop, calibrate the probabilities and give `oob_score_`; no row is lost to
        a validation part. ``"fast"`` takes about an eighth of the time, ``"best"`` three times
        as long. ``"single"`` is one network with a held-out tenth; ``"paper"`` the network and
        protocol of the paper: a fixed number of epochs of Adam, the last one, on values as they
        are. Every parameter whose default is None takes the preset's value, which the fitted
        attribute of its name with a trailing underscore tells.
    n_mul, n_per, n_h, layout : optional
        Of the layer, see :class:`nrs.NRS`. A member of a forest has ``n_mul`` · d subspaces of
        ``n_h``² columns. ``n_mul=0`` (a plain MLP), `n_per` and `layout` belong to a single
        network, which they turn ``"default"`` into.
    hidden : int or sequence of int, optional
        Widths of the fully connected layers after it.
    dropout : float, optional
        Probability of dropping a unit after each ReLU.
    scale : {"standard", "none"}, optional
        Whether numbers are standardised.
    epochs, batch_size, lr, weight_decay : optional
        Passes over the rows, rows of a step, learning rate and decay of Adam.
    validation_fraction : float, optional
        Part of the rows that is held out to choose the epoch; 0 trains on all rows to the end. A
        forest does not use it.
    patience : int, optional
        Epochs without improvement after which training stops.
    metric : str or callable, optional
        What is measured on the held-out rows: "default", "accuracy", "balanced_accuracy", "f1",
        "log_loss", "roc_auc", or a function ``metric(y_true, y_predicted)``, higher being better.
        "balanced_accuracy" is not for several labels a row.
    time_limit : float, optional
        Seconds that a fit may take; it ends with the best weights found by then.
    class_weight : dict, "balanced" or None
        How much a row counts by its label; "balanced" lets all classes count the same.
    categorical_features : list of names, list of indices or boolean mask, optional
        Columns to take as categories beside those whose dtype says so.
    random_state : int, RandomState or None
        The same number gives the same model.
    n_jobs : int or None
        Threads; None is one, -1 all cores.
    n_workers : int, default=1
        Processes on this machine that train a forest together, `n_jobs` threads each. Not used
        under a launcher such as ``torchrun``, see :func:`nrs.training.processes`.
    divide : {"auto", "rows", "members"}
        What several processes share: the rows of every batch, or the members of the forest, which
        then are those of one process bit by bit. "auto" is the members if there are enough of them.
    device : str
        "auto" (a GPU where there is one), "cpu", "cuda", …
    precision : {"float32", "bf16", "auto"}
        Of the products in training: "bf16" is bfloat16 by autocast, "auto" that on a GPU which has
        it. Weights, statistics and losses stay in float32, and so do predictions.
    verbose : int
        0 silence, 1 a progress bar on a terminal, 2 also log lines elsewhere.
    callbacks : list of :class:`nrs.training.Callback`, optional
        Called at every epoch, to watch a fit or to end it.
    checkpoint : path, optional
        Directory in which every epoch is saved: a fit that was killed and is started again with
        the same arguments ends with the same bits.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in the order of the probabilities.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    history_ : :class:`nrs.training.History`
        A table of losses and metrics by epoch (of a forest by round of several epochs, after which
        out-of-bag rows are judged).
    oob_score_ : float
        Accuracy on out-of-bag rows; of a forest.
    oob_decision_function_ : ndarray (n_rows, n_classes)
        Out-of-bag probabilities; of a forest. They are not saved: a loaded model has `oob_score_`
        alone.
    oob_rows_ : ndarray of int64
        Which rows of a :class:`nrs.Table` these are: file · 2⁴⁰ + row.
    data_wait_ : float
        Part of the training time that was spent waiting for the data of a :class:`nrs.Table`.
    feature_importances_ : ndarray (n_columns,)
        How far the outputs move with each column; the shares sum to one.
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
        time_limit: float | None = None,
        class_weight: Any = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        n_workers: int = 1,
        divide: str = "auto",
        device: str = "auto",
        precision: str = "float32",
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
            time_limit=time_limit,
            categorical_features=categorical_features,
            random_state=random_state,
            n_jobs=n_jobs,
            n_workers=n_workers,
            divide=divide,
            device=device,
            precision=precision,
            verbose=verbose,
            callbacks=callbacks,
            checkpoint=checkpoint,
            class_weight=class_weight,
        )

    def predict_entropy(self, X: Any) -> np.ndarray:
        """Tell how unsure the forest is of each row: the entropy of its probabilities, (n_rows,).

        Between 0 (sure) and 1 (all classes equally likely); of labels that may hold at once the
        mean of each one's.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        """
        p = np.clip(self.predict_proba(X), np.finfo(np.float64).tiny, 1)
        if isinstance(self.target_, ClassTarget):
            entropy: np.ndarray = -(p * np.log(p)).sum(1) / np.log(max(2, p.shape[1]))
            return entropy
        q = np.clip(1 - p, np.finfo(np.float64).tiny, 1)
        each: np.ndarray = -(p * np.log2(p) + q * np.log2(q)).mean(1)
        return each

    def _oob_score(self, outputs: Any, truth: Any) -> float:
        if isinstance(self.target_, ClassTarget):
            return float((outputs.argmax(1) == truth).double().mean())
        return float(((outputs > 0) == (truth > 0.5)).all(1).double().mean())
