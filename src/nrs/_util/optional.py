"""Packages that only some users need, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


def import_optional(
    module: str, user: str, extra: str | None = None, package: str | None = None
) -> Any:
    """Import a module of an optional dependency, or say what needs it and how to install it.

    Parameters
    ----------
    module : str
        Its full name, such as ``"matplotlib.pyplot"``.
    user : str
        What needs it, the start of the message.
    extra : str
        The extra of this package that installs it.
    package : str
        What to install instead, where no extra of this package brings it.

    Examples
    --------
    >>> import_optional("json", "a report", "plots").dumps([1])
    '[1]'
    >>> import_optional("no_such_package", "a report", "plots")
    Traceback (most recent call last):
        ...
    ModuleNotFoundError: a report needs no_such_package, which is not installed; run: pip install \
'neural-random-subspace[plots]'

    Raises
    ------
    ModuleNotFoundError
        If the package, or one that it needs itself, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        raise ModuleNotFoundError(
            f"{user} needs {missing}, which is not installed; "
            f"run: pip install {package or repr(f'neural-random-subspace[{extra}]')}"
        ) from None
