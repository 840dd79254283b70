"""The two ways to prepare a picture give the same numbers, those of torchvision's transforms."""

import pytest
import torch

from nrs.vision._torchvision import part
from nrs.vision.measured import Measured, MeasuredByProducts


@pytest.mark.parametrize("shape", [(20, 20), (17, 50), (50, 17), (31, 64), (9, 10), (200, 90)])
@pytest.mark.parametrize(("size", "side"), [(16, 16), (16, 21)])
def test_all_ways_agree(shape, size, side):
    torch.manual_seed(0)
    x = torch.randint(0, 256, (2, 3, *shape), dtype=torch.uint8)
    numbers = size, side, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    expected = Measured(*numbers)(x)
    assert expected.shape == (2, 3, size, size)
    assert torch.allclose(MeasuredByProducts(*numbers)(x), expected, atol=1e-5)
    v2 = part("torchvision.transforms.v2")
    theirs = v2.Compose(
        [
            v2.ToDtype(torch.float32, scale=True),
            v2.Resize(side, interpolation=v2.InterpolationMode.BICUBIC, antialias=True),
            v2.CenterCrop(size),
            v2.Lambda(lambda x: x.clamp(0, 1)),
            v2.Normalize(*numbers[2:]),
        ]
    )
    assert torch.allclose(theirs(x), expected, atol=1e-5)
