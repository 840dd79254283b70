"""What hostile command lines read: tables, models, pictures, clouds and recipes, good and bad."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from nrs.datasets import save_npz
from nrs.paper.tiny_sets import write_pictures

# Texts of data that would steer a terminal, and that no library prints by itself.
PAYLOADS = ("\x1b]0;owned\x07", "\x1b[31;59;7m", "\x9b31;59m", "\x08\x08\x0bowned")
VISION = """[model]
name = "cifar/resnet20"
head = "nrs"
n_mul = 1
[data]
root = "{root}"
[picture]
size = 8
resize = 8
[train]
epochs = 1
lr = 0.05
optimizer = "sgd"
[run]
batch_size = 6
"""
POINTS = """[model]
name = "pointnet"
subspace = {{ n_mul = 1, n_per = 32 }}
[data]
source = "{source}"
points = 16
[train]
epochs = 1
lr = 1e-3
[run]
batch_size = 8
device = "cpu"
"""
# Bytes that a compressed table expands to: within the bound that is stated, and beyond it.
SMALL_BOMB, LARGE_BOMB = 4 << 20, 300 << 20
# How the models are made, by the commands themselves.
MODELS = {
    "class": "fit t_class.csv -t y --preset fast --time-limit 0.3 -q -o m_class",
    "number": "fit t_number.csv -t y --preset fast --time-limit 0.3 -q -o m_number",
    "several": "fit t_several.csv -t y,z --preset fast --time-limit 0.3 -q -o m_several",
    "single": "fit t_class.csv -t y --preset single --time-limit 0.3 -q -o m_single",
    "escape": "fit t_escape.csv -t y --preset fast --time-limit 0.3 -q -o m_escape",
    "image": "train vision --config vision.toml --output run_image --quiet",
    "points": "train points --config points.toml --output run_points --quiet",
}


def write_inputs(folder: Path) -> None:
    """Write the tables, pictures, clouds and recipes."""
    rng = np.random.default_rng(0)
    _write_tables(folder, rng)
    _write_bad_tables(folder)
    _write_special(folder)
    write_pictures("folder", folder / "pictures")
    first = min((folder / "pictures").rglob("*.png"))
    picture = first.read_bytes()
    (folder / "p_good.png").write_bytes(picture)
    (folder / "p_cut.png").write_bytes(picture[: len(picture) // 2])
    (folder / "p_huge.png").write_bytes(_huge_picture())
    (folder / f"p_{PAYLOADS[1]}.png").write_bytes(picture)
    clouds = rng.normal(size=(24, 20, 3)).astype(np.float32)
    labels = np.array(["ball", "stick"])[np.arange(24) % 2]
    parts = {"X_train": clouds[:16], "y_train": labels[:16], "X_test": clouds[16:]}
    save_npz(folder / "shapes.npz", parts | {"y_test": labels[16:]})
    np.savetxt(folder / "c_good.xyz", clouds[0])
    (folder / "c_good.off").write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    (folder / "c_huge.off").write_text("OFF\n999999999999 1 0\n0 0 0\n")
    (folder / "c_bad.off").write_text("OFF\n3 1 0\n0 0 0\n1 0 nan\n0 1 0\n3 0 1 9\n")
    (folder / "vision.toml").write_text(VISION.format(root=folder / "pictures"))
    (folder / "points.toml").write_text(POINTS.format(source=folder / "shapes.npz"))
    (folder / "r_cut.toml").write_text('[model]\nname = "cifar')
    (folder / "r_deep.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    (folder / "r_other.toml").write_text(f'[model]\nname = "{"x" * 200}"\n[nosuch]\nkey = 1\n')
    (folder / "r_binary.toml").write_bytes(bytes(range(256)))
    data = folder / "data"
    data.mkdir()
    for name, content in {"letter": b"", "satimage": b"PK\x03\x04cut", "yeast": b"\0" * 99}.items():
        (data / f"{name}.npz").write_bytes(content)


def write_bad_models(folder: Path) -> None:
    """Break models that were made before."""
    for kind in ("image", "points"):
        (folder / f"run_{kind}" / "model.safetensors").rename(folder / f"m_{kind}.safetensors")
        shutil.rmtree(folder / f"run_{kind}")
    content = (folder / "m_class.safetensors").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    length = struct.unpack("<Q", content[:8])[0]
    broken: dict[str, bytes] = {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "flipped": bytes(flipped),
        "long": struct.pack("<Q", 1 << 62) + content[8:],
        "deep": struct.pack("<Q", 20000) + b"[" * 10000 + b"]" * 10000,
        "other": struct.pack("<Q", 2) + b"{}",
        "header": content[: 8 + length],
    }
    for name, bad in broken.items():
        (folder / f"m_{name}.safetensors").write_bytes(bad)
    shutil.copy(folder / "m_class.safetensors", folder / "m_wrong.csv")


def _frame(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "a": rng.normal(size=n).round(3),
            "b": rng.choice(["red", "green", "blue"], n),
            "when": pd.date_range("2020-01-01", periods=n).astype(str),
        }
    )


def _write_tables(folder: Path, rng: np.random.Generator) -> None:
    frame = _frame(rng, 60)
    classes = frame.assign(y=np.where(frame.a + rng.normal(size=60) > 0, "yes", "no"))
    classes.to_csv(folder / "t_class.csv", index=False)
    frame.assign(y=frame.a * 2 + 0.5).to_csv(folder / "t_number.csv", index=False)
    frame.assign(y=frame.a * 2, z=-frame.a).to_csv(folder / "t_several.csv", index=False)
    classes.to_parquet(folder / "t_class.parquet")
    classes.to_feather(folder / "t_class.arrow")
    classes.to_json(folder / "t_class.jsonl", orient="records", lines=True)
    classes.to_csv(folder / "t_class.csv.gz", index=False)
    classes.to_csv(folder / "t_semicolon.csv", index=False, sep=";")
    parts = folder / "parts"
    parts.mkdir()
    for k in range(2):
        classes[k::2].to_parquet(parts / f"{k}.parquet")
    escape = classes.assign(b=[PAYLOADS[k % 4] for k in range(60)])
    escape["y"] = [PAYLOADS[k % 2] for k in range(60)]
    escape = escape.rename(columns={"a": PAYLOADS[0], "when": PAYLOADS[1]})
    escape.to_csv(folder / "t_escape.csv", index=False)
    classes.to_csv(folder / f"t_{PAYLOADS[0]}.csv", index=False)
    with open(os.fsencode(folder) + b"/t_\xff\xfe.csv", "wb") as file:
        file.write((folder / "t_class.csv").read_bytes())


def _write_bad_tables(folder: Path) -> None:
    good = (folder / "t_class.csv").read_bytes()
    parquet = (folder / "t_class.parquet").read_bytes()
    packed = (folder / "t_class.csv.gz").read_bytes()
    deep = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b', "y": 1}\n'
    row = b"1,2.5,red,2020-01-01,yes\n"
    bad: dict[str, bytes] = {
        "empty.csv": b"",
        "header.csv": good.splitlines(keepends=True)[0],
        "one_row.csv": b"".join(good.splitlines(keepends=True)[:2]),
        "cut.csv": good[:-30],
        "cut.parquet": parquet[: len(parquet) // 2],
        "cut.csv.gz": packed[: len(packed) // 2],
        "tail.csv.gz": packed + b"more",
        "binary.csv": bytes(range(256)) * 20,
        "zeros.csv": bytes(5000),
        "nul.csv": good.replace(b"red", b"r\0d"),
        "wrong.csv": parquet,
        "wrong.parquet": good,
        "ragged.csv": good + b"1,2\n",
        "repeated.csv": good.replace(b"id,a,b", b"a,a,a", 1),
        "latin.csv": good.replace(b"red", b"r\xe9d"),
        "utf16.csv": good.decode().encode("utf-16"),
        "bom.csv": b"\xef\xbb\xbf" + good,
        "quote.csv": good.replace(b"red", b'"red', 1),
        "long.csv": good.replace(b"red", b"r" * 3_000_000, 1),
        "wide.csv": _wide(),
        "extreme.csv": good.replace(b",0.", b",1e400", 9).replace(b",-0.", b",-inf", 9),
        "missing.csv": b"a,b,y\n" + b",,\n" * 50,
        "unlabelled.csv": b"a,b,y\n" + b"1,x,\n" * 50,
        "constant.csv": b"a,b,y\n" + b"1,x,z\n" * 50,
        "array.json": json.dumps([{"a": 1, "y": 2}] * 9).encode(),
        "nested.jsonl": b'{"a": {"b": [1, 2]}, "y": 1}\n' * 30,
        "deep.jsonl": deep,
        "mixed.jsonl": b'{"a": 1, "y": "u"}\n{"a": "x", "y": 2}\n' * 20,
        "cut.jsonl": b'{"a": 1, "y": 2}\n{"a": 1, "y"',
        "small_bomb.csv.gz": _packed(good + row * (SMALL_BOMB // len(row))),
        "large_bomb.csv.gz": _packed(b"a,y\n" + b"\n" * LARGE_BOMB),
    }
    for name, content in bad.items():
        (folder / f"b_{name}").write_bytes(content)


def _wide() -> bytes:
    names = ",".join(f"c{k}" for k in range(2000))
    return f"{names},y\n".encode() + (b"1," * 2000 + b"yes\n" + b"2," * 2000 + b"no\n") * 4


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1)


def _huge_picture() -> bytes:
    """A PNG file whose header asks for 10 GB."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    signature = b"\x89PNG\r\n\x1a\n"
    body = chunk(b"IDAT", zlib.compress(bytes(1 << 16)))
    return signature + chunk(b"IHDR", header) + body + chunk(b"IEND", b"")


