"""The neural decision forest: routing, leaf updates, and what no data can break."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.baselines.forest import (
    SMOOTHING,
    NeuralForest,
    route,
    update_distributions,
    update_means,
)

sizes = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 9))
seeds = st.integers(0, 2**16)


def slow_route(scores):
    """One leaf, one row at a time: the product of the decisions on the path."""
    trees, nodes, rows = scores.shape
    depth = (nodes + 1).bit_length() - 1
    reach = torch.zeros(trees, nodes + 1, rows, dtype=scores.dtype)
    for tree in range(trees):
        for leaf in range(nodes + 1):
            for row in range(rows):
                node, product = 0, 1.0
                for level in reversed(range(depth)):
                    right = leaf >> level & 1
                    d = torch.sigmoid(scores[tree, node, row])
                    product = product * (1 - d if right else d)
                    node = 2 * node + 1 + right
                reach[tree, leaf, row] = product
    return reach


def random_rows(size, seed, scale=1.0):
    trees, depth, rows = size
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(trees, 2**depth - 1, rows, generator=generator), generator


@given(sizes, seeds, st.sampled_from([1.0, 30.0, 1e4, 1e30]))
def test_routing_probabilities_sum_to_one(size, seed, scale):
    reach = route(random_rows(size, seed, scale)[0])
    assert (reach >= 0).all()
    torch.testing.assert_close(reach.sum(1), torch.ones(size[0], size[2]))


@pytest.mark.parametrize("size", [(2, 1, 3), (3, 3, 2)])
def test_routing_is_the_product_along_the_path(size):
    scores = random_rows(size, 0)[0].double()
    torch.testing.assert_close(route(scores), slow_route(scores))


def test_the_gradient_of_routing_is_that_of_the_product():
    scores = random_rows((2, 3, 2), 1)[0].double().requires_grad_()
    assert torch.autograd.gradcheck(route, (scores,))


@given(sizes, seeds, st.integers(1, 4), st.booleans(), st.sampled_from([1.0, 20.0]))
def test_an_update_of_distributions_never_lowers_a_tree_s_likelihood(
    size, seed, classes, weighted, scale
):
    scores, generator = random_rows(size, seed, scale)
    reach = route(scores.double())
    trees, leaves, rows = reach.shape
    y = torch.randint(classes, (rows,), generator=generator)
    weights = torch.rand(rows, generator=generator).double() if weighted else None
    truth = torch.nn.functional.one_hot(y, classes).t().double()
    pi = torch.rand(trees, leaves, classes, generator=generator).double().softmax(2)

    def likelihood(pi):
        p = (1 - SMOOTHING) * torch.bmm(pi.transpose(1, 2), reach) + SMOOTHING / classes
        each = p[:, y, torch.arange(rows)].log()
        return (each if weights is None else each * weights).sum(1)

    before = likelihood(pi)
    for _ in range(3):
        pi = update_distributions(pi, reach, truth, weights)
        torch.testing.assert_close(pi.sum(2), torch.ones(trees, leaves, dtype=pi.dtype))
        after = likelihood(pi)
        assert (after >= before - 1e-9).all()
        before = after


@given(sizes, seeds, st.booleans(), st.sampled_from([1.0, 20.0]))
def test_an_update_of_means_never_raises_a_tree_s_squared_error(size, seed, weighted, scale):
    scores, generator = random_rows(size, seed, scale)
    reach = route(scores.double())
    trees, leaves, rows = reach.shape
    y = torch.randn(2, rows, generator=generator).double()
    weights = torch.rand(rows, generator=generator).double() if weighted else None
    means = torch.randn(trees, leaves, 2, generator=generator).double()

    def error(means):
        each = (y - torch.bmm(means.transpose(1, 2), reach)).square().sum(1)
        return (each if weights is None else each * weights).sum(1)

    before = error(means)
    for _ in range(3):
        means = update_means(means, reach, y, weights)
        after = error(means)
        assert (after <= before + 1e-9).all()
        before = after


@pytest.mark.parametrize("features", [3, 30], ids=["more rows", "more features"])
def test_both_ways_to_the_scores_agree(features):
    forest = NeuralForest(features, 4, n_trees=3, depth=3, n_features=20, seed=0)
    x = torch.randn(10, features)
    scores = forest.scores(x)
    made = forest.features(x)
    for tree in range(3):
        own = made[:, forest.subset[tree]]
        expected = (own @ forest.weight[tree].t() + forest.bias[tree]).t()
        torch.testing.assert_close(scores[tree], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(forest.scores(x, slice(1, 3)), scores[1:])


def test_training_and_inference_predict_alike():
    forest = NeuralForest(5, 3, n_trees=4, depth=3, n_features=16, seed=0)
    x, y = torch.randn(50, 5), torch.randint(3, (50,))
    forest.fit_leaves(x, y)
    torch.testing.assert_close(forest.eval()(x), forest.train()(x))


def test_trees_read_their_own_half_of_the_features():
    forest = NeuralForest(5, 3, n_trees=6, depth=2, n_features=16, seed=0)
    assert forest.subset.shape == (6, 8)
    assert all(len(set(row.tolist())) == 8 for row in forest.subset)
    assert len({tuple(row.tolist()) for row in forest.subset}) > 1


def test_blocks_of_trees_change_nothing(monkeypatch):
    x, y = torch.randn(40, 5), torch.randint(3, (40,))
    one, many = (NeuralForest(5, 3, n_trees=5, depth=2, n_features=8, seed=0) for _ in range(2))
    one.fit_leaves(x, y)
    monkeypatch.setattr("nrs.baselines.forest.BLOCK", 1)
    many.fit_leaves(x, y)
    torch.testing.assert_close(one.leaves, many.leaves)


def test_leaves_of_numbers_converge_to_least_squares():
    forest = NeuralForest(2, 1, n_trees=2, depth=2, n_features=8, classes=False, seed=0)
    with torch.no_grad():
        forest.weight *= 20
    x, y = torch.randn(200, 2), torch.randn(200, 1)
    forest.fit_leaves(x, y, iterations=3000)
    reach = route(forest.scores(x)).detach()
    for tree in range(2):
        fitted = reach[tree].t() @ forest.leaves[tree]
        solution = torch.linalg.lstsq(reach[tree].t(), y).solution
        torch.testing.assert_close(fitted, reach[tree].t() @ solution, atol=2e-2, rtol=0)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("n_trees", 0), ("depth", 0), ("n_features", 0), ("feature_fraction", 0.0)],
)
def test_a_bad_argument_is_named(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must be .*; got {value}"):
        NeuralForest(4, 2, **{argument: value})


def test_the_same_seed_gives_the_same_forest():
    first, second = (NeuralForest(4, 2, n_trees=2, depth=2, seed=3) for _ in range(2))
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    assert not torch.equal(first.weight, NeuralForest(4, 2, n_trees=2, depth=2, seed=4).weight)


def test_a_leaf_that_nothing_reaches_keeps_its_distribution():
    reach = torch.zeros(1, 2, 3)
    reach[:, 0] = 1
    leaves = torch.tensor([[[0.5, 0.5], [0.3, 0.7]]])
    truth = torch.tensor(np.array([[1.0, 0, 0], [0, 1, 1]], dtype=np.float32))
    updated = update_distributions(leaves, reach, truth)
    torch.testing.assert_close(updated[0, 1], leaves[0, 1])
    torch.testing.assert_close(updated[0, 0], torch.tensor([1 / 3, 2 / 3]))
