"""The heads that are compared on the birds, and what their search tries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from nrs.core.layer import largest_divisor

# The same for every method: epochs of training on frozen features.
FROZEN_EPOCHS = 12
# So are the weight decays of the search: 1e-4 is the paper's, and the first that is tried.
DECAYS = (1e-4, 1e-3, 5e-3, 2e-2, 5e-2)
REDUCED, SKETCH = 256, 8192


@dataclass(frozen=True)
class Method:
    """A head: what pools the feature map, and what the recipe calls it.

    `trains_before` tells whether something before the vector has weights: otherwise the vectors
    of all pictures are computed once. `lrs` are the learning rates of its search, each of
    `search_epochs`.
    """

    recipe: tuple[str, ...]
    pool: Callable[[int, int], nn.Module]
    trains_before: bool = False
    head: Callable[[int, int, int], nn.Module] = lambda features, classes, seed: nn.Linear(
        features, classes
    )
    lrs: tuple[float, ...] = (0.01, 0.03, 0.1)
    search_epochs: int = FROZEN_EPOCHS


def _nrs_head(features: int, classes: int, seed: int) -> nn.Module:
    from nrs.vision import NRSHead
    from nrs.vision.head import DEFAULT_N_MUL, MOST_N_PER

    n_per = largest_divisor(DEFAULT_N_MUL * features, MOST_N_PER)
    return NRSHead(features, classes, DEFAULT_N_MUL, n_per, seed=seed)


def _gap(channels: int, seed: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _bilinear(channels: int, seed: int) -> nn.Module:
    from nrs.vision import BilinearPool

    return BilinearPool(channels, min(REDUCED, channels))


def _isqrt(channels: int, seed: int) -> nn.Module:
    from nrs.vision import ISqrtCovPool

    return ISqrtCovPool(channels, min(REDUCED, channels))


def _compact(channels: int, seed: int) -> nn.Module:
    from nrs.vision import CompactBilinearPool

    return CompactBilinearPool(channels, SKETCH, seed=seed)


# Second-order poolings with weights before them cost minutes an epoch: they are searched over fewer
# epochs. How large their vectors are decides which learning rates are worth trying.
METHODS = {
    "GAP+Linear": Method(("model.head=linear",), _gap),
    "GAP+NRS": Method(("model.head=nrs",), _gap, head=_nrs_head),
    "CBP": Method(
        ("model.head=compact", f"model.sketch={SKETCH}"), _compact,
        lrs=(0.1, 1.0, 10.0),
    ),
    "B-CNN": Method(
        ("model.head=bilinear", f"model.reduce={REDUCED}"), _bilinear, trains_before=True,
        lrs=(1.0, 3.0, 10.0, 30.0), search_epochs=5,
    ),
    "iSQRT": Method(
        ("model.head=isqrt", f"model.reduce={REDUCED}"), _isqrt, trains_before=True,
        lrs=(0.03, 0.1, 0.3), search_epochs=3,
    ),
}  # fmt: skip
