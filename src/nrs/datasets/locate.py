"""Finding a dataset's files on this machine, and saying what to do where they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nrs.datasets.arrays import names_npz
from nrs.datasets.catalog import variants_of
from nrs.datasets.conform import array_names, choose_names
from nrs.datasets.download import check_file
from nrs.datasets.entry import Entry, Source
from nrs.datasets.errors import DatasetFileError, DatasetNotFoundError, DownloadError
from nrs.datasets.folders import cache_folder, data_folders, search_folders
from nrs.datasets.parse import members

_COMPRESSED = (".gz", ".bz2", ".xz")
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class LocalFile(NamedTuple):
    """An ``.npz`` file, and which of its arrays are the entry's."""

    path: Path
    names: dict[str, str]


def stems(entry: Entry, fold: int) -> list[str]:
    """Name the local files of an entry without ``.npz``; folds after the first have their own."""
    return [stem if fold == 1 else f"{stem}_fold{fold}" for stem in entry.files]


def find_npz(entry: Entry, fold: int = 1) -> LocalFile | DatasetFileError | None:
    """Find the entry's ``.npz`` file.

    Returns
    -------
    LocalFile, DatasetFileError or None
        The first file that has the arrays; else the complaint about one that lacks some; else
        None.
    """
    complaint = None
    for folder in search_folders():
        for position, stem in enumerate(stems(entry, fold)):
            path = folder / f"{stem}.npz"
            if not path.is_file():
                continue
            available = names_npz(path)
            names, missing = choose_names(entry, available, own=position == 0)
            if not missing:
                return LocalFile(path, names)
            if position == 0:
                complaint = complaint or _lacks(entry, path, missing, available)
    return complaint


def find_form(entry: Entry, fold: int = 1) -> tuple[Entry, dict[str, Path]] | None:
    """Find the files of an entry in whichever official form they lie here.

    Returns
    -------
    (Entry, files) or None
        The entry with the sources of that form, and where each is, see `find_sources`.
    """
    for sources in (entry.sources, *entry.other_forms):
        form = replace(entry, sources=sources)
        files = find_sources(form, fold)
        if files is not None:
            return form, files
    return None


def find_sources(entry: Entry, fold: int = 1) -> dict[str, Path] | None:
    """Find all source files of an entry, each under its ``file``; None if any is absent.

    Raises
    ------
    DatasetFileError
        If a file is there whose size or checksum is not the catalog's.
    """
    if not entry.sources:
        return None
    found = {}
    for source in entry.sources:
        place = next(iter(_places(entry, source, fold)), None)
        if place is None:
            return None
        if place.name == source.file and place.is_file():
            _check_local(place, source)
        found[source.file] = place
    return found


def find_folder(entry: Entry) -> Path | None:
    """Find the folder of an entry that consists of image or mesh files."""
    for folder in search_folders():
        place = folder / entry.file
        if place.is_dir() and any(place.iterdir()):
            return inner_folder(place)
    return None


def inner_folder(place: Path) -> Path:
    """Step into the folder of the same name that most archives wrap their files in."""
    return place / place.name if (place / place.name).is_dir() else place


def find_archive(entry: Entry) -> Path | None:
    """Find the archive of an entry that consists of image or mesh files.

    Raises
    ------
    DatasetFileError
        If it has the official name, but not the official size or checksum.
    """
    named = {source.file: source for source in entry.sources}
    others = [entry.file + ending for ending in _ARCHIVES]
    for folder in search_folders():
        for name in (*named, *others):
            if (folder / name).is_file():
                if name in named:
                    _check_local(folder / name, named[name])
                return folder / name
    return None


def find_archives(entry: Entry) -> list[tuple[Path, Source]] | None:
    """Find all files of an entry that is published as several, in one folder; None if not."""
    for sources in (entry.sources, *entry.other_forms):
        for folder in search_folders():
            for place in (folder / entry.file, folder):
                found = [(place / source.file, source) for source in sources]
                if found and all(path.is_file() for path, _ in found):
                    for path, source in found:
                        _check_local(path, source)
                    return found
    return None


def _check_local(path: Path, source: Source) -> None:
    try:
        check_file(path, str(path), size=source.size, checksum=source.checksum)
    except DownloadError as error:
        raise DatasetFileError(f"{error} Remove it, or put a good copy there.") from None


def _places(entry: Entry, source: Source, fold: int) -> Iterator[Path]:
    """Yield the places where a source is: as fetched, decompressed, or unpacked."""
    plain = source.file
    for ending in _COMPRESSED:
        plain = plain.removesuffix(ending)
    bare = plain.removesuffix(".zip").removesuffix(".tar")
    for folder in search_folders():
        for place in (folder / entry.file, folder):
            for name in dict.fromkeys((source.file, plain)):
                if (place / name).is_file():
                    yield place / name
        if source.members:
            for place in (folder / entry.file, folder / bare, folder):
                if all((place / member).is_file() for member in members(source, fold)):
                    yield place


def not_found(entry: Entry, reason: str, fold: int = 1) -> DatasetNotFoundError:
    """Say which files to put where."""
    folders = data_folders()
    folder = folders[0] if folders else cache_folder()
    lines = [
        f"The dataset {entry.name!r} is not on this machine and cannot be fetched: {reason}",
        "Put one of these in place:",
    ]
    if entry.layout == "files":
        lines.append(f"  {folder / entry.file}{_SEP}  the folder of its files, unpacked")
        for number, source in enumerate(entry.sources):
            start = "or" if number == 0 else "and"
            lines.append(f"  {start} {folder / source.file}  its archive{_from(source)}")
    else:
        arrays = ", ".join(f"{n} {_shape(entry, n)}".strip() for n in array_names(entry))
        lines.append(f"  {folder / stems(entry, fold)[0]}.npz  with the arrays {arrays}")
        several = {source.file: source for source in entry.sources}.values()
        for number, source in enumerate(several):
            start = "or" if number == 0 else "and"
            place = folder / entry.file / source.file
            lines.append(f"  {start} {place}  ({_format(source)}){_from(source)}")
        for form in entry.other_forms:
            names = ", ".join(dict.fromkeys(source.file for source in form))
            lines.append(f"  or {folder / entry.file}{_SEP} with {names}")
    lines.append(f"Its page: {entry.page}")
    if not folders:
        lines.append("For another folder, set the environment variable NRS_DATA to it.")
    return DatasetNotFoundError("\n".join(lines))


_SEP = "/"


def _from(source: Source) -> str:
    return f" from {source.url}" if source.url else ""


def _format(source: Source) -> str:
    if source.members:
        return f"{source.format} in an archive, or unpacked"
    return f"{source.format}; plain, .gz, .bz2 or .xz"


def _shape(entry: Entry, name: str) -> str:
    kind, _, part = name.partition("_")
    sizes = [entry.rows[part or "all"], *(entry.shape if kind == "X" else ())]
    return f"({' × '.join(map(str, sizes))})"


def _lacks(entry: Entry, path: Path, missing: list[str], available: list[str]) -> DatasetFileError:
    served = [
        repr(other.name)
        for other in variants_of(entry.variant_of or entry.name)
        if path.stem in other.files and not choose_names(other, available, own=False)[1]
    ]
    advice = f"load {' or '.join(served)}, which this file has, or " if served else ""
    return DatasetFileError(
        f"{path} must hold the arrays {', '.join(array_names(entry))} of {entry.name!r}; "
        f"it lacks {', '.join(missing)} and holds {', '.join(available)}. To fix it, {advice}put "
        f"the whole set from {entry.page} in its place (nrs.datasets.get fetches it)"
    )
