"""`NRSClassifier`: classes from a raw table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nrs.tabular.encode.columns import labels_as_array, missing_cells, read_labels
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.forest.estimator import ForestEstimator
from nrs.tabular.forest.folds import MIN_ROWS
from nrs.tabular.header import CLASSES
from nrs.tabular.parameters import (
    CheckpointParameters,
    ClassWeight,
    MonotoneParameters,
    parameters,
)
from nrs.tabular.targets import Loss, is_columns, label_columns
from nrs.tabular.threshold import Threshold

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from nrs.tabular.types import ArrayLike, TableLike


@parameters
class TableClassifier(ClassWeight, ClassifierMixin, TableEstimator):
    """Common base of :class:`NRSClassifier` and of the networks it is compared with."""

    _is_classifier = True
    _target_schema = CLASSES
    # Whether y may have several columns of classes.
    _takes_columns: ClassVar[bool] = False

    @property
    def classes_(self) -> np.ndarray | list[np.ndarray]:
        """The class labels, in the order of the columns of `predict_proba`; or a list of these."""
        try:
            return self.target_.classes
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Take one pass over more rows, keeping what was learned.

        The first call learns the encoding of the columns, later ones use it; so the first rows
        should be typical ones. The optimizer's state is kept from call to call.

        A forest learns levels of categories that are new: each gets a feature of its own, as long
        as no more than 64 of a column have one. Further ones join the levels that share a feature;
        where there are none, they stay unseen. Means of the target stay those of the fit. A single
        network has no room for new levels.

        Every row of a forest is left out by some members, whatever the call: ``oob_score_``,
        calibration, intervals and a learned threshold follow from the rows of the last call, and of
        calls before it up to 2,000 rows in all. ``oob_decision_function_`` or ``oob_prediction_``
        has the rows of the last call. Rows that come twice are seen by all members: then these
        scores are too good.

        Parameters
        ----------
        X, y, sample_weight : as of :meth:`fit`.
        classes : array, or list of arrays, optional
            All labels that will ever come; at the first call only, where `y` may lack some. Of
            several columns of classes one array for each. Not needed where a row has several
            labels, whose columns show them all.
        """
        known: np.ndarray | list[np.ndarray] | None = None
        if isinstance(classes, list) and all(isinstance(k, (list, np.ndarray)) for k in classes):
            known = [_all_classes(one) for one in classes]
        elif classes is not None:
            known = _all_classes(classes)
        return self._partial_fit(X, y, sample_weight, known)

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the labels: (n_rows,), or (n_rows, n_columns) of several columns of classes.

        A 0/1 array (n_rows, n_labels) for multi-label.

        Parameters
        ----------
        X : a table with the columns of the fit.
        """
        check_is_fitted(self)
        return self.target_.labels(self.outputs(X))

    def predict_proba(self, X: TableLike) -> np.ndarray | list[np.ndarray]:
        """Predict probabilities: (n_rows, n_classes); of several columns of classes one for each.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        """
        chances = self._chances(X)
        return self.target_.presented(chances)

    def predict_log_proba(self, X: TableLike) -> np.ndarray | list[np.ndarray]:
        """Predict logarithms of the probabilities."""
        logs = np.log(np.maximum(self._chances(X), np.finfo(np.float64).tiny))
        return self.target_.presented(logs)

    def _chances(self, X: TableLike) -> np.ndarray:
        """Probabilities of all classes: (n_rows, n_outputs)."""
        check_is_fitted(self)
        return self.target_.answer(self.outputs(X))

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy: the share of rows whose label is predicted, of several all that are known."""
        check_is_fitted(self)
        return self.target_.rate(y, self.predict(X), sample_weight)

    def decision_function(self, X: TableLike) -> np.ndarray | list[np.ndarray]:
        """The network's outputs; for two classes the log-odds of the second, (n_rows,).

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        """
        check_is_fitted(self)
        return self.target_.decision(np.asarray(self.outputs(X), dtype=np.float64))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = self._takes_columns
        return tags

    def _check_labels(self, y: ArrayLike) -> np.ndarray:
        two = getattr(y, "ndim", 2) == 2  # Lists may be anything.
        if self._takes_columns and two and is_columns(y):
            return label_columns(y)
        y = y if hasattr(y, "toarray") else read_labels(y, "y")
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind == "multilabel-indicator":
            several = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
            if not np.isin(several, (0, 1)).all():
                raise ValueError(
                    "y with several labels per row must hold 1 where a label applies, else 0; got "
                    f"{np.unique(several).tolist()}. Pass y == {several.max()}."
                )
            return several
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return y


