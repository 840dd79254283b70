"""Batches of a table that is larger than memory: read, encoded and shuffled ahead of their use.

A thread reads row groups in a shuffled order, a few side by side, encodes their rows and exchanges
them with random rows of a buffer of bounded size; the training loop takes batches from a short
queue, and how long it had to wait there is counted.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nrs.datasets.large_table import Chunk, Table, chunk_rows
from nrs.tabular.rows.sample import row_places

# Rows that are shuffled among each other, and the cells that they may have: 256 MB of float32.
BUFFER_ROWS, BUFFER_CELLS = 1 << 18, 1 << 26
# Row groups that are read side by side, so that rows of distant places meet.
GROUPS_AT_ONCE = 4
# Blocks that wait to be trained on.
AHEAD = 4

# Features, targets, folds, and perhaps weights of some rows.
Block = tuple[Tensor, ...]
Encode = Callable[[Any, np.ndarray], Block]


class StreamedBatches:
    """Batches of a table in files, for :func:`nrs.training.train`.

    A pass gives every labelled row once, in an order that the generator decides. With several
    processes each reads its own row groups, other ones in every pass; all give equally many
    batches of equally many rows, for which a process that has fewer rows begins its own again.

    Parameters
    ----------
    encode : (record batch, places of its rows) -> tensors with one row per row, features first.
    n_rows, width : rows with a target of all processes, features of an encoded row.
    batch_size : rows per step, of all processes together.
    passes : passes over the table per epoch.
    shard : (rank, size), which of how many processes this is.
    buffer_rows : rows that are shuffled among each other; fewer where they are wide.

    Raises
    ------
    ValueError
        If there are fewer row groups than processes.
    """

    def __init__(
        self,
        table: Table,
        encode: Encode,
        n_rows: int,
        width: int,
        batch_size: int,
        *,
        passes: int = 1,
        shard: tuple[int, int] = (0, 1),
        device: torch.device | str = "cpu",
        buffer_rows: int = BUFFER_ROWS,
    ) -> None:
        self.rank, self.size = shard
        if len(table.groups) < self.size:
            raise ValueError(
                f"every process needs a row group; got {len(table.groups)} row groups for "
                f"{self.size} processes. Write smaller row groups, or start fewer processes."
            )
        self.table, self.encode, self.n_rows, self.width = table, encode, n_rows, width
        self.batch_size = max(1, min(batch_size, n_rows) // self.size)
        whole, rest = divmod(n_rows, self.batch_size * self.size)
        # As in memory: a last batch of one row, which has no batch statistics, joins another.
        self.in_a_pass = max(1, whole + (rest > 1 and self.size == 1))
        self.passes, self.buffer_rows = passes, buffer_rows
        self._held: Block | None = None
        self.device = torch.device(device)
        # How long the user of the batches waited for them, of how long altogether.
        self.waited = self.seconds = 0.0

    def __len__(self) -> int:
        """Number of batches per epoch."""
        return self.passes * self.in_a_pass

    @property
    def wait_share(self) -> float:
        """The part of the time that was spent waiting for data."""
        return self.waited / self.seconds if self.seconds else 0.0

    def __call__(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        seed = int(torch.randint(2**62, (), generator=generator))
        began = time.perf_counter()
        ahead = _Ahead(self._blocks(seed), AHEAD)
        try:
            yield from (self._put(batch) for batch in self._cut(ahead))
        finally:
            ahead.close()
            self.waited += ahead.waited
            self.seconds += time.perf_counter() - began

    def _put(self, batch: Block) -> Any:
        x, y, folds, *weights = (part.to(self.device, non_blocking=True) for part in batch)
        return x, y, (weights[0] if weights else None), folds

    def _cut(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Batches of the asked size; the last of a pass holds what is left of it."""
        held: list[Block] = []
        n_held = 0
        for number in range(len(self)):
            size = self.batch_size
            if self.size == 1 and (number + 1) % self.in_a_pass == 0:
                size = self.n_rows - (self.in_a_pass - 1) * self.batch_size
            while n_held < size:
                block = next(blocks)
                held.append(block)
                n_held += len(block[0])
            joined = held[0] if len(held) == 1 else _joined(held)
            yield tuple(part[:size] for part in joined)
            held, n_held = [tuple(part[size:] for part in joined)], n_held - size

    def _blocks(self, seed: int) -> Iterator[Block]:
        """Shuffled rows of all passes, as many as the batches need."""
        for number in range(self.passes):
            left = self.n_rows if self.size == 1 else self.in_a_pass * self.batch_size
            for block in self._shuffled(np.random.SeedSequence([seed, number])):
                kept = tuple(part[:left] for part in block)
                left -= len(kept[0])
                # Copies that a GPU reads by itself, while it computes.
                pinned = self.device.type == "cuda"
                yield tuple(part.pin_memory() for part in kept) if pinned else kept
                if left == 0:
                    break
            if left:
                raise ValueError(
                    f"the table must have {self.n_rows:,} rows with a target, as when it was "
                    f"counted; {left:,} are missing. Start again."
                )

    def _shuffled(self, seed: np.random.SeedSequence) -> Iterator[Block]:
        """The rows of a pass in random order; with several processes again and again."""
        # All processes draw the same order of groups; each shuffles its own rows.
        of_rank = np.random.SeedSequence(seed.entropy, spawn_key=(self.rank + 1,))
        drawn, own = np.random.default_rng(seed), np.random.default_rng(of_rank)
        groups = np.arange(len(self.table.groups))
        capacity = max(self.batch_size, min(self.buffer_rows, BUFFER_CELLS // self.width))
        if self.n_rows <= capacity:
            yield from self._from_memory(groups[self.rank :: self.size], own)
            return
        buffer = ShuffleBuffer(capacity, own)
        groups = drawn.permutation(groups)[self.rank :: self.size]
        while True:
            n_read = 0
            for block in self._encoded(groups):
                n_read += len(block[0])
                yield from buffer.exchange(block)
            # All of them before any comes again.
            yield from buffer.rest(self._chunk_rows())
            if self.size == 1 or n_read == 0:
                return
            groups = own.permutation(groups)

    def _from_memory(self, groups: np.ndarray, rng: np.random.Generator) -> Iterator[Block]:
        """A table that the buffer holds as a whole is read once."""
        if self._held is None:
            self._held = _joined(list(self._encoded(groups)))
        n_held = len(self._held[0]) if self._held else 0
        while n_held:
            for places in torch.from_numpy(rng.permutation(n_held)).split(self._chunk_rows()):
                yield tuple(part.index_select(0, places) for part in self._held)
            if self.size == 1:
                return

    def _encoded(self, places: np.ndarray) -> Iterator[Block]:
        """The rows of some row groups, encoded."""
        groups = [self.table.groups[place] for place in places.tolist()]
        for chunk in self.table.chunks(groups, rows=self._chunk_rows(), at_once=GROUPS_AT_ONCE):
            batch, rows = labelled_rows(chunk, self.table.targets)
            if len(rows):
                with self.table.naming(chunk):
                    block = self.encode(batch, rows)
                yield block

    def _chunk_rows(self) -> int:
        return chunk_rows(max(self.width, len(self.table.wanted)))


def labelled_rows(chunk: Chunk, targets: Sequence[str]) -> tuple[Any, np.ndarray]:
    """The rows of a chunk with a value of some target, and their places."""
    from pyarrow import compute

    batch = chunk.batch
    rows = np.arange(chunk.first, chunk.first + batch.num_rows)
    each = [compute.is_null(batch.column(name), nan_is_null=True) for name in targets]
    missing = functools.reduce(compute.and_, each)
    if compute.any(missing).as_py():
        batch = batch.filter(compute.invert(missing))
        rows = rows[~missing.to_numpy(zero_copy_only=False)]
    return batch, row_places(chunk.part, rows)


class ShuffleBuffer:
    """Rows in, random rows that came before out, in bounded memory.

    Examples
    --------
    >>> buffer = ShuffleBuffer(4, np.random.default_rng(0))
    >>> out = [*buffer.exchange((torch.arange(6),)), *buffer.rest(4)]
    >>> sorted(torch.cat([part for part, in out]).tolist())
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, capacity: int, rng: np.random.Generator) -> None:
        self.capacity, self.rng = capacity, rng
        self._rows: list[Tensor] = []
        self._filled = 0

    def exchange(self, block: Block) -> Iterator[Block]:
        """Put rows in, and take as many out once the buffer is full."""
        if not self._rows:
            self._rows = [part.new_empty((self.capacity, *part.shape[1:])) for part in block]
        room = min(self.capacity - self._filled, len(block[0]))
        if room:
            for stored, part in zip(self._rows, block, strict=True):
                stored[self._filled : self._filled + room] = part[:room]
            self._filled += room
            block = tuple(part[room:] for part in block)
        for piece in zip(*(part.split(self.capacity) for part in block), strict=True):
            if len(piece[0]) == 0:
                continue
            drawn = self.rng.choice(self.capacity, len(piece[0]), replace=False)
            places = torch.from_numpy(drawn)
            yield tuple(stored.index_select(0, places) for stored in self._rows)
            for stored, part in zip(self._rows, piece, strict=True):
                stored.index_copy_(0, places, part)

    def rest(self, most: int) -> Iterator[Block]:
        """All rows that are left, in random order, at most so many at a time."""
        order = torch.from_numpy(self.rng.permutation(self._filled))
        self._filled = 0
        for places in order.split(most):
            if len(places):
                yield tuple(stored.index_select(0, places) for stored in self._rows)


class _Ahead(Iterator[Block]):
    """An iterator that a thread runs ahead of its user, by at most so many items."""

    def __init__(self, source: Iterator[Block], depth: int) -> None:
        self.waited = 0.0
        self._source = source
        self._queue: queue.Queue[Any] = queue.Queue(depth)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nrs-read-ahead", daemon=True)
        self._thread.start()

    def __next__(self) -> Block:
        began = time.perf_counter()
        item = self._queue.get()
        self.waited += time.perf_counter() - began
        if isinstance(item, BaseException):
            raise item
        block: Block = item
        return block

    def close(self) -> None:
        """Stop the thread; nothing is left behind."""
        self._closed.set()
        while self._thread.is_alive():
            # A thread that waits for room in the queue must see that it may stop.
            try:
                self._queue.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def _run(self) -> None:
        try:
            for item in self._source:
                self._queue.put(item)
                if self._closed.is_set():
                    return
        except BaseException as error:
            self._queue.put(error)
        finally:
            self._source.close()  # type: ignore[attr-defined]


def _joined(blocks: Sequence[Block]) -> Block:
    return tuple(torch.cat(parts) for parts in zip(*blocks, strict=True))
