"""The one file format of every fitted model, written whole or not at all.

A model is one safetensors file. Its metadata carries JSON under the key ``nrs``: the format and
its version, the kind of the model, a header that the model's own package defines, and a checksum
over all of that and over every tensor. Reading executes nothing and always lands on the CPU.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from nrs._util.atomic import atomic_write
from nrs._version import __version__

FORMAT = "nrs-model"
FORMAT_VERSION = 1
_MOST_HEADER = 1 << 28


class ModelFileError(ValueError):
    """A file that is not a whole, unaltered model file of a version this package can read."""


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Attributes
    ----------
    kind : str
        What wrote it: ``"table"``, ``"image"``, ``"points"``, ``"ranker"``.
    header : dict
        Configuration and schema, as JSON values.
    tensors : dict of str to Tensor
        Contiguous tensors on the CPU.
    format_version : int
        The version of ``header`` and ``tensors``, after any upgrade.
    """

    kind: str
    header: dict[str, Any]
    tensors: dict[str, Tensor]
    format_version: int = FORMAT_VERSION


# Version v -> the function that turns a file of version v into one of version v + 1.
_UPGRADES: dict[int, Callable[[ModelFile], ModelFile]] = {}


def write_model(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    header: Mapping[str, Any],
    *,
    kind: str,
) -> None:
    """Write a model as one safetensors file, atomically.

    Parameters
    ----------
    path : path
        Where to write; an existing file is replaced.
    tensors : mapping of str to Tensor
        Any shapes, dtypes, devices and strides; tensors may share storage.
    header : mapping
        JSON values with string keys (no NaN or infinity).
    kind : str
        What the model is for; `read_model` gives it back.

    Raises
    ------
    TypeError
        If the header holds something that JSON cannot say.
    OSError
        If the file cannot be written. An existing file is as it was before.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "model.safetensors"
    ...     write_model(path, {"weight": torch.eye(2)}, {"classes": ["a", "b"]}, kind="table")
    ...     file = read_model(path)
    >>> file.kind, file.header, file.tensors["weight"].tolist()
    ('table', {'classes': ['a', 'b']}, [[1.0, 0.0], [0.0, 1.0]])
    """
    # clone() ends shared storage and odd strides, which safetensors refuses.
    whole = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    try:
        plain_header = json.loads(json.dumps(dict(header), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the header must hold JSON values only, however: {error}; "
            "turn arrays into lists and missing values into None"
        ) from None
    facts: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "nrs_version": __version__,
        "header": plain_header,
    }
    facts["sha256"] = _checksum(facts, whole)
    content = save_tensors(whole, metadata={"nrs": json.dumps(facts)})
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
    content = Path(path).read_bytes()
    facts = _read_facts(content, path)
    version = facts["format_version"]
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version} (written by nrs {facts.get('nrs_version')}), "
            f"however: nrs {__version__} reads versions up to {FORMAT_VERSION}; upgrade nrs"
        )
    try:
        # clone() moves the weights from the file's buffer to aligned memory of torch's own:
        # kernels may choose another path, hence other bits, on memory that is not aligned.
        tensors = {name: tensor.clone() for name, tensor in load_tensors(content).items()}
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise _damaged(path, f"its tensors cannot be read ({error})") from None
    expected = facts.pop("sha256", None)
    if _checksum(facts, tensors) != expected:
        raise _damaged(path, "its content does not match its checksum")
    file = ModelFile(str(facts["kind"]), facts["header"], tensors, version)
    while file.format_version < FORMAT_VERSION:
        upgrade = _UPGRADES.get(file.format_version)
        if upgrade is None:
            raise ModelFileError(
                f"{path} has format version {file.format_version}, however: nrs {__version__} "
                f"reads version {FORMAT_VERSION}; load and save it with an older nrs first"
            )
        file = upgrade(file)
    if kind is not None and file.kind != kind:
        raise ModelFileError(
            f"{path} must hold a model of kind {kind!r}, however: its kind is {file.kind!r}; "
            "load it with the class that saved it"
        )
    return file


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
    with open(path, "rb") as file:
        start = file.read(8)
        # A file that is none of ours may claim any length.
        length = min(int.from_bytes(start, "little"), _MOST_HEADER)
        return str(_read_facts(start + file.read(length), path)["kind"])


def _read_facts(content: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    # The layout of safetensors: eight bytes of length, so much JSON, then the tensors.
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or content[8:9] != b"{":
        raise _foreign(path, "it is not a safetensors file")
    if 8 + length > len(content):
        raise _damaged(path, "it ends before its header does")
    try:
        layout = json.loads(content[8 : 8 + length])
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is not JSON") from None
    metadata = layout.get("__metadata__")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("nrs"), str):
        raise _foreign(path, "its metadata has no entry 'nrs'")
    try:
        facts = json.loads(metadata["nrs"])
    except (ValueError, RecursionError):
        raise _damaged(path, "the entry 'nrs' of its metadata is not JSON") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise _foreign(path, f"its format is not {FORMAT!r}")
    version, header = facts.get("format_version"), facts.get("header")
    if type(version) is not int or not isinstance(header, dict) or "kind" not in facts:
        raise _damaged(path, "its metadata is not complete")
    return facts


def _checksum(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: str | os.PathLike[str], what: str) -> ModelFileError:
    return ModelFileError(
        f"{path} must be a whole and unaltered model file, however: {what}; "
        "copy it again from where it was saved, or save the model again"
    )


def _foreign(path: str | os.PathLike[str], what: str) -> ModelFileError:
    return ModelFileError(
        f"{path} must be a model file that nrs saved, however: {what}; "
        "give the file that the save method of a fitted model wrote"
    )
