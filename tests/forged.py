"""Model files that somebody forged: altered headers and tensors under a checksum that matches.

Every entry of a header is dropped, retyped, enlarged, negated and nested; every tensor is dropped,
renamed, reshaped, retyped and filled with what is not finite. Loading must refuse each file with a
ModelFileError, or load it, without much memory, without another file and without a network.
"""

import contextlib
import copy
import json
import random
import resource
import site
import sys
import sysconfig
from pathlib import Path

import torch

from nrs.training import ModelFileError, write_model

MAX_KB = 150_000
NAMES = [
    "timm/hf-hub:timm/resnet18.a1_in1k", "timm/hf_hub:a/b", "timm/local-dir:/etc",
    "timm//etc/passwd", "timm/resnet18.", "torchvision/../../etc/passwd",
    "torchvision/fasterrcnn_resnet50_fpn", "torchvision/vgg16", "torchvision/vit_h_14",
    "torchvision/regnet_y_128gf", "timm/eva_giant_patch14_560", "timm/resnet18.no_such_tag",
    "https://example.org/model", "cifar/", "/",
]  # fmt: skip
OTHERS = [None, True, 0, 1, -1, 1.5, 1e300, 2**31, 2**63, 10**40, "", "x", "hf-hub:a/b", [], {}]
HERE = Path(__file__).parents[1]
_CODE = {*map(str, site.getsitepackages()), sysconfig.get_path("stdlib"), str(HERE)}
_CODE |= {sys.prefix, sys.base_prefix, "/proc", "/sys", "/dev/null"}
_seen: list[str] | None = None


def _watch(event, arguments):
    if _seen is None:
        return
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system"):
        _seen.append(f"{event} {arguments}")
    elif event == "open" and isinstance(arguments[0], (str, Path)):
        path = str(Path(arguments[0]).resolve())
        if not any(path.startswith(place) for place in _CODE):
            _seen.append(path)


sys.addaudithook(_watch)


@contextlib.contextmanager
def watched():
    """Files outside of installed code and addresses that the block opens."""
    global _seen
    seen: list[str] = []
    _seen = seen
    try:
        yield seen
    finally:
        _seen = None


def _places(value, before=()):
    yield before
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in entries:
        if isinstance(entry, (dict, list)):
            yield from _places(entry, (*before, key))
        else:
            yield (*before, key)


def _put(header, place, change):
    """A copy of the header with another value at a place; `change` gets the parent and the key."""
    new = copy.deepcopy(header)
    inside = new
    for key in place[:-1]:
        inside = inside[key]
    change(inside, place[-1])
    return new


def _set(value):
    def change(inside, key):
        inside[key] = value

    return change


def _drop(inside, key):
    del inside[key]


def forged_headers(header):
    """Every header of the grammar."""
    for place in _places(header):
        if not place:
            continue
        value = header
        for key in place:
            value = value[key]
        values = [*OTHERS, [value], {"a": value}, *(NAMES if place[-1] == "name" else [])]
        nested = value
        for _ in range(200):
            nested = [nested]
        values.append(nested)
        if isinstance(value, (int, float)):
            values += [-value, value + 1, value * 1000, value * 10**6, value * 10**12]
        elif isinstance(value, str):
            values += [value * 10_000, value + "\x1b[2J", value.upper(), "\ud800"]
        elif isinstance(value, list):
            values += [value * 2, value * 10_000, value[:-1], value[::-1]]
        elif isinstance(value, dict):
            values += [{**value, "device": "cuda"}, {**value, "weights": "/etc/passwd"}]
        yield _put(header, place, _drop)
        yield from (_put(header, place, _set(one)) for one in values)


def forged_tensors(tensors):
    """Every altered set of tensors of the grammar."""
    for name, tensor in tensors.items():
        rest = {other: one for other, one in tensors.items() if other != name}
        yield rest
        yield {**rest, name + "x": tensor}
        others = [
            tensor.unsqueeze(0), tensor.new_zeros(0), tensor.new_zeros(0, 1 << 40),
            torch.cat([tensor.reshape(-1), tensor.reshape(-1)]), tensor.reshape(-1)[:1].clone(),
            tensor.double(), tensor.half(), tensor.bool(), tensor.to(torch.uint8),
            torch.full_like(tensor, -1), torch.full_like(tensor, 1 << 14),
        ]  # fmt: skip
        if tensor.is_floating_point():
            others += [torch.full_like(tensor, bad) for bad in (float("nan"), float("inf"))]
        yield from ({**rest, name: other} for other in others)


def check_forged(path, header, tensors, kind, load, sample=None):
    """Write forged files one after the other, and load each; most must be refused."""
    header = json.loads(json.dumps(header))
    forged = [(one, tensors) for one in forged_headers(header)]
    forged += [(header, one) for one in forged_tensors(tensors)]
    if sample is not None:
        named = [one for one in forged if _name(one[0]) in NAMES]
        forged = random.Random(0).sample(forged, sample) + named
    write_model(path, tensors, header, kind=kind)
    load(path)  # What is imported and kept by a first call is not the file's doing.
    before, refusals = _memory(), []
    for new_header, new_tensors in forged:
        write_model(path, new_tensors, new_header, kind=kind)
        with watched() as seen:
            try:
                load(path)
            except ModelFileError as error:
                refusals.append(str(error))
        assert [one for one in seen if one != str(path.resolve())] == []
    assert _memory() - before < MAX_KB
    assert all(str(path) in refusal and len(refusal) < 1500 for refusal in refusals)
    assert len(refusals) > len(forged) / 2


def _name(header):
    model = header.get("model")
    return model.get("name") if isinstance(model, dict) else None


def _memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
