"""mGBDT: its parts, what it learns, and that a seed decides everything."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_circles

from nrs.baselines import make
from nrs.baselines.mgbdt import (
    BoostedMap,
    LayeredTrees,
    LinearMap,
    MGBDTClassifier,
    MGBDTRegressor,
)

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


def test_targets_follow_the_gradient_and_come_down_by_the_inverses():
    model = LayeredTrees(3, (4, 2), 1, 0.5, 0.1, **TREE)
    X, y = load_iris(return_X_y=True)
    model.fit(X, y)
    hidden = model.layers[0](X)
    outputs = [X, hidden, model.layers[1](hidden)]
    wanted = np.eye(3)[y]
    targets = model.targets(outputs, wanted, np.random.default_rng(0))
    slope = (model.predict_proba(X) - wanted) @ model.last.weight.T
    np.testing.assert_allclose(targets[1], outputs[2] - 0.5 * slope)
    np.testing.assert_allclose(targets[0], model.inverses[0](targets[1]))
    assert [layer.booster.num_boosted_rounds() for layer in model.layers] == [10, 10]


@pytest.mark.parametrize("classes", [True, False])
def test_the_last_layer_goes_downhill(classes):
    rng = np.random.default_rng(0)
    x, wanted = rng.normal(size=(60, 5)), np.eye(3)[rng.integers(0, 3, 60)]
    last = LinearMap(5, 3, 0.5, classes, seed=0)

    def loss():
        outputs = last(x)
        return -(wanted * np.log(outputs)).sum() if classes else ((outputs - wanted) ** 2).sum()

    before, slope = loss(), last.slope(x, wanted)
    x[3] += 1e-6 * np.eye(5)[2]
    factor = 1 if classes else 2
    assert (loss() - before) / 1e-6 == pytest.approx(factor * slope[3, 2], rel=1e-3, abs=1e-6)
    last.step(x, wanted)
    assert loss() < before


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
