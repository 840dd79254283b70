"""Files are replaced whole or not at all."""

import os

import pytest

from nrs._util.atomic import atomic_write


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
