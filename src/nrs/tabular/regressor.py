"""`NRSRegressor`: numbers from a raw table."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted

from nrs.tabular.base import TableEstimator
from nrs.tabular.targets import RegressionTarget, labels_as_array


class NRSRegressor(RegressorMixin, TableEstimator):
    """Predict one or several numbers from the rows of a raw table.

    Input, parameters and attributes are those of :class:`nrs.NRSClassifier`, but for
    `class_weight` and `classes_`. Targets are standardised inside and the squared error is
    minimised. `metric` is "default" (the loss), "r2", "rmse", "mae", or a function
    ``metric(y_true, y_predicted)``, higher being better.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = NRSRegressor(epochs=20, random_state=0).fit(X, y)
    >>> model.predict(X).shape
    (442,)
    """

    def predict(self, X: Any) -> np.ndarray:
        """Predict the targets: (n_rows,), or (n_rows, n_outputs) if `y` had two dimensions."""
        check_is_fitted(self)
        return self.target_.labels(self._outputs(X))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take one pass over more rows, keeping what was learned.

        The first call learns the encoding of the columns and the scale of the targets, later ones
        use them; so the first rows should be typical ones.
        """
        return self._partial_fit(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_labels(self, y: Any) -> np.ndarray:
        y = labels_as_array(y)
        if y.dtype.kind == "c":
            raise ValueError("Complex data not supported: y must hold real numbers")
        checked: np.ndarray = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        return checked

    def _make_target(self, labels: np.ndarray, rows: np.ndarray | None) -> RegressionTarget:
        return RegressionTarget.of(labels if rows is None else labels[rows])