def _write_special(folder: Path) -> None:
    """Folders, links, a named pipe, a socket, and what may not be read."""
    (folder / "b_folder").mkdir()
    (folder / "b_loop.csv").symlink_to("b_loop.csv")
    (folder / "b_dangling.csv").symlink_to("nowhere.csv")
    (folder / "b_link.csv").symlink_to("t_class.csv")
    os.mkfifo(folder / "b_pipe.csv")
    bound = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)  # The name of a socket is short.
    try:
        bound.bind("b_socket.csv")
    finally:
        os.chdir(here)
        bound.close()
    shutil.copy(folder / "t_class.csv", folder / "b_unreadable.csv")
    (folder / "b_unreadable.csv").chmod(0)
    (folder / "b_closed").mkdir(mode=0)


def snapshot(folder: Path, skip: Callable[[Path], bool] = lambda path: False) -> dict[str, object]:
    """What is in a folder; a file that was written or replaced is another one."""
    found: dict[str, object] = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(parent, name)
            if skip(path):
                continue
            state = path.lstat()
            content = (state.st_ino, state.st_size, state.st_mtime_ns)
            is_folder = path.is_dir() and not path.is_symlink()
            found[str(path.relative_to(folder))] = (
                state.st_mode, *(() if is_folder else content)
            )  # fmt: skip
    return found
