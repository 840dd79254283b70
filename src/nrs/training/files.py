"""The one file format of every fitted model, written whole or not at all.

A model is one safetensors file. Its metadata carries JSON under the key ``nrs``: the format and
its version, the kind of the model, a header that the model's own package defines, where the model
comes from, and a checksum over all of that and over every tensor. Reading executes nothing, opens
no other file and always lands on the CPU. A file is data until proven: `read_model` checks its
form, a schema of `nrs.training.schema` its header, `load_network` its tensors.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as save_arrays

from nrs._util.atomic import atomic_write
from nrs._util.lazy import torch
from nrs._version import __version__
from nrs.training.origin import versions
from nrs.training.schema import ModelFileError

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "nrs-model"
FORMAT_VERSION = 2
# Of safetensors itself.
MAX_HEADER = 100_000_000
MAX_TENSORS = 100_000
# How weights may be written. In memory they are float32 again.
WEIGHT_DTYPES = ("float32", "float16")
# What a tensor of a type may be on disk, the smallest first.
_SMALLER: dict[str, tuple[type[Any], ...]] = {
    "int64": (np.uint8, np.int16, np.int32),
    "float32": (np.float16,),
}
# The types of safetensors. Of those that NumPy lacks an array has a field of torch's name.
_TYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    "C64": np.dtype("<c8"),
    "BF16": np.dtype([("bfloat16", "<i2")]),
    "F8_E4M3": np.dtype([("float8_e4m3fn", "<i1")]),
    "F8_E5M2": np.dtype([("float8_e5m2", "<i1")]),
}


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Attributes
    ----------
    kind : str
        What wrote it: ``"table"``, ``"image"``, ``"points"``, ``"ranker"``.
    header : dict
        Configuration and schema, as JSON values.
    arrays : dict of str to ndarray
        Contiguous, and without torch.
    format_version : int
        The version of ``header`` and ``tensors``, after any upgrade.
    made : dict
        Where the model comes from, see `made_now`; empty in older files. Loading uses nothing of
        it.
    """

    kind: str
    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    format_version: int = FORMAT_VERSION
    made: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The same as tensors of torch, contiguous and on the CPU."""
        # clone() moves the weights to aligned memory of torch's own: kernels may choose another
        # path, hence other bits, on memory that is not aligned.
        with torch.inference_mode(False):
            return {name: _tensor(array).clone() for name, array in self.arrays.items()}


# Version v -> the function that turns a file of version v into one of version v + 1.
_UPGRADES: dict[int, Callable[[ModelFile], ModelFile]] = {
    # Every tensor of a file of version 1 has on disk the type that it has in memory.
    1: lambda file: replace(file, format_version=2),
}


def write_model(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor | np.ndarray],
    header: Mapping[str, Any],
    *,
    kind: str,
    made: Mapping[str, Any] | None = None,
    dtype: str = "float32",
) -> None:
    """Write a model as one safetensors file, atomically.

    The same arguments give the same bytes. Integers are written in the fewest bytes that hold them;
    the header says what each tensor is in memory.

    Parameters
    ----------
    path : path
        Where to write; an existing file is replaced.
    tensors : mapping of str to Tensor or ndarray
        Any shapes, dtypes, devices and strides; tensors may share storage.
    header : mapping
        JSON values with string keys (no NaN or infinity).
    kind : str
        What the model is for; `read_model` gives it back.
    made : mapping, optional
        Where the model comes from, as `made_now` says it at the end of training. Versions of nrs,
        torch, NumPy and Python and the platform are added where it lacks them.
    dtype : {"float32", "float16"}, default "float32"
        Of weights in the file: in ``"float16"`` they take half the space and keep three digits.
        Biases, normalisations and bins stay as they are, and so does a weight above 65,504.

    Raises
    ------
    TypeError
        If the header holds something that JSON cannot say.
    ValueError
        If the header is larger than a file can hold, or the dtype is another.
    OSError
        If the file cannot be written. An existing file is as it was before.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "model.safetensors"
    ...     write_model(path, {"weight": np.eye(2)}, {"classes": ["a", "b"]}, kind="table")
    ...     file = read_model(path)
    >>> file.kind, file.header, file.arrays["weight"].tolist()
    ('table', {'classes': ['a', 'b']}, [[1.0, 0.0], [0.0, 1.0]])
    """
    if dtype not in WEIGHT_DTYPES:
        raise ValueError(f"dtype must be one of {WEIGHT_DTYPES}; got {dtype!r}")
    given = {name: _array(tensor) for name, tensor in tensors.items()}
    # A copy ends odd strides, which safetensors refuses.
    whole = {name: np.array(_made_small(one, dtype), order="C") for name, one in given.items()}
    origin = {**versions(), **(made or {})}
    try:
        plain_header, plain_origin = json.loads(json.dumps([dict(header), origin], allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"The header must hold JSON values only: {error}. "
            "Turn arrays into lists and missing values into None."
        ) from None
    facts: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "nrs_version": __version__,
        "header": plain_header,
        "made": plain_origin,
        "in_memory": {
            name: _name(given[name].dtype)
            for name, stored in sorted(whole.items())
            if stored.dtype != given[name].dtype
        },
    }
    facts["sha256"] = _checksum(facts, whole)
    content = _saved(whole, {"nrs": json.dumps(facts)})
    if (size := int.from_bytes(content[:8], "little")) > MAX_HEADER:
        raise ValueError(f"The header must have at most {MAX_HEADER:,} bytes; got {size:,}.")
    with atomic_write(path) as file:
        file.write(content)


def read_model(path: str | os.PathLike[str], *, kind: str | None = None) -> ModelFile:
    """Read a file that `write_model` wrote, refusing anything else.

    Parameters
    ----------
    path : path
        The file.
    kind : str, optional
        If given, a file of another kind is refused.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is truncated, altered, of another kind, not a model file at all, or of a
        format version this package does not know.
    """
    with _opened(path) as file:
        facts = _read_facts(file, path)
        file.seek(0)
        content = file.read()
    version = facts["format_version"]
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version} (written by nrs "
            f"{str(facts.get('nrs_version'))[:20]}). nrs {__version__} reads versions up to "
            f"{FORMAT_VERSION}: upgrade nrs."
        )
    try:
        arrays = {
            name: np.frombuffer(one["data"], _TYPES[one["dtype"]]).reshape(one["shape"]).copy()
            for name, one in deserialize(content)
        }
        del content
        expected = facts.pop("sha256", None)
        found = _checksum(facts, arrays)
    except (SafetensorError, ValueError, TypeError, LookupError, RuntimeError) as error:
        raise _damaged(path, f"its tensors cannot be read ({_line(error)})") from None
    if found != expected:
        raise _damaged(path, "its content does not match its checksum")
    arrays = _as_in_memory(arrays, facts.get("in_memory", {}), path)
    model = ModelFile(facts["kind"], facts["header"], arrays, version)
    while model.format_version < FORMAT_VERSION:
        upgrade = _UPGRADES.get(model.format_version)
        if upgrade is None:
            raise ModelFileError(
                f"{path} has format version {model.format_version}. nrs {__version__} reads "
                f"version {FORMAT_VERSION}: load and save it with an older nrs first."
            )
        model = upgrade(model)
    if kind is not None and model.kind != kind:
        raise ModelFileError(
            f"{path} must hold a model of kind {kind!r}; its kind is {model.kind[:40]!r}. "
            "Load it with the class that saved it."
        )
    made = facts.get("made")
    return replace(model, made=made if isinstance(made, dict) else {})


def read_kind(path: str | os.PathLike[str]) -> str:
    """Tell what a model file is for, from its first bytes.

    Parameters
    ----------
    path : path
        The file; its tensors are not read.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is not a model file at all.
    """
    with _opened(path) as file:
        kind: str = _read_facts(file, path)["kind"]
        return kind


@contextmanager
def loading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever goes wrong in the block into one `ModelFileError` that names the file.

    Parameters
    ----------
    path : path
        The file whose content is made into a model within the block.

    Examples
    --------
    >>> with loading("model.safetensors"):
    ...     {}["classes"]
    Traceback (most recent call last):
        ...
    nrs.training.schema.ModelFileError: Cannot load model.safetensors: KeyError: 'classes'. Its \
content is not that of a model of this version of nrs.
    """
    try:
        yield
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        MemoryError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        if isinstance(error, ModelFileError) and os.fspath(path) in str(error):
            raise
        plain = isinstance(error, ModelFileError) or type(error) is ValueError
        what = _line(error) if plain else f"{type(error).__name__}: {_line(error)}"
        raise ModelFileError(
            f"Cannot load {os.fspath(path)}: {what.rstrip('.')}. Its content is not that of a "
            "model of this version of nrs."
        ) from None


