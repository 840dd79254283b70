"""The estimators of the neural decision forest."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris, make_regression

from nrs.baselines import NDFClassifier, NDFRegressor
from nrs.baselines.ndf import ForestRecipe
from tests.baselines.handful import handful

TINY = {"n_trees": 3, "tree_depth": 3, "n_features": 32, "random_state": 0, "verbose": 0}


@pytest.mark.parametrize(
    ("estimator", "check"),
    handful(
        NDFClassifier(n_trees=3, tree_depth=3, n_features=32, epochs=15, lr=0.05, verbose=0),
        NDFRegressor(n_trees=3, tree_depth=3, n_features=32, epochs=15, lr=0.05, verbose=0),
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def degenerate(kind):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 4)).astype(np.float32)
    if kind == "constant features":
        X[:] = 3.0
    elif kind == "duplicated rows":
        X[:] = X[:1]
    elif kind == "huge values":
        X *= 1e18
    elif kind == "one far row":
        X[0] = 1e30
    return X, np.arange(60) % 3


@pytest.mark.parametrize("scale", ["standard", "none"])
@pytest.mark.parametrize(
    "kind", ["constant features", "duplicated rows", "huge values", "one far row"]
)
@pytest.mark.parametrize("estimator", [NDFClassifier, NDFRegressor])
def test_nothing_becomes_nan_over_100_epochs(estimator, kind, scale):
    X, y = degenerate(kind)
    model = estimator(**TINY, epochs=100, lr=0.01, scale=scale, validation_fraction=0).fit(X, y)
    assert len(model.history_) == 100
    assert np.isfinite(model.history_["train_loss"]).all()
    assert all(tensor.isfinite().all() for tensor in model.network_.state_dict().values())
    assert np.isfinite(model.predict(X)).all()


def test_classes_that_separate_are_learned():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = NDFClassifier(**TINY, epochs=60, lr=0.02).fit(X, names)
    assert model.score(X, names) > 0.93
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_numbers_are_learned():
    X, y = make_regression(400, 5, noise=1.0, random_state=0)
    model = NDFRegressor(n_trees=6, tree_depth=4, epochs=30, lr=0.02, random_state=0, verbose=0)
    assert model.fit(X, y).score(X, y) > 0.9
    both = NDFRegressor(**TINY, epochs=5).fit(X, np.c_[y, -y]).predict(X)
    assert both.shape == (400, 2)


def test_a_saved_forest_predicts_the_same_bits(tmp_path):
    frame = pd.DataFrame({"x": np.linspace(0, 1, 80), "c": ["u", "v"] * 40})
    labels = np.where(frame["x"] > 0.5, "high", "low")
    model = NDFClassifier(**TINY, epochs=5).fit(frame, labels)
    model.save(tmp_path / "forest.safetensors")
    again = NDFClassifier.load(tmp_path / "forest.safetensors")
    np.testing.assert_array_equal(model.predict_proba(frame), again.predict_proba(frame))
    assert isinstance(again.recipe_, ForestRecipe)
    assert again.recipe_ == model.recipe_

    numbers = NDFRegressor(**TINY, epochs=5).fit(frame, frame["x"])
    numbers.save(tmp_path / "numbers.safetensors")
    again = NDFRegressor.load(tmp_path / "numbers.safetensors")
    np.testing.assert_array_equal(numbers.predict(frame), again.predict(frame))


def test_the_same_seed_gives_the_same_bits():
    X, y = load_iris(return_X_y=True)
    first, second = (
        NDFClassifier(**TINY, epochs=5, leaf_rows=50).fit(X, y).predict_proba(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_leaves_are_fitted_every_epoch():
    X, y = load_iris(return_X_y=True)
    leaves = NDFClassifier(**TINY, epochs=1).fit(X, y).network_.leaves
    assert leaves.shape == (3, 8, 3)
    assert not torch.allclose(leaves, torch.full_like(leaves, 1 / 3))
    torch.testing.assert_close(leaves.sum(2), torch.ones(3, 8))


def test_partial_fit_goes_on():
    X, y = load_iris(return_X_y=True)
    model = NDFClassifier(**TINY, lr=0.02)
    for _ in range(40):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.9


def test_a_fit_leaves_the_processor_as_it_was():
    def tiny():
        return float(torch.full((1,), 1e-40) * 1.0)

    before = tiny()
    NDFClassifier(**TINY, epochs=1).fit(*load_iris(return_X_y=True))
    assert tiny() == before


def test_presets():
    X, y = load_iris(return_X_y=True)
    paper = NDFClassifier(preset="paper").resolve(15_000, 16)
    assert (paper.n_trees, paper.tree_depth, paper.n_features) == (100, 10, 1024)
    assert (paper.leaf_iterations, paper.feature_fraction) == (20, 0.5)
    cpu = NDFClassifier().resolve(15_000, 16)
    assert cpu.n_trees < paper.n_trees
    assert cpu.tree_depth < paper.tree_depth
    assert NDFClassifier(**TINY, epochs=2).fit(X, y).n_trees_ == 3


def test_several_labels_a_row_are_refused():
    with pytest.raises(ValueError, match="2 labels per row"):
        NDFClassifier(**TINY).fit(np.eye(4), [[0, 1], [1, 0], [1, 1], [0, 0]])


@pytest.mark.parametrize("name", ["leaf_iterations", "leaf_rows"])
def test_counts_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be .*at least 1; got 0"):
        NDFClassifier(**TINY, **{name: 0}).fit(np.eye(4), [0, 1, 0, 1])
