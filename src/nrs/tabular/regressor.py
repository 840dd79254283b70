"""`NRSRegressor`: numbers from a raw table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, check_is_fitted

from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.encode.columns import labels_as_array
from nrs.tabular.error_scale import members_spread, scales_of
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.forest.estimator import ForestEstimator
from nrs.tabular.forest.folds import MIN_ROWS
from nrs.tabular.parameters import CheckpointParameters, MonotoneParameters, parameters
from nrs.tabular.targets import Loss, QuantileTarget, check_offset, refuse_dates

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from nrs.tabular.types import ArrayLike, TableLike


@parameters
class TableRegressor(RegressorMixin, TableEstimator):
    """Common base of :class:`NRSRegressor` and of the networks it is compared with."""

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the targets: (n_rows,), or (n_rows, n_outputs) if `y` had two dimensions."""
        check_is_fitted(self)
        return self.target_.answer(self.outputs(X))

    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Take one pass over more rows, keeping what was learned.

        The first call learns the encoding of the columns and the scale of the targets, later ones
        use them; so the first rows should be typical ones. ``oob_score_`` and intervals are those
        of the latest rows, as of :meth:`nrs.NRSClassifier.partial_fit`.
        """
        return self._partial_fit(X, y, sample_weight, offset=offset)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_labels(self, y: ArrayLike) -> np.ndarray:
        y = labels_as_array(y)
        refuse_dates(y)
        if y.dtype.kind == "c":
            raise ValueError("Complex data not supported: y must hold real numbers")
        if y.dtype.kind == "U":
            try:
                y = y.astype(np.float64)
            except ValueError:
                raise ValueError(
                    f"y must hold numbers; got {y.flat[:3].tolist()}. NRSClassifier is for classes."
                ) from None
        finite = self.loss_target().finite if y.ndim == 2 else True
        return check_array(
            y, dtype=np.float64, ensure_2d=False, input_name="y", ensure_all_finite=finite
        )


@parameters
class NRSRegressor(ForestEstimator, MonotoneParameters, CheckpointParameters, TableRegressor):
    """Predict one or several numbers from the rows of a raw table.

    Input, parameters and attributes are those of :class:`nrs.NRSClassifier`, but for
    `class_weight` and `classes_`; `oob_prediction_` takes the place of `oob_decision_function_`,
    and `oob_score_` is R², or D² of another loss. Targets are standardised inside.
    `metric` is "default" (the loss), "r2", "rmse", "mae", or a function
    ``metric(y_true, y_predicted)``, higher being better. `oob_std_` is the standard deviation of
    the error of each out-of-bag prediction (NaN in all but 20,000 rows, spread evenly), and
    `oob_quantiles_` are the out-of-bag quantiles of a model of quantiles; a file holds neither.

    Parameters
    ----------
    loss : str, callable or Target, default="squared"
        What is minimised: "squared" (predicts the mean), "absolute" (the median), "huber",
        "quantile"; of numbers that are not negative, with a log link, "poisson", "gamma",
        "tweedie"; a function ``loss(outputs, y)`` in torch of (rows, n_outputs) predictions and
        labels in the units of the target that returns one loss per row; or a target, such as
        :class:`nrs.Huber`, :class:`nrs.Tweedie` or one of your own. See the page on losses.
    quantiles : sequence of float, optional
        Quantiles that one network predicts together, such as ``(0.05, 0.5, 0.95)``; see
        :meth:`predict_quantiles`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = NRSRegressor(epochs=20, random_state=0).fit(X, y)
    >>> model.predict(X).shape
    (442,)
    """

    loss: Loss = "squared"
    quantiles: Sequence[float] | None = None

    def predict(
        self, X: TableLike, return_std: bool = False, offset: ArrayLike | None = None
    ) -> Any:
        """Predict the targets: (n_rows,), or (n_rows, n_outputs) if `y` had two dimensions.

        Of several quantiles the one nearest to the median.

        Parameters
        ----------
        X : a table with the columns of the fit.
        return_std : bool, default=False
            Give a pair of the predictions and of the standard deviation of their errors in rows
            like these: out-of-bag errors divided by it have a variance of 1. It follows from the
            prediction, and grows where members disagree more than on training rows. Without
            out-of-bag rows it is the spread of the members alone.
        offset : array (n_rows,), optional
            As in :meth:`fit`, of losses with a log link; 0 by default.
        """
        check_is_fitted(self)
        if offset is not None:
            return self._with_offset(X, offset, return_std=return_std)
        if not return_std:
            return super().predict(X)
        outputs = self.outputs(X)
        joint, unit = self.target_.answer(outputs), self.target_.scale
        scales = getattr(self, "_scales", None)
        if scales is not None and scales[0].deviation is not None:
            standard = self._error_scales(outputs, X) * [one.deviation for one in scales]
            return joint, self.target_.deviations(standard)
        each = self.outputs(X, members=True, watch=Watch())
        members = np.stack([self.target_.answer(one) for one in each])
        # Members count in the spread as much as they do in the prediction.
        weights = self._shares().astype(np.float64)
        # In units of the target, whose squares stay within float64.
        unit = unit[0] if self.target_.single else unit
        variance = np.average(np.square((members - joint) / unit), axis=0, weights=weights)
        return joint, np.sqrt(variance) * unit

    def _with_offset(self, X: TableLike, offset: ArrayLike, *, return_std: bool) -> np.ndarray:
        if return_std or not self.target_.takes_offset:
            what = "return_std" if return_std else f"loss={self.target_.kind!r}"
            raise ValueError(
                f"offset is for predictions of losses with a log link; got {what}. Leave one of "
                "them out."
            )
        outputs, added = self.outputs(X), check_offset(offset)
        check_consistent_length(outputs, added)
        placed = np.asarray(outputs, dtype=np.float64) + added[:, None]
        return self.target_.answer(self.target_.taken(placed))

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² of the predictions, whatever the loss; of ``loss="aft"`` the concordance."""
        check_is_fitted(self)
        return self.target_.rate(y, self.predict(X), sample_weight)

    def predict_quantiles(self, X: TableLike) -> np.ndarray:
        """Predict the quantiles of the fit, ascending: (n_rows, n_quantiles).

        (n_rows, n_outputs, n_quantiles) if `y` had two dimensions.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.

        Raises
        ------
        ValueError
            If the model was not fitted to quantiles.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = NRSRegressor(quantiles=(0.1, 0.5, 0.9), preset="fast", random_state=0)
        >>> low, middle, high = model.fit(X, y).predict_quantiles(X[:2]).T
        >>> bool((low <= middle).all() and (middle <= high).all())
        True
        """
        check_is_fitted(self)
        if not isinstance(self.target_, QuantileTarget):
            raise ValueError(
                f"quantiles need a fit to them, such as NRSRegressor(quantiles=(0.1, 0.5, 0.9)); "
                f"this model has loss={self.target_.kind!r}"
            )
        return self.target_.quantiles(self.outputs(X))

    def predict_interval(self, X: TableLike, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a probability of about `level`.

        Their width is that of the out-of-bag errors (cross-conformal prediction), so they cover
        rows like the training rows whatever the errors' distribution. It follows the row, by its
        prediction, where out-of-bag rows show that this makes better intervals; else it is the
        same for all rows. Where members disagree more than about 99 in 100 training rows,
        intervals are wider in proportion.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        level : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        low, high : ndarray
            Each shaped as :meth:`predict` gives it.

        Raises
        ------
        ValueError
            If the level is out of range, or the model has no out-of-bag predictions.
        """
        check_is_fitted(self)
        return self.interval_around(self.outputs(X), X, level)

    def interval_around(
        self, outputs: np.ndarray, X: TableLike, level: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The intervals of :meth:`predict_interval`, from what :meth:`outputs` gave for `X`."""
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1; got {level!r}")
        if getattr(self, "_residuals", None) is None:
            raise ValueError(
                "intervals need out-of-bag predictions: a forest (preset='default') fitted by "
                f"fit() to at least {MIN_ROWS} rows, without partial_fit after it"
            )
        reach = self._residuals[round(level * (len(self._residuals) - 1))]
        if getattr(self, "_scales", None) is not None:
            reach = reach * self._error_scales(outputs, X)
        wide = np.broadcast_to(reach, outputs.shape).astype(np.float32)
        low, high = (np.asarray(outputs) + side for side in (-wide, wide))
        target = self.target_
        return target.answer(target.taken(low)), target.answer(target.taken(high))

    def _error_scales(self, outputs: np.ndarray, X: TableLike) -> np.ndarray:
        """The scale of the errors of what :meth:`outputs` gave for `X`, (n_rows, n_outputs)."""
        # The rows were watched before.
        members = self.outputs(X, members=True, watch=Watch())
        spread = members_spread(np.asarray(members), self._shares())
        known = (np.asarray(one, dtype=np.float64) for one in (outputs, spread))
        return scales_of(self._scales, *known)

    def _shares(self) -> np.ndarray:
        """How much each member counts."""
        shares = self.predictor_.shares
        return shares if isinstance(shares, np.ndarray) else shares.cpu().numpy()
