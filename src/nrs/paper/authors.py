"""Checkpoints of the authors' code, loaded whole into the networks of this package.

Their two repositories (CupidJay/NRS_pytorch, hansen7/NRS_3D) name the same tensors otherwise; this
module knows the names of the table network, of ResNets with NRS, of PointNet, PointNet++ and
DGCNN, with and without NRS, and what `nn.DataParallel` puts before them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from nrs.points import DGCNN, PointNet, PointNet2
from nrs.tabular import TableNetwork
from nrs.vision import NRSHead

Rules = list[tuple[str, str]]
# What a training script may have put around the tensors.
_WRAPPERS = ("model_state_dict", "state_dict", "model", "net")


def load_authors(network: nn.Module, checkpoint: Mapping[str, Any]) -> nn.Module:
    """Load a checkpoint of the authors' code into a network of the same shape, in place.

    Parameters
    ----------
    network : a `TableNetwork`, `PointNet`, `PointNet2` or `DGCNN`, or a ResNet of torchvision with
        `nrs.vision.add_head` or without.
    checkpoint : what is in the file, ``torch.load(path, map_location="cpu", weights_only=True)``;
        the tensors themselves, or with an epoch and the like around them.

    Returns
    -------
    The network itself.

    Raises
    ------
    ValueError
        If a tensor is missing, is of another shape, or belongs nowhere; nothing is loaded then.

    Examples
    --------
    >>> network = TableNetwork(8, 3, n_mul=2, hidden=(16, 16))
    >>> load_authors(network, {})
    Traceback (most recent call last):
        ...
    ValueError: The checkpoint is not that of a TableNetwork of this shape: it lacks ...
    """
    state = _tensors(checkpoint)
    own = network.state_dict()
    renamed: dict[str, Tensor] = {}
    strangers = []
    for key, value in state.items():
        name = _name(network, key)
        if name is None:
            continue
        if name not in own or value.numel() != own[name].numel():
            strangers.append(f"{key} {tuple(value.shape)}")
            continue
        # A convolution over single points is a linear layer.
        renamed[name] = value.reshape(own[name].shape).to(own[name].dtype)
    missing = sorted(set(own) - set(renamed))
    if missing or strangers:
        what = [f"it lacks {missing[0]} and {len(missing) - 1} more"] if missing else []
        what += [f"{strangers[0]} has no place in it"] if strangers else []
        raise ValueError(
            f"The checkpoint is not that of a {type(network).__name__} of this shape: "
            f"{'; '.join(what)}. Check n_mul, n_per, the widths and the number of classes."
        )
    network.load_state_dict(renamed)
    return network


def _tensors(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    for key in _WRAPPERS:
        if isinstance(checkpoint.get(key), Mapping):
            checkpoint = checkpoint[key]
            break
    state = {str(key): value for key, value in checkpoint.items() if isinstance(value, Tensor)}
    if state and all(key.startswith("module.") for key in state):
        state = {key.removeprefix("module."): value for key, value in state.items()}
    return state


def _name(network: nn.Module, key: str) -> str | None:
    """What a tensor is called here; None for one that is there twice."""
    for pattern, name in _rules(network):
        found = re.fullmatch(pattern, key)
        if found:
            return found.expand(name) or None
    return key


def _rules(network: nn.Module) -> Rules:
    if isinstance(network, TableNetwork):
        return _layer(r"nrs_layer\.", "layers.0.") + _table(network)
    if isinstance(network, PointNet):
        return _layer(r"(?:nrs|nfl)\.", "head.subspace.") + _POINTNET
    if isinstance(network, PointNet2):
        return _layer(r"(?:nrs|nfl)\.", "head.subspace.") + _POINTNET2
    if isinstance(network, DGCNN):
        return _layer(r"(?:nrs|nfl)\.", "head.subspace.") + _DGCNN
    heads = [name for name, module in network.named_modules() if isinstance(module, NRSHead)]
    if heads:
        return [*_layer("", f"{heads[0]}.nrs."), (r"dense\.0\.(\w+)", rf"{heads[0]}.fc.\1")]
    return []


def _layer(prefix: str, ours: str) -> Rules:
    """The NRS layer: ``nrs`` and ``nrs2`` in one repository, ``nfl1`` and ``nfl2`` elsewhere."""
    rules = [(rf"{prefix}mask", f"{ours}index")]
    for theirs, suffix in (("(?:nrs|nfl1)", ""), ("(?:nrs2|nfl2)", "2")):
        rules.append((rf"{prefix}{theirs}\.0\.(\w+)", rf"{ours}\g<1>{suffix}"))
        rules.append((rf"{prefix}{theirs}\.1\.(\w+)", rf"{ours}norm{suffix}.\1"))
    return rules


def _table(network: TableNetwork) -> Rules:
    """Their fully connected part counts from 0; here it follows the layer."""
    first = 0 if network.subspaces is None else 1
    return [
        (rf"dense\.{number}\.(\w+)", rf"layers.{number + first}.\1")
        for number in range(len(network.layers))
    ]


def _pairs(ours: str, weights: str, norm: str) -> Rules:
    """A map and the normalisation after it, which here belongs to it."""
    return [(rf"{weights}\.(\w+)", rf"{ours}.\1"), (rf"{norm}\.(\w+)", rf"{ours}.norm.\1")]


def _classifier(places: tuple[int, int], layers: str, norms: tuple[int, int]) -> Rules:
    """Two hidden layers and the last one."""
    rules: Rules = []
    for number, (place, norm) in enumerate(zip(places, norms, strict=True), start=1):
        rules.append((rf"{layers}{number}\.(\w+)", rf"head.hidden.{place}.\1"))
        rules.append((rf"bn{norm}\.(\w+)", rf"head.hidden.{place + 1}.\1"))
    return [*rules, (rf"{layers}3\.(\w+)", r"head.classifier.\1")]


def _transform(theirs: str, ours: str) -> Rules:
    rules: Rules = []
    for number, name in enumerate(("points.0", "points.1", "pool"), start=1):
        rules += _pairs(f"{ours}.{name}", rf"{theirs}\.conv{number}", rf"{theirs}\.bn{number}")
    for number, name in enumerate(("hidden.0", "hidden.1"), start=1):
        rules += _pairs(f"{ours}.{name}", rf"{theirs}\.fc{number}", rf"{theirs}\.bn{number + 3}")
    return [*rules, (rf"{theirs}\.fc3\.(\w+)", rf"{ours}.matrix.\1")]


_POINTNET: Rules = [
    *_transform(r"feat\.stn", "input_transform"),
    *_transform(r"feat\.fstn", "feature_transform"),
    *_pairs("first", r"feat\.conv1", r"feat\.bn1"),
    *_pairs("second", r"feat\.conv2", r"feat\.bn2"),
    *_pairs("pool", r"feat\.conv3", r"feat\.bn3"),
    *_classifier((0, 3), "fc", (1, 2)),
]
_POINTNET2: Rules = [
    *(
        rule
        for level in (1, 2, 3)
        for number, name in enumerate(("layers.0", "layers.1", "pool"))
        for rule in _pairs(
            f"level{level}.{name}",
            rf"sa{level}\.mlp_convs\.{number}",
            rf"sa{level}\.mlp_bns\.{number}",
        )
    ),
    *_classifier((0, 4), "fc", (1, 2)),
]
_DGCNN: Rules = [
    # The same normalisations as in the sequences, under a second name.
    (r"bn[1-5]\.\w+", ""),
    *(
        rule
        for number, name in enumerate(("edge1", "edge2", "edge3", "edge4", "embedding"), start=1)
        for rule in _pairs(name, rf"conv{number}\.0", rf"conv{number}\.1")
    ),
    *_classifier((0, 4), "linear", (6, 7)),
]
