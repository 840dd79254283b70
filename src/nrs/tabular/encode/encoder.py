"""A raw table in, a float32 matrix out, by rules learned from the training rows only."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nrs.datasets.reading import TRIED, Decision, Plan
from nrs.tabular.encode.category import CategoryEncoder, CategoryStatistics
from nrs.tabular.encode.column_encoder import (
    MAX_NAMED,
    ColumnEncoder,
    ColumnWarning,
    Statistics,
    Watch,
    outside,
)
from nrs.tabular.encode.columns import Column, Kind, decide_column
from nrs.tabular.encode.date import DateEncoder, DateStatistics
from nrs.tabular.encode.drift import MAX_FEATURES, Profile
from nrs.tabular.encode.level_means import LevelMeans
from nrs.tabular.encode.number import NumberBlock, NumberEncoder, NumberStatistics
from nrs.tabular.encode.sparse import SparseScaler
from nrs.tabular.encode.table import Table, categorical_columns, place_of, read_table
from nrs.tabular.encode.text import TextEncoder, TextStatistics

if TYPE_CHECKING:
    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import TableLike

KINDS: dict[Kind, type[ColumnEncoder]] = {
    **dict.fromkeys(("number", "boolean", "duration"), NumberEncoder),
    "date": DateEncoder,
    "category": CategoryEncoder,
    "text": TextEncoder,
}
STATISTICS: dict[Kind, type[Statistics]] = {
    **dict.fromkeys(("number", "boolean", "duration"), NumberStatistics),
    "date": DateStatistics,
    "category": CategoryStatistics,
    **dict.fromkeys(("text", "string"), TextStatistics),
}
STATE_VERSION = 1
_DIGIT = re.compile(r"\d")
# Columns of a frame that are written side by side: 16 float32 fill a cache line of the output.
FRAME_COLUMNS = 16


@dataclass(eq=False, repr=False)
class TableEncoder(BaseEstimator):
    """Turn a raw table into float32 features, without NaN or infinity.

    ============  ==============================================================================
    column        features
    ============  ==============================================================================
    number,       ``(x - mean) / std``, squashed beyond the fences of training (see
    duration      :mod:`.number`); constant columns give none. Missing is the mean. With
                  ``scale="none"`` the values as they are, constant columns too.
    boolean       0 or 1; missing is 0.5
    category      one 0/1 feature per level, missing being a level if training had it; a single
                  one for two levels. An unseen level is all zeros (0.5 in a single feature), and
                  has a feature of its own after :meth:`with_levels`
    category of   0/1 features of the most frequent ``max_levels`` (those seen at least twice),
    many levels   one that the others share, and the standardised log(1 + rows of the level); in
                  forests also the mean of the target by level (:mod:`.level_means`)
    text          main directions of the TF-IDF of its words, pairs of words and pieces of words
                  (:mod:`.text`); a cell without known ones is 0
    date          standardised time; month, weekday and hour (with its fraction) as sine and
                  cosine where they vary. Missing is 0
    sparse        ``x / max |x|``, so that zeros stay zeros; columns that are constant give none
    ============  ==============================================================================

    A number, boolean, date or text column with missing cells in training has one more feature, 1
    where a cell is missing. A column that is all missing in training gives no features. If no
    column gives any, there is one feature that is always 0. Features are clipped to ±1e18.

    Parameters
    ----------
    categorical_features : names, indices or mask of columns to treat as categories, in addition to
        those with a categorical dtype; "from_dtype" and None add none.
    scale : "standard" or "none"; concerns numbers, durations and sparse matrices alone.
    max_levels : largest number of levels of a column that get a feature each.

    Attributes
    ----------
    n_features_in_, n_features_out_ : columns of the training table, and features.
    feature_names_in_ : names of the columns; only if the training table had names.
    feature_names_out_ : ndarray of names such as ``colour=red``.
    groups_ : ndarray of int64, the source column of each feature, ascending.
    variants_ : ndarray of int64, the fold whose members read each feature; -1 where all do.
    n_features_read_ : features that a member may read.
    binned_ : ndarray of bool, which features forests may cut into bins.
    kinds_ : "number", "boolean", "duration", "date", "category" or "text" for each column.
    is_sparse_ : whether :meth:`transform` returns a CSR matrix.

    Examples
    --------
    >>> rows = [[1.0, "red"], [3.0, "blue"], [None, "red"]]
    >>> encoder = TableEncoder().fit(rows)
    >>> encoder.transform(rows)
    array([[-1.,  0.,  1.],
           [ 1.,  0.,  0.],
           [ 0.,  1.,  1.]], dtype=float32)
    >>> encoder.feature_names_out_.tolist(), encoder.groups_.tolist()
    (['x0', 'x0 (missing)', 'x1=red'], [0, 0, 1])
    """

    categorical_features: Any = None
    scale: Literal["standard", "none"] = "standard"
    max_levels: int = 64

    def __post_init__(self) -> None:
        # How columns of texts are read as numbers or dates, by index.
        self.plans: dict[int, Plan] = {}

    def fit(self, X: Any, rows: np.ndarray | None = None) -> TableEncoder:
        """Learn from a table that :func:`read_table` reads, or from some `rows`: indices or a mask.

        ValueError if a value is infinite, a sparse matrix holds NaN or a parameter is not valid;
        TypeError if a cell is neither a number nor text, boolean, date or missing.
        """
        self._check_parameters()
        table = X if isinstance(X, Table) else read_table(X)
        declared = table.declared
        if self.categorical_features is not None:
            declared |= categorical_columns(self.categorical_features, table)
        if rows is not None:
            rows = np.asarray(rows)
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows
            if len(rows) == 0:
                raise ValueError("rows is empty; give at least one training row")
        kinds: list[Kind] = ["number"] * table.n_columns
        if table.sparse is not None:
            scaler = SparseScaler.fit(table, rows, scaled=self.scale == "standard")
            return self._adopt(table.names, kinds, {}, scaler)
        encoders: dict[int, ColumnEncoder] = {}
        # A column that is declared has no other reading.
        table.plans = {k: plan for k, plan in table.plans.items() if k not in declared}
        self.plans = {k: plan for k, plan in table.plans.items() if plan is not None}
        if table.matrix is not None:
            kinds = ["boolean" if table.matrix.dtype == bool else "number"] * table.n_columns
            together = [index for index in range(table.n_columns) if index not in declared]
            numbers = NumberEncoder.fit_matrix(table, together, rows, self.scale)
            encoders.update(zip(together, numbers, strict=True))
        for index in range(table.n_columns):
            if index not in encoders:
                forced = index in declared or index in (table.texts or ())
                column = _read(table, index, "category" if forced else None, rows)
                decision = None if forced else decide_text(table, index, column)
                if decision is not None:
                    self._convert(table, index, decision)
                    column = _read(table, index, None, rows)
                kind = counted_kind(index, column.kind, declared, table.texts)
                if kind == "string" and len(column.levels) <= self.max_levels:
                    kind = "category"
                counted = count(column, kind)
                encoders[index] = counted.encoder(self.scale, int(self.max_levels), column)
                kinds[index] = kind_of(column.kind, encoders[index])
        return self._adopt(table.names, kinds, encoders)

    def _convert(self, table: Table, index: int, decision: Decision) -> None:
        """Let a table be read as decided, now and later."""
        if decision.plan is not None:
            self.plans[index] = table.plans[index] = decision.plan
        if decision.ambiguous and decision.plan is not None:
            warnings.warn(
                f"{table.label(index)} allows two readings; it is read as "
                f"{decision.plan.words()}. Convert it yourself if that is wrong.",
                ColumnWarning,
                stacklevel=outside(),
            )

    def fit_statistics(self, statistics: TableStatistics, sample: Table) -> TableEncoder:
        """Fit from what was counted elsewhere, such as in one pass over a table in many files.

        Bounds of numbers and dates come from a sample of its rows.
        """
        self._check_parameters()
        self.plans = dict(statistics.plans)
        sample.plans |= self.plans
        encoders = {
            index: column.encoder(self.scale, int(self.max_levels), _read(sample, index, kind))
            for index, (kind, column) in enumerate(statistics.columns)
        }
        kinds = [kind_of(kind, encoders[k]) for k, (kind, _) in enumerate(statistics.columns)]
        return self._adopt(statistics.names, kinds, encoders)

    def fit_transform(self, X: Any, rows: np.ndarray | None = None) -> Any:
        """Learn from `rows` as :meth:`fit` does, then encode every row."""
        table = X if isinstance(X, Table) else read_table(X)
        return self.fit(table, rows).transform(table)

    def _check_parameters(self) -> None:
        if self.scale not in ("standard", "none"):
            raise ValueError(f"scale must be 'standard' or 'none'; got {self.scale!r}")
        levels = self.max_levels
        if not isinstance(levels, (int, np.integer)) or levels < 1:
            raise ValueError(f"max_levels must be an integer of at least 1; got {levels!r}")

    def _adopt(
        self,
        names: list[str] | None,
        kinds: Sequence[Kind],
        encoders: Mapping[int, ColumnEncoder],
        scaler: SparseScaler | None = None,
    ) -> TableEncoder:
        """Take what was learned, and give each column its places among the features, in order."""
        self.names = None if names is None else list(names)
        self.n_features_in_, self.kinds_ = len(kinds), list(kinds)
        self._sparse, self.is_sparse_ = scaler, scaler is not None
        # How the training rows are spread, if it was learned.
        self.profile: Profile | None = None
        self.encoders = {i: one for i, one in sorted(encoders.items()) if one.features}
        features: list[tuple[int, str, int]] = []
        names, self.first = self.column_names, {}
        for i, one in self.encoders.items():
            self.first[i] = len(features)
            variants = [-1] * (len(one.features) - len(one.variants)) + [*one.variants]
            ends = zip(one.features, variants, strict=True)
            features += [(i, names[i] + end, variant) for end, variant in ends]
        if scaler is not None:
            features = [(i, names[i], -1) for i in scaler.kept.tolist()]
        groups, outputs, readers = zip(*features or [(0, "constant", -1)], strict=True)
        self.variants_ = np.array(readers, dtype=np.int64)
        self.binned_ = np.array([i not in self.encoders or self.encoders[i].binned for i in groups])
        self.n_features_out_ = len(groups)
        # Of features that are made in one variant per fold, a member reads its own.
        self.n_features_read_ = int((self.variants_ <= 0).sum())
        self.groups_ = np.array(groups, dtype=np.int64)
        self.feature_names_out_ = np.array(outputs, dtype=object)
        self.__dict__.pop("feature_names_in_", None)
        if self.names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        numbers = {i: one for i, one in self.encoders.items() if isinstance(one, NumberEncoder)}
        self.numbers = NumberBlock(numbers, self.first)
        self._singly = {i: one for i, one in self.encoders.items() if i not in numbers}
        # Whether a column has more levels than features for them.
        self.has_many_levels = any(one.other for one in self.categories().values())
        return self

    @property
    def column_names(self) -> list[str]:
        """Names of the source columns; ``x0``, ``x1``, … where they have none."""
        return self.names or [f"x{index}" for index in range(self.n_features_in_)]

    @property
    def reads_matrix(self) -> bool:
        """Whether the training table was an array of numbers or booleans without names."""
        return self.names is None and set(self.kinds_) <= {"number", "boolean"}

    def column_encoder(self, index: int) -> ColumnEncoder:
        """The encoder of a source column, also of one that gives no features."""
        return self.encoders.get(index) or KINDS[self.kinds_[index]]()

    def original(self, feature: int, value: float) -> str:
        """The value of a feature in the words and units of the table, where it has them."""
        if self._sparse is not None:
            return self._sparse.original(feature, value)
        index = int(self.groups_[feature])
        return self.column_encoder(index).original(feature - self.first.get(index, 0), value)

    def directions(self, signs: Iterable[tuple[str | int, int]]) -> np.ndarray:
        """How each feature moves with the columns that a user gives a sign, (n_features_out_,).

        1 or -1 where it moves with what the sign wants to rise, or against it; 0 where it has
        nothing to do with these columns; NaN where it moves to and fro with one.

        ValueError if there is no such column, or its cells have no order.
        """
        found = np.zeros(self.n_features_out_)
        table = Table((1, self.n_features_in_), lambda index: None, names=self.names)
        seen: dict[int, int] = {}
        for name, sign in signs:
            column = place_of(name, table, "monotone")
            kind = self.kinds_[column]
            if kind in ("category", "text"):
                raise ValueError(
                    f"monotone needs columns with an order; {table.label(column)} holds "
                    f"{'free text' if kind == 'text' else 'categories'}. Turn it into numbers, "
                    "such as ranks, or leave it out."
                )
            if seen.setdefault(column, sign) != sign:
                raise ValueError(f"monotone has two signs for {table.label(column)}; give one")
            own = self.groups_ == column
            sparse = self._sparse is not None
            found[own] = sign * (1.0 if sparse else np.array(self.column_encoder(column).growth))
        return found

    def categories(self) -> dict[int, CategoryEncoder]:
        """The encoders of category columns."""
        return {i: one for i, one in self._singly.items() if isinstance(one, CategoryEncoder)}

    def with_means(self, means: Mapping[int, LevelMeans]) -> TableEncoder:
        """Add means of the target to the features of category columns."""
        if not means:
            return self
        encoders = self.encoders | {
            index: replace(one, means=means[index])
            for index, one in self.categories().items()
            if index in means
        }
        return self._adopt(self.names, self.kinds_, encoders)

    def with_levels(self, table: Table) -> TableEncoder:
        """A copy that also knows the levels of these rows; itself if it knows them all."""
        if self._sparse is not None or not self.encoders:
            return self
        source, encoders = self.find_columns(table), dict(self.encoders)
        for index, kind in enumerate(self.kinds_):
            one = self.column_encoder(index)
            if isinstance(one, CategoryEncoder):
                column = _read(table, int(source[index]), kind)
                encoders[index] = one.with_levels(column, int(self.max_levels))
        encoders = {index: one for index, one in encoders.items() if one.features}
        if encoders == self.encoders:
            return self
        return copy.copy(self)._adopt(self.names, self.kinds_, encoders)

    def places_in(self, wider: TableEncoder) -> np.ndarray:
        """Where :meth:`with_levels` has put each feature."""
        return np.concatenate(
            [wider.first[i] + np.arange(len(one.features)) for i, one in self.encoders.items()]
        )

    def transform(self, X: Any, watch: Watch | None = None, folds: np.ndarray | None = None) -> Any:
        """Encode a table as float32, (n_rows, n_features_out_); CSR if training was sparse.

        Columns are found by name where this table and the training table both have names, else by
        position. ValueError if a column is missing or unexpected, holds another kind of values than
        in training, or an infinite one. What is unusual about the rows is counted by `watch`.
        Training rows come with their `folds`, so that means of the target tell none of its own.
        """
        if not hasattr(self, "n_features_out_"):
            check_is_fitted(self)
        table = X if isinstance(X, Table) else read_table(X)
        source = self.find_columns(table)
        if self._sparse is not None:
            return self._sparse.transform(table, source)
        out = np.zeros((table.n_rows, self.n_features_out_), dtype=np.float32)
        self._write_numbers(table, source, out, watch)
        for index, encoder in self._singly.items():
            first = self.first[index]
            column = _read(table, int(source[index]), self.kinds_[index])
            try:
                encoder.write(column, out[:, first : first + len(encoder.features)], folds)
            except ValueError as error:
                raise ValueError(f"{table.label(int(source[index]))}: {error}") from error
            if watch is not None:
                far, unknown = encoder.unusual(column)
                watch.add([index], [far], [unknown])
        if watch is not None:
            watch.n_rows += table.n_rows
            if watch.drift is not None and self.profile is not None:
                watch.drift.add(self.profile, out)
        return out

    def warn(self, watch: Watch) -> None:
        """Say what is unusual about rows that :meth:`transform` has counted."""
        absent = [self.column_encoder(index).absent for index in range(self.n_features_in_)]
        watch.warn(self.column_names, absent)
        if moved := list(self.moved(watch).values()):
            more = f" and {len(moved) - MAX_NAMED} more columns" if len(moved) > MAX_NAMED else ""
            warnings.warn(
                "The rows differ from those of training, whose scores may not hold for them: "
                f"{', '.join(moved[:MAX_NAMED])}{more}",
                ColumnWarning,
                stacklevel=outside(),
            )

    def learn_profile(self, X: TableLike) -> None:
        """Learn how training rows are spread, so that drift shows in rows to predict.

        Of numbers and categories: dates move by themselves. Not of very wide or sparse tables.
        """
        if self._sparse is not None or self.n_features_out_ > MAX_FEATURES:
            return
        x = self.transform(X)
        flags = ((x == 0) | (x == 1)).all(axis=0)
        known = []
        for feature, column in enumerate(self.groups_.tolist()):
            kind, name = self.kinds_[column], self.feature_names_out_[feature]
            # Rare levels of training are other ones in new rows.
            flag = kind == "category" and flags[feature] and not name.endswith("=(other)")
            if self.variants_[feature] < 0 and (flag or kind in ("number", "boolean", "duration")):
                known.append(feature)
        if known:
            self.profile = Profile.of(x, known)

    def moved(self, watch: Watch) -> dict[str, str]:
        """What is spread otherwise than in training, in words by column, most first."""
        drift = watch.drift
        found: dict[str, str] = {}
        if drift is None or drift.counts is None or self.profile is None:
            return {}
        for one in self.profile.moved(drift.counts, drift.n_rows):
            index, name = int(self.groups_[one.feature]), self.feature_names_out_[one.feature]
            what, before, now = repr(name), one.before, one.now
            if self.kinds_[index] in ("category", "boolean") or name.endswith(" (missing)"):
                # Above 0 is yes.
                before, now = 1 - before, 1 - now
            else:
                what += f" at most {self.original(one.feature, one.value)}"
            said = f"{what} in {now:.0%} of them ({before:.0%} in training)"
            found.setdefault(self.column_names[index], said)
        return found

    def _write_numbers(
        self, table: Table, source: np.ndarray, out: np.ndarray, watch: Watch | None
    ) -> None:
        kinds = [self.kinds_[index] for index in self.numbers.source.tolist()]
        columns = source[self.numbers.source].tolist()
        whole = table.matrix if table.sparse is None else table.sparse
        if whole is not None and set(kinds) <= {"number", "boolean" if whole.dtype == bool else ""}:
            self.numbers.write_matrix(table, columns, out, watch)
            return
        for first in range(0, len(columns), FRAME_COLUMNS):
            group = slice(first, first + FRAME_COLUMNS)
            pairs = zip(columns[group], kinds[group], strict=True)
            cells = [_read(table, index, kind).values for index, kind in pairs]
            self.numbers.write_columns(group, cells, out, watch)

    def to_onnx(self, graph: Graph, inputs: Sequence[str]) -> str:
        """Add :meth:`transform` to a graph; returns the name of the (rows, n_features_out_) value.

        `inputs` names the (rows, 1) cells of each column as :meth:`ColumnEncoder.onnx_cells` has
        them, or all (rows, columns) cells if :attr:`reads_matrix`.
        """
        pieces: list[tuple[np.ndarray, str]] = []
        source = self.numbers.source.tolist()
        if source and self.reads_matrix:
            pieces += self.numbers.to_onnx(graph, graph.columns(inputs[0], source))
        elif source:
            pieces += self.numbers.to_onnx(graph, graph.concat([inputs[i] for i in source]))
        for index, encoder in self._singly.items():
            places = self.first[index] + np.arange(len(encoder.features))
            pieces.append((places, encoder.to_onnx(graph, inputs[index])))
        if not pieces:
            shape = graph.op("Shape", inputs[0], end=1)
            shape = graph.op("Concat", shape, graph.constant(np.array([1])), axis=0)
            return graph.op("Expand", graph.constant(np.zeros(1, np.float32)), shape)
        order = np.concatenate([places for places, _ in pieces])
        features = graph.concat([value for _, value in pieces])
        if (np.diff(order) == 1).all():
            return features
        return graph.columns(features, np.argsort(order))

    def find_columns(self, table: Table) -> np.ndarray:
        """Position in `table` of each training column."""
        if self.names is not None and table.names is not None:
            known = {name: place for place, name in enumerate(table.names)}
            absent = [name for name in self.names if name not in known]
            extra = sorted(known.keys() - set(self.names))
            if absent or extra:
                differing = f"missing {absent}, unexpected {extra}"
                raise ValueError(f"The table's columns differ from those in training: {differing}")
            return self._planned(table, np.array([known[name] for name in self.names]))
        if table.n_columns != self.n_features_in_:
            # scikit-learn's own words.
            expected = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise ValueError(f"X has {table.n_columns} features, but {expected}")
        return self._planned(table, np.arange(self.n_features_in_))

    def _planned(self, table: Table, source: np.ndarray) -> np.ndarray:
        """The positions, of a table that is read as the training table was from here on."""
        table.plans = {int(source[index]): plan for index, plan in self.plans.items()}
        return source

    def to_state(self) -> dict[str, Any]:
        """Everything learned, as a dictionary that JSON can hold; see :meth:`from_state`."""
        check_is_fitted(self, "n_features_out_")
        return {
            "version": STATE_VERSION,
            "scale": self.scale,
            "max_levels": int(self.max_levels),
            "n_features_in": self.n_features_in_,
            "names": self.names,
            "kinds": list(self.kinds_),
            "numbers": self.numbers.state(),
            "columns": [
                {"index": index, "first": self.first[index], "state": encoder.state()}
                for index, encoder in self._singly.items()
            ],
            "sparse": None if self._sparse is None else self._sparse.state(),
            "plans": [{"index": k, "plan": one.to_dict()} for k, one in self.plans.items()],
        } | ({} if self.profile is None else {"profile": self.profile.state()})

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """The fitted encoder that :meth:`to_state` described; its features are bit-identical."""
        if (version := state.get("version")) != STATE_VERSION:
            expected = f"The encoder's state must have version {STATE_VERSION}"
            raise ValueError(f"{expected}; got version {version!r}. Update nrs.")
        kinds: list[Kind] = list(state["kinds"])
        declared = [index for index, kind in enumerate(kinds) if kind == "category"]
        encoder = cls(declared or None, state["scale"], state["max_levels"])
        encoders: dict[int, ColumnEncoder] = {**NumberBlock.encoders(state["numbers"])}
        for entry in state["columns"]:
            encoders[entry["index"]] = KINDS[kinds[entry["index"]]](**entry["state"])
        scaler = None if state["sparse"] is None else SparseScaler(**state["sparse"])
        encoder.plans = {
            entry["index"]: Plan.from_dict(entry["plan"]) for entry in state.get("plans", [])
        }
        encoder._adopt(state["names"], kinds, encoders, scaler)
        if state.get("profile") is not None:
            encoder.profile = Profile(**state["profile"])
        return encoder


def _read(table: Table, index: int, kind: Kind | None, rows: np.ndarray | None = None) -> Column:
    column = table.column(index, kind)
    return column if rows is None else replace(column, values=column.values[rows])


def decide_text(table: Table, index: int, column: Column) -> Decision | None:
    """How a column of texts is read; None where that is known, or they are words."""
    if index in table.plans or not table.convert or index in table.declared:
        return None
    if column.kind != "category" or column.coded or index in (table.texts or ()):
        return None
    # Levels are sorted, and digits come before letters.
    if not any(map(_DIGIT.search, column.levels[:TRIED])):
        return None
    name = "" if table.names is None else table.names[index]
    return decide_column(column, name)


def counted_kind(
    index: int, kind: Kind, declared: Collection[int], texts: Collection[int] | None
) -> Kind:
    """What is counted of a column whose cells are of a kind, by what the user says of columns."""
    if index in declared:
        return "category"
    if texts is not None:
        return "text" if index in texts else kind
    return "string" if kind == "category" else kind


def kind_of(kind: Kind, encoder: ColumnEncoder) -> Kind:
    """The kind of a column that was counted as `kind` and got an encoder."""
    if isinstance(encoder, TextEncoder):
        return "text"
    return "category" if kind == "string" else kind


def count(column: Column, kind: Kind | None = None) -> Statistics:
    """Statistics of a column in memory, of its own kind or another one that reads the same."""
    counted = column.kind if kind is None else kind
    return STATISTICS[counted](counted).add(column)


class TableStatistics:
    """What is counted of a table that is read in parts: the kind and statistics of each column."""

    def __init__(
        self, names: Sequence[str], kinds: Sequence[Kind], plans: Mapping[int, Plan] | None = None
    ) -> None:
        self.names, self.n_rows = list(names), 0
        # How columns of texts are read, by index.
        self.plans = dict(plans or {})
        self.columns = [(kind, STATISTICS[kind](kind)) for kind in kinds]

    def add(self, table: Table) -> None:
        """Count the rows of a table in memory, whose first columns these are."""
        self.n_rows += table.n_rows
        table.plans |= self.plans
        for index, (kind, column) in enumerate(self.columns):
            cells = _read(table, index, kind)
            try:
                column.add(cells)
            except ValueError as error:
                raise ValueError(f"column {self.names[index]!r}: {error}") from error

    def merge(self, other: TableStatistics) -> None:
        """Count the rows of another part of the table too."""
        self.n_rows += other.n_rows
        for (_, one), (_, more) in zip(self.columns, other.columns, strict=True):
            one.merge(more)

    def state(self) -> dict[str, Any]:
        """Everything, as JSON values: what one process sends to another."""
        return {
            "names": self.names,
            "kinds": [kind for kind, _ in self.columns],
            "n_rows": self.n_rows,
            "columns": [column.state() for _, column in self.columns],
            "plans": [[index, plan.to_dict()] for index, plan in self.plans.items()],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableStatistics:
        plans = {index: Plan.from_dict(plan) for index, plan in state["plans"]}
        statistics = cls(state["names"], state["kinds"], plans)
        statistics.n_rows = state["n_rows"]
        for (_, column), counted in zip(statistics.columns, state["columns"], strict=True):
            column.restore(counted)
        return statistics
