"""The grammar of model files that somebody damaged or forged.

Damaged: bytes of a valid file flipped, cut, inserted, repeated. Forged: entries of the header
dropped, retyped, enlarged, negated and nested, tensors dropped, renamed, reshaped, retyped and
filled with what is not finite, under a checksum that matches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from nrs.training import ModelFile, files

Place = tuple[str | int, ...]
Tensors = dict[str, Tensor]
T = TypeVar("T")

NAMES = [
    "timm/hf-hub:timm/resnet18.a1_in1k", "timm/hf_hub:a/b", "timm/local-dir:/etc",
    "timm//etc/passwd", "timm/resnet18.", "torchvision/../../etc/passwd",
    "torchvision/fasterrcnn_resnet50_fpn", "torchvision/vgg16", "torchvision/vit_h_14",
    "torchvision/regnet_y_128gf", "timm/eva_giant_patch14_560", "timm/resnet18.no_such_tag",
    "https://example.org/model", "cifar/", "/",
]  # fmt: skip
OTHERS = [None, True, 0, 1, -1, 1.5, 1e300, 5e-324, 2**31, 2**63, 10**40, "", "x", "hf-hub:a/b",
          "0x1p+1000", "nan", [], {}]  # fmt: skip
FILLS = (-1, 0, 1 << 14, 1e-30, 3e38, float("nan"), float("inf"))
FACTORS = (-1, 1e-20, 1e4, 1e10, 1e19)
# In place of a value: the entry is not there.
DROPPED = object()
# Most bytes of a list or text that is repeated: larger ones only take longer.
MAX_REPEATED = 1 << 18


def places(value: Any, before: Place = ()) -> Iterator[Place]:
    """Where the entries of nested lists and objects are, parents first."""
    if before:
        yield before
    if isinstance(value, (dict, list)):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(entry, (*before, key))


def value_at(value: Any, place: Place) -> Any:
    """The entry at a place."""
    for key in place:
        value = value[key]
    return value


def put(value: Any, place: Place, entry: Any) -> Any:
    """A copy with another entry at a place, or without it."""
    if not place:
        return entry
    copy, key = value.copy(), place[0]
    new = put(value[key], place[1:], entry)
    if new is DROPPED:
        del copy[key]
    else:
        copy[key] = new
    return copy


def other_values(key: str | int, value: Any) -> list[Any]:
    """What may stand in place of the value of a key."""
    nested = value
    for _ in range(200):
        nested = [nested]
    found = [DROPPED, *OTHERS, [value], {"a": value}, nested, *(NAMES if key == "name" else [])]
    if isinstance(value, (int, float)):
        found += [-value, value + 1, value - 1, value * 1000, value * 10**6, value * 10**12]
    elif isinstance(value, str):
        found += [*_repeated(value), value + "\x1b[2J", value.upper(), "\ud800"]
    elif isinstance(value, list):
        found += [value * 2, *_repeated(value), value[:-1], value[1:], value[::-1]]
    elif isinstance(value, dict):
        found += [{**value, "device": "cuda"}, {**value, "weights": "/etc/passwd"}]
    return found


def _repeated(value: Any) -> list[Any]:
    return [value * 10_000] if len(str(value)) * 10_000 < MAX_REPEATED else [value * 100]


def other_tensors(tensor: Tensor) -> list[Tensor]:
    """What may stand in place of a tensor."""
    flat = tensor.reshape(-1)
    found = [
        tensor.unsqueeze(0), tensor.new_zeros(0), tensor.new_zeros(0, 1 << 40), flat[:1].clone(),
        torch.cat([flat, flat]), tensor.double(), tensor.half(), tensor.bool(),
        tensor.to(torch.uint8), tensor.flip(0) if tensor.ndim else tensor,
    ]  # fmt: skip
    whole = not tensor.is_floating_point()
    fills = [fill for fill in FILLS if not whole or isinstance(fill, int)]
    if not whole:
        found += [tensor * factor for factor in FACTORS]
    return [*found, *(_filled(fill, tensor.shape, tensor.dtype) for fill in fills)]


def _filled(value: float, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor of one number, infinite where it is beyond its type."""
    return torch.full(tuple(shape), value, dtype=torch.float64).to(dtype)


def forged_headers(header: Any) -> Iterator[Any]:
    """Every header that one change makes."""
    for place in places(header):
        for entry in other_values(place[-1], value_at(header, place)):
            yield put(header, place, entry)


