"""NRS at the end of any CNN, between global average pooling and classifier (Section 4.4.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.core import NRS
from nrs.core.layer import largest_divisor
from nrs.vision.architecture import (
    Classifier,
    architecture_of,
    find_classifier,
    is_classifier,
    put_submodule,
)
from nrs.vision.rehearsal import rehearse, skeleton

_LOGGER = logging.getLogger(__name__)

# (n_mul, n_per) of the paper's backbones.
PAPER = {
    "resnet18": (4, 32),
    "resnet50": (2, 64),
    "vgg16": (6, 64),
    "mobilenetv2": (1, 32),
}
DEFAULT_N_MUL, MOST_N_PER = 2, 64


class NRSHead(nn.Module):
    """NRS and a linear classifier: what `add_head` puts in the place of a classifier.

    **Shape** input ``(B, in_features)``, output ``(B, out_features)``; in the place of a 1×1
    convolution ``(B, in_features, H, W)`` and ``(B, out_features, H, W)``.

    Parameters
    ----------
    in_features : number of features after pooling.
    out_features : number of classes.
    n_mul, n_per, n_h, layout : see :class:`nrs.NRS`.
    seed : the same seed gives the same weights; None draws from torch's global generator.

    Examples
    --------
    >>> head = NRSHead(64, 10, n_mul=2, n_per=32)
    >>> head(torch.randn(4, 64)).shape
    torch.Size([4, 10])
    """

    # What remove_head puts back: places and modules, kept out of the state and the parameters.
    _before: list[tuple[str, Any]]

    def __init__(
        self,
        in_features: int,
        out_features: int,
        n_mul: int = DEFAULT_N_MUL,
        n_per: int = 1,
        n_h: int = 3,
        *,
        layout: str = "code",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.nrs = NRS(
            in_features, n_mul, n_per, n_h, layout=layout, seed=seed, device=device, dtype=dtype
        )
        with seeded(seed):
            # Made on the CPU: the same seed then gives the same weights on every device.
            self.fc = nn.Linear(self.nrs.out_features, out_features, dtype=dtype).to(device)
        self.__dict__["_before"] = []

    def forward(self, x: Tensor) -> Tensor:
        return channels_first(self.fc(self.nrs(channels_last(x))))


def channels_last(x: Tensor) -> Tensor:
    """Features as the last dimension: of a map (B, C, H, W) the channels."""
    return x.permute(0, 2, 3, 1) if x.dim() == 4 else x


def channels_first(x: Tensor) -> Tensor:
    """The inverse of :func:`channels_last`."""
    return x.permute(0, 3, 1, 2) if x.dim() == 4 else x


# A symbolic trace calls them as they are: it does not know how many dimensions there are.
torch.fx.wrap("channels_last")
torch.fx.wrap("channels_first")


def add_head(
    model: nn.Module,
    num_classes: int,
    n_mul: int | None = None,
    n_per: int | None = None,
    *,
    n_h: int = 3,
    classifier: str | None = None,
    layout: str = "code",
    seed: int | None = None,
) -> nn.Module:
    """Replace the classifier of a CNN by NRS and a linear classifier, in place.

    All other weights, device and dtype stay. What was found is checked by a forward pass of shapes
    alone, if the network can run on torch's meta device; the log (level INFO) says what was
    replaced. VGG and AlexNet get global average pooling instead
    of their fully connected layers, as in the paper. Auxiliary classifiers (Inception) get
    ``num_classes`` outputs. In timm's models ``forward_features``, ``forward_head`` and
    ``get_classifier`` work as before, ``num_features`` included; ``reset_classifier`` puts a plain
    linear classifier there.

    Parameters
    ----------
    model : nn.Module
        Of torchvision or timm, or any module whose classifier you name.
    num_classes : number of classes, at least 1.
    n_mul, n_per : see :class:`nrs.NRS`. None: the paper's for its backbones (ResNet-18 and 50,
        VGG-16, MobileNetV2), else 2 and the largest divisor of C not above 64.
    n_h : see :class:`nrs.NRS`.
    classifier : the dotted name of a ``Linear`` or 1×1 ``Conv2d`` that reads pooled features,
        where it cannot be found.
    seed : the same seed gives the same head.

    Returns
    -------
    nn.Module
        The model itself; `remove_head` undoes it.

    Raises
    ------
    ValueError
        If no classifier is found, the network has several, ``forward`` does not end with what was
        found, or the model has a head already. The model is then as it was.

    Examples
    --------
    >>> from torch import nn
    >>> body = nn.Sequential(nn.Conv2d(3, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> model = nn.Sequential(body, nn.Linear(64, 1000))
    >>> add_head(model, 10, classifier="1")(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 10])
    """
    if num_classes < 1:
        raise ValueError(f"num_classes must be at least 1, however: num_classes={num_classes}")
    if any(isinstance(module, NRSHead) for module in model.modules()):
        raise ValueError(
            "the model must not have an NRS head, however: it has one; call remove_head first"
        )
    place = find_classifier(model, classifier)
    n_mul, n_per = _sizes(model, place, n_mul, n_per)

    def put(model: nn.Module, place: Classifier) -> NRSHead:
        head = NRSHead(
            place.in_features, num_classes, n_mul, n_per, n_h, layout=layout, seed=seed,
            device=place.device, dtype=place.dtype,
        )  # fmt: skip
        return _put_head(model, place, head, seed)

    checked = _check_use(model, place, put, num_classes, classifier)
    head = put(model, place)
    _LOGGER.info(
        "The classifier %r of %s is now NRS (%d to %d features) and a linear layer of %d classes; "
        "%s.",
        place.name, type(model).__name__, head.in_features, head.nrs.out_features, num_classes,
        "a trace shows that forward uses it" if checked else "the network could not be traced",
    )  # fmt: skip
    return model


def _sizes(
    model: nn.Module, place: Classifier, n_mul: int | None, n_per: int | None
) -> tuple[int, int]:
    """n_mul and n_per, where None is the paper's or the usual."""
    usual = PAPER.get(architecture_of(model) or "", (DEFAULT_N_MUL, None))
    n_mul = usual[0] if n_mul is None else n_mul
    if n_per is None:
        channels = n_mul * place.in_features
        of_paper = usual[1] if usual[1] and channels % usual[1] == 0 else None
        n_per = of_paper or largest_divisor(channels, MOST_N_PER)
    return n_mul, n_per


def _put_head(model: nn.Module, place: Classifier, head: NRSHead, seed: int | None) -> NRSHead:
    """Put a head in the place of a classifier, noting what was there."""
    head.train(model.training)
    replaced: dict[str, nn.Module] = {place.name: place.around(head)}
    replaced |= place.further
    with seeded(seed):
        for name, auxiliary in place.auxiliary.items():
            linear = nn.Linear(auxiliary.in_features, head.out_features, dtype=place.dtype)
            replaced[name] = linear.to(place.device)
    before: list[tuple[str, Any]] = []
    for name, module in replaced.items():
        before.append((name, model.get_submodule(name)))
        put_submodule(model, name, module)
    for name, value in {"num_classes": head.out_features, **place.attributes}.items():
        owner, attribute = _owner(model, name)
        if hasattr(owner, attribute):
            before.append((name, getattr(owner, attribute)))
            setattr(owner, attribute, value)
    head.__dict__["_before"] = before
    return head


def _check_use(
    model: nn.Module,
    place: Classifier,
    put: Callable[[nn.Module, Classifier], NRSHead],
    num_classes: int,
    classifier: str | None,
) -> bool:
    """Refuse a classifier that ``forward`` does not end with; False where this cannot be seen."""
    try:
        copied = skeleton(model)
    except Exception:  # A foreign network may hold what cannot be copied.
        return False
    found = rehearse(copied)
    if found is None:
        return False
    if place.name not in found.called:
        used = [name for name in found.called if is_classifier(copied.get_submodule(name))]
        advice = f"; its last linear layer is {used[-1]!r}: pass classifier={used[-1]!r}"
        raise ValueError(
            f"the classifier must be what forward ends with; {type(model).__name__} does not call "
            f"{place.name!r}{advice if used else ''}"
        )
    with seeded(0):
        # Found anew, since the copy has modules of its own.
        head = put(copied, find_classifier(copied, classifier))
    after = rehearse(copied, found.input)
    if after is None or num_classes not in (after.output[1:2] + after.output[-1:]):
        then = "fails" if after is None else f"returns {after.output}"
        raise ValueError(
            f"the classifier must be what forward ends with; with a head of {num_classes} classes "
            f"in place of {place.name!r} {type(model).__name__} {then} for an input of two. Name "
            f"the layer whose output the network returns: classifier=..., or put "
            f"NRSHead({head.in_features}, {num_classes}) where you need it."
        )
    return True


def remove_head(model: nn.Module) -> nn.Module:
    """Undo `add_head`: the model has its own classifier again, with the weights it had.

    Raises
    ------
    ValueError
        If the model has no head that `add_head` put there.

    Examples
    --------
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 1000))
    >>> remove_head(add_head(model, 10, classifier="1"))[1].out_features
    1000
    """
    heads = [module for module in model.modules() if isinstance(module, NRSHead)]
    if not heads or not heads[0]._before:
        raise ValueError(
            f"the model must have a head of add_head, however: {type(model).__name__} has none"
        )
    # Of whatever is left of the head after folding or quantization.
    tensors = (*heads[0].parameters(), *heads[0].buffers())
    weight = next(tensor for tensor in tensors if tensor.is_floating_point())
    for name, value in heads[0]._before:
        if isinstance(value, nn.Module):
            value.train(model.training)
            put_submodule(model, name, value.to(weight.device, weight.dtype))
        else:
            owner, attribute = _owner(model, name)
            setattr(owner, attribute, value)
    return model


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    parent, _, attribute = name.rpartition(".")
    return model.get_submodule(parent), attribute