@parameters
class NRSClassifier(ForestEstimator, MonotoneParameters, CheckpointParameters, TableClassifier):
    """Classify the rows of a raw table with a Neural Random Subspace network.

    Numbers, strings, categories, booleans, dates and missing values are taken as they are, from
    NumPy, pandas, polars, pyarrow and SciPy's sparse matrices. Targets are binary, multi-class,
    multi-label, or several columns of classes, of which some labels may be missing.

    Parameters
    ----------
    preset : {"default", "fast", "best", "single", "paper"}
        ``"default"`` is a forest: members trained side by side, each without one fold of the rows,
        so that each row is scored only by members that were not trained on it. These out-of-bag
        predictions decide when to stop, calibrate the probabilities and give `oob_score_`; no row
        is lost to a validation part. ``"fast"`` takes about an eighth of the time, ``"best"``
        three times as long. ``"single"`` is one network with a held-out tenth; ``"paper"`` the
        network and protocol of the paper: a fixed number of epochs of Adam, the last one, on
        values as they are. Every parameter whose default is None takes the preset's value; after a
        fit it is in the attribute of that name with a trailing underscore, such as ``epochs_``.
    n_mul : int, optional
        Subspaces per feature: a member of a forest has ``n_mul`` · d subspaces. ``n_mul=0`` is a
        plain MLP, a single network.
    n_per : int, optional
        Trees per subspace, see :class:`nrs.NRS`; makes the model a single network.
    n_h : int, optional
        Side of a subspace: it reads ``n_h``² columns.
    layout : str, optional
        How permuted features are laid out, see :class:`nrs.NRS`; makes the model a single network.
    hidden : int or sequence of int, optional
        Sizes of the hidden layers after the NRS layer.
    dropout : float, optional
        Probability of dropping a unit after each ReLU.
    scale : {"standard", "none"}, optional
        Whether numbers are standardised.
    epochs : int, optional
        Passes over the training rows. By default a forest that still learns takes as many again,
        up to ``cycles_`` times.
    batch_size : int, optional
        Rows per optimizer step.
    lr : float, optional
        Peak learning rate.
    weight_decay : float, optional
        Weight decay of the optimizer.
    validation_fraction : float, optional
        Fraction of the rows held out to choose the epoch of a single network; 0 trains on all rows
        to the end.
    patience : int, optional
        Epochs without improvement after which training stops.
    metric : str or callable, optional
        What is measured on the held-out rows: "default", "accuracy", "balanced_accuracy", "f1",
        "log_loss", "roc_auc", "average_precision", or a function ``metric(y_true, y_predicted)``,
        higher being better. "balanced_accuracy" is not for several labels per row.
    time_limit : float, optional
        Seconds that a fit may take. If these are too few for all steps, the learning rate falls to
        its end in time; the fit ends with the best weights found by then.
    class_weight : dict, "balanced", list or None
        How much a row counts by its label, in training and in the choice of the class that is
        predicted; "balanced" lets all classes count the same. `predict` gives the class of the
        largest probability times weight. Probabilities are of rows as they come: they need no
        correction for the weights. Of several columns of classes a list has an item for each.
    threshold : float, {"balanced", "f1"} or callable, optional
        The probability from which on the second of two classes is predicted. "balanced" and "f1"
        choose it on out-of-bag rows, for the best balanced accuracy, or F1 of the second class; a
        function ``threshold(y_true, y_predicted)`` is maximised. None predicts the class that is
        more probable, times its weight in `class_weight`. Probabilities stay as they are.
    loss : "log_loss", callable or Target
        What is minimised: cross-entropy, a function ``loss(outputs, y)`` in torch of (rows,
        classes) outputs and the numbers (rows,) of the classes that returns one loss per row, or a
        target of your own. Of several labels per row `y` is (rows, labels). Probabilities are the
        softmax or sigmoids of the outputs, and are calibrated by the log-loss of out-of-bag rows.
    categorical_features : list of names, list of indices or boolean mask, optional
        Columns to take as categories beside those whose dtype says so.
    convert : bool, default=True
        Whether columns of strings that hold numbers, dates or times as people write them are read
        as such: decimal commas, thousands, units, percent, dates in any order, decided on the
        whole column and kept with the model. Codes such as "01234" stay text.
    text_features : list of names, list of indices or boolean mask, optional
        Columns to read as free text, and no others. None finds them: columns of more than 64
        different strings, at least half of their cells different, of at least 3 words and 20
        characters on average.
    monotone : dict of column to +1 or -1, optional
        Columns, by name or position, with which the prediction may only rise (+1) or fall (-1):
        ``{"age": 1, "price": -1}``. Of two rows that differ in one of them only, neither cell being
        missing, the prediction never moves the other way, whatever the rows. Numbers, booleans,
        dates and durations; of two classes the prediction is the probability of the second,
        ``classes_[1]``. Forests only.
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
        Checkpoint folder; an interrupted fit that is started again with the same arguments resumes
        from it and gives a bit-identical model.

    Attributes
    ----------
    classes_ : ndarray, or list of ndarray
        The labels, in the order of the probabilities; of several columns of classes those of each.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    history_ : :class:`nrs.training.History`
        Losses and metrics by epoch (of a forest by round of several epochs, after which out-of-bag
        rows are scored).
    oob_score_ : float
        Accuracy of the predicted labels on out-of-bag rows; of a forest. Of several columns of
        classes the share of rows whose known labels are all predicted.
    oob_decision_function_ : ndarray (n_rows, n_classes), or list of ndarray
        Out-of-bag probabilities; of a forest. Each row's are those of one or two members, so they
        are a little less sure than `predict_proba`. NaN in rows that no member scores: the earliest
        of a fit with ``time``. Not saved: a loaded model has `oob_score_`.
    threshold_ : float
        The threshold that was given or learned, else that of `class_weight`, 0.5 without one; of
        two classes.
    oob_rows_ : ndarray of int64
        Which rows of a :class:`nrs.Table` these are: file · 2⁴⁰ + row.
    data_wait_ : float
        Share of the training time spent waiting for the data of a :class:`nrs.Table`.
    feature_importances_ : ndarray (n_columns,)
        Average change in the outputs for a typical change in each column; they sum to one.
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

    _takes_columns = True
    loss: Loss = "log_loss"
    threshold: Threshold = None

    @property
    def threshold_(self) -> float:
        """The probability from which on the second of two classes is predicted."""
        check_is_fitted(self)
        return self.target_.cut

    def predict_set(self, X: TableLike, level: float = 0.9) -> np.ndarray:
        """Predict sets of classes that hold the label with a probability of about `level`.

        A set has the classes whose probability is high enough: so many out-of-bag rows have a label
        at least as probable (cross-conformal prediction; Sadinle et al., 2019). The most probable
        class always belongs to it. Sets of a higher level contain those of a lower one.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        level : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        ndarray of bool (n_rows, n_classes)
            Which classes belong to the set of each row, in the order of ``classes_``.

        Raises
        ------
        ValueError
            If the level is out of range, rows have several labels, or the model has no out-of-bag
            predictions.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NRSClassifier(preset="fast", random_state=0).fit(X, y)
        >>> sets = model.predict_set(X, 0.95)
        >>> sets.shape, sets.dtype
        ((150, 3), dtype('bool'))
        """
        return self.sets_around(self._chances(X), level)

    def sets_around(self, chances: np.ndarray, level: float) -> np.ndarray:
        """The sets of :meth:`predict_set`, from what :meth:`predict_proba` gave."""
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1; got {level!r}")
        if self.target_.several:
            raise ValueError(
                "sets are for one label per row; this model predicts several. predict_proba gives "
                "the probability of each."
            )
        if getattr(self, "_residuals", None) is None:
            raise ValueError(
                "sets need out-of-bag predictions: a forest (preset='default') fitted to at least "
                f"{MIN_ROWS} rows"
            )
        missed = self._residuals[round(level * (len(self._residuals) - 1)), 0]
        return (1 - chances <= missed) | (chances == chances.max(1, keepdims=True))

    def predict_entropy(self, X: TableLike) -> np.ndarray:
        """Uncertainty of the forest about each row: the entropy of its probabilities, (n_rows,).

        Between 0 (sure) and 1 (all classes equally likely); of labels that may hold at once the
        mean over the labels.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        """
        chances = self._chances(X)
        return self.target_.entropy(chances)


def _all_classes(classes: ArrayLike) -> np.ndarray:
    """The labels that a user lists, in any collection."""
    ordered = list(classes) if isinstance(classes, (set, frozenset)) else classes
    found = labels_as_array(ordered)
    if found.ndim != 1 or missing_cells(found).any():
        raise ValueError(f"classes must list all labels, none of them missing; got {classes!r}")
    return read_labels(found, "classes")
