"""The base of all table estimators: a fit from raw table to calibrated model, top to bottom."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from time import time as now
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from nrs._util.arrays import concatenate
from nrs.datasets.large_table import Table as LargeTable
from nrs.datasets.table_file_errors import missing_columns
from nrs.engine import count_threads
from nrs.tabular.encode.column_encoder import Watch
from nrs.tabular.encode.columns import labels_from_capsule
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.table import RawTables, Table, read_table_for
from nrs.tabular.error_scale import ErrorScale
from nrs.tabular.forest.folded import Folded
from nrs.tabular.forest.folds import NO_FOLDS
from nrs.tabular.header import (
    NUMBERS,
    check_agreement,
    estimator_name,
    recipe_schema,
    table_header,
)
from nrs.tabular.learned import Learned, StoredForest
from nrs.tabular.parameters import (
    NOT_SAVED,
    TrainParameters,
    from_json,
    parameters,
    to_json,
    unknown_argument,
)
from nrs.tabular.recipe import Recipe, resolve
from nrs.tabular.targets import (
    RowLoss,
    Target,
    check_offset,
    find_loss,
    target_from_state,
    target_state,
    weights_of_rows,
)
from nrs.tabular.threshold import is_learned
from nrs.training.files import ModelFile, loading, read_model, write_model
from nrs.training.history import History
from nrs.training.origin import fingerprint, made_now
from nrs.training.schema import ModelFileError, Schema, check_header, check_outputs

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from torch import nn

    from nrs.tabular.model import SingleModel
    from nrs.tabular.rows.memory import MemorySource, Rows
    from nrs.tabular.rows.table import TableSource
    from nrs.tabular.task import Task
    from nrs.tabular.types import ArrayLike, Features, Json, TableLike

# Rows that a loaded model answers for, to see that its numbers are finite.
TRIED_ROWS = 32


@parameters
class TableEstimator(TrainParameters, RawTables, BaseEstimator):
    """Common base of :class:`nrs.NRSClassifier`, :class:`nrs.NRSRegressor` and their relatives."""

    # What a subclass replaces: its recipe, what its model files are called, its own presets.
    _recipe_type: ClassVar[type[Recipe]] = Recipe
    _recipe_schema: ClassVar[Schema[Json]] = recipe_schema()
    _target_schema: ClassVar[Schema[Json]] = NUMBERS
    _own_schema: ClassVar[Mapping[str, Schema[object]]] = {}
    _file_kind: ClassVar[str] = "table"
    _is_classifier: ClassVar[bool] = False
    # Whether preset="default" is a forest; else it is one network.
    _has_forest: ClassVar[bool] = False
    # Not annotated for dataclasses: these are no arguments of this class.
    if TYPE_CHECKING:
        time_limit: float | None
        checkpoint: str | os.PathLike[str] | None
        n_workers: int
        divide: str
        precision: str
        about_: Json | None
    else:
        time_limit = checkpoint = None
        n_workers, divide, precision = 1, "auto", "float32"
        # What travels with the model file next to the model, as JSON values.
        about_ = None
    # How partial_fit resumes.
    _progress: ClassVar[Any] = None

    def __new__(cls, *positional: object, **given: object) -> Self:
        """Answer an argument that is called as in other packages by ours."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(unknown_argument(cls.__name__, name, known))
        return super().__new__(cls)

    def fit(
        self,
        X: TableLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Sequence[Any] | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Fit to a table.

        Parameters
        ----------
        X : array, data frame (pandas, polars, pyarrow) or sparse matrix, (n_rows, n_columns)
            Numbers, strings, categories, booleans, dates and missing values, as they are. Or a
            :class:`nrs.Table`, which need not fit in memory.
        y : array (n_rows,) or (n_rows, n_outputs)
            Labels or numbers. A :class:`nrs.Table` names its target itself.
        sample_weight : array (n_rows,), optional
            How much each row counts, in training, in out-of-bag scores and in intervals; a row of
            weight 0 does not count at all. For a :class:`nrs.Table` also the name of a column.
        eval_set : (X, y), optional
            Rows that decide when to stop, instead of out-of-bag or held-out rows of `X`.
        groups : array (n_rows,), optional
            Rows of a group share a fold of a forest, so that out-of-bag scores say how well it
            does on groups that it has not seen. Two groups are enough; there are never more folds
            than groups. For a :class:`nrs.Table` also the name of a column.
        time : array (n_rows,), optional
            Numbers, dates or ISO texts by which rows follow each other; not together with
            `groups`. Rows are cut into up to eight consecutive blocks, the first a third of them.
            Each other block is scored by members that are trained on the blocks before it only, so
            that out-of-bag scores say how well the model does on rows later than those it has
            seen; the first block has no out-of-bag predictions (NaN). The members that predict new
            rows are trained on all rows. A fit takes up to twice as long, and early stopping needs
            an `eval_set`. A single network holds out the latest rows. For a :class:`nrs.Table`
            also the name of a column.
        offset : array (n_rows,), optional
            What is added to the outputs of each row, on the scale of the link: the logarithm of
            its exposure. For losses with a log link: "poisson", "gamma" and "tweedie". An
            `eval_set` is then ``(X, y, offset)``. For a :class:`nrs.Table` also the name of a
            column.

        Raises
        ------
        ValueError
            Bad input: what is wrong, what is expected and what to do.
        nrs.training.DivergenceError
            If the loss becomes NaN or infinite.
        """
        # Predictions need none of these, nor torch.
        from nrs.tabular.forest.divide import check_division
        from nrs.tabular.forest.workers import workers
        from nrs.tabular.run import Run

        with Run.of(self) as run:
            reader = self._reader()
            source = reader.read_source(X, y, sample_weight, groups, time, offset)
            recipe = reader.resolve(source.n_rows, source.n_columns)
            folds = source.split(recipe, run.seed, spare=eval_set is None)
            target = reader.make_target(source)
            encoder = source.encoder(self.categorical_features, recipe.scale, target, folds)
            # The columns that the encoder made decide the width.
            recipe = reader.resolve(source.n_rows, encoder.n_features_read_)
            rows, held_out = source.rows(encoder, target, folds, run.device)
            shape = {"rows": source.n_rows, "columns": source.n_columns}
            origin = {"at": now(), "seed": run.seed, **shape, "data": rows.checksum()}
            reader.__dict__ |= {**rows.facts, "_origin": origin}
            if eval_set is not None:
                held_out = reader.read_held_out(eval_set, encoder, target, run.device)
            if max(run.n_workers, run.group.size) > 1 and "n_workers" in self._get_param_names():
                check_division(recipe, run)
            task = self._task_type()(rows, held_out, encoder, target, recipe, folds, run)
            alone = run.n_workers == 1 or run.group.size > 1
            with nullcontext(task) if alone else workers(task) as shared:
                learned = reader.model_type(recipe).fit(shared)
            self._adopt(learned, reader, rows)
        return self

    # Reading.

    def _reader(self) -> Self:
        """A copy that learns the columns of a table while this estimator stays as it is."""
        reader = object.__new__(type(self))
        reader.__dict__ |= {name: getattr(self, name) for name in self._get_param_names()}
        return reader

    def read_source(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> MemorySource | TableSource:
        """Read and check what a fit learns from."""
        from nrs.tabular.rows.table import TableSource

        if not isinstance(X, (LargeTable, TableSource)):
            return self.read_rows(X, y, sample_weight, groups, time, offset, reset=True)
        classes = getattr(self, "class_weight", None)
        columns, texts = self.categorical_features, self.text_features
        source = TableSource.of(
            X, columns, y, sample_weight, groups, classes, texts, time, offset,
            convert=self.convert,
        )  # fmt: skip
        self.n_features_in_ = source.n_columns
        self.feature_names_in_ = np.array(source.names, dtype=object)
        return source

    def read_rows(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        time: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        reset: bool,
    ) -> MemorySource:
        """Read and check rows in memory; without `reset`, more rows of the same table."""
        from nrs.tabular.rows.memory import MemorySource

        table, labels = self._read(X, y, reset=reset)
        weights, counted = self._row_weights(sample_weight, labels)
        classes = self._is_classifier
        added = None if offset is None else check_offset(offset)
        check_consistent_length(labels, added)
        return MemorySource(
            table, labels, weights, groups,
            classes=classes, score_weights=counted, time=time, offset=added,
            class_weight=getattr(self, "class_weight", None),
        )  # fmt: skip

    def _read(self, X: TableLike, y: ArrayLike, *, reset: bool) -> tuple[Table, np.ndarray]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        table = read_table_for(self, X, reset=reset)
        if hasattr(y, "__arrow_c_stream__") and not hasattr(y, "__array__"):
            y = labels_from_capsule(y)
        labels = self._check_labels(y)
        check_consistent_length(labels, np.empty(table.n_rows))
        if table.n_rows < 2:
            raise ValueError("at least two rows are needed to fit or to measure; got n_samples=1")
        return table, labels

    def read_table(self, X: TableLike) -> Table:
        """Read a table in memory, checking its columns against those of the fit."""
        return read_table_for(self, X, reset=False)

    def read_held_out(
        self,
        eval_set: Sequence[Any] | None,
        encoder: TableEncoder,
        target: Target,
        device: torch.device,
    ) -> Rows:
        """Encode the rows that decide when to stop."""
        from nrs.tabular.rows.memory import Rows

        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        size = 3 if target.has_offset else 2
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != size:
            wanted = "(X, y, offset), as the fit has an offset," if size == 3 else "a pair (X, y)"
            raise ValueError(f"eval_set must be {wanted} of held-out rows")
        table, labels = self._read(*eval_set[:2], reset=False)
        y = target.encode(labels)
        if size == 3:
            y = target.with_offset(y, check_offset(eval_set[2]))
        return Rows(encoder.transform(table), y, device=device)

    def _row_weights(
        self, given: ArrayLike | None, labels: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Weights of rows in memory, of mean one, and those that count in scores.

        Class weights count in training only, but a row whose class weighs nothing does not count
        at all.
        """
        weights = own = None
        of_classes = getattr(self, "class_weight", None)
        if of_classes is not None:
            weights = weights_of_rows(of_classes, labels)
        if given is not None:
            n_rows = np.empty((len(labels), 1))
            own = _check_sample_weight(given, n_rows, dtype=np.float64, ensure_non_negative=True)
            weights = own if weights is None else weights * own
        if weights is None:
            return None, None
        if own is None and not weights.all():
            own = np.ones(len(weights))
        counted = None if own is None else (own * (weights > 0)).astype(np.float32)
        return (weights / weights.mean()).astype(np.float32), counted

    # What the subclasses decide.

    def _check_labels(self, y: ArrayLike) -> np.ndarray:
        raise NotImplementedError

    def make_target(self, source: MemorySource | TableSource) -> Target:
        """What is predicted, learned from the labels."""
        if self._is_classifier:
            loss = getattr(self, "loss", "log_loss")
            if source.offset is not None:
                raise ValueError("offset is for a regressor of counts; leave it out")
            return source.classification(getattr(self, "threshold", None), loss)
        loss = self.loss_target()
        if source.offset is not None and not loss.takes_offset:
            raise ValueError(
                "offset is for losses with a log link: 'poisson', 'gamma' and 'tweedie'; got "
                f"loss={getattr(self, 'loss', 'squared')!r}. Leave it out; of a squared or "
                "absolute error, subtract it from y."
            )
        return source.regression(loss)

    def loss_target(self) -> Target:
        """The loss of numbers that the parameters ask for, without labels."""
        return find_loss(getattr(self, "loss", "squared"), getattr(self, "quantiles", None))

    def _chosen(self) -> Json:
        """The user's settings, by the names of the recipe; None means the preset's."""
        known = {field.name for field in fields(Recipe)}
        return {name: getattr(self, name) for name in self._get_param_names() if name in known}

    def resolve(self, rows: int, features: int) -> Recipe:
        """All settings for a table of this size."""
        preset = self.preset
        if not self._has_forest:
            if preset in ("fast", "best"):
                raise ValueError(
                    f"preset must be 'default' or 'paper' for {type(self).__name__}; got {preset!r}"
                )
            preset = "single" if preset == "default" else preset
        recipe = resolve(preset, self._chosen(), rows, features)
        threshold = getattr(self, "threshold", None)
        if not recipe.members and threshold is not None and is_learned(threshold):
            raise ValueError(
                "threshold is learned on out-of-bag rows, and a single network has none. Use a "
                "forest, such as preset='default', or pass a number."
            )
        return recipe

    def model_type(self, recipe: Recipe) -> type[SingleModel]:
        """The kind of model that the settings ask for."""
        from nrs.tabular.model import ForestModel, SingleModel

        return ForestModel if recipe.members else SingleModel

    def _task_type(self) -> type[Task]:
        """What a fit hands to its model."""
        from nrs.tabular.task import Task

        return Task

    # What a fit leaves behind.

    def _adopt(self, learned: Learned, reader: Self, rows: Rows | None = None) -> None:
        """Become the estimator that has learned this, in one step."""
        model, recipe = learned.model, learned.model.recipe
        origin = dict(reader.__dict__["_origin"])
        if "at" in origin and not isinstance(model, StoredForest):
            origin["engine"] = model.engine
        fitted: Json = {
            "_model": model,
            "predictor_": learned.predictor,
            "encoder_": learned.encoder,
            "target_": learned.target,
            "recipe_": recipe,
            "history_": learned.history,
            "_importances": learned.importances,
            "_origin": origin,
            # A file of an earlier version does not say.
            "engine_": origin.get("engine", "torch"),
            "n_features_in_": reader.n_features_in_,
            **{f"{name}_": value for name, value in vars(recipe).items()},
            **self._own_state(reader),
        }
        if hasattr(reader, "feature_names_in_"):
            fitted["feature_names_in_"] = reader.feature_names_in_
        if learned.out_of_bag is not None:
            name, answers = learned.target.oob_name, learned.out_of_bag.answers
            several = learned.target.several
            fitted[name] = learned.target.presented(answers) if several else answers
            fitted["_residuals"] = learned.out_of_bag.residuals
            fitted["_scales"] = learned.out_of_bag.scales
            fitted |= learned.out_of_bag.more
            if learned.out_of_bag.score is not None:
                fitted["oob_score_"] = learned.out_of_bag.score
        fitted |= {} if rows is None else rows.facts
        kept = {name: value for name, value in vars(self).items() if not _is_fitted(name)}
        self.__dict__ = kept | fitted

    @property
    def model_(self) -> SingleModel:
        """The network with what is known of its training; that of a file is made when asked for."""
        model = self.__dict__.get("_model")
        if model is None:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        if isinstance(model, StoredForest):
            kind, known = self.model_type(self.recipe_), (self.encoder_, self.target_, self.recipe_)
            model = kind.from_file(model.header(), model.file.tensors, *known)
            self.__dict__["_model"] = model
        restored: SingleModel = model
        return restored

    @property
    def network_(self) -> nn.Module:
        """The trained module."""
        return self.model_.network

    def _own_state(self, reader: Self) -> Json:
        """Fitted attributes of a subclass, taken from the copy that read the table."""
        return {}

    def _partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        classes: np.ndarray | Sequence[np.ndarray] | None = None,
        groups: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Take one pass over more rows, on a copy that is then adopted."""
        from nrs.tabular.progress import Progress
        from nrs.tabular.run import Run, draw_seed
        from nrs.tabular.task import Task

        first = not hasattr(self, "predictor_")
        with Run.of(self, alone=True) as run:
            reader = self._reader() if first else self
            source = reader.read_rows(X, y, sample_weight, groups, offset=offset, reset=first)
            if first:
                recipe = reader.resolve(source.n_rows, source.n_columns)
                source.known_classes = classes
                target, shown = reader.make_target(source), self.categorical_features
                encoder = source.encoder(shown, recipe.scale, target, NO_FOLDS)
                recipe = reader.resolve(source.n_rows, encoder.n_features_out_)
                rows, _ = source.rows(encoder, target, NO_FOLDS, run.device)
                run = replace(run, seed=draw_seed(self.random_state))
                task = Task(rows, None, encoder, target, recipe, NO_FOLDS, run)
                model, history = self.model_type(recipe).grow(task), History([])
                progress = Progress(model, draw_seed(self.random_state))
            else:
                target, history = self.target_, self.history_
                progress = copy.deepcopy(self._progress)
                if progress is None:
                    progress = Progress(copy.deepcopy(self.model_), draw_seed(self.random_state))
                encoder = progress.take_levels(self.encoder_, source.table)
                rows, _ = source.rows(encoder, target, NO_FOLDS, run.device)
                task = Task(rows, None, encoder, target, self.recipe_, NO_FOLDS, run)
            progress.take(rows)
            seen = {"rows": progress.n_seen, "columns": source.n_columns}
            reader.__dict__["_origin"] = {"at": now(), "seed": progress.seed, **seen}
            # A copy: members that do not count now are trained further, and may count later.
            model = copy.deepcopy(progress.model)
            importances = model.importances(rows, encoder)
            scored = model.finish(replace(task, rows=progress.recent))
            if scored is not None:
                scored = scored.of_rows(lambda values: values[-len(rows) :])
            learned = Learned(
                model.target, encoder, model, model.predictor(), history, importances, scored
            )
            about = self.about_
            self._adopt(learned, reader, rows)
            self.__dict__ |= {"_progress": progress, "about_": about}
        return self

    def save(self, path: str | os.PathLike[str], *, dtype: str = "float32") -> None:
        """Write the fitted model to one safetensors file, atomically.

        The file's header holds configuration, column schema, labels and format version as JSON.

        Parameters
        ----------
        path : path
            Where to write; an existing file is replaced.
        dtype : {"float32", "float16"}, default "float32"
            Of weights in the file. ``"float16"`` nearly halves the file; a loaded model computes in
            float32 as before, with weights rounded to three digits.

        Raises
        ------
        ValueError
            If the dtype is another.
        OSError
            If the file cannot be written. An existing file is as it was before.
        """
        check_is_fitted(self)
        # A function is not written: it would have to be executed when read.
        parameters = {
            name: None if callable(value) or isinstance(value, Target) else value
            for name, value in self.get_params(deep=False).items()
            if name not in NOT_SAVED
        }
        residuals, scales = getattr(self, "_residuals", None), getattr(self, "_scales", None)
        header = {
            "estimator": type(self).__name__,
            "parameters": to_json(parameters),
            "recipe": self.recipe_.to_dict(),
            "encoder": self.encoder_.to_state(),
            "target": target_state(self.target_),
            "history": self.history_.to_dict(),
            "importances": [value.hex() for value in self._importances.tolist()],
            "about": self.about_ or {},
            "oob_score": self.oob_score_.hex() if hasattr(self, "oob_score_") else None,
            "residuals": None if residuals is None else residuals.tolist(),
            "scales": None if scales is None else [scale.state() for scale in scales],
            **self._model.header(),
            **self._own_header(),
        }
        made = dict(self._origin)
        # A model that was loaded keeps what its file said.
        if "at" in made:
            data = made.pop("data", None)
            known = None if data is None else fingerprint(header["encoder"], data)
            made = made_now(**made, fingerprint=known)
        tensors = self._model.state()
        write_model(path, tensors, header, kind=self._file_kind, made=made, dtype=dtype)

    def _own_header(self) -> Json:
        """What a subclass adds to the header of its model file, as JSON values."""
        return {}

    @classmethod
    def load(cls, path: str | os.PathLike[str], loss: RowLoss | Target | None = None) -> Self:
        """Read a model that :meth:`save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : path
            The file; a model is loaded by the class that saved it.
        loss : callable or Target, optional
            The loss of your own that the model was fitted with, which a file does not hold. A
            model of a function predicts without it; a :class:`Target` is needed.

        Raises
        ------
        ModelFileError
            If the file is truncated, altered, of another kind, or of a newer format, or if the
            loss is missing.
        """
        file = read_model(path, kind=cls._file_kind)
        with loading(path):
            return cls._from_file(file, path, loss)

    @classmethod
    def _from_file(
        cls, file: ModelFile, path: str | os.PathLike[str], loss: RowLoss | Target | None = None
    ) -> Self:
        name = estimator_name(file.header)
        if name != cls.__name__:
            raise ModelFileError(
                f"{os.fspath(path)} holds a model of {name}, not of {cls.__name__}. Load it with "
                f"{name}.load(...)."
            )
        header = check_header(file.header, cls._header_schema())
        estimator = cls(**from_json(header["parameters"]))
        encoder = TableEncoder.from_state(header["encoder"])
        target = cls._target_from_state(header["target"]).again(loss)
        if getattr(estimator, "loss", "") is None:
            # A function, or a target with settings of its own.
            estimator.__dict__["loss"] = loss or target
        recipe = cls._recipe_type.from_dict(header["recipe"])
        check_agreement(header, encoder, target, recipe)
        model: SingleModel | StoredForest | None = None
        if header["forest"] is not None and target.is_ours:
            model = StoredForest.of(file, header["forest"], target, recipe)
        if model is None:
            model = estimator.model_type(recipe).from_file(
                header, file.tensors, encoder, target, recipe
            )
        history = History.from_dict(header["history"])
        importances = np.array([float.fromhex(v) for v in header["importances"]])
        reader = estimator._reader()
        reader.n_features_in_ = encoder.n_features_in_
        if encoder.names is not None:
            reader.feature_names_in_ = np.asarray(encoder.names, dtype=object)
        reader.restore(header, encoder)
        reader.__dict__["_origin"] = {k: v for k, v in file.made.items() if k != "at"}
        learned = Learned(target, encoder, model, model.predictor(), history, importances)
        estimator._adopt(learned, reader)
        estimator.__dict__["about_"] = header["about"]
        if header["oob_score"] is not None:
            estimator.__dict__["oob_score_"] = float.fromhex(header["oob_score"])
        if header["residuals"] is not None:
            estimator.__dict__["_residuals"] = np.array(header["residuals"])
        if header["scales"] is not None:
            estimator.__dict__["_scales"] = [ErrorScale(**state) for state in header["scales"]]
        elif header["spread"] is not None:
            estimator.__dict__["_scales"] = list(map(ErrorScale.beyond, header["spread"]))
        # Weights that are finite each may overflow together.
        rng = np.random.default_rng(0)
        tried = rng.normal(size=(TRIED_ROWS, encoder.n_features_out_)).astype(np.float32)
        estimator.forward(tried)
        return estimator

    @classmethod
    def _header_schema(cls) -> Schema[Json]:
        """What the header of a model file of this class may say."""
        saved = [name for name in cls._get_param_names() if name not in NOT_SAVED]
        return table_header(saved, cls._recipe_schema, cls._target_schema, cls._own_schema)

    def restore(self, header: Json, encoder: TableEncoder) -> None:
        """Read what :meth:`_own_header` wrote."""

    @staticmethod
    def _target_from_state(state: Json) -> Target:
        return target_from_state(state)

    # Prediction.

    def outputs(
        self, X: TableLike, *, members: bool = False, watch: Watch | None = None
    ) -> np.ndarray:
        """Network outputs for every row of a raw table: (n_rows, n_outputs).

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.
        members : bool, default=False
            Those of each member instead, (n_members, n_rows, n_outputs).
        watch : optional
            Counts what is unusual about the rows, for whoever predicts a table in parts. Without
            it a :class:`ColumnWarning` says so.
        """
        counts = Watch() if watch is None else watch
        if isinstance(X, LargeTable):
            parts = [self.outputs(one, members=members, watch=counts) for one in self._chunks(X)]
            found = concatenate(parts, int(members))
        else:
            features = self.encoder_.transform(self.read_table(X), counts)
            found = self.forward(features, members=members)
        if watch is None:
            self.encoder_.warn(counts)
        return found

    def joined_by(self) -> dict[str, str]:
        """Columns besides the features whose equal cells make rows that are scored together.

        With their kinds; none of most models.
        """
        return {}

    def _chunks(self, table: LargeTable) -> Iterator[Any]:
        """The columns of the fit, one chunk of rows after the other."""
        names = getattr(self, "feature_names_in_", np.array(table.columns)).tolist()
        missing = [name for name in names if name not in table.columns]
        if missing:
            raise missing_columns(table.parts[0].path, missing, table.columns)
        from pyarrow import Table as ArrowTable

        for chunk in table.chunks(columns=names):
            with table.naming(chunk):
                yield ArrowTable.from_batches([chunk.batch])

    def forward(
        self,
        features: Features,
        *,
        members: bool = False,
        network: nn.Module | Folded | None = None,
    ) -> np.ndarray:
        """Network outputs for every row of encoded features; as :meth:`outputs`.

        `network` answers in place of the predictor. A target that is no part of nrs takes them as a
        tensor.
        """
        predictor: Any = self.predictor_ if network is None else network
        if members and not hasattr(predictor, "each"):
            raise ValueError(
                f"preset={self.preset!r} is a single network without members. Use preset='default'."
            )
        if isinstance(predictor, Folded) and predictor.engine is not None:
            found = predictor.outputs(features, count_threads(self.n_jobs), members=members)
        else:
            from nrs.tabular.model import outputs_of

            width = self.target_.n_outputs
            device = next(self.network_.parameters()).device
            found = outputs_of(predictor, features, width, device, self.n_jobs, members=members)
        check_outputs(found)
        return self.target_.taken(found)

    @property
    def feature_importances_(self) -> np.ndarray:
        """How strongly the outputs respond to each column, summing to one.

        Measured once at the end of a fit (:func:`nrs.tabular.forest.network.response`); for
        the effect on a score use ``sklearn.inspection.permutation_importance``.
        """
        check_is_fitted(self)
        return self._importances

    def plot_history(self, ax: Axes | None = None) -> Axes:
        """Draw the learning curves with matplotlib; returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if None.
        """
        check_is_fitted(self)
        from nrs.tabular.explain.plots import plot_history

        return plot_history(self.history_, ax)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")


def _is_fitted(name: str) -> bool:
    """Whether an attribute is what a fit has learned, by its name."""
    private = ("_model", "_importances", "_origin", "_residuals", "_scales", "_progress")
    return name.endswith("_") or name in private
