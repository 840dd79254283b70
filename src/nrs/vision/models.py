"""Networks by name: a backbone, what weighs its channels, and its head."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.vision._torchvision import timm, torchvision
from nrs.vision.architecture import find_classifier, put_submodule
from nrs.vision.cifar import EXCITES as EXCITING
from nrs.vision.cifar import cifar_network
from nrs.vision.excite import add_excite, replace_se
from nrs.vision.head import NRSHead, add_head
from nrs.vision.pooling import BilinearPool, CompactBilinearPool, ISqrtCovPool
from nrs.vision.weights import load_weights, read_weights

_LOGGER = logging.getLogger(__name__)
HEADS = ("linear", "nrs", "bilinear", "compact", "isqrt")
EXCITES = ("none", "se", "nrs")


@dataclass(frozen=True)
class ModelSettings:
    """Which network.

    Parameters
    ----------
    name : str
        ``"torchvision/resnet50"``, ``"timm/seresnet50"``, ``"cifar/resnet20"``, ….
    head : {"linear", "nrs", "bilinear", "compact", "isqrt"}
        What reads the last feature map: global average pooling and a linear classifier, the same
        with NRS between, or a second-order pooling and a linear classifier.
    n_mul, n_per : int or None
        Of NRS; None is the paper's, see `nrs.vision.add_head`.
    reduce : int or None
        Channels after a 1×1 reduction before a second-order pooling.
    sketch : int
        Size of compact bilinear pooling.
    excite : {"none", "se", "nrs"}
        What weighs the channels. The networks of ``"cifar/"`` and torchvision's ResNets get
        such blocks (``"se"`` has no biases, as in the paper); elsewhere ``"nrs"`` replaces every
        squeeze-and-excitation block, and the others leave the network as it is.
    pretrained : bool
        Whether torchvision's or timm's weights are fetched.
    release : str
        Which of torchvision's weights; ``"DEFAULT"`` are its best, ``"IMAGENET1K_V1"`` its first.
    weights : str
        A file with weights, instead: safetensors, PyTorch's ``.pth``, or a model file of an earlier
        run. Its classifier may have another number of classes, or be missing.
    drop : float
        Dropout before the classifier of timm's networks.
    """

    name: str
    head: str = "linear"
    n_mul: int | None = None
    n_per: int | None = None
    reduce: int | None = None
    sketch: int = 8192
    excite: str = "none"
    pretrained: bool = False
    release: str = "DEFAULT"
    weights: str = ""
    drop: float = 0.0

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, however: {self.head!r}")
        if self.excite not in EXCITES:
            raise ValueError(f"excite must be none, se or nrs, however: {self.excite!r}")
        if self.name.partition("/")[0] not in ("torchvision", "timm", "cifar"):
            raise ValueError(
                "name must be like torchvision/resnet50, timm/seresnet50 or cifar/resnet20, "
                f"however: {self.name!r}"
            )


def build_model(
    settings: ModelSettings, num_classes: int, *, seed: int | None = None, fetch: bool = True
) -> nn.Module:
    """Make a network.

    Parameters
    ----------
    settings : ModelSettings
    num_classes : int
    seed : int, optional
        The same seed gives the same weights and permutations.
    fetch : bool
        False makes the network that pretrained weights belong to without them, for weights of
        one's own.

    Raises
    ------
    ValueError
        If there is no such network, or its parts do not fit.

    Examples
    --------
    >>> settings = ModelSettings("cifar/resnet20", head="nrs", n_mul=2)
    >>> build_model(settings, 10, seed=0)(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    tensors, ours = read_weights(settings.weights) if settings.weights and fetch else ({}, False)
    with seeded(seed):
        model = _backbone(settings, num_classes, fetch, {} if ours else tensors)
        if settings.head == "nrs":
            model = add_head(model, num_classes, settings.n_mul, settings.n_per)
        elif settings.head != "linear":
            body = trunk(model)
            model = PooledClassifier(body, _pooling(body, settings), num_classes)
    if ours:
        load_weights(model, tensors, head_names(model), settings.weights)
    return model


class PooledClassifier(nn.Module):
    """A trunk, a pooling of its last feature map, and a linear classifier.

    **Shape** input ``(B, 3, H, W)``, output ``(B, num_classes)``.

    Parameters
    ----------
    trunk : module from pictures to a feature map, see `trunk`.
    pool : a pooling of `nrs.vision` (anything with ``out_features``).
    num_classes : number of classes.

    Examples
    --------
    >>> model = PooledClassifier(nn.Conv2d(3, 16, 3), BilinearPool(16), 10)
    >>> model(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, trunk: nn.Module, pool: Any, num_classes: int) -> None:
        super().__init__()
        self.trunk, self.pool = trunk, pool
        self.fc = nn.Linear(pool.out_features, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        # Poolings of a low-precision map are float32.
        pooled = self.pool(self.trunk(x)).to(self.fc.weight.dtype)
        return self.fc(pooled)


def head_names(model: nn.Module) -> list[str]:
    """Names of the modules that read feature maps: pooling, NRS and classifiers."""
    if isinstance(model, PooledClassifier):
        return ["pool", "fc"]
    heads = [name for name, module in model.named_modules() if isinstance(module, NRSHead)]
    try:
        place = find_classifier(model)
    except ValueError:
        if not heads:
            raise
        return heads
    return [*(heads or [place.name]), *place.auxiliary]


def head_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Weights of what reads the last feature map: pooling, NRS and classifier.

    Examples
    --------
    >>> sum(p.numel() for p in head_parameters(cifar_network("resnet20")))
    650
    """
    return [p for name in head_names(model) for p in model.get_submodule(name).parameters()]


def layer_parameters(model: nn.Module) -> list[list[nn.Parameter]]:
    """Weights of each layer before the head, the first layer first.

    Layers are the blocks of which sequences are made; a normalisation belongs to what it follows.

    Examples
    --------
    >>> len(layer_parameters(cifar_network("resnet20")))
    10
    """
    of_head = set(map(id, head_parameters(model)))
    layers: list[list[nn.Parameter]] = []

    def walk(module: nn.Module) -> None:
        for part in module.children():
            # Subclasses of a sequence are layers of their own.
            if type(part) in (nn.Sequential, nn.ModuleList, _TimmTrunk) or part is body:
                walk(part)
                continue
            mine = [p for p in part.parameters() if id(p) not in of_head]
            if mine and layers and all(p.dim() == 1 for p in mine):
                layers[-1] += mine
            elif mine:
                layers.append(mine)

    inner = model.trunk if isinstance(model, PooledClassifier) else model
    body = inner.model if isinstance(inner, _TimmTrunk) else inner
    walk(model)
    return layers


class _TimmTrunk(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.model.forward_features(x)
        return features


def trunk(model: nn.Module) -> nn.Module:
    """The part of a CNN from the picture to the last feature map ``(B, C, H, W)``.

    It shares its weights with the model; VGG's ends before its last pooling, as B-CNN has it.

    Parameters
    ----------
    model : nn.Module
        Of timm (left without its classifier), torchvision's ResNets and all networks whose
        ``features`` are this part, or of ``cifar_network``.

    Raises
    ------
    ValueError
        If it is not known where the feature map is.

    Examples
    --------
    >>> trunk(cifar_network("resnet20"))(torch.randn(1, 3, 32, 32)).shape
    torch.Size([1, 64, 8, 8])
    """
    features = getattr(model, "features", None)
    if type(model).__name__ == "VGG" and isinstance(features, nn.Sequential):
        return features[:-1] if isinstance(features[-1], nn.MaxPool2d) else features
    if hasattr(model, "forward_features") and hasattr(model, "reset_classifier"):
        model.reset_classifier(0)  # type: ignore[operator]
        return _TimmTrunk(model)
    if isinstance(features, nn.Sequential):
        densenet = type(model).__name__ == "DenseNet"
        return nn.Sequential(features, nn.ReLU()) if densenet else features
    if isinstance(getattr(model, "layer4", None), nn.Module):
        names = [name for name, _ in model.named_children()]
        return nn.Sequential(
            *(model.get_submodule(name) for name in names[: names.index("layer4") + 1])
        )
    raise ValueError(
        f"the last feature map of {type(model).__name__} is not known; give the part of the "
        "network that makes it to PooledClassifier yourself"
    )


def _backbone(
    settings: ModelSettings, num_classes: int, fetch: bool, tensors: Mapping[str, Tensor]
) -> nn.Module:
    source, _, name = settings.name.partition("/")
    if source == "cifar":
        if settings.pretrained:
            raise ValueError("the networks for 32×32 pictures have no pretrained weights")
        model = cifar_network(name, num_classes, excite=settings.excite)
        if tensors:
            load_weights(model, tensors, head_names(model), settings.weights)
        return model
    loaded = bool(settings.pretrained or settings.weights)
    # Pretrained classifiers have their own number of classes.
    extras: dict[str, Any] = {} if loaded else {"num_classes": num_classes}
    pretrained = settings.pretrained and fetch and not settings.weights
    _check_registered(source, name)
    if pretrained:
        _LOGGER.info("fetching the weights of %s, unless they were fetched before", settings.name)
    try:
        if source == "torchvision":
            if name == "googlenet":
                extras["aux_logits"] = True  # Else only there without weights.
            weights = settings.release if pretrained else None
            model = torchvision().models.get_model(name, weights=weights, **extras)
            if hasattr(model, "transform_input"):
                # Inception's weights are of other units; no tensor of the network tells it.
                model.transform_input = settings.pretrained
        else:
            model = timm().create_model(
                name, pretrained=pretrained, drop_rate=settings.drop, **extras
            )
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        # What fetches weights says what it tried on many lines.
        first = (str(error).strip() or repr(error)).splitlines()[0]
        why = f"Cannot make the network {settings.name}: {first}"
        if pretrained:
            why += (
                ". Its weights are fetched over the network; name a file with model.weights=FILE, "
                "or begin without by model.pretrained=false"
            )
        raise ValueError(why) from None
    if tensors:
        load_weights(model, tensors, head_names(model), settings.weights)
    if settings.head == "linear" and (loaded or _has_hidden_layers(model)):
        _renew_classifier(model, num_classes)
    if source == "torchvision" and name.startswith("resnet") and settings.excite != "none":
        return add_excite(model, EXCITING[settings.excite])
    if settings.excite == "nrs":
        replace_se(model)
    return model


def _check_registered(source: str, name: str) -> None:
    """Refuse whatever is not the name of a classifier: a path, an address, a name of a hub."""
    if source == "timm":
        known = re.fullmatch(r"\w+(\.\w+)?", name) and timm().is_model(name.partition(".")[0])
    else:
        models = torchvision().models
        # Of its other modules some fetch weights of a backbone unasked.
        known = name.lower() in models.list_models(module=models)
    if not known:
        raise ValueError(
            f"{source} has no image classifier named {name[:80]!r}. "
            f"Its names: {'timm' if source == 'timm' else 'torchvision.models'}.list_models()."
        )


def _has_hidden_layers(model: nn.Module) -> bool:
    """Whether the classifier is more than one layer after global pooling (torchvision's VGG)."""
    if hasattr(model, "reset_classifier"):
        return False
    layer = model.get_submodule(find_classifier(model).name)
    return not isinstance(layer, (nn.Linear, nn.Conv2d))


def _renew_classifier(model: nn.Module, num_classes: int) -> None:
    """A fresh linear classifier in place of the present one."""
    if hasattr(model, "reset_classifier"):
        model.reset_classifier(num_classes)  # type: ignore[operator]
        return
    place = find_classifier(model)
    linear = nn.Linear(place.in_features, num_classes, device=place.device, dtype=place.dtype)
    put_submodule(model, place.name, place.around(linear))
    for name, module in place.further.items():
        put_submodule(model, name, module)
    for name, auxiliary in place.auxiliary.items():
        put_submodule(model, name, nn.Linear(auxiliary.in_features, num_classes))


def _pooling(body: nn.Module, settings: ModelSettings) -> nn.Module:
    channels = _channels(body)
    if settings.head == "bilinear":
        return BilinearPool(channels, settings.reduce)
    if settings.head == "isqrt":
        return ISqrtCovPool(channels, settings.reduce)
    return CompactBilinearPool(channels, settings.sketch, settings.reduce)


def _channels(body: nn.Module) -> int:
    """Channels of the feature map of a trunk, read from one."""
    body.eval()
    size = body.model.default_cfg["input_size"][-1] if isinstance(body, _TimmTrunk) else 64
    with torch.no_grad():
        channels = body(torch.zeros(1, 3, size, size)).shape[1]
    body.train()
    return int(channels)
