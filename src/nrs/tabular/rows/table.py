"""Rows in files: one pass that counts, a sample in memory, and batches of all rows as a stream."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from nrs.datasets.large_table import Table
from nrs.datasets.reading import Plan, decide
from nrs.datasets.table_file_errors import missing_columns
from nrs.tabular.encode.category import MAX_LEVELS
from nrs.tabular.encode.columns import (
    PLURAL,
    Column,
    Kind,
    decide_column,
    labels_as_array,
    level_text,
    missing_cells,
)
from nrs.tabular.encode.encoder import TableEncoder, TableStatistics, counted_kind
from nrs.tabular.encode.level_means import MIN_FOLDS, LevelSums
from nrs.tabular.encode.number import Moments, NumberStatistics
from nrs.tabular.encode.table import categorical_columns, read_table, text_columns
from nrs.tabular.forest.folds import Folds, count_folds, read_times, times_of
from nrs.tabular.rows.memory import Batches, Rows, checksum
from nrs.tabular.rows.sample import RowSample, hashed_texts, split_places
from nrs.tabular.rows.stream import Block, StreamedBatches, labelled_rows
from nrs.tabular.targets import (
    SQUARED,
    Loss,
    Target,
    check_labelled,
    check_offset,
    class_target,
    counted_target,
    weights_of_classes,
)
from nrs.tabular.threshold import Threshold
from nrs.training.processes import Processes, present

if TYPE_CHECKING:
    import pyarrow

    from nrs.tabular.recipe import Recipe
    from nrs.tabular.types import ArrayLike, Categorical, ClassWeights, Json

logger = logging.getLogger("nrs.tabular")
# Different values of a target beyond which it is not one of classes.
MAX_LABELS = 10_000


class LabelStatistics:
    """What is counted of a target's column, in rows that have a weight.

    Attributes
    ----------
    missing : int
        Rows without a value, which have one of another target.
    counts : Counter or None
        Rows of each value; None if there are more than 10,000 values.
    weights, weight : Counter, float
        Sample weights of each value, and of all rows, added up.
    whole : bool
        Whether all values are whole numbers, booleans or texts.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.counts: Counter[Any] | None = Counter()
        self.weights: Counter[Any] = Counter()
        self.weight = 0.0
        self.missing = 0
        self.whole = True
        self.numbers = NumberStatistics(kind)

    def add(self, column: Column, weight: np.ndarray) -> None:
        """Count more rows."""
        self.weight += float(weight.sum())
        known = ~column.missing()
        if not known.all():
            self.missing += int((~known).sum())
            column, weight = replace(column, values=column.values[known]), weight[known]
        if column.kind != "category":
            self.numbers.add(Column(column.kind, column.values[weight > 0]))
        if self.counts is None:
            return
        labels, codes = self._labels(column)
        rows = np.bincount(codes, minlength=len(labels)).tolist()
        weights = np.bincount(codes, weight, len(labels)).tolist()
        for label, count, one in zip(labels, rows, weights, strict=True):
            if count:
                self.counts[label] += count
                self.weights[label] += one
        self._bound()

    def _labels(self, column: Column) -> tuple[Sequence[Any], np.ndarray]:
        if column.kind == "category":
            return column.levels, column.values
        values, codes = np.unique(column.values, return_inverse=True)
        if column.kind == "boolean":
            values = values.astype(bool)
        elif (values == np.floor(values)).all():
            values = values.astype(np.int64)
        else:
            self.whole = False
        return values.tolist(), codes

    def _bound(self) -> None:
        if self.counts is not None and len(self.counts) > MAX_LABELS:
            self.counts = None
            self.weights.clear()

    def merge(self, other: LabelStatistics) -> None:
        """Count the rows of another part of the table too."""
        self.numbers.merge(other.numbers)
        self.whole = self.whole and other.whole
        self.weight += other.weight
        self.missing += other.missing
        self.weights = self.weights + other.weights
        if self.counts is not None:
            self.counts = None if other.counts is None else self.counts + other.counts
        self._bound()

    def state(self) -> list[Any]:
        """Everything, as JSON values."""
        counts = None if self.counts is None else list(self.counts.items())
        weights = list(self.weights.items())
        totals = [self.weight, self.missing]
        return [self.kind, counts, weights, totals, self.whole, self.numbers.state()]

    @classmethod
    def from_state(cls, state: list[Any]) -> LabelStatistics:
        """Read what :meth:`state` gave."""
        kind, counts, weights, totals, whole, numbers = state
        statistics = cls(kind)
        # Pairs, because JSON's keys are texts.
        statistics.counts = None if counts is None else Counter(dict(counts))
        statistics.weights = Counter(dict(weights))
        statistics.weight, statistics.missing = totals
        statistics.whole = whole
        statistics.numbers.restore(numbers)
        return statistics