def forged_tensors(tensors: Tensors) -> Iterator[Tensors]:
    """Every set of tensors that one change makes."""
    for name, tensor in tensors.items():
        rest = {other: one for other, one in tensors.items() if other != name}
        yield rest
        yield {**rest, name + "x": tensor}
        yield from ({**rest, name: other} for other in other_tensors(tensor))


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One of several things, as it is."""
    return items[int(rng.integers(len(items)))]


def draw_place(rng: np.random.Generator, value: Any) -> Place:
    """A place, as likely in a long list as in a short one."""
    place: Place = ()
    while isinstance(value, (dict, list)) and value:
        if place and rng.random() < 0.2:
            break
        key = pick(rng, list(value) if isinstance(value, dict) else range(len(value)))
        place, value = (*place, key), value[key]
    return place


def draw_header(rng: np.random.Generator, header: Any) -> Any:
    """The header with one change: a value of the grammar, or the value of another entry.

    Half of the numbers stay numbers: a header of other types is refused early.
    """
    place = draw_place(rng, header)
    if not place:
        return header
    value, chance = value_at(header, place), rng.random()
    if chance < 0.1:
        return put(header, place, value_at(header, draw_place(rng, header)))
    if chance < 0.2 and len(place) > 1:
        siblings = value_at(header, place[:-1])
        keys = list(siblings) if isinstance(siblings, dict) else range(len(siblings))
        return put(header, place, siblings[pick(rng, keys)])
    if chance < 0.6 and isinstance(value, (int, float)):
        factor = 10.0 ** int(rng.integers(-40, 41))
        new = float(rng.normal()) * pick(rng, [1.0, factor, abs(value)])
        return put(header, place, round(new) if isinstance(value, int) else new)
    if chance < 0.6 and isinstance(value, str) and value.startswith(("0x", "-0x")):
        return put(
            header, place, (float(rng.normal()) * 10.0 ** int(rng.integers(-308, 308))).hex()
        )
    return put(header, place, pick(rng, other_values(place[-1], value_at(header, place))))


def draw_tensors(rng: np.random.Generator, tensors: Tensors) -> Tensors:
    """The tensors with one change: of a whole tensor, or of one of its elements."""
    if not tensors:
        return {"x": torch.zeros(1)}
    name = pick(rng, list(tensors))
    rest = {other: one for other, one in tensors.items() if other != name}
    tensor, chance = tensors[name], rng.random()
    if chance < 0.1:
        return rest
    if chance < 0.2:
        return {**rest, name + "x": tensor}
    if chance < 0.5 and tensor.numel():
        changed = tensor.clone()
        fill = pick(rng, [fill for fill in FILLS if tensor.is_floating_point() or fill in (-1, 0)])
        changed.view(-1)[int(rng.integers(tensor.numel()))] = _filled(fill, (), tensor.dtype)
        return {**rest, name: changed}
    return {**rest, name: pick(rng, other_tensors(tensor))}


def facts_of(file: ModelFile) -> dict[str, Any]:
    """What a file says besides its tensors and its checksum."""
    return {
        "format": files.FORMAT,
        "format_version": file.format_version,
        "kind": file.kind,
        "header": file.header,
        "made": file.made,
        # Of the types that they have in memory, as tensors of a file that was read have.
        "in_memory": {},
    }


def signed(facts: dict[str, Any], tensors: Tensors) -> bytes:
    """The file of these facts and tensors, with the checksum that they have."""
    checked = facts | {"sha256": files._checksum(facts, tensors)}
    return save(tensors, metadata={"nrs": json.dumps(checked)})


def draw_layout(rng: np.random.Generator, content: bytes) -> bytes:
    """The file with another type, shape or place of a tensor than the one its bytes have."""
    size = int.from_bytes(content[:8], "little")
    layout = json.loads(content[8 : 8 + size])
    metadata = layout.pop("__metadata__")
    layout = draw_header(rng, layout)
    if isinstance(layout, dict):
        layout = {"__metadata__": metadata, **layout}
    head = json.dumps(layout).encode()
    return len(head).to_bytes(8, "little") + head + content[8 + size :]


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """The file with some bytes changed, most often in its header."""
    size = 8 + int.from_bytes(content[:8], "little")
    end = len(content) if rng.random() < 0.3 else min(size, len(content))
    first, last = sorted(int(place) for place in rng.integers(0, end + 1, 2))
    if rng.random() < 0.7:
        last = min(last, first + int(rng.integers(1, 9)))
    noise = rng.bytes(last - first)
    chance = rng.integers(8)
    if chance == 0:
        return content[:first]
    if chance == 1:
        return content[:first] + content[last:]
    if chance == 2:
        return content[:first] + noise + content[first:]
    if chance == 3:
        return content + noise
    if chance == 4:
        claimed = pick(rng, [0, 1, size - 9, size - 7, len(content), 1 << 31, (1 << 64) - 1])
        return claimed.to_bytes(8, "little") + content[8:]
    if chance == 5:
        return content[:last] + content[first:]
    if chance == 6:
        return content[:first] + pick(rng, [b"0", b"}", b'"', b"[", b"\\"]) + content[first + 1 :]
    return content[:first] + noise + content[last:]
