import importlib

import pytest
import torch

from nrs._util import lazy


def test_it_is_torch_as_soon_as_something_is_asked_of_it():
    assert lazy.torch.float32 is torch.float32
    assert lazy.torch.nn.functional.relu is torch.nn.functional.relu
    # Kept: no call is made for it again.
    assert vars(lazy.torch)["float32"] is torch.float32
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        lazy.torch.no_such_name  # noqa: B018


def test_the_function_called_like_a_module_is_found_whoever_came_first():
    module = importlib.import_module("nrs.training.processes")
    from nrs.training import processes

    assert processes is module.processes