def _made_small(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array as it is on disk: integers without loss, weights in `dtype` where they fit."""
    if array.dtype == np.int64 and array.size:
        low, high = int(array.min()), int(array.max())
        for smaller in _SMALLER["int64"]:
            limits = np.iinfo(smaller)
            if limits.min <= low and high <= limits.max:
                return array.astype(smaller)
    # What has one dimension, or one column, are biases, statistics, scales and bins: few numbers,
    # which decide over all that follow.
    weights = array.dtype == np.float32 and array.ndim > 1 and array.shape[-1] > 1
    if dtype == "float16" and weights:
        with np.errstate(over="ignore"):
            half = array.astype(np.float16)
        # A NaN must not hide that another number is beyond the range.
        return half if np.array_equal(np.isinf(half), np.isinf(array)) else array
    return array


def _as_in_memory(
    arrays: Mapping[str, np.ndarray], types: Any, path: str | os.PathLike[str]
) -> dict[str, np.ndarray]:
    """The arrays of a file in the types that its header says."""
    found = dict(arrays)
    for name, said in types.items() if isinstance(types, dict) else [("", types)]:
        smaller = _SMALLER.get(said, ()) if isinstance(said, str) else ()
        if name not in found or found[name].dtype not in smaller:
            raise _damaged(path, f"its header says of no tensor it has that it is {said!r:.40}")
        found[name] = found[name].astype(said)
    return found


def _name(dtype: np.dtype) -> str:
    """The name that torch has for a type, which many share."""
    return dtype.name if dtype.names is None else dtype.names[0]


def _array(tensor: Tensor | np.ndarray) -> np.ndarray:
    """A tensor's numbers as an array."""
    if isinstance(tensor, np.ndarray):
        return tensor
    plain, name = tensor.detach().cpu(), str(tensor.dtype).removeprefix("torch.")
    for dtype in _TYPES.values():
        if dtype.names is not None and dtype.names[0] == name:
            whole = plain.contiguous().view(getattr(torch, dtype[name].name))
            return whole.numpy().view(dtype)
    found: np.ndarray = plain.numpy()
    return found


def _tensor(array: np.ndarray) -> Tensor:
    """An array's numbers as a tensor."""
    if array.dtype.names is None:
        return torch.from_numpy(array)
    (name,) = array.dtype.names
    return torch.from_numpy(array[name]).view(getattr(torch, name))


def _saved(arrays: Mapping[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a file."""
    if all(array.dtype.names is None for array in arrays.values()):
        return save_arrays(dict(arrays), metadata)
    from safetensors.torch import save

    return save({name: _tensor(array) for name, array in arrays.items()}, metadata)


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    # A pipe would be waited for, and a device may have no end.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _foreign(path, "it is not a regular file")
    return open(path, "rb")


def _read_facts(file: BinaryIO, path: str | os.PathLike[str]) -> dict[str, Any]:
    # The layout of safetensors: eight bytes of length, so much JSON, then the tensors.
    start = file.read(9)
    if len(start) < 9 or start[8:] != b"{":
        raise _foreign(path, "it is not a safetensors file")
    length = int.from_bytes(start[:8], "little")
    if not 2 <= length <= MAX_HEADER:
        raise _damaged(path, f"its header claims {length:,} bytes")
    content = start[8:] + file.read(length - 1)
    if len(content) < length:
        raise _damaged(path, "it ends before its header does")
    layout = _parse(content, path, "its header")
    if len(layout) > MAX_TENSORS:
        raise _damaged(path, f"it claims {len(layout):,} tensors")
    metadata = layout.get("__metadata__")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("nrs"), str):
        raise _foreign(path, "its metadata has no entry 'nrs'")
    facts = _parse(metadata["nrs"], path, "the entry 'nrs' of its metadata")
    if facts.get("format") != FORMAT:
        raise _foreign(path, f"its format is not {FORMAT!r}")
    version, header = facts.get("format_version"), facts.get("header")
    complete = isinstance(header, dict) and isinstance(facts.get("kind"), str)
    if type(version) is not int or not complete:
        raise _damaged(path, "its metadata is not complete")
    return facts


def _parse(content: bytes | str, path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """The object that a JSON text holds; two values of one key are refused."""
    try:
        found = json.loads(content, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _damaged(path, f"{what} is not JSON") from None
    if not isinstance(found, dict):
        raise _damaged(path, f"{what} is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key has two values")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _line(error: Exception) -> str:
    """The first line of what an error says, cut where it is long."""
    text = str(error).strip().split("\n")[0]
    return text if len(text) <= 300 else f"{text[:300]}…"


def _checksum(facts: Mapping[str, Any], tensors: Mapping[str, Tensor | np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        array = _array(tensors[name])
        described = [name, f"torch.{_name(array.dtype)}", list(array.shape)]
        digest.update(json.dumps(described).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _damaged(path: str | os.PathLike[str], what: str) -> ModelFileError:
    return ModelFileError(
        f"{path} is not a whole and unaltered model file: {what}. "
        "Copy it again from where it was saved, or save the model again."
    )


def _foreign(path: str | os.PathLike[str], what: str) -> ModelFileError:
    return ModelFileError(
        f"{path} is not a model file that nrs saved: {what}. "
        "Give the file that the save method of a fitted model wrote."
    )
