"""scikit-learn's own checks over both estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from nrs import NRSClassifier, NRSRegressor

WEIGHTS = (
    "a repeated row enters batch normalisation and the division into batches twice, a row of "
    "double weight only the loss; both learn the same in expectation, not to the bit"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
}


@parametrize_with_checks(
    [NRSClassifier(preset="fast", epochs=12), NRSRegressor(preset="fast", epochs=12)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
