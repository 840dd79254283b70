"""Rows known by their place: a hash of file and row number, and a sample drawn by it.

The hash makes folds and samples that depend neither on the order of reading nor on how many
processes read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.datasets.large_table import plain_type

if TYPE_CHECKING:
    import pyarrow


# Rows kept for bins, scores and importances: more measure no better.
SAMPLE_ROWS = 20_000
_ROW_BITS = 40


def row_places(part: int, rows: np.ndarray) -> np.ndarray:
    """Rows of a file as one number each, unique in the whole table, (m,) int64."""
    return (np.int64(part) << np.int64(_ROW_BITS)) + rows.astype(np.int64)


def split_places(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The files and the rows in them of :func:`row_places`."""
    return places >> _ROW_BITS, places & ((1 << _ROW_BITS) - 1)


def hashed(places: np.ndarray, salt: int) -> np.ndarray:
    """Numbers that look random, the same for the same row and salt: (m,) uint64 (SplitMix64).

    Examples
    --------
    >>> drawn = hashed(np.arange(1000), salt=1)
    >>> len(np.unique(drawn)), 450 < int((drawn % np.uint64(2)).sum()) < 550
    (1000, True)
    """
    # Arithmetic modulo 2^64 is meant.
    with np.errstate(over="ignore"):
        z = places.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15 + 1) % 2**64)
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed


def hashed_texts(texts: Sequence[str]) -> np.ndarray:
    """A number for each text that is the same everywhere: (m,) int64.

    Examples
    --------
    >>> first, second = hashed_texts(["a", "b"])
    >>> first == hashed_texts(["a"])[0] != second
    np.True_
    """
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


class RowSample:
    """A uniform sample of at most `size` rows of a table: those of the least hash.

    Examples
    --------
    >>> import pyarrow
    >>> sample = RowSample(2)
    >>> sample.add(pyarrow.record_batch({"a": [0, 1, 2, 3]}), np.arange(4))
    >>> len(sample.rows), bool((sample.rows["a"].to_numpy() == sample.places).all())
    (2, True)
    """

    def __init__(self, size: int = SAMPLE_ROWS) -> None:
        self.size = size
        self.kept_places = np.empty(0, dtype=np.int64)
        self.kept: Any = None
        self._limit = np.uint64(2**64 - 1)

    def add(self, batch: pyarrow.RecordBatch, places: np.ndarray) -> None:
        """Offer rows: a record batch, and where each of its rows is."""
        import pyarrow

        chosen = np.flatnonzero(hashed(places, 1) <= self._limit)
        if len(chosen) == 0:
            return
        table = pyarrow.Table.from_batches([batch.take(pyarrow.array(chosen))])
        # Rows of different dictionaries are not one column.
        plain = [(field.name, plain_type(field.type)) for field in table.schema]
        self.join(table.cast(pyarrow.schema(plain)), places[chosen])
        # Thinned now and then, not for every row.
        if len(self.kept_places) > 2 * self.size:
            self._thin()

    @property
    def places(self) -> np.ndarray:
        """Where the rows are, ascending, (m,); see :func:`row_places`."""
        self._thin()
        return self.kept_places

    @property
    def rows(self) -> Any:
        """The rows as a pyarrow table, or None."""
        self._thin()
        return self.kept

    def join(self, table: Any, places: np.ndarray) -> None:
        """Take rows that another sample has kept."""
        import pyarrow

        if self.kept is not None:
            table = pyarrow.concat_tables([self.kept, table])
        self.kept = table
        self.kept_places = np.concatenate([self.kept_places, places])

    def _thin(self) -> None:
        drawn = hashed(self.kept_places, 1)
        order = np.argsort(self.kept_places, kind="stable")
        if len(drawn) > self.size:
            least = np.argpartition(drawn, self.size - 1)[: self.size]
            self._limit = drawn[least].max()
            order = least[np.argsort(self.kept_places[least], kind="stable")]
        if len(order) < len(drawn) or (np.diff(self.kept_places) < 0).any():
            # Joined into one piece, so that what is left out is freed.
            self.kept = self.kept.take(order).combine_chunks()
            self.kept_places = self.kept_places[order]
