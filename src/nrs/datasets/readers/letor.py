"""LETOR's text for ranking, also SVMlight's with queries: ``grade qid:query index:value …``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from nrs._util.atomic import atomic_write
from nrs.datasets.archives import open_stream
from nrs.datasets.dataset import Array
from nrs.datasets.errors import DatasetFileError
from nrs.datasets.readers.letor_text import (
    MalformedLineError,
    Pairs,
    ZeroIndexError,
    parse_block,
)
from nrs.datasets.readers.libsvm import whole_numbers
from nrs.datasets.readers.rows import MAX_BYTES, Rows, unreadable

# Bytes parsed at a time: their numbers stay in the processor's cache.
_BLOCK = 1 << 17


class _LateZeroError(DatasetFileError):
    """An index 0 after rows were given out as if indices began with 1."""


def read_letor(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: bool | None = None,
    max_bytes: int = MAX_BYTES,
) -> Rows:
    """Read a LETOR file, plain or compressed, as dense arrays.

    A value ``NULL`` is missing, NaN. Queries are whole numbers, or any texts without blanks and
    colons.

    Parameters
    ----------
    path : path
        The file; gzip, bzip2 and xz are unpacked on the way.
    n_features : int, optional
        Width of X; the largest index in the file if not given.
    zero_based : bool, optional
        Whether indices begin with 0; by default they do if there is one.
    max_bytes : int, default=2**36
        Most bytes to read, counted as unpacked.

    Returns
    -------
    Rows
        X (n, n_features) float32; y (n,) grades; qid (n,) the query of each row, as texts if one
        is no whole number of 64 bits.

    Raises
    ------
    DatasetFileError
        If the file is not LETOR text, with the number of the first bad line.
    ArchiveError
        If a compressed file is damaged, or a file has more than `max_bytes`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "train.txt"
    ...     _ = path.write_text("2 qid:7 1:0.5 2:1 # docid = a\\n0 qid:7 2:3\\n")
    ...     rows = read_letor(path)
    >>> rows.X.tolist(), rows.y.tolist(), rows.qid.tolist()
    ([[0.5, 1.0], [0.0, 3.0]], [2, 0], [7, 7])
    """
    try:
        parts = list(
            iter_letor(path, n_features=n_features, zero_based=zero_based, max_bytes=max_bytes)
        )
    except _LateZeroError:
        parts = list(iter_letor(path, n_features=n_features, zero_based=True, max_bytes=max_bytes))
    if not parts:
        raise unreadable(path, "LETOR", "it has no rows")
    # Without a given width the last part is the widest.
    whole = _join(parts, parts[-1].X.shape[1])
    return whole._replace(y=whole_numbers(whole.y))


def iter_letor(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    rows: int = 8192,
    zero_based: bool | None = None,
    max_bytes: int = MAX_BYTES,
) -> Iterator[Rows]:
    """Read a LETOR file in parts of whole queries, in memory that does not grow with the file.

    Parameters
    ----------
    path : path
        The file; gzip, bzip2 and xz are unpacked on the way.
    n_features : int, optional
        Width of X; the largest index so far if not given, which may grow from part to part.
    rows : int, default=8192
        A part ends with the first query after so many rows.
    zero_based : bool, optional
        Whether indices begin with 0; by default they do if the rows of the first part have one.
    max_bytes : int, default=2**36
        Most bytes to read, counted as unpacked.

    Yields
    ------
    Rows
        X (n, width) float32; y (n,) grades as float64; qid (n,), numbers up to the first query
        that is none.

    Raises
    ------
    DatasetFileError
        If a line is not LETOR text or has an index beyond `n_features`, with its number.
    ArchiveError
        If a compressed file is damaged, or a file has more than `max_bytes`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "train.txt"
    ...     _ = path.write_text("2 qid:7 1:1\\n0 qid:7 2:3\\n1 qid:8 1:2\\n")
    ...     [part.y.tolist() for part in iter_letor(path, n_features=2, rows=1)]
    [[2.0, 0.0], [1.0]]
    """
    width = n_features or 0
    held: list[Rows] = []
    n_held, line, widest, given = 0, 0, 0, False
    with open_stream(path, max_bytes=max_bytes) as file:
        for block in _blocks(file):
            pairs = None
            while pairs is None:
                try:
                    pairs = parse_block(block, zero_based=bool(zero_based))
                except MalformedLineError as error:
                    problem = f"line {line + error.line + 1}: {error}"
                    if zero_based is not None or not isinstance(error, ZeroIndexError):
                        raise unreadable(path, "LETOR", problem) from None
                    if given:
                        problem += "; pass zero_based=True"
                        raise _LateZeroError(str(unreadable(path, "LETOR", problem))) from None
                    # What is held was read as if indices began with 1.
                    zero_based, widest = True, widest + 1
                    if n_features is not None and widest > n_features:
                        problem += f" before; {widest - 1} is beyond {n_features} features"
                        raise unreadable(path, "LETOR", problem) from None
                    width = n_features or widest
                    held = [_moved(part, width) for part in held]
            widest = max(widest, int(pairs.columns.max(initial=0)))
            if n_features is not None and widest > n_features:
                number = line + _line_of(block, pairs, n_features) + 1
                raise unreadable(
                    path,
                    "LETOR",
                    f"line {number}: index {widest - bool(zero_based)} is beyond {n_features} "
                    "features",
                )
            width = max(width, widest)
            line += block.count(b"\n")
            held.append(Rows(pairs.dense(width), pairs.labels, pairs.qids))
            n_held += len(pairs.labels)
            if n_held > rows:
                whole, rest = _split_at_query(_join(held, width))
                held, n_held = [rest], len(rest.y)
                if len(whole.y):
                    given = True
                    yield whole
    if n_held:
        yield _join(held, width)


def write_letor(
    path: str | os.PathLike[str],
    rows: Rows | Iterable[Rows],
    *,
    zeros: bool = False,
    comments: Iterable[str] | None = None,
) -> None:
    """Write rows with queries as LETOR text, atomically.

    Values are written so that they are read back as the same float32, missing ones as ``NULL``.

    Parameters
    ----------
    path : path
        Where to write.
    rows : Rows, or an iterable of Rows
        The latter for files larger than memory.
    zeros : bool, default=False
        Whether zeros are written too.
    comments : iterable of str, optional
        One a row, written after ``#``.

    Raises
    ------
    ValueError
        If rows have no queries, X, y and qid differ in length, y holds what is no number, qid
        fractions or texts of several words, or there are fewer comments than rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "two.txt"
    ...     write_letor(path, Rows(np.array([[0.5, 0]]), np.array([2]), np.array([7])))
    ...     path.read_text()
    '2 qid:7 1:0.5\\n'
    """
    parts: Iterable[Rows] = [rows] if isinstance(rows, Rows) else rows
    notes = None if comments is None else iter(comments)
    with atomic_write(path) as file:
        for X, y, qid in parts:
            if qid is None or not len(X) == len(y) == len(qid):
                lengths = f"{len(X)}, {len(y)} and {'none' if qid is None else len(qid)}"
                raise ValueError(
                    f"X, y and qid must have as many rows each, however: {lengths}; give the "
                    "query of each row"
                )
            y, qid = _numbers("y", y), _queries(qid)
            for x, label, query in zip(np.asarray(X, np.float32), y, qid, strict=True):
                kept = np.arange(len(x)) if zeros else np.flatnonzero(x)
                words = np.where(np.isnan(x[kept]), "NULL", x[kept].astype(str)).tolist()
                pairs = (
                    f"{i}:{_short(w)}" for i, w in zip((kept + 1).tolist(), words, strict=True)
                )
                note = "" if notes is None else f" # {_next_comment(notes)}".replace("\n", " ")
                text = " ".join(
                    [
                        _short(str(label)),
                        f"qid:{query if isinstance(query, str) else _short(str(query))}",
                        *pairs,
                    ]
                )
                file.write(f"{text}{note}\n".encode())


def _numbers(name: str, values: Array) -> Array:
    """What LETOR's text can hold: numbers, and for queries whole ones."""
    found = np.asarray(values)
    if found.dtype.kind == "b":
        return found.astype(np.int64)
    if found.dtype.kind not in "iuf":
        problem = f"{found[:1].tolist()} of dtype {found.dtype}"
    elif name == "qid" and not np.array_equal(found, np.floor(found)):
        problem = f"{found[found != np.floor(found)][0]:g}"
    else:
        return found
    raise ValueError(
        f"{name} must hold {'whole ' if name == 'qid' else ''}numbers to be written as LETOR "
        f"text; got {problem}. Number them, for instance by np.unique({name}, "
        "return_inverse=True)[1]"
    )


