"""`NRSRegressor`: numbers from a raw table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.encode.columns import labels_as_array
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.forest.estimator import ForestEstimator
from nrs.tabular.forest.folds import MIN_ROWS
from nrs.tabular.forest.network import members_spread
from nrs.tabular.parameters import CheckpointParameters, MonotoneParameters, parameters
from nrs.tabular.targets import refuse_dates

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
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Take one pass over more rows, keeping what was learned.

        The first call learns the encoding of the columns and the scale of the targets, later ones
        use them; so the first rows should be typical ones. ``oob_score_`` and intervals are those
        of the latest rows, as of :meth:`nrs.NRSClassifier.partial_fit`.
        """
        return self._partial_fit(X, y, sample_weight)

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
        return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")


@parameters
class NRSRegressor(ForestEstimator, MonotoneParameters, CheckpointParameters, TableRegressor):
    """Predict one or several numbers from the rows of a raw table.

    Input, parameters and attributes are those of :class:`nrs.NRSClassifier`, but for
    `class_weight` and `classes_`; `oob_prediction_` takes the place of `oob_decision_function_`,
    and `oob_score_` is R². Targets are standardised inside and the squared error is minimised.
    `metric` is "default" (the loss), "r2", "rmse", "mae", or a function
    ``metric(y_true, y_predicted)``, higher being better.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = NRSRegressor(epochs=20, random_state=0).fit(X, y)
    >>> model.predict(X).shape
    (442,)
    """

    def predict(self, X: TableLike, return_std: bool = False) -> Any:
        """Predict the targets: (n_rows,), or (n_rows, n_outputs) if `y` had two dimensions.

        Parameters
        ----------
        X : a table with the columns of the fit.
        return_std : bool, default=False
            Give a pair of the predictions and of the spread of the forest's members around them:
            how far the members disagree, which grows away from the training rows.
        """
        check_is_fitted(self)
        if not return_std:
            return super().predict(X)
        joint = super().predict(X)
        # The rows are watched once.
        each = self.outputs(X, members=True, watch=Watch())
        members = np.stack([self.target_.answer(one) for one in each])
        # Members count in the spread as much as they do in the prediction.
        weights = self.network_.shares.double().cpu().numpy()
        # In units of the target, whose squares stay within float64.
        unit = self.target_.scale[0] if self.target_.single else self.target_.scale
        variance = np.average(np.square((members - joint) / unit), axis=0, weights=weights)
        return joint, np.sqrt(variance) * unit

    def predict_interval(self, X: TableLike, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a probability of about `level`.

        Their width is that of the out-of-bag errors (cross-conformal prediction), so they cover
        rows like the training rows whatever the errors' distribution. Where members disagree more
        than about 99 in 100 training rows, intervals are wider in proportion.

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
        self, outputs: Tensor, X: TableLike, level: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The intervals of :meth:`predict_interval`, from what :meth:`outputs` gave for `X`."""
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1; got {level!r}")
        if getattr(self, "_residuals", None) is None:
            raise ValueError(
                "intervals need out-of-bag predictions: a forest (preset='default') fitted by "
                f"fit() to at least {MIN_ROWS} rows, without partial_fit after it"
            )
        place = round(level * (len(self._residuals) - 1))
        reach = torch.from_numpy(self._residuals[place]).float()
        usual = getattr(self, "_spread", None)
        if usual is not None:
            members = self.outputs(X, members=True, watch=Watch())
            spread = members_spread(members, self.network_.shares.cpu())
            reach = reach * (spread / torch.from_numpy(usual).float().clamp_min(1e-9)).clamp_min(1)
        return self.target_.answer(outputs - reach), self.target_.answer(outputs + reach)
