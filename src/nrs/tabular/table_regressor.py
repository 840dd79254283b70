"""What regressors of tables share: numbers in, numbers out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted

from nrs.tabular.estimator import TableEstimator
from nrs.tabular.targets import RegressionTarget, labels_as_array, refuse_dates


class TableRegressor(RegressorMixin, TableEstimator):
    """Common base of :class:`nrs.NRSRegressor` and of the networks it is compared with."""

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
        refuse_dates(y)
        if y.dtype.kind == "c":
            raise ValueError("Complex data not supported: y must hold real numbers")
        if y.dtype.kind == "U":
            try:
                y = y.astype(np.float64)
            except ValueError:
                raise ValueError(
                    f"y must hold numbers, however: {y.flat[:3].tolist()}; classes are for "
                    "NRSClassifier"
                ) from None
        checked: np.ndarray = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        return checked

    def _make_target(self, labels: np.ndarray, rows: np.ndarray | None) -> RegressionTarget:
        return RegressionTarget.of(labels if rows is None else labels[rows])
