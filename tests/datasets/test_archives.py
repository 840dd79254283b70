import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.datasets import ArchiveError
from nrs.datasets.archives import extract, is_archive, open_stream

PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def zip_of(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tar_of(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                archive.addfile(info)
    return path


GOOD = {"a/train.txt": b"1 1:2\n", "a/b/test.txt": b"2 1:3\n", "readme": b""}


@pytest.mark.parametrize("mode", ["zip", "w", "w:gz", "w:bz2", "w:xz"])
def test_a_good_archive_unpacks(tmp_path, mode):
    path = tmp_path / "archive"
    zip_of(path, GOOD) if mode == "zip" else tar_of(path, GOOD, mode)
    assert is_archive(path)
    folder = extract(path, tmp_path / "out", max_bytes=100)
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found == GOOD


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_members_are_found_wherever_they_are(tmp_path, pack):
    path = pack(tmp_path / "archive", {"top/" + name: c for name, c in GOOD.items()})
    folder = extract(path, tmp_path / "out", max_bytes=100, members=["b/test.txt"])
    assert [str(p.relative_to(folder)) for p in folder.rglob("*.txt")] == ["b/test.txt"]
    with pytest.raises(ArchiveError, match=r"does not contain none\.txt; put"):
        extract(path, tmp_path / "other", max_bytes=100, members=["none.txt"])


def assert_refused(path, tmp_path, match, **limits):
    before = set(tmp_path.rglob("*"))
    with pytest.raises(ArchiveError, match=match) as caught:
        extract(path, tmp_path / "out" / "deep", **({"max_bytes": 10_000} | limits))
    assert str(path) in str(caught.value)
    assert "remove it" in str(caught.value)
    assert {p for p in tmp_path.rglob("*") if p.is_file()} <= before


@pytest.mark.parametrize("pack", [zip_of, tar_of])
@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/etc/evil", "C:\\evil", "..\\evil", "\\evil", "a\\..\\..\\evil"],
)
def test_a_path_that_escapes_is_refused(tmp_path, pack, name):
    path = pack(tmp_path / "archive", {"good": b"x", name: b"x"})
    assert_refused(path, tmp_path, "absolute path|out of the folder")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    path = tar_of(tmp_path / "archive", {"link": (kind, "/etc/passwd"), "link/x": b"x"})
    assert_refused(path, tmp_path, "is a link or a device")


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = zip_of(tmp_path / "archive", {})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert_refused(path, tmp_path, "is a link or a device")


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_a_bomb_is_refused(tmp_path, pack):
    path = pack(tmp_path / "archive", {"zeros": bytes(5_000_000)})
    assert path.stat().st_size < 10_000
    assert_refused(path, tmp_path, "at most 10,000 bytes")


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_many_small_files_count_together(tmp_path, pack):
    path = pack(tmp_path / "archive", {str(i): bytes(100) for i in range(200)})
    assert_refused(path, tmp_path, "at most 10,000 bytes")
    assert_refused(path, tmp_path, "at most 50 bytes or files", max_bytes=10**6, max_files=50)


def test_a_zip_that_lies_about_its_size_is_refused(tmp_path):
    path = zip_of(tmp_path / "archive", {"zeros": bytes(5_000_000)})
    content = path.read_bytes()
    true, false = (5_000_000).to_bytes(4, "little"), (500).to_bytes(4, "little")
    assert content.count(true) == 2
    path.write_bytes(content.replace(true, false))
    assert_refused(path, tmp_path, "cannot be unpacked")


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_a_truncated_archive_is_refused(tmp_path, pack):
    import random

    noise = random.Random(0).randbytes(5000)
    path = pack(tmp_path / "archive", {"a": noise})
    path.write_bytes(path.read_bytes()[:2500])
    assert_refused(path, tmp_path, "cannot be unpacked")


def test_a_damaged_zip_of_bzip2_is_refused(tmp_path):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("train.txt", b"1 1:2\n" * 1000)
    content = bytearray(path.read_bytes())
    content[60:70] = bytes(10)
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="cannot be unpacked"):
        extract(path, tmp_path / "out", max_bytes=100_000)
    assert not list(tmp_path.glob("*out*"))


def test_a_name_that_comes_twice_is_refused(tmp_path):
    path = tmp_path / "archive"
    with tarfile.open(path, "w") as archive:
        for content in (b"x", b"y"):
            info = tarfile.TarInfo("same")
            info.size = 1
            archive.addfile(info, io.BytesIO(content))
    assert_refused(path, tmp_path, "cannot be unpacked")


def test_a_folder_that_exists_is_left_alone(tmp_path):
    path = zip_of(tmp_path / "archive", GOOD)
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="must not exist"):
        extract(path, tmp_path / "out", max_bytes=100)
    assert list((tmp_path / "out").iterdir()) == []


@settings(max_examples=25)
@given(content=st.binary(max_size=2000), ending=st.sampled_from(sorted(PACKERS)))
def test_streams_give_back_what_was_packed(tmp_path_factory, content, ending):
    # Plain content that begins like a compressed file is not told apart from one.
    path = tmp_path_factory.mktemp("stream") / f"file{ending}"
    path.write_bytes(PACKERS[ending](b"#" + content))
    with open_stream(path, max_bytes=len(content) + 1) as file:
        assert file.read() == b"#" + content


@pytest.mark.parametrize("ending", sorted(PACKERS))
def test_a_stream_is_bounded(tmp_path, ending):
    path = tmp_path / f"file{ending}"
    path.write_bytes(PACKERS[ending](bytes(1_000_000)))
    with open_stream(path, max_bytes=1000) as file, pytest.raises(ArchiveError, match="at most"):
        file.read()


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_a_truncated_stream_is_refused(tmp_path, ending):
    path = tmp_path / f"file{ending}"
    packed = PACKERS[ending](bytes(range(256)) * 10)
    path.write_bytes(packed[: len(packed) // 2])
    with open_stream(path, max_bytes=10**6) as file, pytest.raises(ArchiveError, match="unpacked"):
        file.read()
