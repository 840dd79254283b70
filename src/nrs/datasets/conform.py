"""From the arrays of a file to those of an entry: chosen, cast, and checked against the catalog."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from nrs.datasets.dataset import Array
from nrs.datasets.entry import Entry
from nrs.datasets.errors import DatasetFileError


def array_names(entry: Entry) -> dict[str, tuple[str, ...]]:
    """Name the arrays an entry needs, each with the names it may have in a file.

    Examples
    --------
    >>> from nrs.datasets.catalog import info
    >>> list(array_names(info("letter")))
    ['X_train', 'y_train', 'X_test', 'y_test']
    """
    kinds = ("X", "y", "qid") if entry.task == "ranking" else ("X", "y")
    names = [kind if part == "all" else f"{kind}_{part}" for part in entry.rows for kind in kinds]
    return {name: entry.arrays.get(name, (name,)) for name in names}


def choose_names(
    entry: Entry, available: Collection[str], *, own: bool = True
) -> tuple[dict[str, str], list[str]]:
    """Map an entry's arrays to those of a file; also name the ones that the file lacks.

    A file of the entry's own may use the plain names; one shared with another entry, where they
    mean something else, only those of ``entry.arrays``. A validation part may be absent: the
    paper trains and tests without it.
    """
    chosen, missing = {}, []
    for name, alternatives in array_names(entry).items():
        if own and name not in alternatives:
            alternatives = (*alternatives, name)
        found = next((stored for stored in alternatives if stored in available), None)
        if found is not None:
            chosen[name] = found
        elif not name.endswith("_val"):
            missing.append(name)
    return chosen, missing


def conform(
    entry: Entry, stored: Mapping[str, Array], path: Path, *, check_rows: bool = True
) -> dict[str, Array]:
    """Turn stored arrays into those of the entry.

    Parameters
    ----------
    entry : Entry
        What is expected.
    stored : mapping of str to array
        By the entry's names (`array_names`).
    path : Path
        Where they come from, for messages.
    check_rows : bool, default=True
        Whether the numbers of rows must be the catalog's.

    Raises
    ------
    DatasetFileError
        If shapes, numbers of rows or classes are not the catalog's.
    """
    arrays: dict[str, Array] = {}
    for part, n_rows in entry.rows.items():
        suffix = "" if part == "all" else f"_{part}"
        if f"X{suffix}" not in stored:
            continue
        X = _rows_of_x(entry, stored[f"X{suffix}"], f"X{suffix}", path)
        if check_rows and len(X) != n_rows:
            raise _unexpected(entry, path, f"X{suffix} has {len(X)} rows", f"{n_rows} rows")
        arrays[f"X{suffix}"] = X
        arrays[f"y{suffix}"] = _rows_of_y(entry, stored[f"y{suffix}"], f"y{suffix}", path)
        if f"qid{suffix}" in stored:
            arrays[f"qid{suffix}"] = stored[f"qid{suffix}"].astype(np.int64)
        for kind in ("y", "qid"):
            other = arrays.get(f"{kind}{suffix}")
            if other is not None and len(other) != len(X):
                found = f"{kind}{suffix} has {len(other)} rows and X{suffix} {len(X)}"
                raise _unexpected(entry, path, found, "as many of both")
    _check_classes(entry, arrays, path)
    return arrays


def _rows_of_x(entry: Entry, X: Array, name: str, path: Path) -> Array:
    if entry.columns is not None and X.ndim == 2 and X.shape[1] == entry.columns[2]:
        X = X[:, entry.columns[0] : entry.columns[1]]
    if X.shape[1:] != entry.shape or X.dtype.kind not in "fiub":
        expected = " × ".join(["rows", *map(str, entry.shape)])
        raise _unexpected(
            entry, path, f"{name} has shape {X.shape} of dtype {X.dtype}", f"{expected} numbers"
        )
    return np.ascontiguousarray(X, dtype=np.float32)


def _rows_of_y(entry: Entry, y: Array, name: str, path: Path) -> Array:
    if y.ndim == 2 and entry.target is not None:
        if entry.target >= y.shape[1]:
            raise _unexpected(
                entry, path, f"{name} has {y.shape[1]} columns", f"more than {entry.target}"
            )
        y = np.ascontiguousarray(y[:, entry.target])
    if entry.task == "regression":
        return y.astype(np.float32)
    if y.ndim != (2 if entry.task == "multilabel" else 1):
        raise _unexpected(entry, path, f"{name} has shape {y.shape}", "one label a row")
    if y.dtype.kind == "f":
        if not np.array_equal(y, np.floor(y)):
            raise _unexpected(entry, path, f"{name} has fractions", "whole numbers as labels")
        y = y.astype(np.int64)
    elif y.dtype.kind in "iub":
        y = y.astype(np.int64)
    elif y.dtype.kind != "U":
        raise _unexpected(entry, path, f"{name} has dtype {y.dtype}", "numbers or strings")
    return (y + 1) // 2 if entry.merge_labels else y


def _check_classes(entry: Entry, arrays: Mapping[str, Array], path: Path) -> None:
    labels = [y for name, y in arrays.items() if name.startswith("y")]
    if entry.task == "regression" or not labels:
        return
    if entry.task == "multilabel":
        found = labels[0].shape[1]
        fits = found == entry.n_classes
    else:
        found = len(np.unique(np.concatenate([np.unique(y) for y in labels])))
        # A ranking set need not use every grade.
        fits = found == entry.n_classes or (
            entry.task == "ranking" and found <= (entry.n_classes or 0)
        )
    if not fits:
        raise _unexpected(entry, path, f"{found} classes", f"{entry.n_classes} classes")


def _unexpected(entry: Entry, path: Path, found: str, expected: str) -> DatasetFileError:
    return DatasetFileError(
        f"{path} must hold the dataset {entry.name!r} ({expected}), however: {found}; remove the "
        f"file or put the one from {entry.page} in its place"
    )
