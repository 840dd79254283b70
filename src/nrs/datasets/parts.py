"""The files of a table that is stored in parts: found, opened once, and checked before any use."""

from __future__ import annotations

import fnmatch
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nrs._util.optional import import_optional
from nrs.datasets.table_file_errors import (
    TableFileError,
    check_names,
    check_wanted,
    import_pyarrow,
)

# What a folder is searched for; a file that is named may be called anything.
SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
# Bytes that are read ahead of each column: a row group is never held as a whole.
_BUFFER_BYTES = 1 << 17


@dataclass(frozen=True)
class Part:
    """One file of a table.

    Attributes
    ----------
    path : str
        In its filesystem.
    size : int
        Bytes.
    format : {"parquet", "arrow"}
    rows : tuple of int
        Rows of each of its row groups (Parquet) or record batches (Arrow).
    schema : pyarrow.Schema
    """

    path: str
    size: int
    format: str
    rows: tuple[int, ...]
    schema: Any


def is_parts(source: Any) -> bool:
    """Whether a source names several files: a list, a folder, a pattern, or a URI.

    Examples
    --------
    >>> is_parts("rows/*.parquet"), is_parts("s3://bucket/rows"), is_parts("rows.csv")
    (True, True, False)
    """
    if not isinstance(source, (str, os.PathLike)):
        return isinstance(source, Sequence)
    text = os.fspath(source)
    if text == "-":
        return False
    return "://" in text or Path(text).is_dir() or (_is_pattern(text) and not Path(text).exists())


def find_parts(source: Any, filesystem: Any = None) -> tuple[Any, list[Part]]:
    """Find the files of a table and read what each says of itself.

    Parameters
    ----------
    source : path, pattern, folder, URI, or a list of these
    filesystem : Arrow or fsspec filesystem, optional
        Where the paths are; else local, or what a URI such as ``s3://bucket/rows/*.parquet`` names.

    Returns
    -------
    filesystem : pyarrow.fs.FileSystem
    parts : list of Part
        In the order of their paths, or as listed.

    Raises
    ------
    TableFileError
        If a part is empty, truncated, or neither Parquet nor Arrow.
    FileNotFoundError
        If nothing matches.
    """
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not sources:
        raise ValueError("a table needs files, however: the list of paths is empty; name some")
    found: Any = None
    paths: list[str] = []
    for one in sources:
        where, path = _locate(os.fspath(one), filesystem)
        if found is not None and found != where:
            raise ValueError(
                f"all parts must be in one filesystem, however: {os.fspath(one)} is in another; "
                "name parts of one only"
            )
        found = where
        paths += [name for name in _matching(found, path, os.fspath(one)) if name not in paths]
    return found, [open_part(found, path) for path in paths]


