"""Training pictures vary as the settings say; measured ones do not."""

import numpy as np
import pytest
import torch
from PIL import Image

from nrs.vision.augment import Augmentation
from nrs.vision.data import Preparation

PLAIN = Preparation(size=24, resize=24, crop="none", flip=False, mean=(0.5,) * 3, std=(0.25,) * 3)
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    "augmentation",
    [Augmentation(randaugment=2), Augmentation(jitter=0.4), Augmentation(erase=1.0)],
    ids=["randaugment", "jitter", "erase"],
)
def test_pictures_vary_by_the_global_generator(augmentation):
    transform = PLAIN.transform(train=True, augmentation=augmentation)
    drawn = []
    for seed in (0, 0, 1, 2, 3):
        torch.manual_seed(seed)
        drawn.append(transform(PICTURE))
    assert drawn[0].shape == (3, 24, 24)
    assert torch.equal(drawn[0], drawn[1])
    assert len({one.sum().item() for one in drawn}) > 2
    still = PLAIN.transform(train=False)
    assert torch.equal(still(PICTURE), still(PICTURE))


@pytest.mark.parametrize("names", [("mixup",), ("cutmix",), ("mixup", "cutmix")])
def test_batches_are_mixed_with_their_labels(names):
    torch.manual_seed(0)
    mix = Augmentation(**dict.fromkeys(names, 1.0)).of_batch(4)
    x = torch.arange(4.0)[:, None, None, None].expand(4, 3, 8, 8).contiguous()
    mixed, shares = mix(x, torch.arange(4))
    assert shares.shape == (4, 4)
    assert torch.allclose(shares.sum(1), torch.ones(4))
    # A picture of one number is as mixed as its label.
    assert torch.allclose(mixed.mean((1, 2, 3)), shares @ torch.arange(4.0), atol=1e-5)
    assert Augmentation().of_batch(4) is None


def test_values_out_of_range():
    with pytest.raises(ValueError, match="magnitude must be from 0 to 30; got 31"):
        Augmentation(magnitude=31)
