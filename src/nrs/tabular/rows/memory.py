"""Rows in memory: encoded rows and batches of them, dense or sparse, without copying the table."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from torch import Tensor

from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.level_means import MIN_FOLDS, LevelSums
from nrs.tabular.forest.folds import NO_FOLDS, Folds, read_groups, read_times
from nrs.tabular.targets import (
    SQUARED,
    Loss,
    Target,
    class_target,
    labels_target,
    weights_of_labels,
)
from nrs.tabular.threshold import Threshold
from nrs.training.processes import ALONE, Processes

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from nrs.tabular.encode.table import Table
    from nrs.tabular.recipe import Recipe
    from nrs.tabular.types import ArrayLike, Categorical, ClassWeights

Batch = tuple[Tensor, Tensor, Tensor | None]
# Features, targets, weights and folds of some rows.
Sample = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# Cells of one forward pass without gradients: activations of this size stay in cache.
FORWARD_CELLS = 1 << 21
MAX_FORWARD_ROWS = 2048
# Held-out rows beyond this many measure no better, and take time after every epoch.
MAX_HELD_OUT = 20_000
# Batches that are gathered in one go, and their cells.
MAX_AHEAD, MAX_AHEAD_CELLS = 8, 1 << 18


def forward_rows(features: int) -> int:
    """Rows of one forward pass without gradients, fewer for wide tables."""
    return max(64, min(MAX_FORWARD_ROWS, FORWARD_CELLS // features))


def spread_rows(n: int, k: int) -> Tensor:
    """Numbers of k of n rows, spread evenly from the first to the last: (k,) int64, ascending.

    In whole numbers: float32 knows every row only up to 2²⁴ of them, and may round the last one
    past the end.

    Examples
    --------
    >>> spread_rows(10, 4).tolist(), spread_rows(3_000_000_000, 2).tolist()
    ([0, 3, 6, 9], [0, 2999999999])
    """
    return torch.arange(k) * (n - 1) // max(1, k - 1)


def checksum(*arrays: Any) -> str:
    """A short checksum of arrays and sparse matrices, to tell one data set from another."""
    digest = hashlib.sha256()
    for array in arrays:
        dense = isinstance(array, np.ndarray)
        for part in [array] if dense else [array.data, array.indices, array.indptr]:
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:32]


class Rows:
    """Features, targets, weights and folds of some rows of an encoded table.

    Parameters
    ----------
    features : (n, d) float32 array or CSR matrix, shared and never copied as a whole.
    targets : array with n rows.
    weights : (n,) float32 array or None.
    index : the rows that belong to this part; None for all.
    folds : (n,) the fold of each row, if members are not to see one each.
    score_weights : (n,) float32 array or None, how much each row counts in out-of-bag scores.
    """

    def __init__(
        self,
        features: np.ndarray | csr_matrix,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        index: np.ndarray | Sequence[int] | None = None,
        device: torch.device | str = "cpu",
        folds: np.ndarray | None = None,
        score_weights: np.ndarray | None = None,
    ) -> None:
        self.score_weights = None if score_weights is None else torch.from_numpy(score_weights)
        self.device = torch.device(device)
        self.sparse = not isinstance(features, np.ndarray)
        self.features: Any = features if self.sparse else torch.from_numpy(features)
        self.targets = torch.from_numpy(targets)
        self.weights = None if weights is None else torch.from_numpy(weights)
        self.folds = None if folds is None else torch.from_numpy(folds)
        everything = np.arange(features.shape[0])
        self.index = torch.from_numpy(everything if index is None else np.asarray(index))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def n_units(self) -> int:
        """What folds count: rows, or queries."""
        return len(self.index)

    # Fitted attributes that say where the rows came from.
    facts: Mapping[str, Any] = MappingProxyType({})

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

    def joined(self, later: Rows, most: int) -> Rows:
        """All of `later`, and before them the last of these: at most so many together."""
        kept = self.index[len(self) - max(0, min(len(self), most - len(later))) :]
        if self.sparse or later.sparse or not len(kept):
            return later

        def both(values: str) -> np.ndarray | None:
            one, two = getattr(self, values), getattr(later, values)
            if one is None and two is None:
                return None
            parts = [
                torch.ones(len(index)) if part is None else part[index]
                for part, index in ((one, kept), (two, later.index))
            ]
            return torch.cat(parts).numpy()

        features, targets = both("features"), both("targets")
        assert features is not None
        assert targets is not None
        return Rows(
            features, targets, both("weights"),
            device=later.device, folds=both("folds"), score_weights=both("score_weights"),
        )  # fmt: skip

    def widened(self, places: np.ndarray, width: int) -> Rows:
        """A copy whose features have moved to these places, among `width` with zeros."""
        other = copy.copy(self)
        other.features = torch.zeros(len(self.features), width, dtype=torch.float32)
        other.features[:, places] = self.features
        return other

    def sample(self, most: int) -> Sample:
        """Features, targets, weights and folds of at most so many dense rows, spread evenly."""
        chosen = self.index[spread_rows(len(self), min(most, len(self)))]
        equal = torch.ones(len(chosen), dtype=torch.float32)
        weights = equal if self.weights is None else self.weights[chosen]
        folds = torch.zeros_like(chosen) if self.folds is None else self.folds[chosen]
        parts = (self.features[chosen], self.targets[chosen], weights, folds)
        return tuple(part.numpy() for part in parts)  # type: ignore[return-value]

    def truth(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Targets, weights in training and weights in scores of all rows, in their order."""
        weights = None if self.weights is None else self.weights[self.index]
        counted = None if self.score_weights is None else self.score_weights[self.index]
        return self.targets[self.index], weights, counted

    def take(self, rows: Tensor) -> Batch:
        """Features, targets and weights of the rows with these numbers in the whole table."""
        if self.sparse:
            x = torch.from_numpy(self.features[rows.numpy()].toarray())
        else:
            x = self.features[rows]
        weights = None if self.weights is None else self._put(self.weights[rows])
        return self._put(x), self._put(self.targets[rows]), weights

    def batches_of(self, parts: Sequence[Tensor]) -> Iterator[tuple[Tensor | None, ...]]:
        """Batches of the rows with these numbers, with their folds where there are some."""
        whole, sizes = torch.cat(list(parts)), [len(own) for own in parts]
        found: list[Tensor | None] = [*self.take(whole)]
        if self.folds is not None:
            found.append(self.folds[whole].to(self.device))
        columns = [[one] * len(parts) if one is None else one.split(sizes) for one in found]
        yield from zip(*columns, strict=True)

    def _put(self, part: Tensor) -> Tensor:
        """Send to the device, to a GPU by memory that it reads while it computes."""
        pinned = part.pin_memory() if self.device.type == "cuda" else part
        return pinned.to(self.device, non_blocking=True)

    def checksum(self) -> str:
        """Checksum of the whole table these rows are part of."""
        arrays = [self.features if self.sparse else self.features.numpy(), self.targets.numpy()]
        weights = [] if self.weights is None else [self.weights.numpy()]
        return checksum(*arrays, *weights)

    def parts(self) -> Sequence[Tensor]:
        """Numbers of all rows in their order, in parts of a size fit for evaluation."""
        return self.index.split(forward_rows(self.features.shape[1]))

    def scored(
        self, rank: int = 0, size: int = 1, order: Tensor | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Features and folds of all rows, in parts, of which processes take turns."""
        assert self.folds is not None
        ordered = self if order is None else self.subset(self.index[order])
        for rows in list(ordered.parts())[rank::size]:
            yield self.take(rows)[0], self.folds[rows].to(self.device)

    def inputs(self, most: int) -> Tensor:
        """Features of a few rows, spread evenly: at most so many, and of one forward pass."""
        few = max(2, min(most, forward_rows(self.features.shape[1]), len(self)))
        return self.take(self.index[spread_rows(len(self), few)])[0]

    def in_order(self) -> Iterator[Batch]:
        """All rows in their order, in parts of a size fit for evaluation."""
        for rows in self.parts():
            yield self.take(rows)

    def batches(self, batch_size: int, passes: int, group: Processes) -> Batches:
        """The source of batches for training a forest."""
        return ShuffledBatches(self, batch_size, passes, group)


class Batches(Protocol):
    """A source of batches of the training loop, which knows how many an epoch has."""

    def __len__(self) -> int: ...

    def __call__(self, epoch: int, generator: torch.Generator) -> Iterator[Any]: ...


class ShuffledBatches:
    """All rows in a fresh order per pass: the source of batches of the training loop.

    Rows that have folds come with them. A forest takes several passes per epoch: out-of-bag rows
    are scored after every one, and a pass over a small table is too short for it. Processes that
    share rows draw the same batches and each takes its share of them. A trailing batch of a single
    row, which has no batch statistics, joins the one before it.

    Examples
    --------
    >>> rows = Rows(np.zeros((9, 2), np.float32), np.zeros(9))
    >>> batches = ShuffledBatches(rows, 4, passes=2)
    >>> [len(x) for x, _, _ in batches(0, torch.Generator().manual_seed(0))]
    [4, 5, 4, 5]
    """

    def __init__(
        self, rows: Rows, batch_size: int, passes: int = 1, group: Processes = ALONE
    ) -> None:
        self.rows, self.passes, self.group = rows, passes, group
        self.batch_size = min(batch_size, len(rows))
        whole, rest = divmod(len(rows), self.batch_size)
        self.in_a_pass = max(1, whole + (rest > 1))

    def __len__(self) -> int:
        """Number of batches per epoch."""
        return self.passes * self.in_a_pass

    def __call__(self, epoch: int, generator: torch.Generator) -> Iterator[Any]:
        rows, last = self.rows, self.in_a_pass - 1
        ends = [self.batch_size * number for number in range(1, last + 1)]
        cells = self.batch_size * rows.features.shape[1]
        ahead = max(1, min(MAX_AHEAD, MAX_AHEAD_CELLS // cells))
        for _ in range(self.passes):
            order = rows.index[torch.randperm(len(rows), generator=generator)]
            parts = list(order.tensor_split(ends))
            if self.group.divides_rows:
                parts = [self.group.share(own) for own in parts]
            # Gathering a few batches in one go takes less time than one by one.
            for at in range(0, len(parts), ahead):
                yield from rows.batches_of(parts[at : at + ahead])


class MemorySource:
    """A table, its labels, weights, groups or times in memory: what one fit learns from.

    Parameters
    ----------
    labels : ndarray (n_rows,) or (n_rows, n_outputs)
    weights : ndarray (n_rows,) of float32, of mean one, or None
    groups : any array (n_rows,), optional
    classes : bool
        Whether labels are classes, which folds are balanced by.
    score_weights : ndarray (n_rows,) of float32, optional
        How much each row counts in out-of-bag scores.
    time : any array (n_rows,), optional
        By which folds are cut in order.
    class_weight : as of :class:`nrs.NRSClassifier`; `weights` hold it already.
    offset : ndarray (n_rows,) of float64, optional
        Added to the outputs of each row.
    """

    def __init__(
        self,
        table: Table,
        labels: np.ndarray,
        weights: np.ndarray | None = None,
        groups: ArrayLike | None = None,
        *,
        classes: bool = False,
        score_weights: np.ndarray | None = None,
        time: ArrayLike | None = None,
        class_weight: ClassWeights = None,
        offset: np.ndarray | None = None,
    ) -> None:
        self.score_weights, self.class_weight, self.offset = score_weights, class_weight, offset
        self.table, self.labels, self.weights = table, labels, weights
        self.classes = classes
        self.n_rows, self.n_columns, self.names = table.n_rows, table.n_columns, table.names
        self.groups, self.time = groups, time
        # All that will ever come, where they are more than these labels.
        self.known_classes: np.ndarray | Sequence[np.ndarray] | None = None
        # Set by split: None for all rows, and for no held-out ones.
        self.training: np.ndarray | None = None
        self.held_out: np.ndarray | None = None
        # The rows that all members see, where folds are in order of time.
        self.first: np.ndarray | None = None

    def split(self, recipe: Recipe, seed: int, *, spare: bool) -> Folds:
        """Draw the folds of a forest, or hold out rows for a single network that must `spare` some.

        Raises
        ------
        ValueError
            If there are too few rows or groups, or groups for a single network.
        """
        if self.time is not None:
            return self._split_in_order(recipe, seed, spare=spare)
        if not recipe.members:
            if self.groups is not None:
                raise ValueError(
                    "groups need a forest, and these settings are a single network. Use "
                    "preset='default', or leave groups out."
                )
            if spare and recipe.validation_fraction > 0:
                self._hold_out(recipe.validation_fraction, seed)
            return NO_FOLDS
        groups = None if self.groups is None else read_groups(self.groups, self.n_rows)
        return Folds.draw(self.strata(), recipe.members, seed, groups)

    def _split_in_order(self, recipe: Recipe, seed: int, *, spare: bool) -> Folds:
        if self.groups is not None:
            raise ValueError(
                "groups and time cannot both decide which rows a member sees. Leave one of them "
                "out."
            )
        times = read_times(self.time, self.n_rows)
        if recipe.members:
            folds = Folds.in_order(times, recipe.members, seed, self.weights)
            self.first = np.flatnonzero(folds.drawn == 0)
            return folds
        if not spare or recipe.validation_fraction == 0:
            raise ValueError(
                "time needs a forest, or a single network that holds out rows of its own: the "
                "latest. Use preset='default', set validation_fraction, or leave time out."
            )
        self._hold_out(recipe.validation_fraction, seed, times)
        return NO_FOLDS

    def strata(self) -> np.ndarray:
        """What folds are balanced by: numbers of the classes, whatever their dtype."""
        if self.labels.ndim == 2 or not self.classes:
            return self.labels
        return np.unique(self.labels, return_inverse=True)[1]

    def _hold_out(self, fraction: float, seed: int, times: np.ndarray | None = None) -> None:
        size = min(round(self.n_rows * fraction), MAX_HELD_OUT)
        if size < 2 or self.n_rows - size < 2:
            raise ValueError(
                f"validation_fraction={fraction} of {self.n_rows} rows leaves too few to train or "
                "to measure on. Set validation_fraction=0, or pass an eval_set."
            )
        if times is not None:
            # The latest rows; those of equal time stay together.
            start = np.sort(times)[-size]
            latest = times >= start if (times < start).any() else times > start
            if not latest.any():
                raise ValueError("time must hold at least 2 different times; got 1")
            self.training, self.held_out = np.flatnonzero(~latest), np.flatnonzero(latest)
            return
        splitter: Any = ShuffleSplit(1, test_size=size, random_state=seed)
        strata = self.strata()
        if strata.ndim == 1 and strata.dtype.kind != "f":
            counts = np.unique(strata, return_counts=True)[1]
            if counts.min() >= 2 and len(counts) <= min(size, self.n_rows - size):
                splitter = StratifiedShuffleSplit(1, test_size=size, random_state=seed)
        training, held_out = next(splitter.split(np.empty((self.n_rows, 0)), strata))
        self.training, self.held_out = np.sort(training), np.sort(held_out)

    def encoder(
        self, categorical_features: Categorical, scale: str, target: Target, folds: Folds
    ) -> TableEncoder:
        """Learn the encoding from the training rows."""
        encoder = TableEncoder(categorical_features, scale=scale)  # type: ignore[arg-type]
        encoder.fit(self.table, self.training)
        if folds.drawn is None or folds.n_folds < MIN_FOLDS or not encoder.has_many_levels:
            return encoder
        y = self.encoded(target)
        equal = np.ones(self.n_rows) if self.weights is None else self.weights
        shown = slice(None) if self.first is None else self.first
        sums = LevelSums(encoder, target, folds, target.frequency(y[shown], equal[shown]))
        sums.add(self.table, y, self.weights, folds.drawn)
        return encoder.with_means(sums.means())

    def encoded(self, target: Target) -> np.ndarray:
        """All labels as the loss reads them."""
        if target.has_offset and self.offset is None:
            raise ValueError("offset must be given: the fit had one")
        y = target.encode(self.labels)
        return y if self.offset is None else target.with_offset(y, self.offset)

    def classification(self, threshold: Threshold = None, loss: Loss = "log_loss") -> Target:
        """The target of all labels: a class that only held-out rows have still is a class."""
        if self.labels.ndim == 2:
            every = self.known_classes
            return labels_target(self.labels, loss, threshold, self.class_weight, every)
        known = self.labels if self.known_classes is None else self.known_classes
        classes, weights = np.unique(known), None
        if self.class_weight is not None:
            found, first = np.unique(self.labels, return_index=True)
            weights = np.ones(len(classes))
            of_rows = weights_of_labels(self.class_weight, self.labels)
            weights[np.searchsorted(classes, found)] = of_rows[first]
        return class_target(classes, loss, threshold, weights)

    def regression(self, loss: Target = SQUARED) -> Target:
        """The target of training rows that have a weight, which decide its scale."""
        shown = self.training if self.first is None else self.first
        rows = slice(None) if shown is None else shown
        labels, offset = self.labels[rows], self.offset
        offset = None if offset is None else offset[rows]
        if self.weights is not None and self.weights[rows].any():
            counted = self.weights[rows] > 0
            labels, offset = labels[counted], None if offset is None else offset[counted]
        target = loss.learned(labels, offset)
        return target if self.first is None else target.varying()

    def rows(
        self, encoder: TableEncoder, target: Target, folds: Folds, device: torch.device
    ) -> tuple[Rows, Rows | None]:
        """Encoded training rows, and held-out ones if there are any."""
        features = encoder.transform(self.table, folds=folds.drawn)
        targets = self.encoded(target)
        rows = Rows(
            features, targets, self.weights, self.training, device, folds.drawn, self.score_weights
        )
        if self.held_out is None:
            return rows, None
        return rows, Rows(features, targets, self.weights, self.held_out, device)
