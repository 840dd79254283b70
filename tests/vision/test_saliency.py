"""Grad-CAM finds what decides."""

import numpy as np
import torch
from torch import nn

from nrs.vision import add_head
from nrs.vision.saliency import feature_maps, grad_cam, overlay


def _network():
    """Class 0 is red in the picture, class 1 blue; the ReLU works in place."""
    convolution = nn.Conv2d(3, 2, 1, bias=False)
    convolution.weight.data = torch.tensor([[1.0, 0, 0], [0, 0, 1.0]])[:, :, None, None]
    linear = nn.Linear(2, 2, bias=False)
    linear.weight.data = torch.eye(2)
    pool = nn.AvgPool2d(2), nn.AvgPool2d(2), nn.ReLU(inplace=True)
    return nn.Sequential(
        convolution, nn.ReLU(inplace=True), *pool, nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear
    ).eval()


def test_the_map_is_warm_where_the_class_is():
    network, x = _network(), torch.zeros(1, 3, 16, 16)
    x[:, 0, :, :8] = 1
    x[:, 2, :, 8:] = 1
    names = feature_maps(network, x)
    assert names == ["4", "2"]
    red, blue = (grad_cam(network, x, label, names) for label in (0, 1))
    for maps, warm, cold in ((red, slice(0, 7), slice(9, 16)), (blue, slice(9, 16), slice(0, 7))):
        for heat in maps:
            assert heat.shape == (16, 16)
            assert heat[:, warm].min() > 0.5 > heat[:, cold].max()
    # No hook is left.
    assert not any(part._forward_hooks for part in network.modules())


def test_a_head_of_subspaces_has_maps_and_what_has_no_map_has_none():
    network = add_head(_network(), 5, n_mul=2, n_per=1, classifier="7").eval()
    x = torch.rand(1, 3, 16, 16)
    assert len(grad_cam(network, x, 4, feature_maps(network, x))) == 2
    assert feature_maps(nn.Sequential(nn.Flatten(), nn.Linear(768, 2)), x) == []


def test_an_overlay_leaves_cold_places_as_they_are():
    pixels = np.full((2, 2, 3), 100, np.uint8)
    drawn = overlay(pixels, torch.tensor([[0.0, 1.0], [0.5, 0.0]]))
    assert drawn.dtype == np.uint8
    assert (drawn[0, 0] == 100).all()
    assert drawn[0, 1, 0] > 140 > drawn[0, 1, 2]
