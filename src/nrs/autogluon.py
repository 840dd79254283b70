"""NRS in AutoGluon: trained, bagged, ensembled, refitted and saved as its own models are.

Importing this module needs AutoGluon (extra ``autogluon``), which has an environment of its own: it
wants pandas 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nrs._util.optional import import_optional
from nrs.tabular import NRSClassifier, NRSRegressor

if TYPE_CHECKING:
    import pandas
    from autogluon.core.models import AbstractModel
else:
    AbstractModel = import_optional(
        "autogluon.core.models", "nrs.autogluon", "autogluon"
    ).AbstractModel

__all__ = ["NRSModel"]

# Of a time limit, what is left to AutoGluon for scoring and saving.
MARGIN = 0.1


class NRSModel(AbstractModel):
    """`NRSClassifier` or `NRSRegressor` as a model of AutoGluon.

    ``predictor.fit(train, hyperparameters={NRSModel: {}})``; hyperparameters are the arguments of
    the estimator, such as ``{"preset": "fast"}``. Out-of-bag rows decide when to stop: rows that
    AutoGluon holds out are only scored.
    """

    ag_key = "NRS"
    ag_name = "NRS"
    ag_priority = 75
    seed_name = "random_state"
    _supported_problem_types = ("binary", "multiclass", "regression")

    def _fit(
        self,
        X: pandas.DataFrame,
        y: pandas.Series,
        X_val: pandas.DataFrame | None = None,
        y_val: pandas.Series | None = None,
        time_limit: float | None = None,
        num_cpus: int = 1,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> None:
        estimator = NRSRegressor if self.problem_type == "regression" else NRSClassifier
        limit = None if time_limit is None else (1 - MARGIN) * time_limit
        given = {"n_jobs": num_cpus, "time_limit": limit, "verbose": 0} | self._get_model_params()
        # AutoGluon has read the columns: texts are categories by now.
        self.model = estimator(**given).fit(self.preprocess(X, is_train=True), y, sample_weight)

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        kinds = {"valid_raw_types": ["bool", "int", "float", "category"]}
        return super()._get_default_auxiliary_params() | kinds
