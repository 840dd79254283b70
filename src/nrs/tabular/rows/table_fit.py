"""A fit to a table in files: what is learned before training, and the sample it is judged by."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier

from nrs.datasets.large_table import Table
from nrs.tabular.encode.columns import PLURAL
from nrs.tabular.encode.date import DateEncoder
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.number import LIMIT
from nrs.tabular.encode.survey import MOST_LABELS, Survey
from nrs.tabular.encode.survey_merge import survey_together
from nrs.tabular.encode.table import read_table
from nrs.tabular.forest.folds import count_folds
from nrs.tabular.rows.memory import Rows
from nrs.tabular.rows.sample import hashed_folds
from nrs.tabular.rows.stream import Block, StreamedBatches
from nrs.tabular.run import checksum, draw_seed, pick_device
from nrs.tabular.targets import (
    ClassTarget,
    RegressionTarget,
    check_labelled,
    weights_of_labels,
)
from nrs.training.processes import ALONE, Processes, present

logger = logging.getLogger("nrs.tabular")

# Quantiles of a column that stand for its values where bins are laid.
GRID = 4096


@dataclass(frozen=True)
class Surveyed:
    """A table and what a pass over it has learned."""

    table: Table
    survey: Survey


class SampledRows(Rows):
    """A sample of a table's rows in memory, for everything but training: bins, judging, importance.

    Attributes
    ----------
    quantiles : dict of feature to ndarray
        Quantiles of all rows, in the unit of the feature, where they are known.
    """

    def __init__(
        self,
        table: Table,
        encode: RowEncoder,
        n_rows: int,
        quantiles: dict[int, np.ndarray],
        sample: tuple[np.ndarray, np.ndarray, np.ndarray | None],
        device: torch.device | str = "cpu",
    ) -> None:
        features, targets, weights = sample
        super().__init__(features, targets, weights, None, device)
        self.quantiles = quantiles
        self.table, self.encode, self.n_rows = table, encode, n_rows
        self.stream: StreamedBatches | None = None

    @classmethod
    def of(
        cls, table: Table, encode: RowEncoder, survey: Survey, device: torch.device | str
    ) -> SampledRows:
        """The sample of a survey."""
        kept, places = survey.sample.rows.combine_chunks().to_batches()[0], survey.sample.places
        x, y, _, *weights = (part.numpy() for part in encode(kept, places))
        quantiles = feature_quantiles(survey, encode.encoder)
        sample = x, y, weights[0] if weights else None
        return cls(table, encode, survey.n_rows, quantiles, sample, device)

    def batches(self, batch_size: int, passes: int, group: Processes = ALONE) -> StreamedBatches:
        """The source of batches of all rows, or of this process's share of them."""
        self.stream = StreamedBatches(
            self.table,
            self.encode,
            self.n_rows,
            self.features.shape[1],
            batch_size,
            passes=passes,
            shard=(group.rank, group.size) if group.divides_rows else (0, 1),
            device=self.device,
        )
        return self.stream

    def checksum(self) -> str:
        """Of the sample, and of what the files say of themselves."""
        told = json.dumps([self.table.identity(), super().checksum()], sort_keys=True).encode()
        return checksum(np.frombuffer(told, dtype=np.uint8))


class RowEncoder:
    """Raw rows in, what a step needs out: features, targets, folds, and weights if there are any.

    Parameters
    ----------
    class_weights : ndarray (n_classes,) of float32, optional
    n_folds, seed : int
        Which fold a row belongs to is a hash of its place and the seed.
    """

    def __init__(
        self,
        encoder: TableEncoder,
        target: ClassTarget | RegressionTarget,
        target_name: str,
        n_folds: int,
        seed: int,
        class_weights: np.ndarray | None = None,
    ) -> None:
        self.encoder, self.target, self.target_name = encoder, target, target_name
        self.n_folds, self.seed, self.class_weights = n_folds, seed, class_weights
        self._names = encoder.feature_names_in_.tolist()

    def __call__(self, batch: Any, places: np.ndarray) -> Block:
        x = self.encoder.transform(batch.select(self._names))
        y = encode_labels(batch.select([self.target_name]), self.target)
        folds = hashed_folds(places, self.n_folds, self.seed)
        parts = [x, y, folds]
        if self.class_weights is not None:
            parts.append(self.class_weights[y])
        return tuple(map(torch.from_numpy, parts))


