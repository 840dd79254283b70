"""What the header of a model file may say, checked before anything is made of it.

A schema is a function: it takes a value and its place in the header, and returns the value, with
defaults filled in, or raises `ModelFileError`. The functions of this module make them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
Schema: TypeAlias = Callable[[object, str], T]

MAX_ITEMS = 1 << 24
MAX_TEXT = 1 << 16
# Levels of lists and objects in what is only kept or shown.
MAX_DEPTH = 8


class ModelFileError(ValueError):
    """A file that is not a whole, unaltered model file of a version this package can read."""


def check_header(header: object, schema: Schema[T]) -> T:
    """Check a header, and return it with the defaults of keys that older files lack.

    Parameters
    ----------
    header : JSON values
        As `read_model` returned them.
    schema : function
        What they must be.

    Raises
    ------
    ModelFileError
        Which names the place in the header, what is there and what is expected.

    Examples
    --------
    >>> schema = record({"n_mul": integer(1, 100)}, defaults={"n_mul": 2})
    >>> check_header({}, schema)
    {'n_mul': 2}
    >>> check_header({"n_mul": -1}, schema)
    Traceback (most recent call last):
        ...
    nrs.training.schema.ModelFileError: header.n_mul must be an integer from 1 to 100; got -1
    """
    return schema(header, "header")


def integer(least: int, most: int) -> Schema[int]:
    """A whole number of a range, both ends included; not a boolean."""

    def check(value: object, place: str) -> int:
        if type(value) is not int or not least <= value <= most:
            raise _unexpected(place, f"an integer from {least} to {most}", value)
        return value

    return check


def number(least: float = -math.inf, most: float = math.inf) -> Schema[float]:
    """A finite number of a range, both ends included."""

    def check(value: object, place: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _unexpected(place, "a number", value)
        if not least <= value <= most or not math.isfinite(_float(value)):
            raise _unexpected(place, f"a finite number from {least} to {most}", value)
        return value

    return check


def hex_number(least: float = -math.inf, most: float = math.inf) -> Schema[str]:
    """The text of a finite number that ``float.hex`` wrote."""
    in_range = number(least, most)

    def check(value: object, place: str) -> str:
        written = text(32)(value, place)
        try:
            in_range(float.fromhex(written), place)
        except (ValueError, OverflowError):
            raise _unexpected(place, "the text of a finite number", value) from None
        return written

    return check


def text(most: int = MAX_TEXT) -> Schema[str]:
    """A text of at most so many characters."""

    def check(value: object, place: str) -> str:
        if not isinstance(value, str) or len(value) > most:
            raise _unexpected(place, f"a text of at most {most} characters", value)
        return value

    return check


def flag(value: object, place: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _unexpected(place, "true or false", value)
    return value


def anything(value: object, place: str) -> Any:
    """Any JSON value: what loading does not use."""
    return value


def choice(*values: str | int | bool | None) -> Schema[Any]:
    """One of a few values."""

    def check(value: object, place: str) -> Any:
        # JSON's true is not 1.
        if not any(value == known and type(value) is type(known) for known in values):
            raise _unexpected(place, f"one of {', '.join(map(repr, values))}", value)
        return value

    return check


def optional(schema: Schema[T]) -> Schema[T | None]:
    """None, or what another schema says."""
    return lambda value, place: None if value is None else schema(value, place)


def either(*schemas: Schema[Any]) -> Schema[Any]:
    """What the first of several schemas accepts."""

    def check(value: object, place: str) -> Any:
        refusals = []
        for schema in schemas:
            try:
                return schema(value, place)
            except ModelFileError as error:
                refusals.append(str(error))
        raise ModelFileError(" — or ".join(refusals))

    return check


def list_of(item: Schema[T], least: int = 0, most: int = MAX_ITEMS) -> Schema[list[T]]:
    """A list of such items, with a length of that range."""

    def check(value: object, place: str) -> list[T]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise _unexpected(place, f"a list of {least} to {most} items", value)
        return [item(entry, f"{place}[{number}]") for number, entry in enumerate(value)]

    return check


def mapping(item: Schema[T], most: int = MAX_ITEMS) -> Schema[dict[str, T]]:
    """An object with any keys and such values."""

    def check(value: object, place: str) -> dict[str, T]:
        if not isinstance(value, dict) or len(value) > most:
            raise _unexpected(place, f"an object with at most {most} keys", value)
        return {key: item(entry, f"{place}.{_shown_key(key)}") for key, entry in value.items()}

    return check


def record(
    fields: Mapping[str, Schema[Any]],
    *,
    defaults: Mapping[str, Any] | None = None,
    absent: Collection[str] = (),
    others: Schema[Any] | None = None,
) -> Schema[dict[str, Any]]:
    """An object with given keys.

    Parameters
    ----------
    fields : mapping
        The schema of each key.
    defaults : mapping, optional
        Of keys that may be missing, as in files of older versions; returned as they are.
    absent : collection of str
        Further keys that may be missing, and are then missing in what is returned.
    others : function, optional
        The schema of all further keys; without it they are refused.
    """
    spare = dict(defaults or {})

    def check(value: object, place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _unexpected(place, "an object", value)
        for key in fields:
            if key not in value and key not in spare and key not in absent:
                raise ModelFileError(f"{place} must have the key {key!r}")
        found = {}
        for key, entry in value.items():
            schema = fields.get(key, others)
            if schema is None:
                raise ModelFileError(f"{place} has an unknown key {_shown(key)}")
            found[key] = schema(entry, f"{place}.{_shown_key(key)}")
        return {key: default for key, default in spare.items() if key not in value} | found

    return check


def scalar(value: object, place: str) -> object:
    """None, true, false, a finite number or a text."""
    return _SCALAR(value, place)


_SCALAR = optional(either(flag, number(), text()))


def plain(value: object, place: str, depth: int = MAX_DEPTH) -> object:
    """JSON values of a few levels, such as the parameters of a fit: what is only kept or shown."""
    if depth and isinstance(value, list):
        return list_of(lambda one, where: plain(one, where, depth - 1))(value, place)
    if depth and isinstance(value, dict):
        return mapping(lambda one, where: plain(one, where, depth - 1))(value, place)
    return scalar(value, place)


def tagged(key: str, records: Mapping[str, Schema[dict[str, Any]]]) -> Schema[dict[str, Any]]:
    """An object whose kind stands under a key: the schema of each kind, that key included."""
    kind = choice(*records)

    def check(value: object, place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _unexpected(place, "an object", value)
        name = kind(value.get(key), f"{place}.{key}")
        return records[name](value, place)

    return check


def field_defaults(dataclass: type) -> dict[str, Any]:
    """The defaults of a dataclass's fields, for files written before a field was there.

    >>> from nrs.training import RunSettings
    >>> field_defaults(RunSettings)["seed"]
    0
    """
    fields = dataclasses.fields(dataclass)
    return {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _unexpected(place: str, expected: str, value: object) -> ModelFileError:
    return ModelFileError(f"{place} must be {expected}; got {_shown(value)}")


def _shown_key(key: str) -> str:
    return key if key.isidentifier() and len(key) <= 40 else _shown(key)


def _shown(value: object) -> str:
    """A value in a few characters, whatever its size."""
    if isinstance(value, list):
        return f"a list of {len(value)} items"
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"a text of {len(value)} characters"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def kind_of(tensor: np.ndarray | Tensor) -> str:
    """Type and shape of an array or a tensor.

    Examples
    --------
    >>> kind_of(np.zeros((2, 3), np.float32))
    'float32 [2, 3]'
    """
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def all_finite(tensor: np.ndarray | Tensor) -> bool:
    """Whether no number is NaN or infinite."""
    if isinstance(tensor, np.ndarray):
        return bool(np.isfinite(tensor).all())
    return bool(tensor.isfinite().all())


def check_tensors(
    expected: Mapping[str, str], found: Mapping[str, np.ndarray] | Mapping[str, Tensor]
) -> None:
    """Refuse tensors of a file that are not those of a network.

    Parameters
    ----------
    expected : type and shape of each, see `kind_of`.

    Raises
    ------
    ModelFileError
        What is missing, or not as it must be.
    """
    for name in expected:
        if name not in found:
            raise ModelFileError(f"the network needs a tensor {name!r}, which is missing")
    for name, tensor in found.items():
        if name not in expected:
            raise ModelFileError(f"the network has no tensor {name[:80]!r}")
        if (said := kind_of(tensor)) != expected[name]:
            raise ModelFileError(f"the tensor {name!r} must be {expected[name]}; got {said}")
        if not all_finite(tensor):
            raise ModelFileError(f"the tensor {name!r} must be finite")
        # Of a normalisation, which divides by its root.
        if name.endswith("running_var") and bool((tensor < 0).any()):
            raise ModelFileError(f"the tensor {name!r} must be at least 0")


def check_outputs(outputs: np.ndarray | Tensor) -> None:
    """Refuse outputs that are not finite: weights that are finite each may overflow together.

    Raises
    ------
    ValueError
        If a number is NaN or infinite.

    Examples
    --------
    >>> check_outputs(np.array([np.inf]))
    Traceback (most recent call last):
        ...
    ValueError: The network's outputs are beyond float32: its weights are too large for these \
inputs. Check the inputs, or fit again with smaller numbers.
    """
    if not all_finite(outputs):
        raise ValueError(
            "The network's outputs are beyond float32: its weights are too large for these "
            "inputs. Check the inputs, or fit again with smaller numbers."
        )