def whole_parts(source: str, wanted: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The files of a folder or a pattern on this machine that can be read, and what is wrong with
    the others.

    Parameters
    ----------
    source : path or pattern
    wanted : sequence of str
        Columns that a file must have.

    Raises
    ------
    TableFileError
        If none can be read: that of the first.
    FileNotFoundError
        If nothing matches.
    """
    where, path = _locate(source, None)
    found: list[str] = []
    errors: list[TableFileError] = []
    for name in _matching(where, path, source):
        try:
            check_wanted(wanted, open_part(where, name).schema.names, name)
            found.append(name)
        except TableFileError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found, [str(error) for error in errors]


def open_part(filesystem: Any, path: str) -> Part:
    """Read the schema of a file and how many rows its parts have, but not the rows.

    Raises
    ------
    TableFileError
        With the name of the file, what came, what was expected, and what to do.
    """
    pyarrow = import_pyarrow()
    size = filesystem.get_file_info(path).size
    if not size:
        raise _refused(path, "it is empty (0 bytes)")
    try:
        with filesystem.open_input_file(path) as file:
            start = file.read(6)
            file.seek(0)
            if start.startswith(b"PAR1"):
                from pyarrow import parquet

                whole = parquet.ParquetFile(file)
                groups = range(whole.metadata.num_row_groups)
                rows = tuple(whole.metadata.row_group(k).num_rows for k in groups)
                form, schema = "parquet", whole.schema_arrow
            elif start.startswith(b"ARROW1"):
                # The sizes of batches stand before each: one column is read to find them.
                options = pyarrow.ipc.IpcReadOptions(included_fields=[0])
                reader = pyarrow.ipc.open_file(file, options=options)
                batches = range(reader.num_record_batches)
                rows = tuple(reader.get_batch(k).num_rows for k in batches)
                form, schema = "arrow", pyarrow.ipc.open_file(file).schema
            else:
                raise _refused(path, f"it begins with {start!r}, which is neither")
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        said = " ".join(str(error).split())[:120]
        raise _refused(path, f"it is truncated or damaged, {size:,} bytes ({said})") from None
    if sum(rows) == 0:
        raise _refused(path, "it has columns but no rows")
    check_names(schema.names, path)
    return Part(path, size, form, rows, schema)


def read_group(
    filesystem: Any, part: Part, group: int, columns: Sequence[str], rows: int
) -> Iterator[Any]:
    """The rows of one row group in order, as record batches of at most `rows` rows.

    Raises
    ------
    TableFileError
        If the file is not what it was when it was opened first.
    """
    pyarrow = import_pyarrow()
    seen = 0
    try:
        with filesystem.open_input_file(part.path) as file:
            if part.format == "parquet":
                from pyarrow import parquet

                opened = parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
                batches = opened.iter_batches(
                    rows, row_groups=[group], columns=list(columns), use_threads=False
                )
            else:
                whole = pyarrow.ipc.open_file(file).get_batch(group)
                batches = (whole.slice(k, rows) for k in range(0, whole.num_rows, rows))
            for batch in batches:
                if batch.num_rows:
                    seen += batch.num_rows
                    yield batch.select(list(columns))
    except (pyarrow.ArrowException, IndexError, KeyError, OSError) as error:
        said = " ".join(str(error).split())[:120]
        raise _changed(part, f"row group {group} cannot be read ({said})") from None
    if seen != part.rows[group]:
        raise _changed(
            part, f"row group {group} has {seen:,} rows in place of {part.rows[group]:,}"
        )


def _refused(path: str, found: str) -> TableFileError:
    return TableFileError(
        f"{path} must be a whole Parquet or Arrow file with rows, however: {found}; write that "
        "part again, or leave it out"
    )


def _changed(part: Part, found: str) -> TableFileError:
    return TableFileError(
        f"{part.path} must stay as it was when the table was opened, however: {found}; write that "
        "part again and start again"
    )


def _locate(source: str, filesystem: Any) -> tuple[Any, str]:
    """The filesystem of a source, and its path or pattern there."""
    from pyarrow import fs

    if filesystem is not None:
        if isinstance(filesystem, fs.FileSystem):
            return filesystem, source
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), source
    if "://" not in source:
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(source))
    # A URI's own grammar knows no patterns: the folders before the first one are looked up.
    address, question, query = source.partition("?")
    steps = address.split("/")
    plain = next((k for k, step in enumerate(steps) if _is_pattern(step)), len(steps))
    base, pattern = "/".join(steps[:plain]), steps[plain:]
    try:
        found, path = fs.FileSystem.from_uri(base + question + query)
    except import_pyarrow().ArrowInvalid:
        # Arrow does not know this filesystem; fsspec may.
        fsspec = import_optional("fsspec", f"reading {source}", package="fsspec")
        other, path = fsspec.core.url_to_fs(base)
        found = fs.PyFileSystem(fs.FSSpecHandler(other))
    return found, posixpath.join(path, *pattern) if pattern else path


def _matching(filesystem: Any, path: str, shown: str) -> list[str]:
    """The files that a path, a folder or a pattern stands for, in the order of their names."""
    from pyarrow import fs

    kind = filesystem.get_file_info(path).type
    if kind == fs.FileType.File:
        return [path]
    if kind == fs.FileType.Directory:
        found = [
            name
            for name in _files(filesystem, path, recursive=True)
            if name.lower().endswith(SUFFIXES) and not _is_hidden(name[len(path) :])
        ]
        if not found:
            raise FileNotFoundError(
                f"{shown} must hold files that end with {', '.join(SUFFIXES)}, however: it has "
                "none; check the folder, or name the files"
            )
        return found
    if not _is_pattern(path):
        raise FileNotFoundError(f"{shown} must exist, however: it does not; check the name")
    steps = path.split("/")
    plain = next(k for k, step in enumerate(steps) if _is_pattern(step))
    names = _files(filesystem, "/".join(steps[:plain]) or "/", recursive=plain < len(steps) - 1)
    found = [name for name in names if _fits(name.split("/"), steps)]
    if not found:
        raise FileNotFoundError(
            f"{shown} must match files, however: none does; check the pattern, and quote it at a "
            "shell"
        )
    return found


def _fits(steps: list[str], pattern: list[str]) -> bool:
    """Whether a path is one of a pattern, whose star stands for a name but not for folders."""
    return len(steps) == len(pattern) and all(map(fnmatch.fnmatchcase, steps, pattern))


def _files(filesystem: Any, folder: str, *, recursive: bool) -> list[str]:
    from pyarrow import fs

    selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
    listed = filesystem.get_file_info(selector)
    return sorted(info.path for info in listed if info.type == fs.FileType.File)


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def _is_hidden(path: str) -> bool:
    return any(step.startswith((".", "_")) for step in path.split("/"))
