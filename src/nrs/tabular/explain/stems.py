"""The trees inside a trained network: what each reads, its folded weights, how much it counts.

Importance needs no data: batch normalisation has kept what is needed of it. The sum of a tree has
over the training rows the mean β and the standard deviation |γ| of its normalisation; taken as
normal, that gives the share of rows that say yes, Φ(β/|γ|), and how far the tree's output varies.
The same holds of the units after it, so that the mean effect of a tree on the outputs is a product
of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import norm as normal
from torch import Tensor, nn

from nrs.core import NRS
from nrs.core.fold import folded_stage
from nrs.tabular.forest.network import ForestNetwork, affine
from nrs.tabular.single import TableNetwork


@dataclass
class Stems:
    """All T trees of a network as arrays.

    index (T, F) : inputs that are read; numbers beyond the last input read nothing.
    weight (T, F), shift (T,) : the weighted sum, its normalisation folded in.
    member, number (T,) : which member, and which tree of it.
    yes (T,) : about the share of training rows whose sum is at least 0.
    response (T,) : how far the outputs move when the tree's output moves as far as it usually does.
    """

    index: np.ndarray
    weight: np.ndarray
    shift: np.ndarray
    member: np.ndarray
    number: np.ndarray
    yes: np.ndarray
    response: np.ndarray


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
                    "the trees of a layer must have one level to be listed, however: depth="
                    f"{network.subspaces.depth}; fit with depth 1"
                )
            return _of_layer(network, network.subspaces)
    raise ValueError(
        "the model must have an NRS layer to have trees, however: it is a plain MLP "
        f"({type(network).__name__}); fit with n_mul of at least 1"
    )


def _of_forest(network: ForestNetwork) -> Stems:
    members, subspaces, size = network.index.shape
    scale, shift = affine(network.norm)
    weight = network.loud_weight().view(-1, size) * scale
    effect = torch.eye(subspaces).expand(members, -1, -1)
    for layer, norm in zip(network.hidden, network.hidden_norms, strict=True):
        assert isinstance(norm, nn.BatchNorm1d)
        passed = affine(norm)[0].view(members, -1, 1) * layer.cpu()
        effect = _yes(norm).view(members, -1, 1) * (passed @ effect)
    effect = network.out_weight.cpu() @ effect
    return Stems(
        index=network.index.view(-1, size).cpu().numpy(),
        weight=weight.double().cpu().numpy(),
        shift=shift.view(-1).double().cpu().numpy(),
        member=np.repeat(np.arange(members), subspaces),
        number=np.tile(np.arange(subspaces), members),
        yes=_yes(network.norm).double().numpy(),
        response=_response(effect, network.norm),
    )


def _of_layer(network: TableNetwork, layer: NRS) -> Stems:
    kernel, shift = folded_stage(layer.weight, layer.bias, layer.norm)
    norm = layer.norm
    assert isinstance(norm, nn.BatchNorm1d)
    trees = layer.out_features
    after = list(network.layers)[list(network.layers).index(layer) + 1 :]
    effect = torch.eye(trees)
    for module in after:
        if isinstance(module, nn.Linear):
            effect = module.weight.cpu() @ effect
        elif isinstance(module, nn.BatchNorm1d):
            effect = _yes(module).view(-1, 1) * (affine(module)[0].cpu() * effect)
    return Stems(
        index=layer.subspaces().repeat_interleave(layer.n_per, 0).cpu().numpy(),
        weight=kernel.reshape(trees, -1).double().cpu().numpy(),
        shift=shift.double().cpu().numpy(),
        member=np.zeros(trees, dtype=np.int64),
        number=np.arange(trees),
        yes=_yes(norm).double().numpy(),
        response=_response(effect.unsqueeze(0), norm),
    )


def _yes(norm: nn.BatchNorm1d) -> Tensor:
    """Probability that a normalised unit is positive."""
    spread = norm.weight.abs().clamp_min(1e-12)
    return torch.special.ndtr(norm.bias / spread).detach().cpu()


def _response(effect: Tensor, norm: Any) -> np.ndarray:
    """Size of the effects (K, outputs, trees) times the spread of the trees, (K·trees,)."""
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
