import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.engine import instructions
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.monotone import Directions
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.targets import (
    ClassTarget,
    ColumnsTarget,
    mean_odds,
    mean_probabilities,
    mean_values,
)
from nrs.tabular.targets.rates import mean_rates

needs_engine = pytest.mark.skipif(instructions()[0] is None, reason="the engine is not built")
COLUMNS = ColumnsTarget([ClassTarget(np.arange(n)) for n in (2, 9)])
COMBINES = [
    mean_values, mean_probabilities, mean_odds, mean_rates, COLUMNS.combine,
]  # fmt: skip


def forest(combine=mean_probabilities, *, outputs=11, hidden=(9, 20), directed=False, seed=0):
    """A forest as training leaves it: statistics, shares and a temperature of its own."""
    rng = np.random.default_rng(seed)
    bins = PiecewiseLinear.between([(0, [-1.0, 0.0, 1.0])], levels=[(1, [0.0, 1.0, 2.0])])
    index = torch.from_numpy(rng.integers(0, 4 + bins.n_bins, (5, 7, 3)))
    directions = None
    if directed:
        toward = torch.zeros(4 + bins.n_bins + 1)
        toward[2:4] = torch.tensor([1.0, -1.0])
        of_outputs = torch.from_numpy(rng.integers(-1, 2, outputs)).float()
        directions = Directions.draw(index, toward, hidden, of_outputs)
    made = ForestNetwork(
        4, outputs, index, bins, hidden=hidden, combine=combine, seed=seed, directions=directions
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for norm in (made.norm, *made.hidden_norms):
            norm.weight.uniform_(-1, 2, generator=generator)
            norm.bias.uniform_(-1, 1, generator=generator)
            norm.running_mean.uniform_(-1, 1, generator=generator)
            norm.running_var.uniform_(0.5, 2, generator=generator)
        made.shares.copy_(torch.tensor([1.0, 2.0, 0.0, 1.0, 1.0]))
        made.temperature.fill_(1.5)
    return made.eval()


def rows(n, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)


@needs_engine
@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("directed", [False, True])
def test_its_outputs_are_those_of_the_forest(combine, directed):
    network, x = forest(combine, directed=directed), rows(70)
    folded = network.folded()
    with torch.no_grad():
        expected = network(torch.from_numpy(x))
        each = network.fold().each(torch.from_numpy(x))
    np.testing.assert_allclose(folded.outputs(x), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(folded.outputs(x, members=True), each, rtol=1e-4, atol=1e-4)


def test_scales_that_are_no_part_of_the_weights_yet_are_folded_too():
    network, x = forest(mean_values), torch.from_numpy(rows(20))
    network.units = torch.rand(2, 5, 11, 1) + 0.5
    with torch.no_grad():
        torch.testing.assert_close(network.fold()(x), network(x), rtol=1e-4, atol=1e-4)


@needs_engine
@given(st.sampled_from(COMBINES), st.integers(1, 300), st.integers(0, 99))
def test_a_row_is_answered_alike_whatever_is_next_to_it(combine, n, seed):
    folded, x = forest(combine, seed=seed).folded(), rows(n, seed)
    joint, each = folded.outputs(x), folded.outputs(x, members=True)
    place = seed % n
    for part in (slice(place, place + 1), slice(place, None), slice(place + 1)):
        own = x[part]
        assert np.array_equal(folded.outputs(own), joint[part])
        assert np.array_equal(folded.outputs(own, members=True), each[:, part])


@needs_engine
def test_threads_give_the_same_bits_and_may_share_it(monkeypatch):
    monkeypatch.setattr("nrs.tabular.forest.folded.JOINED", 1)
    folded, x = forest().folded(), rows(1000)
    expected = folded.outputs(x)
    assert np.array_equal(folded.outputs(x, 3), expected)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(folded.outputs, [x] * 8):
            assert np.array_equal(found, expected)
    assert np.array_equal(pickle.loads(pickle.dumps(folded)).outputs(x), expected)


def test_it_does_not_change_with_its_forest():
    network = forest()
    folded = network.folded()
    with torch.no_grad():
        for tensor in (network.shares, network.temperature, network.out_weight, network.out_bias):
            tensor.fill_(3.0)
    assert folded.shares.tolist() == [1.0, 2.0, 0.0, 1.0, 1.0]
    assert float(folded.temperature) == 1.5
    assert not (folded.out_weight == 3).any()
    assert not (folded.out_bias == 3).any()
