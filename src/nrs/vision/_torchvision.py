"""The one door to torchvision and timm.

A torchvision built for CUDA beside a torch built for the CPU dies at import, because two operators
of its compiled part are missing. Models, transforms and datasets need neither: their names are
declared, and the import works. Only that exact error is treated so.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType

import torch

from nrs._util.optional import import_optional

_MISSING = "operator torchvision::nms does not exist"
_OPERATORS = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_found = functools.partial(import_optional, user="nrs.vision", extra="vision")
# Declared operators live as long as their library object.
_kept: list[torch.library.Library] = []


@functools.cache
def torchvision() -> ModuleType:
    """Import torchvision and return it; works where it is built for CUDA and torch is not.

    Raises
    ------
    ImportError
        If it is not installed; the message names the extra.
    """
    try:
        return _found("torchvision")
    except RuntimeError as error:
        if str(error) != _MISSING:
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in _OPERATORS:
        library.define(name + _SIGNATURE)
    _kept.append(library)
    return importlib.import_module("torchvision")


@functools.cache
def timm() -> ModuleType:
    """Import timm, which imports torchvision, and return it.

    Raises
    ------
    ImportError
        If one of them is not installed; the message names the extra.
    """
    torchvision()
    return _found("timm")


def part(name: str) -> ModuleType:
    """Import a module of torchvision or timm by its full name.

    Examples
    --------
    >>> part("torchvision.transforms.v2").__name__
    'torchvision.transforms.v2'
    """
    timm() if name.split(".")[0] == "timm" else torchvision()
    return importlib.import_module(name)
