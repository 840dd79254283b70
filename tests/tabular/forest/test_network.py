"""Members side by side: independent, folded, and scored on rows they did not see."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.grow import as_index, draw_subspaces
from nrs.tabular.forest.network import (
    MAX_OUTPUTS,
    ForestNetwork,
    apart,
    forest_loss,
    joint_slope,
    out_of_bag,
    response,
)
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import (
    ClassTarget,
    ColumnsTarget,
    MultilabelTarget,
    RegressionTarget,
    SurvivalTarget,
    mean_odds,
    mean_probabilities,
    mean_values,
)
from nrs.training.precision import lowered_forward
from nrs.training.processes import ALONE


def _network(members=4, features=5, combine=mean_probabilities, hidden=(6,), bins=True, seed=0):
    rng = np.random.default_rng(seed)
    edges = [(j, [-1.0, 0.0, 1.0]) for j in range(features)] if bins else []
    steps = PiecewiseLinear.between(edges)
    parts = [
        np.append(j, features + np.flatnonzero(steps.source.numpy() == j)) for j in range(features)
    ]
    drawn = [draw_subspaces(parts, 7, 2, rng) for _ in range(members)]
    index = torch.from_numpy(as_index(drawn, features + steps.n_bins))
    return ForestNetwork(features, 3, index, steps, hidden=hidden, combine=combine, seed=seed)


@pytest.mark.parametrize("combine", [mean_probabilities, mean_odds, mean_values])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_members_are_networks_of_their_own(combine, hidden):
    network = _network(combine=combine, hidden=hidden)
    x = torch.randn(9, 5)
    network(torch.randn(50, 5))
    network.eval()
    before = network.members(x).detach()
    with torch.no_grad():
        network.weight[1] += 1.0
        network.out_bias[1] -= 1.0
    changed = (network.members(x) != before).flatten(1).any(1)
    assert changed.tolist() == [False, True, False, False]


@pytest.mark.parametrize("combine", [mean_probabilities, mean_odds, mean_values])
@pytest.mark.parametrize("bins", [True, False])
def test_folding_changes_no_number(combine, bins):
    network = _network(combine=combine, bins=bins)
    for _ in range(3):
        network(torch.randn(40, 5))
    network.eval()
    network.temperature.fill_(1.5)
    x = torch.randn(11, 5)
    folded = network.fold()
    torch.testing.assert_close(folded.members(x), network.members(x))
    torch.testing.assert_close(folded(x), network(x))
    assert not list(folded.parameters())


def test_wide_inputs_keep_their_subspaces():
    rng = np.random.default_rng(0)
    drawn = [draw_subspaces([np.array([j]) for j in range(900)], 100, 9, rng) for _ in range(2)]
    index = torch.from_numpy(as_index(drawn, 900))
    network = ForestNetwork(900, 2, index, PiecewiseLinear.between([]), hidden=(4,))
    network(torch.randn(20, 900))
    folded = network.eval().fold()
    assert folded.wide
    x = torch.randn(7, 900)
    torch.testing.assert_close(folded(x), network(x))


def test_kept_members_answer_as_before():
    index = torch.randint(0, 5, (4, 6, 3), generator=torch.Generator().manual_seed(0))
    bins = PiecewiseLinear.between([(0, [-1.0, 0.0, 1.0])])
    forest = ForestNetwork(5, 3, index, bins, hidden=(7, 8), dropout=0.1)
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    forest.train().members(x)  # moves the statistics
    forest.eval()
    kept = forest.keep(torch.tensor([1, 3]))
    assert not kept.training
    torch.testing.assert_close(kept.members(x), forest.members(x)[[1, 3]])
    torch.testing.assert_close(kept.fold().members(x), forest.fold().members(x)[[1, 3]])
    assert forest.keep(torch.arange(4)) is forest


@pytest.mark.parametrize(
    ("target", "y"),
    [
        (ClassTarget(np.arange(3)), torch.tensor([0, 2, 1, 1, 0, 2])),
        (MultilabelTarget(3), torch.randint(2, (6, 3)).float()),
        (RegressionTarget(np.zeros(3), np.ones(3), single=False), torch.randn(6, 3)),
    ],
)
def test_a_member_learns_nothing_from_its_fold(target, y):
    network = _network(combine=target.combine)
    folds = torch.tensor([0, 1, 0, 1, 0, 1])
    x = torch.randn(6, 5)
    loss = forest_loss(network, (x, y, None, folds), target, Folds(2).sees(4))
    outputs = network.members(x)
    by_hand = []
    for k in range(4):
        seen = folds != k % 2
        by_hand.append(target.loss(outputs[k].t()[seen], y[seen], None))
    torch.testing.assert_close(loss, torch.stack(by_hand).mean())
    # Another label in fold 0 moves only the members that may see fold 0.
    other = y.clone()
    other[0] = 1 if target.kind == "classes" else 1 - y[0]
    loss, again = (
        forest_loss(network, (x, t, None, folds), target, Folds(2).sees(4)) for t in (y, other)
    )
    moved = torch.autograd.grad(loss - again, network.out_bias)[0].abs().flatten(1).sum(1) > 1e-8
    assert moved.tolist() == [False, True, False, True]


def test_out_of_bag_outputs_are_of_members_that_did_not_see_the_row():
    network = _network().eval()
    X = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    folds = np.arange(20) % 2
    outputs = out_of_bag(network, Rows(X, np.zeros(20), folds=folds), Folds(2).tables(4)[1])[0].t()
    every = network.members(torch.from_numpy(X))
    for row in range(20):
        unseen = every[int(folds[row]) :: 2, :, row : row + 1]
        torch.testing.assert_close(outputs[row : row + 1], mean_probabilities(unseen))


def test_a_forest_trains_on_the_meta_device():
    """What a GPU would run: shapes and types, no numbers."""
    index = torch.randint(0, 11, (4, 16, 4))
    bins = PiecewiseLinear.between([(0, [-1.0, 0.0, 1.0])])
    network = ForestNetwork(9, 3, index, bins, hidden=(16, 16), dropout=0.1).to("meta")
    device = torch.device("meta")
    y, folds = (torch.zeros(32, dtype=torch.int64, device=device) for _ in range(2))
    weights = torch.ones(32, device=device)
    target = ClassTarget(np.arange(3))
    two = SimpleNamespace(divides_rows=True, size=2, total=torch.clone)
    for group in (ALONE, two):
        network.group = group
        optimizer = torch.optim.AdamW(network.parameters())
        loss = forest_loss(
            network,
            (torch.randn(32, 9, device=device), y, weights, folds),
            target,
            Folds(8).sees(4),
        )
        assert loss.device == device
        loss.backward()
        optimizer.step()
        assert {p.grad.device for p in network.parameters()} == {device}
    outputs = network.eval().fold()(torch.randn(5, 9, device=device))
    assert (outputs.shape, outputs.dtype, outputs.device) == ((5, 3), torch.float32, device)


def test_lower_precision_is_of_the_products_alone():
    index = torch.randint(0, 10, (4, 16, 4))
    network = ForestNetwork(9, 3, index, PiecewiseLinear.between([]), hidden=(16,), dropout=0.1)
    two = SimpleNamespace(divides_rows=True, size=2, total=torch.clone)
    seen = []
    network.drop.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with lowered_forward(network, torch.bfloat16, torch.device("cpu")):
        for group in (ALONE, two):
            network.group = group
            outputs = network.members(torch.randn(32, 9))
            outputs.square().mean().backward()
            assert outputs.dtype == torch.float32
    assert torch.bfloat16 in seen
    assert {tensor.dtype for tensor in network.state_dict().values()} <= {
        torch.float32,
        torch.int64,
    }
    assert network.norm.running_mean.isfinite().all()


def _slope(members, n_folds=4, shares=None):
    """The slope of a forest whose members say this: (K, C, B)."""
    shares = torch.ones(len(members)) if shares is None else shares
    forest = SimpleNamespace(shares=shares, members=lambda x: members)
    scores = Folds(n_folds).tables(len(members))[1]
    target = ClassTarget(np.arange(members.shape[1]))
    return joint_slope(forest, torch.zeros(1), scores, target)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("common", [0.0, 0.1, 1.0])
def test_all_members_are_surer_than_those_of_a_fold_by_no_more_than_their_numbers(seed, common):
    draw = torch.Generator().manual_seed(seed)
    shared, own = torch.randn(3, 10, generator=draw), torch.randn(8, 3, 10, generator=draw)
    assert 1 <= _slope(common * shared + 0.1 * own) <= 7 / 2


def test_members_that_agree_or_say_nothing_are_no_surer_together():
    agreed = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    assert _slope(agreed.repeat(8, 1, 1)) == pytest.approx(1, abs=1e-5)
    assert _slope(torch.zeros(8, 3, 50)) == 1
    # One that counts is compared with none.
    assert _slope(torch.randn(8, 3, 50), shares=torch.eye(8)[0] * 8) == 1


def test_a_linear_network_responds_with_its_weights():
    linear = nn.Linear(5, 3)
    centred = linear.weight - linear.weight.mean(0)
    x = torch.randn(7, 5)
    classes = ClassTarget(np.arange(3)).choices
    for weight, choices in ((linear.weight, ()), (centred, classes)):
        expected = weight.square().sum(0).sqrt() * x.std(0)
        assert torch.allclose(response(linear, x, choices), expected, atol=1e-6)


def test_outputs_that_move_together_count_unless_they_are_of_one_choice():
    together = torch.tensor([[1.0, 1, 1], [0, 2, 2]])
    assert apart(together, ClassTarget(np.arange(3)).choices)[0].tolist() == [0, 0, 0]
    for target in (
        RegressionTarget(np.zeros(3), np.ones(3), single=False),
        MultilabelTarget(3),
        SurvivalTarget(),
    ):
        assert torch.equal(apart(together, target.choices), together)
    columns = ColumnsTarget.of(np.array([["a", 0], ["b", 1]], dtype=object))
    outputs = torch.tensor([[1.0, 1, 4, 4], [1, 3, 0, 2]])
    assert apart(outputs, columns.choices).tolist() == [[0, 0, 0, 0], [-1, 1, -1, 1]]


def test_many_outputs_are_estimated():
    torch.manual_seed(0)
    linear = nn.Linear(4, 20 * MAX_OUTPUTS)
    with torch.no_grad():
        linear.weight[:, 2] *= 10
    x = torch.randn(7, 4)
    expected = linear.weight.square().sum(0).sqrt() * x.std(0)
    got = response(linear, x)
    assert got.argmax() == 2
    assert torch.allclose(got, expected, rtol=0.5)
