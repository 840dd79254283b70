import numpy as np
import pytest
import torch

from nrs._util.arrays import concatenate, split, where


@pytest.mark.parametrize("axis", [0, 1])
def test_arrays_and_tensors_are_cut_and_put_together_alike(axis):
    x = np.arange(24.0).reshape(4, 6)
    sizes = [1, 3, x.shape[axis] - 4]
    parts, of_tensor = split(x, sizes, axis), split(torch.from_numpy(x), sizes, axis)
    assert [part.shape[axis] for part in parts] == sizes
    for part, other in zip(parts, of_tensor, strict=True):
        assert isinstance(other, torch.Tensor)
        assert np.array_equal(part, other.numpy())
    assert np.array_equal(concatenate(parts, axis), x)
    assert torch.equal(concatenate(of_tensor, axis), torch.from_numpy(x))


def test_entries_are_chosen_alike():
    x = np.array([1.0, -2.0])
    assert where(x > 0, x, -x).tolist() == [1.0, 2.0]
    tensor = torch.from_numpy(x)
    assert where(tensor > 0, tensor, -tensor).tolist() == [1.0, 2.0]
