"""By name to arrays: look in the local folders, else fetch, read, check, keep and split."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

from nrs.datasets.archives import extract, is_archive
from nrs.datasets.arrays import read_npz, save_npz
from nrs.datasets.catalog import info
from nrs.datasets.conform import choose_names, conform
from nrs.datasets.dataset import Array, Dataset
from nrs.datasets.download import fetch
from nrs.datasets.entry import Entry
from nrs.datasets.errors import (
    ArchiveError,
    DatasetFileError,
    DatasetUnreachableError,
    DownloadError,
    UnreachableError,
)
from nrs.datasets.folders import cache_folder
from nrs.datasets.locate import (
    LocalFile,
    find_archive,
    find_archives,
    find_folder,
    find_form,
    find_npz,
    inner_folder,
    not_found,
    stems,
)
from nrs.datasets.packaged import packaged_arrays
from nrs.datasets.parse import read_sources
from nrs.datasets.splits import Split, split_arrays

_log = logging.getLogger(__name__)


def load(
    name: str | Entry,
    *,
    split: Split = "paper",
    seed: int = 42,
    fold: int = 1,
    download: bool = True,
) -> Dataset:
    """Load a dataset by its name.

    Looked for in the folders of the environment variable ``NRS_DATA``, then in the user's cache
    (``NRS_CACHE``, else ``~/.cache/nrs``), as ``<file>.npz`` or as the source's own files; else
    fetched from the official address, checked, and kept in the cache.

    Parameters
    ----------
    name : str or Entry
        A name of `nrs.datasets.names`, or an entry of your own.
    split : {"paper", "official", "random", "whole"}, default="paper"
        The paper's rule (the official split, a seeded 70/30 split, or for yeast all rows, to be
        split by `nrs.datasets.folds`); or another.
    seed : int, default=42
        Seed of a random split; the paper's is 42.
    fold : int, default=1
        Which of the folds the owner prepared (MSLR-WEB10K, MSLR-WEB30K, MQ2008).
    download : bool, default=True
        Whether to fetch what is not on this machine.

    Returns
    -------
    Dataset
        Inputs as float32, as in the file; `nrs.datasets.paper_preprocess` scales them as the
        paper does. Labels are as at the source.

    Raises
    ------
    DatasetNotFoundError
        If the dataset is not on this machine and has no address, or ``download=False``; it says
        which file to put where.
    DownloadError
        If anything goes wrong in a download: the network (it is a DatasetNotFoundError, too), a
        transfer that is cut or too slow, a file that is altered, too large or not the catalog's, a
        cache that cannot be written, an entry with impossible numbers.
    DatasetFileError
        If a local file does not hold what the catalog says.
    ValueError
        If a name or argument is unknown, or the dataset consists of image or mesh files.

    Examples
    --------
    >>> load("iris")
    Dataset('sklearn-iris', classification, train 105, test 45, 4 features, 3 classes)
    """
    entry = name if isinstance(name, Entry) else info(name)
    _check_fold(entry, fold)
    if entry.layout == "files":
        raise ValueError(
            f"{entry.name!r} consists of files, and load returns arrays; "
            f"nrs.datasets.get({entry.name!r}) returns their folder"
        )
    if entry.package is not None:
        arrays = packaged_arrays(entry)
    else:
        found = find_npz(entry, fold)
        if isinstance(found, LocalFile):
            arrays = _read_local(entry, found, fold)
        else:
            arrays = _read_raw(entry, fold, download=download, complaint=found)[0]
    parts = split_arrays(entry, arrays, split=split, seed=seed)
    return Dataset(
        entry.name,
        **parts,
        task=entry.task,
        n_classes=entry.n_classes,
        kind=entry.kind,
        preprocess=entry.preprocess,
        notes=entry.notes,
    )


def get(name: str | Entry, *, fold: int = 1) -> Path:
    """Make sure that a dataset is on this machine, and say where.

    Parameters
    ----------
    name : str or Entry
        A name of `nrs.datasets.names`, or an entry of your own.
    fold : int, default=1
        Which of the folds the owner prepared.

    Returns
    -------
    Path
        Its ``.npz`` file, or for images and meshes the folder of its files, unpacked.

    Raises
    ------
    DatasetNotFoundError, DatasetFileError, DownloadError
        As `load`.
    ArchiveError
        If a local archive is damaged, or larger than allowed.
    ValueError
        If the dataset is part of a Python package and has no file.
    """
    entry = name if isinstance(name, Entry) else info(name)
    _check_fold(entry, fold)
    if entry.package is not None:
        raise ValueError(
            f"{entry.name!r} is part of a Python package and has no file; "
            f"nrs.datasets.load({entry.name!r}) reads it"
        )
    if entry.layout == "files":
        return _get_folder(entry)
    found = find_npz(entry, fold)
    if isinstance(found, LocalFile):
        return found.path
    path = _read_raw(entry, fold, download=True, complaint=None)[1]
    if path is None:
        raise DownloadError(
            f"{entry.name!r} cannot be written to {cache_folder()}; "
            "set the environment variable NRS_CACHE to another folder"
        )
    return path


def _check_fold(entry: Entry, fold: int) -> None:
    if not 1 <= fold <= max(entry.n_folds, 1):
        raise ValueError(
            f"fold must be between 1 and {max(entry.n_folds, 1)} for {entry.name!r}; got {fold}"
        )


def _read_local(entry: Entry, found: LocalFile, fold: int) -> dict[str, Array]:
    stored = read_npz(found.path, list(dict.fromkeys(found.names.values())))
    arrays = {name: stored[stored_name] for name, stored_name in found.names.items()}
    return conform(entry, arrays, found.path, check_rows=fold == 1)


def _read_raw(
    entry: Entry, fold: int, *, download: bool, complaint: DatasetFileError | None
) -> tuple[dict[str, Array], Path | None]:
    """Read the source's own files, fetched if need be; keep them as ``.npz`` in the cache."""
    found = find_form(entry, fold)
    if found is not None:
        return _parse(*found, fold)
    if complaint is not None:
        raise complaint
    fetched = cache_folder() / "sources" / entry.file
    files = _fetch_sources(entry, fetched, fold, download=download)
    try:
        result = _parse(entry, files, fold)
    except (DatasetFileError, ArchiveError) as error:
        # Not the user's file: away with it, or the next call would stumble over it again.
        shutil.rmtree(fetched, ignore_errors=True)
        raise _not_the_dataset(entry, error) from None
    shutil.rmtree(fetched, ignore_errors=True)
    return result


