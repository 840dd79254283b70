from dataclasses import replace

import numpy as np
import pytest

from nrs.core.permutations import LAYOUTS
from nrs.tabular.forest.grow import blank_forest
from nrs.tabular.header import RECIPE_FIELDS
from nrs.tabular.learned import check_forest, forest_tensors
from nrs.tabular.recipe import resolve
from nrs.tabular.targets import ClassTarget, SquaredTarget
from nrs.training import ModelFileError
from nrs.training.schema import kind_of

RECIPE = resolve("default", {}, 1000, 5)
SHAPE = {"in_features": 5, "index": [3, 7, 4], "n_bins": 6, "n_levels": 2}


@pytest.mark.parametrize("hidden", [(), (8,), (8, 20)])
@pytest.mark.parametrize("monotone", [(), (("a", 1),)])
@pytest.mark.parametrize("target", [SquaredTarget(), ClassTarget(np.arange(3))])
def test_the_tensors_of_a_file_are_those_of_the_network_it_becomes(hidden, monotone, target):
    recipe = replace(RECIPE, hidden=hidden, monotone=monotone)
    state = blank_forest(SHAPE, target, recipe).state_dict()
    expected = {name: kind_of(tensor) for name, tensor in state.items()}
    assert forest_tensors(SHAPE, recipe, target.n_outputs) == expected


def test_a_header_knows_the_layouts_of_the_layer():
    for layout in LAYOUTS:
        assert RECIPE_FIELDS["layout"](layout, "layout") == layout
    assert len(LAYOUTS) == 2


def arrays(**changed):
    known = {
        "bins.source": np.zeros(6, np.int64),
        "index": np.full((3, 7, 4), 11),
        "shares": np.ones(3, np.float32),
        "temperature": np.float32(1),
    }
    return known | changed


def test_numbers_that_training_does_not_give_are_refused():
    check_forest(arrays(), SHAPE)
    for changed, match in [
        ({"bins.source": np.full(6, 5)}, "bins of a forest"),
        ({"bins.source": np.full(6, -1)}, "bins of a forest"),
        ({"index": np.full((3, 7, 4), 12)}, "read inputs that it has"),
        ({"index": np.full((3, 7, 4), -1)}, "read inputs that it has"),
        ({"shares": np.array([1, -1, 1], np.float32)}, "shares of members"),
        ({"shares": np.zeros(3, np.float32)}, "shares of members"),
        ({"temperature": np.float32(0)}, "temperature must be above 0"),
    ]:
        with pytest.raises(ModelFileError, match=match):
            check_forest(arrays(**changed), SHAPE)
