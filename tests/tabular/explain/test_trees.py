"""The list of trees is the model: their sums are the network's first layer."""

import numpy as np
import pytest
import torch

from nrs import NRSClassifier, NRSRegressor, explain
from nrs.tabular.forest.network import ForestNetwork
from tests.tabular.mixed import mixed_table

FAST = {"preset": "fast", "epochs": 3, "random_state": 0, "verbose": 0}
SINGLE = FAST | {"preset": "single"}


@pytest.fixture(scope="module")
def fitted():
    X, y = mixed_table()
    settings = (FAST, SINGLE, SINGLE | {"layout": "paper"}, SINGLE | {"n_per": 2, "n_mul": 4})
    return X, y, [NRSClassifier(**s).fit(X, y) for s in settings]


def first_layer(model, x):
    """Outputs of the subspaces after normalisation, before the activation: (rows, trees)."""
    network = model.network_.eval()
    with torch.no_grad():
        if isinstance(network, ForestNetwork):
            from nrs.core.subspace_map import subspace_map

            mapped = subspace_map(network.inputs(x), network.index, network.scaled_weight())
            return network.norm(mapped.flatten(1)).numpy()
        layer = network.subspaces
        layer.activation = None
        try:
            return layer(x).numpy()
        finally:
            layer.activation = "relu"


@pytest.mark.parametrize("which", range(4))
def test_sums_are_the_first_layer(fitted, which):
    X, _, models = fitted
    model = models[which]
    trees = model.trees()
    x = torch.from_numpy(model.encoder_.transform(X))
    layer = first_layer(model, x)
    per_member = layer.shape[1] // (max(trees["member"]) + 1)
    places = [tree.member * per_member + tree.tree for tree in trees]
    assert sorted(places) == list(range(layer.shape[1]))
    np.testing.assert_allclose(trees.sums(X), layer[:, places], atol=1e-4)
    for number in (0, 5):
        parts = trees.contributions(X, number)
        assert parts.shape == (len(X), len(trees[number].columns))
        total = parts.sum(1) - trees[number].threshold
        np.testing.assert_allclose(total, trees[number : number + 1].sums(X)[:, 0], atol=1e-9)


@pytest.mark.parametrize("which", [0, 1])
def test_importance_agrees_with_what_the_rows_say(which):
    """Effect of each tree measured on data, against the one read from the normalisations."""
    X, y = mixed_table(400)
    # Trained to the end: the weights of a first epoch, should 40 rows choose them, say little yet.
    longer = {"epochs": 20, "validation_fraction": 0.0}
    model = NRSClassifier(**(FAST, SINGLE)[which] | longer).fit(X, y)
    network = model.network_.eval()
    x = torch.from_numpy(model.encoder_.transform(X))
    sums = torch.from_numpy(np.maximum(first_layer(model, x), 0)).requires_grad_()
    if which == 0:
        h = sums.view(len(x), network.n_members, -1).permute(1, 2, 0)
        for weight, norm in zip(network.hidden, network.hidden_norms, strict=True):
            flat = torch.bmm(weight, h).reshape(-1, len(x))
            h = norm(flat.t()).t().relu().view(network.n_members, -1, len(x))
        outputs = torch.baddbmm(network.out_bias, network.out_weight, h)
        difference = (outputs[:, 1] - outputs[:, 0]).sum()
    else:
        after = list(network.layers)[list(network.layers).index(network.subspaces) + 1 :]
        outputs = torch.nn.Sequential(*after)(sums)
        difference = (outputs[:, 1] - outputs[:, 0]).sum()
    (gradient,) = torch.autograd.grad(difference, sums)
    measured = (gradient.mean(0).abs() * sums.std(0)).detach().numpy()
    trees = model.trees()
    per_member = len(trees) // (max(trees["member"]) + 1)
    places = trees.member * per_member + trees.tree
    assert np.corrcoef(measured[places], trees.importance)[0, 1] > 0.8
    shares = (trees.sums(X) >= 0).mean(0)
    assert np.abs(shares - trees["yes"]).mean() < 0.1


def test_the_table(fitted):
    X, _, models = fitted
    trees = models[0].trees()
    importance = trees["importance"]
    assert importance == sorted(importance, reverse=True)
    assert np.isclose(sum(importance), 1)
    top = models[0].trees(4)
    assert len(top) == 4
    assert top.to_dicts() == trees[:4].to_dicts()
    frame = top.to_pandas()
    assert list(frame.columns) == trees.columns
    assert set(frame["columns"][0]) <= set(X.columns)
    assert len(top[0].inputs) == len(top[0].weights)
    assert "question" in repr(trees)
    assert top[0].rule().endswith(f"≥ {top[0].threshold:.2f}")
    with pytest.raises(KeyError, match=r"No column .depth.; the columns are"):
        trees["depth"]


def test_bins_are_named_in_the_units_of_the_table(fitted):
    _, _, models = fitted
    names = [name for tree in models[0].trees(200) for name in tree.inputs]
    years = [name for name in names if name.startswith("year[")]
    assert years
    low, high = years[0][5:-1].split("…")
    assert 1985 < float(low) < float(high) < 2030
    assert any(name.startswith("since[20") for name in names)


def test_a_loaded_model_has_the_same_trees(fitted, tmp_path):
    models = fitted[2]
    models[0].save(tmp_path / "m.safetensors")
    loaded = NRSClassifier.load(tmp_path / "m.safetensors")
    assert loaded.trees(20).to_dicts() == models[0].trees(20).to_dicts()


def test_what_has_no_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = NRSRegressor(n_mul=0, epochs=1, random_state=0, verbose=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="plain MLP"):
        model.trees()
    forest = NRSRegressor(**FAST).fit(X, X[:, 0])
    with pytest.raises(
        ValueError, match="n must be an integer of at least 1, or None for all; got 0"
    ):
        forest.trees(0)


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