class StreamedRows(Rows):
    """A sample of a table's rows in memory, for bins and scores; batches of all rows."""

    stream: StreamedBatches | None = None

    def __init__(self, encode: RowEncoder, n_rows: int, device: torch.device | str) -> None:
        kept, places = encode.source.kept()
        x, y, folds, *weights = (part.numpy() for part in encode(kept, places))
        product = weights[0] if weights else None
        counted = encode.source.score_weights(kept, places, product)
        super().__init__(x, y, product, None, device, folds, counted)
        self.encode, self.n_rows, self.places = encode, n_rows, places

    def batches(self, batch_size: int, passes: int, group: Processes) -> Batches:
        self.stream = StreamedBatches(
            self.encode.source.table,
            self.encode,
            self.n_rows,
            self.features.shape[1],
            batch_size,
            passes=passes,
            shard=(group.rank, group.size) if group.divides_rows else (0, 1),
            device=self.device,
        )
        return self.stream

    @property
    def facts(self) -> Json:  # type: ignore[override]
        """Which rows of the table the sample is, and how long training waited for data."""
        waited = {} if self.stream is None else {"data_wait_": self.stream.wait_share}
        return {"oob_rows_": self.places} | waited

    def checksum(self) -> str:
        """Checksum of the sample, and of what the files say of themselves."""
        identity = [self.encode.source.table.identity(), super().checksum()]
        told = json.dumps(identity, sort_keys=True).encode()
        return checksum(np.frombuffer(told, dtype=np.uint8))


def find_plans(table: Table, names: Sequence[str], kept: Collection[int]) -> dict[int, Plan]:
    """How columns of texts are read as numbers or dates, by index, decided on all of their cells.

    Those whose first rows are words are not read further; nor are those that `kept` names.
    """
    texts = [
        place
        for place, name in enumerate(names)
        if table.kinds[name] == "category" and place not in kept
    ]
    if not texts:
        return {}
    start = next(table.chunks(columns=[names[place] for place in texts]))
    head = read_table(start.batch)
    possible = [
        place for at, place in enumerate(texts) if decide_column(head.column(at), names[place]).plan
    ]
    counts: list[Counter[str]] = [Counter() for _ in possible]
    for chunk in table.chunks(columns=[names[place] for place in possible]) if possible else ():
        rows = read_table(chunk.batch)
        for at, seen in enumerate(counts):
            column = rows.column(at)
            found = np.bincount(column.values + 1, minlength=len(column.levels) + 1)[1:].tolist()
            if len(seen) < MAX_LEVELS:
                seen.update(dict(zip(column.levels, found, strict=True)))
    plans = {}
    for place, seen in zip(possible, counts, strict=True):
        rows_of = np.array([*seen.values()])
        plan = decide([*seen], rows_of, name=names[place], typed=True).plan
        if plan is not None:
            plans[place] = plan
    return plans


