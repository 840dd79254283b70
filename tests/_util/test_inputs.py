"""Inputs are ordinary files, and no writer overwrites them."""

import os
import shutil
import socket

import pytest

from nrs._util.atomic import atomic_write
from nrs._util.inputs import PART_SUFFIXES, check_ordinary, reading
from nrs.datasets import parts


def _write(path):
    with atomic_write(path) as file:
        file.write(b"new")


def _spellings(folder):
    source = folder / "rows.csv"
    source.write_bytes(b"old")
    (folder / "link.csv").symlink_to(source)
    os.link(source, folder / "hard.csv")
    return source, [
        source,
        folder / "link.csv",
        folder / "hard.csv",
        f"{folder}/./rows.csv",
        f"{folder}/../{folder.name}/rows.csv",
    ]


def test_no_spelling_of_an_input_is_overwritten(tmp_path):
    source, spellings = _spellings(tmp_path)
    before = sorted(os.listdir(tmp_path))
    for path in spellings:
        for read in spellings:
            with reading(read), pytest.raises(shutil.SameFileError, match="is an input"):
                _write(path)
    assert source.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == before


def test_other_files_and_later_writes_pass(tmp_path):
    source = tmp_path / "rows.csv"
    source.write_bytes(b"old")
    with reading(source, tmp_path / "absent.csv"):
        _write(tmp_path / "other.csv")
        _write(tmp_path / "other.csv")
    _write(source)
    assert source.read_bytes() == b"new"


@pytest.mark.parametrize("pattern", ["", "*.parquet", "p?rt.parquet"])
def test_parts_of_a_folder_or_pattern_are_inputs(tmp_path, pattern):
    (tmp_path / "part.parquet").write_bytes(b"old")
    (tmp_path / "notes.csv").write_bytes(b"old")
    with reading(tmp_path / pattern if pattern else tmp_path):
        with pytest.raises(shutil.SameFileError):
            _write(tmp_path / "part.parquet")
        _write(tmp_path / "notes.csv")
    assert (tmp_path / "part.parquet").read_bytes() == b"old"
    assert PART_SUFFIXES == parts.SUFFIXES


def test_a_file_that_is_standard_input_is_an_input(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"old")
    with open(path) as file:
        monkeypatch.setattr("sys.stdin", file)
        with reading("-"), pytest.raises(shutil.SameFileError):
            _write(path)


def test_devices_pipes_and_sockets_are_refused_by_name(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is a named pipe, not a file; pass a file, or - "):
        check_ordinary(tmp_path / "pipe")
    with pytest.raises(ValueError, match="/dev/zero is a device"):
        check_ordinary("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(ValueError, match="is a socket"):
            check_ordinary(tmp_path / "s")


def test_files_folders_and_pipes_of_the_shell_pass(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "absent", "nul\0"):
        check_ordinary(path)
    read, write = os.pipe()
    try:
        check_ordinary(f"/dev/fd/{read}")
    finally:
        os.close(read)
        os.close(write)
