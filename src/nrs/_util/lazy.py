"""torch, imported when it is first used: tables are predicted without it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch


class _Lazy(ModuleType):
    """A module that is imported when something of it is asked for.

    What was asked for once is kept: a function that uses it is as fast as with a plain import.
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self.__name__), name)
        if not name.startswith("__"):
            setattr(self, name, found)
        return found


if not TYPE_CHECKING:
    torch = _Lazy("torch")


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports a module when a name of it is asked for.

    Parameters
    ----------
    package : its name, for the message where a name is unknown.
    homes : the module that defines each name.

    Examples
    --------
    >>> names_of("example", {"sqrt": "math"})("sqrt")(9)
    3.0
    >>> names_of("example", {"sqrt": "math"})("root")
    Traceback (most recent call last):
        ...
    AttributeError: module 'example' has no attribute 'root'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find
