"""Files are replaced whole or not at all."""

import contextlib
import os

import pytest

from nrs._util import atomic
from nrs._util.atomic import atomic_write, temporary_prefix


def test_an_interrupt_in_the_block_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted():
        with atomic_write(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_appears_only_when_whole(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_missing_directory_is_named(tmp_path):
    writing = atomic_write(tmp_path / "absent" / "file")
    with pytest.raises(FileNotFoundError, match=r"Directory not found: .*absent"), writing:
        pass


@pytest.mark.parametrize(("make", "kind"), [(os.mkdir, "folder"), (os.mkfifo, "pipe")])
def test_only_files_are_replaced(tmp_path, make, kind):
    path = tmp_path / "file"
    make(path)
    with pytest.raises(OSError, match=f"{kind} and cannot be replaced"), atomic_write(path):
        raise AssertionError("the block must not begin")
    assert not path.is_file()
    assert os.listdir(tmp_path) == ["file"]


def _leftover(folder, name):
    path = folder / f"{temporary_prefix(name)}0123"
    path.write_bytes(b"half")
    return path


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    _leftover(tmp_path, "file")
    other = _leftover(tmp_path, "other file")
    with atomic_write(tmp_path / "file") as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == sorted([other.name, "file"])


def test_a_file_that_another_is_writing_is_left_to_it(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_temporary_file_that_was_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    path, taken = tmp_path / "file", []
    locked = atomic.locked

    @contextlib.contextmanager
    def taking(name):
        with locked(name) as ours:
            if not taken:
                taken.append(name)
                os.unlink(name)
            yield ours

    monkeypatch.setattr(atomic, "locked", taking)
    with atomic_write(path) as file:
        file.write(b"new")
    assert taken
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_links_and_pipes_named_like_leftovers_are_left_alone(tmp_path):
    prefix = temporary_prefix("file")
    (tmp_path / f"{prefix}link").symlink_to("nowhere")
    os.mkfifo(tmp_path / f"{prefix}pipe")
    with atomic_write(tmp_path / "file") as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [f"{prefix}link", f"{prefix}pipe", "file"]
