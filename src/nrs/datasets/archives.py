"""Unpacking files that came from elsewhere: bounded in size, and only into their own folder."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import secrets
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Generator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, BinaryIO, cast

from nrs._util.inputs import check_ordinary
from nrs.datasets.errors import ArchiveError

_CHUNK = 1 << 20
_MAGIC = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)
# Headers and padding of a tar file come on top of what it holds.
_TAR_OVERHEAD = 1 << 20


class _Bounded(io.RawIOBase):
    """A stream that fails once it has given more than ``limit`` bytes."""

    def __init__(self, stream: IO[bytes], limit: int, path: Path) -> None:
        self._stream, self._left, self._limit, self._path = stream, limit, limit, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            block = self._stream.read(len(buffer))
        except (*_DAMAGE, OSError) as error:
            raise _damaged(self._path, error) from None
        self._left -= len(block)
        if self._left < 0:
            raise _too_large(self._path, self._limit)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_stream(path: str | os.PathLike[str], *, max_bytes: int) -> BinaryIO:
    """Open a plain, gzip, bzip2 or xz file for reading; its first bytes decide which it is.

    Raises
    ------
    ValueError
        If it is a device or a named pipe.
    ArchiveError
        While reading, if the file is damaged or expands to more than ``max_bytes``.

    Examples
    --------
    >>> import gzip, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "letter.gz"
    ...     _ = path.write_bytes(gzip.compress(b"1 1:0.5"))
    ...     with open_stream(path, max_bytes=100) as file:
    ...         file.read()
    b'1 1:0.5'
    """
    path = Path(path)
    check_ordinary(path)
    with open(path, "rb") as file:
        start = file.read(8)
    opener = next((opener for magic, opener in _MAGIC if start.startswith(magic)), open)
    stream = cast(IO[bytes], opener(path, "rb"))
    bounded = io.BufferedReader(_Bounded(stream, max_bytes, path), _CHUNK)
    return cast(BinaryIO, bounded)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a zip file or a tar file, compressed or not."""
    return _is_zip(Path(path)) or tarfile.is_tarfile(path)


def extract(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    max_bytes: int,
    max_files: int = 1_000_000,
    members: Collection[str] | None = None,
) -> Path:
    """Unpack a zip or tar file (plain, gzip, bzip2 or xz) into a new folder, all or nothing.

    Parameters
    ----------
    path : path
        The archive.
    folder : path
        The folder to make; it must not exist.
    max_bytes, max_files : int
        Most bytes, as declared and as unpacked, and most files.
    members : collection of str, optional
        Unpack these files only, wherever in the archive they are: ``a/train.txt`` also finds
        ``data/a/train.txt``, and comes out as ``a/train.txt``.

    Raises
    ------
    ArchiveError
        If the archive is damaged, is larger than allowed, lacks a member, or holds a link, a
        device, an absolute path or one that leads out of the folder. Nothing is left behind.
    FileExistsError
        If the folder exists.
    """
    path, folder = Path(path), Path(folder)
    if folder.exists():
        raise FileExistsError(f"The folder to unpack into must not exist; {folder} does")
    unpacked = folder.parent / f".{folder.name}.tmp-{secrets.token_hex(8)}"
    unpacked.mkdir(parents=True)
    try:
        found = set()
        left, files = max_bytes, max_files
        with contextlib.closing(_entries(path, max_bytes)) as entries:
            for name, size, stream in entries:
                inside = PurePosixPath(*_safe_parts(name, path))
                if members is not None:
                    wanted = [m for m in members if f"/{inside}".endswith(f"/{m}")]
                    if not wanted:
                        continue
                    inside = PurePosixPath(wanted[0])
                if stream is None:
                    continue
                target = unpacked.joinpath(inside)
                files -= 1
                if size > left or files < 0:
                    raise _too_large(path, max_bytes if files >= 0 else max_files)
                target.parent.mkdir(parents=True, exist_ok=True)
                left -= _copy(stream, target, left, path, max_bytes)
                found.add(str(inside))
        missing = set(members or ()) - found
        if missing:
            raise ArchiveError(
                f"{path} does not contain {', '.join(sorted(missing))}; "
                "put the archive from the official address in its place"
            )
        os.replace(unpacked, folder)
    except _DAMAGE as error:
        raise _damaged(path, error) from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        # A name that is a file in one entry and a folder in another, or comes twice.
        raise _damaged(path, error) from None
    except OSError as error:
        # bzip2 reports damage so, without the number that the disk's errors have.
        if error.errno is not None:
            raise
        raise _damaged(path, error) from None
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    return folder


def _is_zip(path: Path) -> bool:
    # By its start: zipfile.is_zipfile looks at the end, which any file may imitate.
    with open(path, "rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


_Entry = tuple[str, int, IO[bytes] | None]


def _entries(path: Path, max_bytes: int) -> Generator[_Entry, None, None]:
    """Yield name, declared size and content (None for a folder) of each entry, refusing links."""
    if _is_zip(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _unsafe(path, info.filename, "is a link or a device")
                if info.is_dir():
                    yield info.filename, 0, None
                    continue
                try:
                    stream = archive.open(info)
                except (RuntimeError, NotImplementedError) as error:  # a password, an odd method
                    raise _damaged(path, error) from None
                with stream:
                    yield info.filename, info.file_size, stream
        return
    # As a stream, in one pass, so that no header can send the reader elsewhere.
    overhead = max_bytes // 4 + _TAR_OVERHEAD
    with (
        open_stream(path, max_bytes=max_bytes + overhead) as content,
        tarfile.open(fileobj=content, mode="r|") as tar,
    ):
        for member in tar:
            if not (member.isreg() or member.isdir()):
                raise _unsafe(path, member.name, "is a link or a device")
            if member.size > max_bytes:
                raise _too_large(path, max_bytes)
            yield member.name, member.size, tar.extractfile(member) if member.isreg() else None


def _safe_parts(name: str, path: Path) -> tuple[str, ...]:
    windows, posix = PureWindowsPath(name), PurePosixPath(name)
    if windows.drive or windows.root or posix.is_absolute():
        raise _unsafe(path, name, "is an absolute path")
    if ".." in windows.parts or "\0" in name:
        raise _unsafe(path, name, "leads out of the folder")
    return posix.parts


def _copy(stream: IO[bytes], target: Path, left: int, path: Path, max_bytes: int) -> int:
    written = 0
    with open(target, "xb") as file:
        while block := stream.read(_CHUNK):
            written += len(block)
            if written > left:
                raise _too_large(path, max_bytes)
            file.write(block)
    return written


def _damaged(path: Path, error: BaseException) -> ArchiveError:
    return ArchiveError(
        f"{path} is damaged and cannot be unpacked ({error}); remove it and fetch it again"
    )


def _too_large(path: Path, limit: int) -> ArchiveError:
    return ArchiveError(
        f"{path} must unpack to at most {limit:,} bytes or files; it holds more. It is not the "
        "archive it should be: remove it."
    )


def _unsafe(path: Path, name: str, why: str) -> ArchiveError:
    return ArchiveError(
        f"{path} must hold plain files below its own folder; {name!r} {why}. It is not the "
        "archive it should be: remove it."
    )
