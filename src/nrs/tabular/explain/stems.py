"""The trees inside a trained network: what each reads, its folded weights, how much it counts.

Importance needs no data, because batch normalisation has kept what is needed of it. Over the
training rows the sum of a tree has the mean β and the standard deviation |γ| of its normalisation;
taken as normal, that gives the share of rows that say yes, Φ(β/|γ|), and how far the tree's output
varies. The same holds for the units after it, so the mean effect of a tree on the outputs is a
product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import norm as normal
from torch import Tensor, nn

from nrs.core import NRS
from nrs.core.fold import folded_stage
from nrs.tabular.forest.network import ForestNetwork, affine
from nrs.tabular.network import TableNetwork


@dataclass
class Stems:
    """All T trees of a network as arrays.

    index (T, F) : inputs that are read; numbers beyond the last input read nothing.
    weight (T, F), shift (T,) : the weighted sum, its normalisation folded in.
    member, number (T,) : which member, and which tree of it.
    yes (T,) : about the share of training rows whose sum is at least 0.
    response (T,) : change of the outputs for a typical change of the tree's output.
    """

    index: np.ndarray
    weight: np.ndarray
    shift: np.ndarray
    member: np.ndarray
    number: np.ndarray
    yes: np.ndarray
    response: np.ndarray

    def take(self, places: np.ndarray | slice) -> Stems:
        """Some of the trees, in the order of `places`."""
        return Stems(*(array[places] for array in vars(self).values()))


def read_stems(network: nn.Module) -> Stems:
    """Read the trees of a forest or of a single network.

    Raises
    ------
    ValueError
        If there are none, or if they have two levels.
    """
    with torch.no_grad():
        if isinstance(network, ForestNetwork):
            return _of_forest(network)
        if isinstance(network, TableNetwork) and network.subspaces is not None:
            if network.subspaces.depth > 1:
                raise ValueError(
                    "Only trees of one level can be listed; this layer has depth="
                    f"{network.subspaces.depth}. Fit with depth 1."
                )
            return _of_layer(network, network.subspaces)
    raise ValueError(
        f"The model is a plain MLP ({type(network).__name__}) and has no trees. Fit with n_mul of "
        "at least 1."
    )


def _of_forest(network: ForestNetwork) -> Stems:
    members, subspaces, size = network.index.shape
    scale, shift = affine(network.norm)
    weight = network.scaled_weight().view(-1, size) * scale
    effect = torch.eye(subspaces).expand(members, -1, -1)
    for layer, norm in zip(network.hidden, network.hidden_norms, strict=True):
        assert isinstance(norm, nn.BatchNorm1d)
        passed = affine(norm)[0].view(members, -1, 1) * layer.cpu()
        effect = _yes(norm).view(members, -1, 1) * (passed @ effect)
    effect = network.out_weight.cpu() @ effect
    return _stems(network.index.view(-1, size), weight, shift.view(-1), effect, network.norm)


def _of_layer(network: TableNetwork, layer: NRS) -> Stems:
    kernel, shift = folded_stage(layer.weight, layer.bias, layer.norm)
    assert isinstance(layer.norm, nn.BatchNorm1d)
    modules = list(network.layers)
    effect = torch.eye(layer.out_features)
    for module in modules[modules.index(layer) + 1 :]:
        if isinstance(module, nn.Linear):
            effect = module.weight.cpu() @ effect
        elif isinstance(module, nn.BatchNorm1d):
            effect = _yes(module).view(-1, 1) * (affine(module)[0].cpu() * effect)
    index = layer.subspaces().repeat_interleave(layer.n_per, 0)
    return _stems(index, kernel.flatten(1), shift, effect.unsqueeze(0), layer.norm)


def _stems(
    index: Tensor, weight: Tensor, shift: Tensor, effect: Tensor, norm: nn.BatchNorm1d
) -> Stems:
    """Stems of trees whose effects on the outputs are (members, outputs, trees of a member)."""
    members, _, trees = effect.shape
    return Stems(
        index=index.cpu().numpy(),
        weight=weight.double().cpu().numpy(),
        shift=shift.double().cpu().numpy(),
        member=np.repeat(np.arange(members), trees),
        number=np.tile(np.arange(trees), members),
        yes=_yes(norm).double().numpy(),
        response=_response(effect, norm),
    )


def _yes(norm: nn.BatchNorm1d) -> Tensor:
    """Probability that a normalised unit is positive."""
    spread = norm.weight.abs().clamp_min(1e-12)
    return torch.special.ndtr(norm.bias / spread).detach().cpu()


def _response(effect: Tensor, norm: nn.BatchNorm1d) -> np.ndarray:
    """Size of the effects (members, outputs, trees) times the spread of the trees."""
    if effect.shape[1] > 1:
        # Only differences between classes count.
        effect = effect - effect.mean(1, keepdim=True)
    gain = effect.norm(dim=1).reshape(-1).double().cpu().numpy()
    mean = norm.bias.detach().double().cpu().numpy()
    std = np.maximum(norm.weight.detach().double().abs().cpu().numpy(), 1e-12)
    # Moments of a normal variable cut off at zero.
    share, density = normal.cdf(mean / std), normal.pdf(mean / std)
    first = mean * share + std * density
    second = (mean**2 + std**2) * share + mean * std * density
    response: np.ndarray = gain * np.sqrt(np.maximum(second - first**2, 0))
    return response
