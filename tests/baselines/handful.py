"""A handful of scikit-learn's checks: what an adapter or a baseline can break by itself.

NRSClassifier and NRSRegressor run all of them; the baselines stand on the same base and encoder.
"""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

CHECKS = {
    "check_parameters_default_constructible",  # clone, get_params
    "check_dont_overwrite_parameters",
    "check_set_params",
    "check_n_features_in_after_fitting",
    "check_fit2d_1feature",
    "check_estimators_dtypes",
    "check_estimator_sparse_array",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_supervised_y_no_nan",
    "check_classifiers_one_label",
    "check_regressors_int",
}


def handful(*estimators):
    """Pairs of an estimator and a check; what does not apply to an estimator is not among them."""
    pairs = []
    for estimator in estimators:
        for copy, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            if name in CHECKS and not check.keywords:
                pairs.append(pytest.param(copy, check, id=f"{type(copy).__name__}-{name}"))
    return pairs
