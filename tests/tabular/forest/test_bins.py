"""Bins and levels: which functions of a number they can express."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.profile import find_edges


def test_bins_separate_values_as_categories_do():
    values = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    bins = PiecewiseLinear.between([(0, find_edges(values[:, 0].numpy(), 8))])
    design = torch.cat([torch.ones(4, 1), bins(values)], 1)
    assert torch.linalg.matrix_rank(design) == 4


@given(st.lists(st.integers(-500, 500), min_size=2, max_size=12, unique=True))
def test_levels_are_indicators_of_the_values(values):
    values = np.sort(values).astype(np.float32)
    levels = PiecewiseLinear.between([], levels=[(0, values)])
    assert levels.n_bins == levels.n_levels == len(values)
    found = levels(torch.from_numpy(values)[:, None])
    np.testing.assert_allclose(found, np.eye(len(values)), atol=1e-6)
    # Between two values the levels never add up to more than one.
    assert levels(torch.linspace(-600, 600, 99)[:, None]).sum(1).max() <= 1 + 1e-6


def test_levels_come_after_the_bins():
    both = PiecewiseLinear.between([(1, [0.0, 2.0])], levels=[(0, [0.0, 1.0])])
    assert both(torch.tensor([[1.0, 1.0]])).tolist() == [[0.5, 0.0, 1.0]]