def prepare_table(
    estimator: Any, X: Table | Surveyed, y: Any, sample_weight: Any, eval_set: Any
) -> tuple[SampledRows, Rows | None, int]:
    """Learn encoder, target and recipe of an estimator from a table in files.

    Returns
    -------
    rows, validation, seed
        As the estimators' fit in memory prepares them, with a sample for the training rows.

    Raises
    ------
    ValueError
        For what a table in files cannot be combined with, or a target that cannot be used.
    nrs.datasets.table_file_errors.TableFileError
        If a file cannot be used.
    """
    table = X.table if isinstance(X, Surveyed) else X
    _refuse(estimator, table, y, sample_weight)
    group = present()
    device = pick_device(estimator.device, group)
    seed = group.of_writer(draw_seed(estimator.random_state))
    if isinstance(X, Surveyed):
        survey = X.survey
    else:
        survey = survey_together(table, estimator.categorical_features)
        if survey.unlabelled and group.is_writer:
            logger.warning(
                "left out %d rows without a value of %r", survey.unlabelled, survey.target
            )
    check_labelled(survey.n_rows, survey.target, "the table")
    recipe = estimator._resolve(survey.n_rows, len(survey.names))
    if not recipe.members:
        raise ValueError(
            f"a Table needs a forest, however: preset={estimator.preset!r} with these settings is "
            "a single network; use preset='default', 'fast' or 'best', or read the rows into memory"
        )
    estimator.encoder_ = survey.encoder(estimator.categorical_features, recipe.scale)
    estimator.target_ = make_target(survey, classes=is_classifier(estimator))
    estimator.n_features_in_ = len(survey.names)
    estimator.feature_names_in_ = np.array(survey.names, dtype=object)
    recipe = estimator._resolve(survey.n_rows, estimator.encoder_.n_features_out_)
    estimator._remember(recipe)
    n_folds = min(count_folds(survey.n_rows), recipe.members)
    weights = _class_weights(getattr(estimator, "class_weight", None), survey, estimator.target_)
    encode = RowEncoder(
        estimator.encoder_, estimator.target_, survey.target, n_folds, seed, weights
    )
    rows = SampledRows.of(table, encode, survey, device)
    estimator._folds = hashed_folds(survey.sample.places, n_folds, seed)
    estimator.oob_rows_ = survey.sample.places
    validation = estimator._validation(eval_set, None, None, None, None, device)
    return rows, validation, seed


def make_target(survey: Survey, *, classes: bool) -> ClassTarget | RegressionTarget:
    """The target that a fit in memory to the same rows would have made.

    Raises
    ------
    ValueError
        If classes are asked of fractions or too many values, or numbers of texts.
    """
    name, kind = survey.target, survey.target_kind
    if not classes:
        if kind == "category":
            raise ValueError(
                f"a regressor needs a target of numbers, however: {name!r} holds {PLURAL[kind]}; "
                "use NRSClassifier"
            )
        _, _, mean, std = survey.column_moments(survey.counted.index(len(survey.names)))
        return RegressionTarget(np.array([mean]), np.array([std]), single=True)
    if survey.labels is None or not survey.whole:
        found = "fractions" if not survey.whole else f"more than {MOST_LABELS:,} different values"
        raise ValueError(
            f"a classifier needs a target of few values, however: {name!r} holds {found}; use "
            "NRSRegressor"
        )
    return ClassTarget(np.array(sorted(survey.labels)))


def encode_labels(batch: Any, target: ClassTarget | RegressionTarget) -> np.ndarray:
    """The target's column of a record batch, as training needs it: (m,) int64 or (m, 1) float32."""
    if isinstance(target, RegressionTarget):
        return target.encode(read_table(batch).column(0, "number").values.astype(np.float64))
    kind = target.classes.dtype.kind
    if kind == "U":
        column = read_table(batch).column(0, "category")
        # Only the levels are looked up; the rows of each follow.
        return target.encode(np.array(column.levels))[column.values]
    values = read_table(batch).column(0, "boolean" if kind == "b" else "number").values
    return target.encode(values.astype(target.classes.dtype))


def feature_quantiles(survey: Survey, encoder: TableEncoder) -> dict[int, np.ndarray]:
    """Quantiles of the features that are numbers or times, as the encoder gives them."""
    found = {}
    block = encoder.numbers
    for index, center, scale, fill, at in zip(
        block.source.tolist(), block.center, block.scale, block.fill, block.value_at.tolist(),
        strict=True,
    ):  # fmt: skip
        if at >= 0 and index in survey.sketches:
            found[at] = _grid(survey, index, center, scale, fill)
    for index, one in encoder.encoders.items():
        if isinstance(one, DateEncoder) and one.scale > 0:
            found[encoder.first[index]] = _grid(survey, index, one.center, one.scale, 0.0)
    return found


def _grid(survey: Survey, index: int, center: float, scale: float, fill: float) -> np.ndarray:
    sketch = survey.sketches[index]
    values = sketch.quantiles(np.linspace(0, 1, GRID))
    if sketch.distinct is not None:
        # Where there are few values, rare ones count too.
        values = np.append(values, sketch.distinct)
    values = np.clip((values - center) / scale, -LIMIT, LIMIT)
    # Missing cells are one more value, as often as they come.
    missing = survey.n_rows - sketch.n
    filled = np.full(int(np.ceil(missing / survey.n_rows * GRID)), fill)
    return np.append(values, filled).astype(np.float32)


def _class_weights(chosen: Any, survey: Survey, target: Any) -> np.ndarray | None:
    """The weight of each class; their mean over the rows is one."""
    if chosen is None:
        return None
    assert survey.labels is not None
    counts = np.array([survey.labels[label] for label in target.classes.tolist()], dtype=float)
    if isinstance(chosen, str) and chosen == "balanced":
        weights = 1 / counts
    else:
        weights = weights_of_labels(chosen, target.classes)
    normed: np.ndarray = weights * counts.sum() / (weights * counts).sum()
    return normed.astype(np.float32)


def _refuse(estimator: Any, table: Table, y: Any, sample_weight: Any) -> None:
    for name, given in (
        ("y", y),
        ("sample_weight", sample_weight),
        ("groups", estimator._groups),
    ):
        if given is not None:
            advice = (
                f"its target is the column {table.target!r}"
                if name == "y"
                else "read the rows into memory to use it"
            )
            raise ValueError(
                f"{name} must be left out with a Table, however: it was passed; {advice}"
            )
