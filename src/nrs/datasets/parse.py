"""From the files of an official address to arrays."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from nrs.datasets.archives import extract
from nrs.datasets.dataset import Array
from nrs.datasets.entry import Entry, Source
from nrs.datasets.readers import SPARSE, Rows, read
from nrs.datasets.readers.rows import stack_rows


def read_sources(entry: Entry, files: Mapping[str, Path], *, fold: int = 1) -> dict[str, Array]:
    """Read the source files of an entry into ``X``, ``y``, or ``X_train``, ``y_train``, ….

    Parameters
    ----------
    entry : Entry
        Whose sources to read.
    files : mapping of str to Path
        The place of each source by its ``file``: a file, an archive, or for sources with members
        the folder it was unpacked into.
    fold : int, default=1
        The fold, for an entry that has prepared ones.

    Raises
    ------
    ArchiveError, DatasetFileError
        If a file cannot be unpacked or read.
    """
    parts: dict[str, list[Rows]] = {}
    with tempfile.TemporaryDirectory(prefix="nrs-") as scratch:
        unpacked: dict[str, Path] = {}
        for source in entry.sources:
            place = files[source.file]
            if source.members and place.is_file():
                if source.file not in unpacked:
                    unpacked[source.file] = extract(
                        place,
                        Path(scratch) / str(len(unpacked)),
                        max_bytes=entry.limit(source),
                        members=[
                            member
                            for other in entry.sources
                            if other.file == source.file
                            for member in members(other, fold)
                        ],
                    )
                place = unpacked[source.file]
            paths = [place / member for member in members(source, fold)] or [place]
            options = dict(source.options)
            if source.format in SPARSE:
                options.setdefault("n_features", entry.n_features_source)
            for path in paths:
                rows = read(path, source.format, max_bytes=entry.limit(source), **options)
                parts.setdefault(source.part, []).append(rows)
    arrays: dict[str, Array] = {}
    for part, pieces in parts.items():
        suffix = "" if part == "all" else f"_{part}"
        rows = stack_rows(pieces)
        arrays[f"X{suffix}"], arrays[f"y{suffix}"] = rows.X, rows.y
        if rows.qid is not None:
            arrays[f"qid{suffix}"] = rows.qid
    return arrays


def members(source: Source, fold: int) -> list[str]:
    """Name a source's members in an archive, of one fold."""
    return [member.format(fold=fold) for member in source.members]