class RowEncoder:
    """Raw rows in, what a step needs out: features, targets, folds, and weights if any."""

    def __init__(
        self, source: TableSource, encoder: TableEncoder, target: Target, folds: Folds
    ) -> None:
        self.source, self.encoder, self.target, self.folds = source, encoder, target, folds
        self.class_weights, self.scale = source.weighting(target)

    def __call__(self, batch: pyarrow.RecordBatch, places: np.ndarray) -> Block:
        y, folds, weights = self.known(batch, places)
        x = self.encoder.transform(batch.select(self.source.names), folds=folds)
        parts = [x, y, folds]
        if weights is not None:
            parts.append(weights.astype(np.float32))
        return tuple(map(torch.from_numpy, parts))

    def known(
        self, batch: pyarrow.RecordBatch, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Targets, folds, and weights if any: all but the features."""
        source = self.source
        y = self.target.encode_column(read_table(batch.select(source.targets)))
        if source.offset is not None:
            y = self.target.with_offset(y, source.offsets_of(batch, places))
        keys = source.keys_of(batch, places)
        weights = None if self.class_weights is None else self.class_weights[y]
        if source.weight is not None:
            own = source.weights_of(batch, places) * self.scale
            weights = own if weights is None else weights * own
        return y, self.folds.of(keys), weights


class TableSource:
    """A table in files, its weights, groups or times, and what one pass over it has counted.

    Parameters
    ----------
    weight, groups, time : str, ndarray (n_rows of all files,), optional
        A column that is no feature, or one entry per row in the order of the files.
    class_weight : as of :class:`nrs.NRSClassifier`.
    """

    def __init__(
        self,
        table: Table,
        categorical_features: Categorical = None,
        weight: str | np.ndarray | None = None,
        groups: str | np.ndarray | None = None,
        class_weight: ClassWeights = None,
        text_features: Categorical = None,
        time: str | np.ndarray | None = None,
        offset: str | np.ndarray | None = None,
        *,
        convert: bool = False,
    ) -> None:
        self.offset = offset
        self.table, self.weight, self.groups, self.time = table, weight, groups, time
        self.class_weight = class_weight
        self.targets = _targets_of(table)
        apart = [one for one in (weight, groups, time, offset) if isinstance(one, str)]
        missing = [name for name in apart if name not in table.columns]
        if missing:
            raise missing_columns(table.parts[0].path, missing, table.columns)
        # The columns to predict from.
        self.names = [name for name in table.columns if name not in apart]
        self.categorical = categorical_features
        self._before = np.cumsum([0, *(sum(part.rows) for part in table.parts)])
        first = read_table(table.head(1).select(self.names))
        first.declared = categorical_columns(categorical_features, first)
        texts = text_columns(text_features, first)
        kept = first.declared | (texts or frozenset())
        plans = find_plans(table, self.names, kept) if convert else {}
        kinds = [
            plans[place].kind if place in plans else table.kinds[name]
            for place, name in enumerate(self.names)
        ]
        self.statistics = TableStatistics(
            self.names,
            [
                counted_kind(place, cast(Kind, kind), first.declared, texts)
                for place, kind in enumerate(kinds)
            ],
            plans,
        )
        self.labels = [LabelStatistics(cast(Kind, table.kinds[one])) for one in self.targets]
        self.sample = RowSample()
        # Rows without a value of any target, which are left out.
        self.unlabelled = 0
        # Hashes of the groups, ascending; None without groups.
        self.keys: np.ndarray | None = None
        # Which rows of the sample all members see, where folds are in order of time.
        self.first: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        X: Table | TableSource,
        categorical_features: Categorical = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        class_weight: ClassWeights = None,
        text_features: Categorical = None,
        time: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        convert: bool = False,
    ) -> TableSource:
        """Count a table by all processes present, each reading its share.

        Raises
        ------
        ValueError
            If `y` is passed too, or weights, groups or times do not fit the table.
        nrs.datasets.table_file_errors.TableFileError
            If a file cannot be read, or a value cannot be used; with the name of the file.
        """
        if y is not None:
            table = X.table if isinstance(X, TableSource) else X
            raise ValueError(
                f"y must be left out with a Table, whose target is its column {_named(table)}"
            )
        if isinstance(X, TableSource):
            X.class_weight = class_weight
            return X
        weight = _per_row("sample_weight", sample_weight, X.n_rows)
        keys = _per_row("groups", groups, X.n_rows)
        if time is not None and not isinstance(time, str):
            time = read_times(time, X.n_rows)
        offsets = _per_row("offset", offset, X.n_rows)
        source = cls(
            X, categorical_features, weight, keys, class_weight, text_features, time, offsets,
            convert=convert,
        )  # fmt: skip
        group = present()
        source.survey(group.rank, group.size)
        if group.size > 1:
            content = torch.frombuffer(bytearray(source.packed()), dtype=torch.uint8)
            parts = group.gather(content.to(group.device))
            source.merge([part.cpu().numpy().tobytes() for part in parts])
        if source.unlabelled and group.is_writer:
            logger.warning("left out %d rows without a value of %s", source.unlabelled, _named(X))
        named = X.parts[0].path if X.source is None else X.source
        check_labelled(source.n_rows, ", ".join(source.targets), str(named))
        if source.labels[0].weight == 0:
            raise ValueError("sample_weight must contain at least one non-zero number")
        return source

    @property
    def n_rows(self) -> int:
        """Rows with a value of some target."""
        return self.statistics.n_rows

    @property
    def n_columns(self) -> int:
        return len(self.names)

    def survey(self, rank: int = 0, size: int = 1) -> None:
        """Pass over the table once, or over one of `size` parts of its row groups."""
        keys: set[int] = set()
        for chunk in self.table.chunks(self.table.groups[rank::size]):
            batch, places = labelled_rows(chunk, self.targets)
            self.unlabelled += chunk.batch.num_rows - len(places)
            if not len(places):
                continue
            with self.table.naming(chunk):
                self.statistics.add(read_table(batch.select(self.names)))
                labels = read_table(batch.select(self.targets))
                weights = self.weights_of(batch, places)
                for place, counted in enumerate(self.labels):
                    counted.add(labels.column(place, counted.kind), weights)
                found = self.keys_of(batch, places)
                if self.groups is not None and len(keys) <= MAX_LABELS:
                    keys |= set(np.unique(found).tolist())
            self.sample.add(batch, places)
        self.keys = None if self.groups is None else np.array(sorted(keys), dtype=np.int64)

    def merge(self, parts: Sequence[bytes]) -> None:
        """Take what processes have counted of their parts, in order of rank; see :meth:`packed`."""
        loaded = [dict(np.load(io.BytesIO(part), allow_pickle=False)) for part in parts]
        facts = [json.loads(part["facts"].tobytes()) for part in loaded]
        self.unlabelled = sum(one["unlabelled"] for one in facts)
        self.statistics, *others = (TableStatistics.from_state(one["columns"]) for one in facts)
        for other in others:
            self.statistics.merge(other)
        self.labels, *labels = (
            [LabelStatistics.from_state(state) for state in one["labels"]] for one in facts
        )
        for more in labels:
            for counted, others_own in zip(self.labels, more, strict=True):
                counted.merge(others_own)
        self.sample = RowSample()
        for part in loaded:
            if "rows" in part:
                self.sample.join(_arrow_table(part["rows"].tobytes()), part["places"])
        if self.groups is not None:
            self.keys = np.unique(np.concatenate([part["keys"] for part in loaded]))

    def packed(self) -> bytes:
        """What was counted, as bytes that hold numbers and texts only."""
        facts = {
            "unlabelled": self.unlabelled,
            "columns": self.statistics.state(),
            "labels": [one.state() for one in self.labels],
        }
        arrays = {"facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}
        if self.keys is not None:
            arrays["keys"] = self.keys
        if self.sample.rows is not None:
            arrays["places"] = self.sample.places
            arrays["rows"] = np.frombuffer(_arrow_bytes(self.sample.rows), dtype=np.uint8)
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **arrays)
        return content.getvalue()

    def weights_of(self, batch: pyarrow.RecordBatch, places: np.ndarray) -> np.ndarray:
        """The sample weight of each row of a record batch; 1 without weights."""
        if self.weight is None:
            return np.ones(len(places))
        if not isinstance(self.weight, str):
            return self.weight[self.numbers(places)]
        weights = read_table(batch.select([self.weight])).column(0, "number").values
        return _checked_weights(weights.astype(np.float64))

    def offsets_of(self, batch: pyarrow.RecordBatch, places: np.ndarray) -> np.ndarray:
        """The offset of each row of a record batch."""
        if not isinstance(self.offset, str):
            assert self.offset is not None
            return self.offset[self.numbers(places)]
        offsets = read_table(batch.select([self.offset])).column(0, "number").values
        return check_offset(offsets.astype(np.float64))

    def score_weights(
        self, batch: pyarrow.RecordBatch, places: np.ndarray, weights: np.ndarray | None
    ) -> np.ndarray | None:
        """How much rows count in out-of-bag scores; class weights count in training only."""
        if weights is None or (self.weight is None and weights.all()):
            return None
        return (self.weights_of(batch, places) * (weights > 0)).astype(np.float32)

    def keys_of(self, batch: pyarrow.RecordBatch, places: np.ndarray) -> np.ndarray:
        """What decides the fold of each row of a record batch: its group, its time or its place.

        Groups are numbers that are the same wherever they are read.
        """
        if isinstance(self.time, str):
            kind = cast(Kind, self.table.kinds[self.time])
            column = read_table(batch.select([self.time])).column(0, kind)
            return times_of(column, f"the column of time {self.time!r}")
        if self.time is not None:
            return self.time[self.numbers(places)]
        if self.groups is None:
            return places
        if not isinstance(self.groups, str):
            return self.groups[self.numbers(places)]
        column = read_table(batch.select([self.groups])).column(0, "category")
        if column.missing().any():
            raise ValueError(f"the column of groups {self.groups!r} must have a value in every row")
        return hashed_texts(column.levels)[column.values]

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """Numbers of rows in the whole table, file after file."""
        parts, rows = split_places(places)
        return self._before[parts] + rows

    def split(self, recipe: Recipe, seed: int, *, spare: bool) -> Folds:
        """The folds of a forest: hashed of each row's place or group, or in order of time."""
        if not recipe.members:
            raise ValueError(
                "a Table needs a forest, and these settings are a single network. Use "
                "preset='default', 'fast' or 'best', or read the rows into memory."
            )
        n_folds = min(count_folds(self.n_rows), recipe.members)
        if self.time is not None:
            if self.groups is not None:
                raise ValueError(
                    "groups and time cannot both decide which rows a member sees. Leave one of "
                    "them out."
                )
            kept, places = self.kept()
            times, weights = self.keys_of(kept, places), self.weights_of(kept, places)
            folds = Folds.in_order(times, recipe.members, seed, weights)
            folds = replace(folds, drawn=None)
            self.first = folds.of(times) == 0
            return folds
        if self.keys is None:
            return Folds(n_folds, seed)
        if len(self.keys) < 2:
            raise ValueError("groups must hold at least 2 different groups; got 1")
        # Many groups are spread evenly by their hashes alone.
        keys = self.keys if len(self.keys) <= MAX_LABELS else None
        return Folds(min(n_folds, len(self.keys)), seed, keys=keys)

    def encoder(
        self, categorical_features: Categorical, scale: str, target: Target, folds: Folds
    ) -> TableEncoder:
        """The encoder that a fit in memory to the same rows would have made."""
        encoder = TableEncoder(categorical_features, scale=scale)  # type: ignore[arg-type]
        sample = read_table(self.sample.rows.select(self.names))
        encoder.fit_statistics(self.statistics, sample)
        if folds.n_folds < MIN_FOLDS or not encoder.has_many_levels:
            return encoder
        # One more pass over the table.
        read = RowEncoder(self, encoder, target, folds)
        frequency = np.ones(target.n_targets)
        if target.choices:
            frequency = np.concatenate(
                [
                    [one.weights[label] for label in classes.tolist()]
                    for one, classes in zip(self.labels, self._classes_of(target), strict=True)
                ]
            )
            frequency *= 1.0 if read.class_weights is None else read.class_weights
        if self.first is not None:
            y, _, weights = read.known(*self.kept())
            each = np.ones(len(y)) if weights is None else weights
            frequency = target.frequency(y[self.first], each[self.first])
        sums, group = LevelSums(encoder, target, folds, frequency), present()
        for chunk in self.table.chunks(self.table.groups[group.rank :: group.size]):
            batch, places = labelled_rows(chunk, self.targets)
            if not len(places):
                continue
            y, fold, weight = read.known(batch, places)
            sums.add(read_table(batch.select(self.names)), y, weight, fold)
        if group.size > 1:
            parts = group.gather(torch.from_numpy(sums.arrays()).to(group.device))
            sums.restore(torch.stack(list(parts)).sum(0).cpu().numpy())
        return encoder.with_means(sums.means())

    def classification(self, threshold: Threshold = None, loss: Loss = "log_loss") -> Target:
        """The classes that the columns of the targets hold."""
        counts = [self._counts(place) for place in range(len(self.targets))]
        if len(counts) > 1:
            missing = any(one.missing for one in self.labels)
            return counted_target(
                counts, loss, threshold, self.class_weight, may_be_missing=missing
            )
        (classes, rows), weights = counts[0], None
        if self.class_weight is not None:
            weights = weights_of_classes(self.class_weight, classes, rows)
        return class_target(classes, loss, threshold, weights)

    def _counts(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The labels of a target, ascending, and how many rows have each."""
        labels, name = self.labels[place], self.targets[place]
        if labels.counts is None or not labels.whole:
            found = f"more than {MAX_LABELS:,} different values" if labels.whole else "fractions"
            raise ValueError(
                f"a classifier needs a target of few values; {name!r} holds {found}. Use "
                "NRSRegressor."
            )
        classes = sorted(labels.counts)
        return np.array(classes), np.array([labels.counts[label] for label in classes])

    def _classes_of(self, target: Target) -> list[np.ndarray]:
        """The classes of each column of a target of classes."""
        return target.classes if target.several else [target.classes]

    def regression(self, loss: Target = SQUARED) -> Target:
        """The target of all rows, or what the sample says of its scale."""
        for name, one in zip(self.targets, self.labels, strict=True):
            if one.kind == "category":
                raise ValueError(
                    f"a regressor needs a target of numbers; {name!r} holds "
                    f"{PLURAL['category']}. Use NRSClassifier."
                )
        exact, several = None, len(self.targets) > 1
        if self.first is None and not several:
            moments: Moments = self.labels[0].numbers.moments
            exact = loss.of_moments(moments.mean, moments.std)
        if exact is not None:
            return exact
        kept, places = self.kept()
        shown = self.weights_of(kept, places) > 0
        shown = shown if self.first is None else shown & self.first
        table = read_table(kept.select(self.targets))
        columns = [table.column(k, "number").values[shown] for k in range(len(self.targets))]
        numbers = np.stack(columns, axis=1).astype(np.float64)
        offset = None if self.offset is None else self.offsets_of(kept, places)[shown]
        if several and any(one.missing for one in self.labels) and loss.finite == "allow-nan":
            # The sample alone may lack none.
            numbers = np.vstack([numbers, np.full((1, len(columns)), np.nan)])
        target = loss.learned(numbers if several else numbers[:, 0], offset)
        return target if self.first is None else target.varying()

    def weighting(self, target: Target) -> tuple[np.ndarray | None, float]:
        """The weight of each class, and the factor of sample weights: their mean is one."""
        if self.class_weight is None or target.several:
            return None, 1.0 if self.weight is None else self.n_rows / self.labels[0].weight
        classes, counts = self._counts(0)
        weights = weights_of_classes(self.class_weight, classes, counts)
        own = np.array([self.labels[0].weights[label] for label in classes.tolist()])
        return (weights * counts.sum() / (weights * own).sum()).astype(np.float32), 1.0

    def kept(self) -> tuple[Any, np.ndarray]:
        """The sample as one record batch, and the places of its rows."""
        return self.sample.rows.combine_chunks().to_batches()[0], self.sample.places

    def rows(
        self, encoder: TableEncoder, target: Target, folds: Folds, device: torch.device
    ) -> tuple[StreamedRows, None]:
        """Encoded rows: a sample in memory, and all of them batch by batch."""
        return StreamedRows(RowEncoder(self, encoder, target, folds), self.n_rows, device), None


def _targets_of(table: Table) -> list[str]:
    if not table.targets:
        raise ValueError("a Table to fit to needs a target: use Table(…, target='name')")
    for name in table.targets:
        kind = table.kinds[name]
        if kind in ("date", "duration"):
            raise ValueError(
                f"the target must hold numbers or classes; {name!r} holds a {kind}. Turn it "
                "into a number, such as days."
            )
    return table.targets


def _named(table: Table) -> str:
    return ", ".join(map(repr, table.targets))


def _per_row(name: str, value: Any, n_rows: int) -> str | np.ndarray | None:
    """A column's name, or one number per row of the files: weights, or hashes of groups."""
    if value is None or isinstance(value, str):
        return value
    array = labels_as_array(value)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one entry per row of the Table, ({n_rows},), or name one of its "
            f"columns; its shape is {array.shape}"
        )
    if name == "sample_weight":
        return _checked_weights(array.astype(np.float64))
    if name == "offset":
        return check_offset(array)
    missing = missing_cells(array)
    if missing.any():
        raise ValueError(f"groups must name a group for every row; row {missing.argmax()} has none")
    array = array.astype(str) if array.dtype.kind == "O" else array
    labels, codes = np.unique(array, return_inverse=True)
    return hashed_texts([level_text(label) for label in labels.tolist()])[codes]


def _checked_weights(weights: np.ndarray) -> np.ndarray:
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(
            f"sample weights must be finite and at least 0; got {weights[wrong][0]:g} in row "
            f"{int(np.argmax(wrong))}"
        )
    return weights


def _arrow_bytes(table: Any) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _arrow_table(content: bytes) -> Any:
    import pyarrow

    with pyarrow.ipc.open_stream(content) as stream:
        return stream.read_all()
