"""Weights from files: of other programs, with another classifier or none, and of our own runs."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from nrs.training import ModelFileError, read_kind, read_model

_LOGGER = logging.getLogger(__name__)
# Under which programs that train keep the weights of a network among other things.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "model_ema", "state_dict_ema", "net")
# What wrappers of a network put before the names of its tensors.
_PREFIXES = ("module.", "_orig_mod.", "model.")
_LISTED = 3


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], bool]:
    """The tensors of a file by name, and whether it is a model file of this package.

    A ``.pth`` file is read by torch's restricted unpickler, which makes tensors and plain
    containers only: nothing in it is executed.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it holds no weights of a network.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"File not found: {path}")
    kind = None
    with contextlib.suppress(ModelFileError):
        kind = read_kind(path)
        if kind != "image":
            raise _no_weights(path, f"it is a model of kind {kind!r}")
    if kind is not None:
        return read_model(path, kind="image").tensors, True
    try:
        if Path(path).suffix == ".safetensors":
            return load_file(path), False
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError, LookupError) as error:
        why = str(error).strip() or type(error).__name__
        raise _no_weights(path, why.splitlines()[0]) from None
    except Exception as error:  # Of the restricted unpickler, and whatever damaged bytes lead to.
        raise _no_weights(path, f"it is not safe to read ({type(error).__name__})") from None
    return _tensors(content, path), False


def load_weights(
    model: nn.Module, tensors: Mapping[str, Tensor], spare: Collection[str], source: object
) -> None:
    """Put tensors into a network; parts of its head that do not fit stay as they are.

    Parameters
    ----------
    model : nn.Module
    tensors : mapping of str to Tensor
        By the names of the network's, which may have a prefix; names of the file that the network
        does not have are left out.
    spare : collection of str
        Names of the modules whose tensors may be missing or of another shape: the head.
    source : path
        For messages.

    Raises
    ------
    ValueError
        If other tensors of the network are missing or have another shape. The network is then as
        it was.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    >>> body = {f"0.{name}": value for name, value in nn.Linear(2, 3).state_dict().items()}
    >>> load_weights(network, body, ["1"], "body.pth")
    >>> torch.equal(network[0].weight, body["0.weight"])
    True
    """
    own = model.state_dict()
    tensors = _named_as(own, tensors)
    fitting = {n for n, t in own.items() if n in tensors and tensors[n].shape == t.shape}
    # Older files have no counters of batches.
    missing = {name for name in own.keys() - fitting if not _is_counter(name, tensors)}
    # The weights of a layer belong together.
    layers = {name.rpartition(".")[0] for name in missing}
    fitting = {name for name in fitting if name.rpartition(".")[0] not in layers}
    fresh = sorted({name for name in own if name.rpartition(".")[0] in layers})
    wrong = [n for n in fresh if n in missing and not n.startswith(tuple(f"{s}." for s in spare))]
    if wrong:
        shown = "; ".join(_difference(name, own, tensors) for name in wrong[:_LISTED])
        more = f"; and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise ValueError(
            f"{source} must hold the weights of {type(model).__name__}: {shown}{more}. Set "
            "model.name to the network that the file belongs to."
        )
    with torch.no_grad():
        model.load_state_dict({name: tensors[name] for name in fitting}, strict=False)
    _LOGGER.info(
        "%s: %d tensors loaded; new: %s", source, len(fitting),
        ", ".join(sorted({name.rpartition(".")[0] for name in fresh})) or "none",
    )  # fmt: skip


def _is_counter(name: str, tensors: Mapping[str, Tensor]) -> bool:
    layer, _, last = name.rpartition(".")
    return last == "num_batches_tracked" and f"{layer}.running_var" in tensors


def _tensors(content: Any, path: object) -> dict[str, Tensor]:
    """The tensors in what a training program saved."""
    while isinstance(content, Mapping):
        found = {n: t for n, t in content.items() if isinstance(n, str) and isinstance(t, Tensor)}
        if found:
            return found
        content = next((content[name] for name in _WRAPPERS if name in content), None)
    raise _no_weights(path, "it holds no tensors by name")


def _named_as(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without a prefix that all names have and the network's have not."""
    found = dict(tensors)
    for prefix in _PREFIXES:
        if found and all(n.startswith(prefix) for n in found) and not own.keys() & found.keys():
            found = {name.removeprefix(prefix): tensor for name, tensor in found.items()}
    return found


def _difference(name: str, own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> str:
    if name not in tensors:
        return f"it lacks {name!r}"
    return f"{name!r} is {list(tensors[name].shape)}, not {list(own[name].shape)}"


def _no_weights(path: object, why: str) -> ValueError:
    return ValueError(f"{path} must hold the weights of a network: {why}")
