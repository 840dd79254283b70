"""Constructor arguments of an estimator as JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# Under this name stand the entries of a mapping whose keys JSON would turn into strings.
_PAIRS = "pairs"


def to_json(value: Any) -> Any:
    """A number, string, list or mapping, of NumPy's types too, as JSON values.

    Raises
    ------
    TypeError
        If it cannot be written.

    Examples
    --------
    >>> to_json({np.int64(0): 1.0, 1: (2, 3)})
    {'pairs': [[0, 1.0], [1, [2, 3]]]}
    >>> to_json({"no": 1.0})
    {'no': 1.0}
    """
    if isinstance(value, np.generic):
        value = value.item()
    elif hasattr(value, "tolist") or hasattr(value, "to_list"):
        # Arrays, and the series and indices of frames, such as names of categorical columns.
        value = value.tolist() if hasattr(value, "tolist") else value.to_list()
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: to_json(entry) for key, entry in value.items()}
        return {_PAIRS: [[to_json(key), to_json(entry)] for key, entry in value.items()]}
    if isinstance(value, (list, tuple, range)):
        return [to_json(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"a parameter of type {type(value).__name__} cannot be saved in a model file; use numbers, "
        "strings and lists"
    )


def from_json(value: Any) -> Any:
    """Read what :func:`to_json` wrote; tuples come back as lists.

    Examples
    --------
    >>> from_json({"pairs": [[0, 1.0], [1, 2.0]]})
    {0: 1.0, 1: 2.0}
    """
    if isinstance(value, list):
        return [from_json(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    # A class of that name has a number for its weight.
    if value.keys() == {_PAIRS} and isinstance(value[_PAIRS], list):
        return {from_json(key): from_json(entry) for key, entry in value[_PAIRS]}
    return {key: from_json(entry) for key, entry in value.items()}
