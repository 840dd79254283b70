"""Columns that act together."""

import numpy as np

from nrs import NRSClassifier, explain


def test_interactions_are_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    model = NRSClassifier(preset="fast", n_h=2, random_state=0, verbose=0)
    model.fit(X, X[:, 1] * X[:, 4] > 0)
    pairs = explain.interactions(model, X, n=None)
    assert (pairs[0].first, pairs[0].second) == ("x1", "x4")
    assert pairs[0].strength > 2 * pairs[1].strength
    assert np.isclose(sum(pair.strength for pair in pairs), 1)
    matrix = explain.interaction_matrix(model, X)
    assert np.allclose(matrix, matrix.T)
    assert (np.diag(matrix) == 0).all()
