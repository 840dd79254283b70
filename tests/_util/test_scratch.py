"""Temporary folders of killed processes are removed; those in use are not."""

import os
import tempfile

import pytest

from nrs._util.scratch import scratch
from tests.forked import Forked

PREFIX = "nrs-test-"
KILLED = f"""
import os, signal, sys, tempfile
from nrs._util.scratch import scratch
tempfile.tempdir = sys.argv[1]
with scratch({PREFIX!r}) as folder:
    (folder / "rows").write_bytes(b"many")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, monkeypatch):
    Forked(KILLED, tmp_path).rest()
    (left,) = tmp_path.iterdir()
    assert (left / "rows").exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch(PREFIX) as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert not os.listdir(tmp_path)


def test_folders_in_use_or_just_made_or_of_another_kind_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"{PREFIX}made").mkdir()
    (tmp_path / "nrs-other").mkdir()
    (tmp_path / "nrs-other" / ".lock").touch()
    with scratch(PREFIX) as first, scratch(PREFIX):
        assert first.exists()
    assert sorted(os.listdir(tmp_path)) == ["nrs-other", f"{PREFIX}made"]


def test_errors_within_the_block_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="ours"), scratch(PREFIX):
        raise FileNotFoundError("ours")
    assert not os.listdir(tmp_path)
