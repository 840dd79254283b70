"""What a CNN of torchvision or timm is: its name, where its classifier is, what comes before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Classifier:
    """Where a classifier is, and what else changes when it is replaced.

    Attributes
    ----------
    name : str
        Dotted name of what is replaced.
    in_features : int
        Features it reads after global pooling.
    device, dtype
        Of its weights.
    around : callable
        What stands around a new head in that place.
    further : dict of name to module
        Replaced as well, such as a pooling that is not global.
    auxiliary : dict of name to Linear
        Further classifiers of the training objective.
    attributes : dict
        Attributes of the model that then have another value, by dotted name.
    """

    name: str
    in_features: int
    device: torch.device
    dtype: torch.dtype
    around: Callable[[nn.Module], nn.Module] = lambda head: head
    further: dict[str, nn.Module] = field(default_factory=dict)
    auxiliary: dict[str, nn.Linear] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


def find_classifier(model: nn.Module, name: str | None = None) -> Classifier:
    """Find the classifier of a CNN.

    Parameters
    ----------
    model : nn.Module
    name : str, optional
        Its dotted name, where it is known.

    Raises
    ------
    ValueError
        If there is none of that name, or none is found.
    """
    if name is not None:
        return _named(model, name)
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if isinstance(config, dict) and config.get("classifier"):
        return _of_timm(model, config["classifier"])
    module_name = type(model).__module__
    if module_name.startswith("torchvision.models"):
        special = _TORCHVISION.get(type(model).__name__)
        if special is not None:
            return special(model)
    for usual in ("fc", "classifier", "head", "heads"):
        if isinstance(getattr(model, usual, None), nn.Module):
            return _named(model, usual)
    linear = [place for place, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    advice = f"name it, for instance classifier={linear[-1]!r}" if linear else "it may have none"
    raise ValueError(f"the classifier of {type(model).__name__} is not known; {advice}")


def architecture_of(model: nn.Module) -> str | None:
    """Name a model if it is one of the paper's backbones; None for any other.

    Examples
    --------
    >>> architecture_of(nn.Linear(2, 2)) is None
    True
    """
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if isinstance(config, dict) and config.get("architecture"):
        return _TIMM_NAMES.get(config["architecture"])
    if not type(model).__module__.startswith("torchvision.models"):
        return None
    kind = type(model).__name__
    if kind == "ResNet":
        depths = tuple(len(model.get_submodule(f"layer{k}")) for k in range(1, 5))  # type: ignore[arg-type]
        block = type(model.get_submodule("layer1.0")).__name__
        plain = (getattr(model, "groups", 1), getattr(model, "base_width", 64)) == (1, 64)
        if plain and (block, depths) == ("BasicBlock", (2, 2, 2, 2)):
            return "resnet18"
        return "resnet50" if plain and (block, depths) == ("Bottleneck", (3, 4, 6, 3)) else None
    if kind == "VGG":
        n_layers = sum(isinstance(layer, nn.Conv2d) for layer in model.modules())
        return "vgg16" if n_layers == 13 else None
    return "mobilenetv2" if kind == "MobileNetV2" else None


def put_submodule(model: nn.Module, name: str, module: nn.Module) -> None:
    """Put a module in the place of a dotted name."""
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)


_TIMM_NAMES = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "vgg16": "vgg16",
    "vgg16_bn": "vgg16",
    "mobilenetv2_100": "mobilenetv2",
}
# What leaves out the second head of timm's networks, by their class.
_ONE_HEAD = {
    "LevitDistilled": "distilled",
    "PoolingVisionTransformer": "distilled",
    "RepVit": "distillation",
    "IFormer": "distillation",
    "VOLO": "use_aux_head",
}
# Of its Inception-v3 with aux_logits=True.
_TIMM_AUXILIARY = ("AuxLogits.fc",)


def _named(model: nn.Module, name: str, **changes: Any) -> Classifier:
    """The layer of a name, or the last linear one inside it."""
    try:
        found = model.get_submodule(name)
    except AttributeError:
        found = None
    inside = None if found is None else _last_linear(found)
    if inside is None:
        linear = [n for n, layer in model.named_modules() if is_classifier(layer)]
        raise ValueError(
            f"classifier must be the name of a Linear or 1×1 Conv2d, however: "
            f"classifier={name!r}; the last ones are {', '.join(map(repr, linear[-3:])) or 'none'}"
        )
    full = f"{name}.{inside}" if inside else name
    layer = model.get_submodule(full)
    return Classifier(full, _width(layer), layer.weight.device, layer.weight.dtype, **changes)  # type: ignore[arg-type]


def _of_timm(model: nn.Module, names: Any) -> Classifier:
    named = [names] if isinstance(names, str) else list(names)
    present = [name for name in named if _exists(model, name)]
    if not present:
        raise ValueError(
            f"the model must have its classifier {named[0]!r}; it was created without "
            "(num_classes=0). Create it with any number of classes, as in num_classes=10."
        )
    if len(present) > 1:
        option = _ONE_HEAD.get(type(model).__name__)
        raise ValueError(
            f"the model must have one classifier; got {len(present)}: {', '.join(present)}. "
            + (f"Create it with {option}=False, or call" if option else "Call")
            + " model.reset_classifier(0), which leaves its pooled features, and use "
            "nn.Sequential(model, NRSHead(model.num_features, num_classes))."
        )
    name = present[0]
    if type(model).__name__ == "VGG":
        # Its fully connected layers are convolutions before the pooling.
        place = _named(model, name)
        # A head of ours that was reset has left none of them.
        hidden = _exists(model, "pre_logits.fc1")
        width = _width(model.get_submodule("pre_logits.fc1")) if hidden else place.in_features
        return Classifier(
            place.name, width, place.device, place.dtype,
            further={"pre_logits": nn.Identity()},
            attributes={"head_hidden_size": width, "head.in_features": width},
        )  # fmt: skip
    auxiliary = {n: model.get_submodule(n) for n in _TIMM_AUXILIARY if _exists(model, n)}
    return _named(model, name, auxiliary=auxiliary)


def _plain_pooling(model: nn.Module) -> Classifier:
    """VGG and AlexNet: pool globally, and leave out the fully connected layers."""
    convolutions = [m for m in model.features.modules() if isinstance(m, nn.Conv2d)]  # type: ignore[union-attr]
    weight = convolutions[-1].weight
    return Classifier(
        "classifier", weight.shape[0], weight.device, weight.dtype,
        further={"avgpool": nn.AdaptiveAvgPool2d(1)},
    )  # fmt: skip


def _squeezenet(model: nn.Module) -> Classifier:
    """Its classifier is a convolution before the pooling: the head comes after one."""
    layer = model.get_submodule("classifier.1")
    if not isinstance(layer, nn.Conv2d):  # One of ours is there already.
        return _named(model, "classifier")
    return Classifier(
        "classifier", layer.in_channels, layer.weight.device, layer.weight.dtype,
        around=lambda head: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), head),
    )  # fmt: skip


def _with_auxiliary(*names: str) -> Callable[[nn.Module], Classifier]:
    def find(model: nn.Module) -> Classifier:
        auxiliary = {name: model.get_submodule(name) for name in names if _exists(model, name)}
        return _named(model, "fc", auxiliary=auxiliary)

    return find


_TORCHVISION: dict[str, Callable[[nn.Module], Classifier]] = {
    "VGG": _plain_pooling,
    "AlexNet": _plain_pooling,
    "SqueezeNet": _squeezenet,
    "Inception3": _with_auxiliary("AuxLogits.fc"),
    "GoogLeNet": _with_auxiliary("aux1.fc2", "aux2.fc2"),
}


def _last_linear(module: nn.Module) -> str | None:
    """Name of the last classifying layer inside a module; empty if it is that layer itself."""
    names = [name for name, layer in module.named_modules() if is_classifier(layer)]
    return names[-1] if names else None


def is_classifier(layer: nn.Module) -> bool:
    """Whether a layer may be a classifier: linear, or a 1×1 convolution."""
    if isinstance(layer, nn.Conv2d):
        return layer.kernel_size == (1, 1) and layer.groups == 1
    return isinstance(layer, nn.Linear)


def _width(layer: nn.Module) -> int:
    width = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
    return int(width)  # type: ignore[arg-type]


def _exists(model: nn.Module, name: str) -> bool:
    try:
        return isinstance(model.get_submodule(name), (nn.Linear, nn.Conv2d))
    except AttributeError:
        return False
