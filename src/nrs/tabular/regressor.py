"""`NRSRegressor`: numbers from a raw table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from nrs.tabular.forest.estimator import ForestEstimator
from nrs.tabular.forest.folds import LEAST_ROWS
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.open_model import OpenModel
from nrs.tabular.table_regressor import TableRegressor
from nrs.tabular.targets import RegressionTarget


class NRSRegressor(TableRegressor, OpenModel, ForestEstimator):
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

    def predict(self, X: Any, return_std: bool = False) -> Any:
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
        members, joint = self.member_outputs(X), super().predict(X)
        assert isinstance(self.network_, ForestNetwork)
        assert isinstance(self.target_, RegressionTarget)
        # Members count in the spread as much as they do in the prediction.
        shares = self.network_.shares.double().cpu().numpy()
        # In units of the target, whose squares stay within float64.
        unit = np.where(self.target_.std > 0, self.target_.std, 1.0)
        unit = unit[0] if self.target_.single else unit
        variance = np.average(np.square((members - joint) / unit), axis=0, weights=shares)
        return joint, np.sqrt(variance) * unit

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a probability of about `level`.

        Their width is that of the out-of-bag errors (cross-conformal prediction), so they cover
        rows like the training rows whatever the errors' distribution.

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
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, however: level={level!r}")
        if getattr(self, "_residuals", None) is None:
            found, advice = "a single network", "use preset='default'"
            if self._is_forest():
                found, advice = "fewer rows, or partial_fit after it", "fit to more rows at once"
            raise ValueError(
                "intervals need out-of-bag predictions, which only a forest fitted by fit() to at "
                f"least {LEAST_ROWS} rows has, however: {found}; {advice}"
            )
        place = round(level * (len(self._residuals) - 1))
        reach = torch.from_numpy(self._residuals[place]).float()
        outputs = self._outputs(X)
        return self.target_.labels(outputs - reach), self.target_.labels(outputs + reach)

    def _oob_score(self, outputs: Any, truth: Any) -> float:
        assert isinstance(self.target_, RegressionTarget)
        # A constant output is predicted as its mean, 0 here, whatever the network says.
        return float(r2_score(truth.numpy(), outputs.numpy() * (self.target_.std > 0)))
