"""Encoded rows as a source of batches, dense or sparse, without copying the table."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nrs.tabular.runtime import checksum

Batch = tuple[Tensor, Tensor, Tensor | None]


# Cells of one forward pass without gradients: activations of this size stay in cache.
FORWARD_CELLS = 1 << 21
MOST_FORWARD_ROWS = 2048


def forward_rows(features: int) -> int:
    """Rows of one forward pass without gradients, fewer for wide tables."""
    return max(64, min(MOST_FORWARD_ROWS, FORWARD_CELLS // features))


def spread_rows(n: int, k: int) -> Tensor:
    """Numbers of k of n rows, spread evenly from the first to the last: (k,) int64, ascending.

    In whole numbers: float32 knows every row only up to 2²⁴ of them, and may round the last one
    past the end.

    Parameters
    ----------
    n : rows to choose from.
    k : how many; each number comes once if there are as many rows.

    Examples
    --------
    >>> spread_rows(10, 4).tolist(), spread_rows(3_000_000_000, 2).tolist()
    ([0, 3, 6, 9], [0, 2999999999])
    """
    return torch.arange(k) * (n - 1) // max(1, k - 1)


class Rows:
    """Features, targets and weights of some rows of an encoded table.

    Parameters
    ----------
    features : (n, d) float32 array or CSR matrix, shared and never copied as a whole.
    targets : array with n rows.
    weights : (n,) float32 array or None.
    index : the rows that belong to this part; None for all.

    Attributes
    ----------
    quantiles : values that stand for those of a feature where bins are laid; else its own do.
    """

    quantiles: Mapping[int, np.ndarray] = MappingProxyType({})

    def __init__(
        self,
        features: Any,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        index: np.ndarray | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.sparse = not isinstance(features, np.ndarray)
        self.features: Any = features if self.sparse else torch.from_numpy(features)
        self.targets = torch.from_numpy(targets)
        self.weights = None if weights is None else torch.from_numpy(weights)
        everything = np.arange(features.shape[0])
        self.index = torch.from_numpy(everything if index is None else np.asarray(index))

    def __len__(self) -> int:
        return len(self.index)

    def subset(self, index: Tensor) -> Rows:
        """The rows with these numbers, sharing the table."""
        other = copy.copy(self)
        other.index = index
        return other

    def some(self, most: int) -> Rows:
        """At most so many of the rows, spread evenly."""
        if len(self) <= most:
            return self
        return self.subset(self.index[spread_rows(len(self), most)])

    def take(self, rows: Tensor) -> Batch:
        """Features, targets and weights of the rows with these numbers in the whole table."""
        if self.sparse:
            x = torch.from_numpy(self.features[rows.numpy()].toarray())
        else:
            x = self.features[rows]
        weights = None if self.weights is None else self._put(self.weights[rows])
        return self._put(x), self._put(self.targets[rows]), weights

    def _put(self, part: Tensor) -> Tensor:
        """Send to the device, to a GPU by memory that it reads while it computes."""
        pinned = part.pin_memory() if self.device.type == "cuda" else part
        return pinned.to(self.device, non_blocking=True)

    def checksum(self) -> str:
        """Of the whole table these rows are part of, to tell one data set from another."""
        arrays = [self.features if self.sparse else self.features.numpy(), self.targets.numpy()]
        weights = [] if self.weights is None else [self.weights.numpy()]
        return checksum(*arrays, *weights)

    def parts(self) -> Sequence[Tensor]:
        """Numbers of all rows in their order, in parts of a size fit for evaluation."""
        return self.index.split(forward_rows(self.features.shape[1]))

    def in_order(self) -> Iterator[Batch]:
        """All rows in their order, in parts of a size fit for evaluation."""
        for rows in self.parts():
            yield self.take(rows)


class ShuffledBatches:
    """All rows in a fresh order an epoch: the source of batches of the training loop.

    A trailing batch of a single row, which has no batch statistics, joins the one before it.

    Examples
    --------
    >>> rows = Rows(np.zeros((9, 2), np.float32), np.zeros(9))
    >>> batches = ShuffledBatches(rows, 4)
    >>> [len(x) for x, _, _ in batches(0, torch.Generator().manual_seed(0))]
    [4, 5]
    """

    def __init__(self, rows: Rows, batch_size: int) -> None:
        self.rows = rows
        self.batch_size = min(batch_size, len(rows))

    def __len__(self) -> int:
        """Number of batches an epoch."""
        whole, rest = divmod(len(self.rows), self.batch_size)
        return max(1, whole + (rest > 1))

    def __call__(self, epoch: int, generator: torch.Generator) -> Iterator[Batch]:
        for rows in self.orders(generator):
            yield self.rows.take(rows)

    def orders(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Row numbers of the batches of one pass."""
        order = self.rows.index[torch.randperm(len(self.rows), generator=generator)]
        last = ShuffledBatches.__len__(self) - 1
        for number in range(last + 1):
            start = number * self.batch_size
            stop = len(order) if number == last else start + self.batch_size
            yield order[start:stop]