def _parse(entry: Entry, files: dict[str, Path], fold: int) -> tuple[dict[str, Array], Path | None]:
    """The arrays, and the file that keeps them; None if it cannot be written."""
    stored = read_sources(entry, files, fold=fold)
    names, missing = choose_names(entry, stored)
    if missing:
        raise DatasetFileError(
            f"The sources of {entry.name!r} must have {', '.join(names | dict.fromkeys(missing))}; "
            f"they lack {', '.join(missing)}"
        )
    arrays = {name: stored[stored_name] for name, stored_name in names.items()}
    arrays = conform(entry, arrays, next(iter(files.values())), check_rows=fold == 1)
    path = cache_folder() / f"{stems(entry, fold)[0]}.npz"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_npz(path, stored)
    except OSError as error:
        _log.warning("%s could not be kept as %s (%s)", entry.name, path, error)
        return arrays, None
    return arrays, path


def _fetch_sources(entry: Entry, folder: Path, fold: int, *, download: bool) -> dict[str, Path]:
    sources = {source.file: source for source in entry.sources}.values()
    if not sources or any(source.url is None for source in sources):
        raise not_found(entry, "it has no address to fetch it from", fold)
    if not download:
        raise not_found(entry, "download=False", fold)
    files = {}
    for source in sources:
        assert source.url is not None
        target = folder / source.file
        if not target.is_file():
            try:
                fetch(
                    source.url,
                    target,
                    limit=entry.limit(source),
                    size=source.size,
                    checksum=source.checksum,
                )
            except UnreachableError as error:
                missing = not_found(entry, str(error), fold)
                raise DatasetUnreachableError(str(missing)) from None
        files[source.file] = target
    return files


def _get_folder(entry: Entry) -> Path:
    folder = find_folder(entry)
    several = len(entry.sources) > 1
    # A folder that holds nothing but the archives is still to be unpacked.
    if folder is not None and not (several and all(path.is_file() for path in folder.iterdir())):
        return folder
    if several:
        return _unpack_several(entry)
    archive = find_archive(entry)
    fetched = None
    source = entry.sources[0] if entry.sources else None
    if archive is None:
        files = _fetch_sources(entry, cache_folder() / "sources" / entry.file, 1, download=True)
        archive = fetched = next(iter(files.values()))
    limit = entry.limit(source) if source is not None else 1 << 36
    try:
        return inner_folder(extract(archive, cache_folder() / entry.file, max_bytes=limit))
    except ArchiveError as error:
        if fetched is None:
            raise
        raise _not_the_dataset(entry, error) from None
    finally:
        if fetched is not None:
            shutil.rmtree(fetched.parent, ignore_errors=True)


def _unpack_several(entry: Entry) -> Path:
    """Unpack the archives of a dataset that is published as several, next to each other."""
    found = find_archives(entry)
    if found is None:
        raise not_found(entry, "it has no address to fetch it from")
    target = cache_folder() / entry.file
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=target.parent) as scratch:
        whole = Path(scratch) / "whole"
        whole.mkdir()
        for number, (path, source) in enumerate(found):
            if not is_archive(path):
                shutil.copyfile(path, whole / path.name)
                continue
            part = extract(path, Path(scratch) / str(number), max_bytes=entry.limit(source))
            for inside in part.iterdir():
                inside.rename(whole / inside.name)
        whole.rename(target)
    return target


def _not_the_dataset(entry: Entry, error: ValueError) -> DownloadError:
    return DownloadError(f"{entry.page} does not offer {entry.name!r} as in the catalog: {error}")
