"""mGBDT: its parts, what it learns, and that a seed decides everything."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_circles

from nrs.baselines import make
from nrs.baselines.mgbdt import BoostedMap, LayeredTrees, MGBDTClassifier, MGBDTRegressor

pytest.importorskip("xgboost")
TREE = {"learning_rate": 0.3, "max_depth": 3, "rounds": 5, "seed": 0, "n_jobs": 1}


def test_a_map_comes_closer_to_its_target_with_every_step():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    target = np.stack([x[:, 0] ** 2, x[:, 1] * x[:, 2]], axis=1)
    boosted, errors = BoostedMap(**TREE), []
    for _ in range(4):
        boosted.boost(x, target)
        errors.append(float(((boosted(x) - target) ** 2).mean()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.3 * (target**2).mean()
    # A target that moves is followed: boosting corrects what is there.
    boosted.boost(x, -target)
    assert ((boosted(x) + target) ** 2).mean() < ((boosted(x) - target) ** 2).mean() * 4


def test_targets_of_the_last_layer_follow_the_gradient():
    model = LayeredTrees(3, (2,), 1, 0.5, 0.1, **TREE)
    X, y = load_iris(return_X_y=True)
    model.fit(X, y)
    scores = model._scores(X)
    wanted = np.eye(3)[y]
    outputs = [X, model.layers[0](X), scores]
    targets = model._targets(outputs, wanted, np.random.default_rng(0))
    expected = scores + 0.5 * (wanted - model.predict_proba(X))
    np.testing.assert_allclose(targets[-1], expected)
    assert [target.shape for target in targets] == [(150, 2), (150, 3)]
    assert [layer.booster.num_boosted_rounds() for layer in model.layers] == [10, 10]


def test_it_learns_what_no_single_layer_of_stumps_can():
    X, y = make_circles(400, factor=0.5, noise=0.05, random_state=0)
    model = MGBDTClassifier(hidden=(5, 3), epochs=20, random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


def test_numbers():
    X, y = load_diabetes(return_X_y=True)
    model = MGBDTRegressor(hidden=(8,), epochs=15, random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.2
    assert MGBDTRegressor(epochs=1).fit(X, np.full(len(X), 7.0)).predict(X[:2]) == pytest.approx(
        7.0, abs=1
    )


def test_a_seed_decides_everything():
    X, y = load_iris(return_X_y=True)
    first, again, other = (
        make("mGBDT", seed=seed, epochs=2).fit(X, y).predict_proba(X) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