def _queries(qid: Array) -> Array:
    """Queries as LETOR's text can hold them: whole numbers, or texts of one word."""
    found = np.asarray(qid)
    if found.dtype.kind not in "OUS":
        return _numbers("qid", found)
    texts = [text.decode() if isinstance(text, bytes) else str(text) for text in found.tolist()]
    wrong = next((text for text in texts if not text or re.search(r"[\s:#]", text)), None)
    if wrong is not None:
        raise ValueError(
            f"qid must hold texts without blanks, colons and #, to be written as LETOR text; got "
            f"{wrong!r}. Number them, for instance by np.unique(qid, return_inverse=True)[1]"
        )
    return np.array(texts)


def _next_comment(comments: Iterator[str]) -> str:
    found = next(comments, None)
    if found is None:
        raise ValueError("comments must have one entry a row, however: there are fewer")
    return found


def _short(number: str) -> str:
    return number.removesuffix(".0")


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines of a file, about `_BLOCK` bytes at a time."""
    pieces: list[bytes] = []
    while piece := file.read(_BLOCK):
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join([*pieces, piece[:cut]])
            pieces = [piece[cut:]]
        else:
            pieces.append(piece)
    if any(pieces):
        yield b"".join(pieces)


def _moved(rows: Rows, width: int) -> Rows:
    """Rows whose indices begin with 0, read as if they began with 1."""
    moved: Array = np.zeros((len(rows.y), width), np.float32)
    moved[:, 1:] = rows.X[:, : width - 1]
    return rows._replace(X=moved)


def _line_of(block: bytes, pairs: Pairs, n_features: int) -> int:
    """The line of a block, blank ones counted, that holds the first index beyond the width."""
    pair = int(np.argmax(pairs.columns > n_features))
    row = int(np.searchsorted(np.cumsum(pairs.counts), pair, side="right"))
    filled = [n for n, line in enumerate(block.split(b"\n")) if line.split(b"#", 1)[0].strip()]
    return filled[row]


def _join(parts: list[Rows], width: int) -> Rows:
    """One part of several, all as wide as the last may be."""
    X: Array = np.zeros((sum(len(part.y) for part in parts), width), np.float32)
    at = 0
    for part in parts:
        X[at : at + len(part.y), : part.X.shape[1]] = part.X
        at += len(part.y)
    qids = [part.qid for part in parts if part.qid is not None]
    return Rows(X, np.concatenate([part.y for part in parts]), np.concatenate(qids))


def _split_at_query(rows: Rows) -> tuple[Rows, Rows]:
    """All whole queries, and the rows of the last, which may go on."""
    X, y, qid = rows
    assert qid is not None
    changes = np.flatnonzero(qid[1:] != qid[:-1])
    row = int(changes[-1]) + 1 if len(changes) else 0
    # A copy, so that the rows given away are not kept by those held back.
    return Rows(X[:row], y[:row], qid[:row]), Rows(X[row:].copy(), y[row:].copy(), qid[row:].copy())
