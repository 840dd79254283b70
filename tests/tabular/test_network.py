"""The network of a single model."""

import torch

from nrs.tabular.network import TableNetwork


def test_same_seed_same_network():
    first, second = (TableNetwork(5, 2, seed=3).state_dict() for _ in range(2))
    for key, value in first.items():
        assert torch.equal(value, second[key])
