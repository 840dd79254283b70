"""What the estimators share: from a raw table to a trained network, and back to predictions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
)
from torch import Tensor
from torch.nn import functional

from nrs.core import fold
from nrs.datasets.large_table import Table as LargeTable
from nrs.datasets.table_file_errors import missing_columns
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.table import Table, read_table_for
from nrs.tabular.importance import MOST_ROWS, column_importances
from nrs.tabular.metrics import Evaluation
from nrs.tabular.parameters import from_json, to_json
from nrs.tabular.passes import Passes
from nrs.tabular.recipe import Recipe, is_number, resolve
from nrs.tabular.rows.memory import Rows, ShuffledBatches, forward_rows
from nrs.tabular.runtime import draw_seed, pick_device, threads
from nrs.tabular.single import TableNetwork
from nrs.tabular.targets import Target, target_from_state
from nrs.training import (
    Callback,
    Checkpoint,
    History,
    ModelFileError,
    Progress,
    TimeLimit,
    TrainSettings,
    read_model,
    train,
    write_model,
)
from nrs.training.processes import ALONE, Processes, present
from nrs.training.settings import build_optimizer

# Other numbers of rows take other kernels, which round differently: rows are padded to a multiple
# of this, so that a row's prediction does not depend on the rows beside it.
PREDICT_ROWS = 32
# Held-out rows beyond this many measure no better, and take time after every epoch.
MOST_VALIDATION_ROWS = 20_000
# Constructor arguments that are not written into a model file: they belong to one process.
_NOT_SAVED = (
    "callbacks", "checkpoint", "verbose", "device", "n_jobs", "n_workers", "divide", "precision",
    "random_state",
)  # fmt: skip


class TableEstimator(BaseEstimator):
    """Common base of :class:`nrs.NRSClassifier` and :class:`nrs.NRSRegressor`."""

    # What a subclass with further settings replaces.
    _recipe_type: type[Recipe] = Recipe
    # What its model files are called, see nrs.training.ModelFile.
    _file_kind = "table"
    # Whether preset="default" is a forest; else it is preset="single".
    _has_forest = False
    # Optimizer and seed of partial_fit, between its calls.
    _passes: Passes | None = None
    # When the present fit began, by the clock of its time limit.
    _begin = 0.0
    # Of subclasses without this parameter.
    time_limit: float | None = None
    # The processes that train together, while they do.
    _group: Processes = ALONE
    # What travels with the model file beside the model, as JSON values: the target's name, …
    about_: dict[str, Any] | None = None

    def __init__(
        self,
        *,
        preset: str = "default",
        n_mul: int | None = None,
        n_per: int | None = None,
        n_h: int | None = None,
        layout: str | None = None,
        hidden: Any = None,
        dropout: float | None = None,
        scale: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        validation_fraction: float | None = None,
        patience: int | None = None,
        metric: Any = None,
        time_limit: float | None = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        n_workers: int = 1,
        divide: str = "auto",
        device: str = "auto",
        precision: str = "float32",
        verbose: int = 1,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.preset = preset
        self.n_mul = n_mul
        self.n_per = n_per
        self.n_h = n_h
        self.layout = layout
        self.hidden = hidden
        self.dropout = dropout
        self.scale = scale
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.metric = metric
        self.time_limit = time_limit
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.n_workers = n_workers
        self.divide = divide
        self.device = device
        self.precision = precision
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> Self:
        """Fit to a table.

        Parameters
        ----------
        X : array, data frame (pandas, polars, pyarrow) or sparse matrix, (n_rows, n_columns)
            Numbers, strings, categories, booleans, dates and missing values, as they are.
        y : array (n_rows,) or (n_rows, n_outputs)
            Labels or numbers.
        sample_weight : array (n_rows,), optional
            How much each row counts.
        eval_set : (X, y), optional
            Rows that decide when to stop, instead of a held-out part of `X`.

        Raises
        ------
        ValueError
            Bad input, with what came, what was expected and what to do.
        nrs.training.DivergenceError
            If the loss becomes NaN or infinite.
        """
        self._begin = time.monotonic()
        with threads(self.n_jobs):
            rows, validation, seed = self._prepare(X, y, sample_weight, eval_set)
            with self._workers(rows, validation, seed):
                self._train(rows, validation, seed)
        return self

    def _train(self, rows: Any, validation: Any, seed: int) -> None:
        """Make the network and train it."""
        self.network_ = self._make_network(seed, rows).to(rows.device)
        self.history_ = self._learn(self.network_, rows, validation, seed)
        self._importances = column_importances(
            self.network_, rows, self.encoder_, self._importance_rows()
        )
        self._passes = None
        self._fold()

    def _learn(self, network: Any, rows: Any, validation: Any, seed: int) -> History:
        """Train a network, or what this process trains of it."""
        recipe = self.recipe_
        batches = self._make_batches(rows)
        return train(
            network,
            batches,
            self._step,
            self._train_settings(recipe, validation),
            steps_per_epoch=len(batches),
            generator=torch.Generator().manual_seed(seed),
            evaluate=self._agreed(self._evaluator(rows, validation)),
            callbacks=self._callbacks(*self._foreseen(rows)),
            checkpoint=self._checkpoint(recipe, rows, validation),
            group=self._group,
        )

    def _workers(self, rows: Any, validation: Any, seed: int) -> AbstractContextManager[Any]:
        """Processes that help within the block."""
        return nullcontext()

    def _agreed(self, evaluate: Any) -> Any:
        """What `evaluate` tells, the same in all processes that train together."""
        return evaluate

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        first = not hasattr(self, "network_")
        table, labels = self._read(X, y, reset=first)
        weights = self._sample_weights(sample_weight, labels)
        with threads(self.n_jobs):
            if first:
                # Of several labels a row the columns tell them all.
                alone = classes is None or labels.ndim == 2
                known = labels if alone else classes
                self._learn_columns(table, known, _counting(weights, None))
            features, targets = self.encoder_.transform(table), self.target_.encode(labels)
            self._take_pass(Rows(features, targets, weights, None, pick_device(self.device)))
        return self

    def _learn_columns(
        self, table: Table, labels: np.ndarray, rows: np.ndarray | None = None
    ) -> None:
        """Learn encoder, target and recipe from the first rows of `partial_fit`."""
        self._remember(self._resolve(table.n_rows, table.n_columns))
        self.encoder_ = TableEncoder(self.categorical_features, scale=self.recipe_.scale)
        self.encoder_.fit(table)
        self.target_ = self._make_target(labels, rows)
        self._remember(self._resolve(table.n_rows, self.encoder_.n_features_out_))

    def _take_pass(self, rows: Any) -> None:
        """Take one pass of `partial_fit` over encoded rows, with a new network at first."""
        if not hasattr(self, "network_"):
            seed = draw_seed(self.random_state)
            self.network_ = self._make_network(seed, rows).to(rows.device)
            self.history_ = History([])
        if self._passes is None:
            settings = self._train_settings(self.recipe_, None)
            optimizer = build_optimizer(list(self.network_.parameters()), settings)
            self._passes = Passes(optimizer, draw_seed(self.random_state))
        batches = self._make_batches(rows)
        self._passes.run(self.network_, batches, self._step)
        self.network_.eval()
        self._importances = column_importances(self.network_, rows, self.encoder_)
        self._fold()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file, atomically.

        The file's header holds configuration, column schema, labels and format version as JSON.

        Parameters
        ----------
        path : path
            Where to write; an existing file is replaced.
        """
        check_is_fitted(self)
        # A function is not written: it would have to be executed when read.
        parameters = {
            name: None if callable(value) else value
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_SAVED
        }
        header = {
            "estimator": type(self).__name__,
            "parameters": to_json(parameters),
            "recipe": self.recipe_.to_dict(),
            "encoder": self.encoder_.to_state(),
            "target": self.target_.state(),
            "history": self.history_.to_dict(),
            "importances": [value.hex() for value in self._importances.tolist()],
            "about": self.about_ or {},
            **self._extra_header(),
        }
        write_model(path, self.network_.state_dict(), header, kind=self._file_kind)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : path
            The file; a model is loaded by the class that saved it.

        Raises
        ------
        ModelFileError
            If the file is truncated, altered, of another kind, or of a newer format.
        """
        file = read_model(path, kind=cls._file_kind)
        header = file.header
        if header["estimator"] != cls.__name__:
            raise ModelFileError(
                f"{os.fspath(path)} holds a model of {header['estimator']}, not of "
                f"{cls.__name__}; load it with {header['estimator']}.load(...)"
            )
        model = cls(**from_json(header["parameters"]))
        model.encoder_ = TableEncoder.from_state(header["encoder"])
        model.target_ = cls._target_from_state(header["target"])
        model.history_ = History.from_dict(header["history"])
        model._importances = np.array([float.fromhex(v) for v in header["importances"]])
        model.about_ = header.get("about")
        model._remember(cls._recipe_type.from_dict(header["recipe"]))
        model.n_features_in_ = model.encoder_.n_features_in_
        if hasattr(model.encoder_, "feature_names_in_"):
            model.feature_names_in_ = np.asarray(model.encoder_.feature_names_in_, dtype=object)
        model._restore_extra(header)
        model.network_ = model._make_network(0, None)
        model.network_.load_state_dict(file.tensors)
        model._fold()
        return model

    @property
    def feature_importances_(self) -> np.ndarray:
        """How strongly the outputs respond to each column, summing to one.

        Measured once at the end of a fit (:func:`nrs.tabular.importance.column_importances`); for
        the effect on a score use ``sklearn.inspection.permutation_importance``.
        """
        check_is_fitted(self)
        return self._importances

    def plot_history(self, ax: Any = None) -> Any:
        """Draw the learning curves with matplotlib; returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if None.
        """
        check_is_fitted(self)
        from nrs.tabular.plots import plot_history

        return plot_history(self.history_, ax)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # What the subclasses decide.

    def _check_labels(self, y: Any) -> np.ndarray:
        raise NotImplementedError

    def _make_target(self, labels: np.ndarray, rows: np.ndarray | None) -> Target:
        """Learn the target from all labels, or what must not see held-out ones from `rows`."""
        raise NotImplementedError

    @staticmethod
    def _target_from_state(state: dict[str, Any]) -> Target:
        """Read what the target's `state` wrote."""
        return target_from_state(state)

    def _strata(self, labels: np.ndarray) -> np.ndarray:
        """What parts of the rows should hold evenly; numbers of a float dtype are not looked at."""
        return labels

    def _class_weights(self, labels: np.ndarray) -> np.ndarray | None:
        return None

    def _recipe_extras(self) -> dict[str, Any]:
        """Further choices of a subclass, by the names of :class:`nrs.tabular.recipe.Recipe`."""
        return {}

    def _extra_header(self) -> dict[str, Any]:
        """What a subclass adds to the header of its model file, as JSON values."""
        return {}

    def _restore_extra(self, header: dict[str, Any]) -> None:
        """Read what :meth:`_extra_header` wrote, before the network is made."""

    # The steps of a fit.

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, eval_set: Any
    ) -> tuple[Rows, Rows | None, int]:
        """Encoded training and validation rows, and the seed; learns encoder, target, recipe."""
        table, labels = self._read(X, y, reset=True)
        weights = self._sample_weights(sample_weight, labels)
        group = present()
        seed = group.of_writer(draw_seed(self.random_state))
        device = pick_device(self.device, group)
        recipe = self._resolve(table.n_rows, table.n_columns)
        train_rows, held_out = self._split(self._strata(labels), recipe, seed, eval_set)
        self.encoder_ = TableEncoder(self.categorical_features, scale=recipe.scale)
        features = self.encoder_.fit_transform(table, rows=train_rows)
        self.target_ = self._make_target(labels, _counting(weights, train_rows))
        # The columns that the encoder made decide the width.
        self._remember(self._resolve(table.n_rows, self.encoder_.n_features_out_))
        targets = self.target_.encode(labels)
        rows = Rows(features, targets, weights, train_rows, device)
        validation = self._validation(eval_set, features, targets, weights, held_out, device)
        return rows, validation, seed

    def _read(self, X: Any, y: Any, *, reset: bool) -> tuple[Table, np.ndarray]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        table = self._read_table(X, reset=reset)
        labels = self._check_labels(y)
        check_consistent_length(labels, np.empty(table.n_rows))
        if table.n_rows < 2:
            raise ValueError(
                "at least two rows are needed to fit or to measure, however: n_samples=1"
            )
        return table, labels

    def _read_table(self, X: Any, *, reset: bool) -> Table:
        return read_table_for(self, X, reset=reset)

    def read_table(self, X: Any) -> Table:
        """Read a table to predict, its columns checked against those of the fit."""
        return self._read_table(X, reset=False)

    def _sample_weights(self, given: Any, labels: np.ndarray) -> np.ndarray | None:
        weights = self._class_weights(labels)
        if given is not None:
            n_rows = np.empty((len(labels), 1))
            checked = _check_sample_weight(
                given, n_rows, dtype=np.float64, ensure_non_negative=True
            )
            weights = checked if weights is None else weights * checked
        return None if weights is None else (weights / weights.mean()).astype(np.float32)

    def _resolve(self, rows: int, features: int) -> Recipe:
        names = (
            "n_mul", "n_per", "n_h", "layout", "hidden", "dropout", "scale", "epochs",
            "batch_size", "lr", "weight_decay", "validation_fraction", "patience", "metric",
        )  # fmt: skip
        chosen = {name: getattr(self, name) for name in names} | self._recipe_extras()
        preset = self.preset
        if not self._has_forest:
            if preset in ("fast", "best"):
                raise ValueError(
                    f"preset must be 'default' or 'paper' for {type(self).__name__}, however: "
                    f"preset={preset!r}"
                )
            preset = "single" if preset == "default" else preset
        limit = self.time_limit
        if limit is not None and not (is_number(limit) and limit > 0):
            raise ValueError(
                f"time_limit must be more than 0 seconds, however: {limit!r}; give a number"
            )
        return resolve(preset, chosen, rows, features)

    def _remember(self, recipe: Recipe) -> None:
        self.recipe_ = recipe
        for name in recipe.to_dict():
            setattr(self, f"{name}_", getattr(recipe, name))

    def _split(
        self, labels: np.ndarray, recipe: Recipe, seed: int, eval_set: Any
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Numbers of the training and of the held-out rows; (None, None) keeps all for training."""
        if eval_set is not None or recipe.validation_fraction == 0:
            return None, None
        n_rows = len(labels)
        size = min(round(n_rows * recipe.validation_fraction), MOST_VALIDATION_ROWS)
        if size < 2 or n_rows - size < 2:
            raise ValueError(
                f"validation_fraction={recipe.validation_fraction} of {n_rows} rows leaves too "
                "few to train or to measure on; set validation_fraction=0 or give an eval_set"
            )
        splitter: Any = ShuffleSplit(1, test_size=size, random_state=seed)
        if labels.ndim == 1 and labels.dtype.kind != "f":
            counts = np.unique(labels, return_counts=True)[1]
            if counts.min() >= 2 and len(counts) <= min(size, n_rows - size):
                splitter = StratifiedShuffleSplit(1, test_size=size, random_state=seed)
        train_rows, held_out = next(splitter.split(np.empty((n_rows, 0)), labels))
        return np.sort(train_rows), np.sort(held_out)

    def _validation(
        self,
        eval_set: Any,
        features: Any,
        targets: np.ndarray,
        weights: np.ndarray | None,
        held_out: np.ndarray | None,
        device: torch.device,
    ) -> Rows | None:
        if eval_set is None:
            if held_out is None:
                return None
            return Rows(features, targets, weights, held_out, device)
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
            raise ValueError("eval_set must be a pair (X, y) of held-out rows")
        table, labels = self._read(*eval_set, reset=False)
        encoded = self.encoder_.transform(table)
        return Rows(encoded, self.target_.encode(labels), None, None, device)

    def _make_network(self, seed: int, rows: Any) -> Any:
        """Make the network; `rows` are the training rows, or None to fill in a saved one."""
        recipe = self.recipe_
        return TableNetwork(
            self.encoder_.n_features_out_,
            self.target_.n_outputs,
            n_mul=recipe.n_mul,
            n_per=recipe.n_per,
            n_h=recipe.n_h,
            layout=recipe.layout,
            depth=recipe.depth,
            hidden=recipe.hidden,
            dropout=recipe.dropout,
            input_dropout=recipe.input_dropout,
            seed=seed,
        )

    def _make_batches(self, rows: Rows) -> Any:
        return ShuffledBatches(rows, self.recipe_.batch_size)

    def _step(self, network: torch.nn.Module, batch: Any) -> Tensor:
        x, y, weights = batch
        return self.target_.loss(network(x), y, weights)

    def _train_settings(self, recipe: Recipe, validation: Rows | None) -> TrainSettings:
        return TrainSettings(
            epochs=recipe.epochs,
            lr=recipe.lr,
            optimizer=recipe.optimizer,
            weight_decay=recipe.weight_decay,
            schedule=recipe.schedule,
            warmup=recipe.warmup,
            clip_norm=recipe.clip_norm,
            ema=recipe.ema,
            precision=self.precision,
            patience=None if validation is None else recipe.patience,
        )

    def _evaluator(self, rows: Any, validation: Any) -> Any:
        """What measures the network after every epoch, if anything can."""
        if validation is None:
            return None
        evaluation = Evaluation(self.recipe_.metric, self.target_)

        def evaluate(network: torch.nn.Module) -> dict[str, float]:
            outputs, targets, weights = [], [], []
            for x, y, w in validation.in_order():
                outputs.append(network(x))
                targets.append(y)
                weights.append(w)
            known = None if validation.weights is None else torch.cat(weights)
            return evaluation(torch.cat(outputs), torch.cat(targets), known)

        return evaluate

    def _foreseen(self, rows: Any) -> tuple[float, float]:
        """Seconds that an evaluation, and what follows training, will take."""
        return 0.0, 0.0

    def _importance_rows(self) -> int:
        """Rows over which importances are taken."""
        return MOST_ROWS

    def _callbacks(self, evaluation: float = 0.0, after: float = 0.0) -> list[Callback]:
        chosen = list(self.callbacks or [])
        if self.time_limit is not None:
            limit = max(self.time_limit - after, 1e-3)
            # Encoding the table took some of it.
            chosen.append(TimeLimit(limit, begun=self._begin, evaluation=evaluation))
        return [*chosen, Progress(self.verbose)] if self.verbose else chosen

    def _checkpoint(self, recipe: Recipe, rows: Rows, validation: Rows | None) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, (int, np.integer)):
            raise ValueError(
                "checkpoint needs an integer random_state, so that a run started again is the "
                f"same run, however: random_state={self.random_state!r}"
            )
        identity = {
            "data": rows.checksum(),
            "held_out": None if validation is None else validation.checksum(),
            # The writer may know a metric that could not be told to the others.
            "recipe": self._group.of_writer(recipe.to_dict()),
            **self._identity(),
        }
        return Checkpoint(self.checkpoint, identity)

    def _identity(self) -> dict[str, Any]:
        """What else tells one fit from another, as JSON values."""
        return {}

    def _fold(self) -> None:
        """Keep an inference copy, so that `predict` changes nothing in the estimator."""
        self.network_.eval()
        self.predictor_ = fold(self.network_).requires_grad_(False)

    # Prediction.

    def _outputs(self, X: Any) -> Tensor:
        """Network outputs for every row of a raw table."""
        if isinstance(X, LargeTable):
            return torch.cat([self._outputs(rows) for rows in self._chunks(X)])
        return self._forward(self.encoder_.transform(self._read_table(X, reset=False)))

    def _chunks(self, table: LargeTable) -> Iterator[Any]:
        """The columns of the fit, a chunk of rows after the other."""
        names = getattr(self, "feature_names_in_", np.array(table.columns)).tolist()
        missing = [name for name in names if name not in table.columns]
        if missing:
            raise missing_columns(table.parts[0].path, missing, table.columns)
        from pyarrow import Table as ArrowTable

        for chunk in table.chunks(columns=names):
            with table.naming(chunk):
                yield ArrowTable.from_batches([chunk.batch])

    def forward(self, features: Any) -> Tensor:
        """Network outputs (n_rows, n_outputs) for every row of encoded features."""
        return self._forward(features)

    def _forward(self, features: Any, n_outputs: int | None = None) -> Tensor:
        """Network outputs for every row of encoded features."""
        device = next(self.network_.parameters()).device
        sparse = not isinstance(features, np.ndarray)
        n_rows = features.shape[0]
        outputs = torch.empty(n_rows, n_outputs or self.target_.n_outputs)
        with threads(self.n_jobs), torch.inference_mode():
            step = forward_rows(features.shape[1])
            for start in range(0, n_rows, step):
                part = features[start : start + step]
                x = torch.from_numpy(part.toarray() if sparse else part).to(device)
                padding = -len(x) % PREDICT_ROWS
                scores = self.predictor_(functional.pad(x, (0, 0, 0, padding)))
                outputs[start : start + step] = scores[: len(x)]
        return outputs


def _counting(weights: np.ndarray | None, rows: np.ndarray | None) -> np.ndarray | None:
    """Those of the rows (None for all) that have a weight: a target of none sets no scale."""
    if weights is None or weights.all():
        return rows
    counting = np.flatnonzero(weights) if rows is None else rows[weights[rows] > 0]
    return counting if len(counting) else rows
