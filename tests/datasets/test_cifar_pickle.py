"""CIFAR's python version, in the form that Python 2 wrote it, and pickles that call something."""

import io
import os
import pickle
import struct
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from nrs.datasets import DatasetFileError, info, load
from nrs.datasets.readers import read_cifar_pickle


def _string(text):
    if len(text) < 256:
        return b"U" + bytes([len(text)]) + text
    return b"T" + struct.pack("<i", len(text)) + text


def _integer(number):
    return b"K" + bytes([number]) if number < 256 else b"J" + struct.pack("<i", number)


def _list(items):
    return b"](" + b"".join(items) + b"e"


def official(pixels, fine, *, coarse=None, labels=b"labels"):
    """A batch as `cPickle.dump(…, protocol=2)` of Python 2 writes it."""
    n = len(fine)
    dtype = (
        b"cnumpy\ndtype\n" + _string(b"u1") + _integer(0) + _integer(1) + b"\x87R"
        + b"(" + _integer(3) + _string(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + _integer(0)
        + b"tb"
    )  # fmt: skip
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + _integer(0) + b"\x85"
        + _string(b"b") + b"\x87R"
        + b"(" + _integer(1) + _integer(n) + _integer(3072) + b"\x86" + dtype + b"\x89"
        + _string(pixels) + b"tb"
    )  # fmt: skip
    names = _list([_string(b"x.png")] * n)
    pairs = _string(b"data") + array + _string(labels) + _list(map(_integer, fine))
    pairs += _string(b"batch_label") + _string(b"training batch 1 of 5")
    pairs += _string(b"filenames") + names
    if coarse is not None:
        pairs += _string(b"coarse_labels") + _list(map(_integer, coarse))
    return b"\x80\x02}(" + pairs + b"u."


def _rows(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 3072), np.uint8)


def test_a_batch_as_it_is_published(tmp_path):
    X = _rows(3)
    (tmp_path / "data_batch_1").write_bytes(official(X.tobytes(), [7, 0, 9]))
    rows = read_cifar_pickle(tmp_path / "data_batch_1")
    np.testing.assert_array_equal(rows.X, X)
    assert (rows.y.tolist(), rows.y.dtype) == ([7, 0, 9], np.int64)
    # The same that an ordinary unpickler finds.
    plain = pickle.loads((tmp_path / "data_batch_1").read_bytes(), encoding="bytes")
    np.testing.assert_array_equal(plain[b"data"], X)


@pytest.mark.parametrize("packed", [True, False])
def test_cifar_100_by_name_from_its_python_archive(tmp_path, monkeypatch, packed):
    parts = {"train": (_rows(4), [1, 99, 5, 0]), "test": (_rows(2, 1), [5, 99])}
    whole = info("CIFAR-100")
    python = tuple(replace(source, checksum=None) for source in whole.other_forms[0])
    rows = {name: len(y) for name, (_, y) in parts.items()}
    entry = replace(whole, rows=rows, n_classes=4, other_forms=(python,))
    contents = {
        f"cifar-100-python/{name}": official(X.tobytes(), y, coarse=y, labels=b"fine_labels")
        for name, (X, y) in parts.items()
    }
    if packed:
        with tarfile.open(tmp_path / "cifar-100-python.tar.gz", "w:gz") as archive:
            for name, content in contents.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        (tmp_path / "cifar-100-python").mkdir()
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    data = load(entry, download=False)
    np.testing.assert_array_equal(data.X_train, parts["train"][0].astype(np.float32))
    assert data.y_test.tolist() == [5, 99]


class _Trap:
    def __reduce__(self):
        return os.mkdir, ("trap",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickle.dumps({"data": _Trap(), "labels": []}, 2), "BINUNICODE|names"),
        (b"cposix\nmkdir\nU\x04trap\x85R.", "names posix.mkdir"),
        (b"cnumpy\nndarray\nU\x01a\x85b.", "must be a CIFAR"),
        (b"cbuiltins\neval\n(U\x031+1tR.", "names builtins.eval"),
        (b"cnumpy\nload\n.", "names numpy.load"),
        (pickle.dumps([1, 2], 2), "no dictionary"),
        (b"\x80\x02}(U\x06labels](K\x01eu.", "lacks 'data'"),
        (official(bytes(3072), [1, 2]), "shape"),
        (official(bytes(3072), [1])[:-900], "must be a CIFAR"),
        # Room for four billion objects, in seven bytes.
        (b"\x80\x02Nr\xff\xff\xff\xff.", "more memory"),
        (b"", "must be a CIFAR"),
    ],
)
def test_other_pickles_are_refused_and_call_nothing(tmp_path, monkeypatch, content, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(DatasetFileError, match=reason):
        read_cifar_pickle(tmp_path / "data_batch_1")
    assert not (tmp_path / "trap").exists()
