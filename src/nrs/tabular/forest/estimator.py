"""Estimators whose default is a forest: cross-fitted members, out-of-bag scores, uncertainty."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nrs.datasets.large_table import Table
from nrs.tabular.estimator import MOST_VALIDATION_ROWS, TableEstimator
from nrs.tabular.forest.divide import (
    answering,
    check_division,
    divided,
    division,
    shared_out_of_bag,
)
from nrs.tabular.forest.folds import MOST_FOLDS, count_folds, draw_folds, read_groups
from nrs.tabular.forest.grow import (
    ForestBatches,
    blank_forest,
    find_temperature,
    forest_loss,
    grow_forest,
)
from nrs.tabular.forest.network import ForestNetwork, combine
from nrs.tabular.forest.pace import Pace, measure_pace
from nrs.tabular.forest.pilot import levels_tell_more, may_be_levels, reading_levels
from nrs.tabular.forest.shares import learn_shares
from nrs.tabular.forest.workers import workers
from nrs.tabular.importance import passes
from nrs.tabular.metrics import Evaluation
from nrs.tabular.recipe import Recipe
from nrs.tabular.rows.memory import Rows, ShuffledBatches
from nrs.tabular.rows.stream import StreamedBatches
from nrs.tabular.rows.table_fit import SampledRows, Surveyed, prepare_table
from nrs.tabular.runtime import checksum
from nrs.tabular.targets import ClassTarget, MultilabelTarget, RegressionTarget
from nrs.training import History, TrainSettings
from nrs.training.processes import present

# Times that out-of-bag rows are judged during a fit.
CHECKS = 20
# Fitted attributes that not every fit sets, and that a further pass makes untrue.
_OF_ONE_FIT = (
    "oob_score_", "oob_decision_function_", "oob_prediction_", "oob_rows_", "data_wait_",
    "_residuals",
)  # fmt: skip


class ForestEstimator(TableEstimator):
    """What :class:`nrs.NRSClassifier`, :class:`nrs.NRSRegressor` and the ranker share.

    With ``members_`` of 0 (``preset="single"`` and ``"paper"``) it is the plain
    :class:`TableEstimator`.
    """

    _has_forest = True
    # Folds of the training rows, between the steps of a fit; rows seen by partial_fit so far.
    _folds: np.ndarray | None = None
    _groups: Any = None
    # Known during a fit with a time limit.
    _pace: Pace | None = None
    _n_seen = 0
    _shape: dict[str, Any] | None = None
    predictor_: Any

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit to a table.

        Parameters
        ----------
        X : array, data frame (pandas, polars, pyarrow) or sparse matrix, (n_rows, n_columns)
            Numbers, strings, categories, booleans, dates and missing values, as they are. Or a
            :class:`nrs.Table`, which need not fit in memory.
        y : array (n_rows,) or (n_rows, n_outputs)
            Labels or numbers. Not for a :class:`nrs.Table`, which brings its own, nor are weights
            and groups.
        sample_weight : array (n_rows,), optional
            How much each row counts; one of weight 0 has no part in the scale of the target, in
            `oob_score_` and in intervals either.
        eval_set : (X, y), optional
            Rows that decide when to stop, instead of out-of-bag or held-out rows of `X`.
        groups : array (n_rows,), optional
            Rows of a group share a fold of the forest, so that out-of-bag scores tell how well
            it does on groups that it has not seen. Two groups are enough; there are never more
            folds than groups.

        Raises
        ------
        ValueError
            Bad input, with what came, what was expected and what to do.
        nrs.training.DivergenceError
            If the loss becomes NaN or infinite.
        """
        self._forget_fit()
        self._groups = groups
        try:
            return super().fit(X, y, sample_weight, eval_set)
        finally:
            self._groups = self._folds = self._pace = None

    def _forget_fit(self) -> None:
        """Drop what belongs to the former fit alone."""
        for name in _OF_ONE_FIT:
            self.__dict__.pop(name, None)

    def member_outputs(self, X: Any) -> np.ndarray:
        """Tell what each member predicts.

        Parameters
        ----------
        X : a table as :meth:`predict` takes it.

        Returns
        -------
        ndarray
            Probabilities (n_members, n_rows, n_classes), or numbers (n_members, n_rows) or
            (n_members, n_rows, n_outputs).

        Raises
        ------
        ValueError
            If the model is not a forest.
        """
        check_is_fitted(self)
        if isinstance(X, Table):
            return np.concatenate([self.member_outputs(rows) for rows in self._chunks(X)], axis=1)
        outputs = self._outputs_of_members(
            self.encoder_.transform(self._read_table(X, reset=False))
        )
        if isinstance(self.target_, (ClassTarget, MultilabelTarget)):
            return np.stack([self.target_.probabilities(member) for member in outputs])
        return np.stack([self.target_.labels(member) for member in outputs])

    def _outputs_of_members(self, features: Any) -> Tensor:
        """Outputs of every member for rows of encoded features, (K, n_rows, n_outputs)."""
        if not self._is_forest():
            raise ValueError(
                f"preset={self.preset!r} gives a single network without members; use "
                "preset='default'"
            )
        predictor = self.predictor_
        try:
            self.predictor_ = _EachMember(predictor)
            flat = self._forward(features, predictor.n_members * self.target_.n_outputs)
        finally:
            self.predictor_ = predictor
        return flat.view(len(flat), predictor.n_members, -1).transpose(0, 1)

    def _is_forest(self) -> bool:
        return isinstance(self.network_, ForestNetwork)

    # The steps of a fit.

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, eval_set: Any
    ) -> tuple[Rows, Rows | None, int]:
        if isinstance(X, (Table, Surveyed)):
            return prepare_table(self, X, y, sample_weight, eval_set)
        return super()._prepare(X, y, sample_weight, eval_set)

    def _split(
        self, labels: np.ndarray, recipe: Recipe, seed: int, eval_set: Any
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        if not recipe.members:
            if self._groups is not None:
                raise ValueError(
                    f"groups are for a forest, however: preset={self.preset!r}; use "
                    "preset='default' or leave groups out"
                )
            return super()._split(labels, recipe, seed, eval_set)
        n_folds = min(count_folds(len(labels)), recipe.members)
        groups = None
        if self._groups is not None:
            groups = read_groups(self._groups, labels)
            n_folds = min(n_folds, int(groups.max()) + 1)
        self._folds = draw_folds(labels, n_folds, seed, groups)
        return None, None

    def _make_network(self, seed: int, rows: Any) -> Any:
        if not self.recipe_.members:
            return super()._make_network(seed, rows)
        if rows is None:
            assert self._shape is not None
            return blank_forest(self._shape, self.target_, self.recipe_)
        if self._levels_tell_more(rows, seed):
            self._remember(reading_levels(self.recipe_))
        return grow_forest(rows, self.encoder_, self.target_, self.recipe_, seed, self._folds)

    def _levels_tell_more(self, rows: Any, seed: int) -> bool:
        """Whether numbers of few values should be read as categories."""
        group, recipe, folds = present(), self.recipe_, self._folds
        tell_more = (
            # Processes whose numbers round differently must not grow different forests.
            group.is_writer
            and folds is not None
            and may_be_levels(rows, recipe, self._n_folds(), self.time_limit)
            and levels_tell_more(rows, self.encoder_, self.target_, recipe, seed, folds)
        )
        return bool(group.of_writer(tell_more))

    def _make_batches(self, rows: Any) -> ShuffledBatches | StreamedBatches:
        if not self.recipe_.members:
            return super()._make_batches(rows)
        if isinstance(rows, SampledRows):
            return rows.batches(self.recipe_.batch_size, self._round_epochs(), self._group)
        folds = self._folds
        if folds is None:
            # partial_fit: a row goes to a fold by its running number.
            folds = (self._n_seen + np.arange(len(rows))) % MOST_FOLDS
            self._n_seen += len(rows)
            return ForestBatches(rows, self.recipe_.batch_size, folds)
        passes = self._round_epochs()
        return ForestBatches(rows, self.recipe_.batch_size, folds, passes, self._group)

    def _round_epochs(self) -> int:
        """Passes over the rows between two checks."""
        return math.ceil(self.recipe_.epochs / CHECKS)

    def _step(self, network: nn.Module, batch: Any) -> Tensor:
        if not self.recipe_.members:
            return super()._step(network, batch)
        assert isinstance(network, ForestNetwork)
        return forest_loss(network, batch, self.target_, self._n_folds())

    def _n_folds(self) -> int:
        return MOST_FOLDS if self._folds is None else int(self._folds.max()) + 1

    def _train_settings(self, recipe: Recipe, validation: Any) -> TrainSettings:
        settings = super()._train_settings(recipe, validation)
        if not recipe.members:
            return settings
        rounds = math.ceil(recipe.epochs / self._round_epochs())
        patience = None
        if validation is not None or (self._folds is not None and self._n_folds() > 1):
            patience = max(3, math.ceil(rounds / 3))
            if recipe.patience is not None:
                patience = math.ceil(recipe.patience / self._round_epochs())
        return replace(settings, epochs=rounds, patience=patience)

    def _evaluator(self, rows: Any, validation: Any) -> Any:
        if validation is not None or not self.recipe_.members:
            return super()._evaluator(rows, validation)
        n_folds = self._n_folds()
        if n_folds == 1:
            return None
        evaluation = Evaluation(self.recipe_.metric, self.target_)
        assert self._folds is not None
        folds = torch.from_numpy(self._folds)
        judged = rows.some(self._most_judged())
        weights = None if judged.weights is None else judged.weights[judged.index]

        def evaluate(network: Any) -> dict[str, float]:
            outputs = shared_out_of_bag(network, judged, folds, n_folds, self._group)[0].t().cpu()
            return evaluation(outputs, judged.targets[judged.index], weights)

        return evaluate

    def _measure_pace(self, network: Any, rows: Any) -> None:
        if self.time_limit is not None and self._folds is not None:
            folds = torch.from_numpy(self._folds)
            self._pace = measure_pace(network, rows, folds, self._n_folds(), self.time_limit)

    def _most_judged(self) -> int:
        """Rows whose judgement decides during a fit."""
        most = MOST_VALIDATION_ROWS
        return most if self._pace is None else self._pace.affordable(0.4 / CHECKS, most)

    def _importance_rows(self) -> int:
        most = super()._importance_rows()
        if self._pace is None:
            return most
        return self._pace.affordable(0.05 / passes(self.target_.n_outputs), most)

    def _foreseen(self, rows: Any) -> tuple[float, float]:
        if self._pace is None:
            return 0.0, 0.0
        responses = self._importance_rows() * passes(self.target_.n_outputs)
        judged = min(len(rows), self._most_judged())
        return self._pace.a_row * judged, self._pace.a_row * (len(rows) + responses)

    def _workers(self, rows: Any, validation: Any, seed: int) -> AbstractContextManager[Any]:
        check_division(self)
        if self.n_workers == 1 or present().size > 1:
            return nullcontext()
        return workers(self, rows, validation, seed)

    def _learn(self, network: Any, rows: Any, validation: Any, seed: int) -> History:
        group = present()
        if group.size == 1:
            # Several processes would wait for one another.
            self._measure_pace(network, rows)
            return super()._learn(network, rows, validation, seed)
        what = "rows" if division(self, group.size) == "rows" else "parts"
        self._group = replace(group, divided=what, own_statistics=True)
        try:
            with divided(network, self._group) as trained:
                return super()._learn(trained, rows, validation, seed)
        finally:
            del self._group

    def _agreed(self, evaluate: Any) -> Any:
        group = self._group
        if evaluate is None or group.size == 1:
            return evaluate
        # The writer may know a metric that could not be told to the others.
        return lambda network: group.of_writer(evaluate(answering(network, group)))

    def _take_pass(self, rows: Any) -> None:
        self._forget_fit()
        super()._take_pass(rows)

    def _train(self, rows: Any, validation: Any, seed: int) -> None:
        super()._train(rows, validation, seed)
        # Rows that come after a fit are counted from its end.
        self._n_seen = 0
        if isinstance(rows, SampledRows) and rows.stream is not None:
            self.data_wait_ = rows.stream.wait_share
        if self.recipe_.members and self._n_folds() > 1:
            self._judge(rows)
            self._fold()

    def _judge(self, rows: Rows) -> None:
        """Learn from out-of-bag predictions how good and how sure the forest is."""
        assert self._folds is not None
        assert isinstance(self.network_, ForestNetwork)
        folds, n_folds = torch.from_numpy(self._folds), self._n_folds()
        views = self._n_views()
        outputs = shared_out_of_bag(self.predictor_, rows, folds, n_folds, present(), views).cpu()
        truth = rows.targets[rows.index]
        weights = None if rows.weights is None else rows.weights[rows.index]
        shares = learn_shares(outputs, truth, self.target_, weights)
        joint = combine(outputs, self.target_.kind, shares.unsqueeze(1))
        each = shares.repeat_interleave(self.network_.n_members // views)
        self.network_.shares.copy_(each)
        self.network_ = self.network_.keep(each.nonzero()[:, 0].to(rows.device))
        if isinstance(self.target_, (ClassTarget, MultilabelTarget)):
            temperature = find_temperature(joint, truth, self.target_, weights)
            self.network_.temperature.fill_(temperature)
            joint = joint / self.network_.temperature.cpu()
            self.oob_decision_function_ = self.target_.probabilities(joint)
        else:
            self.oob_prediction_ = self.target_.labels(joint)
        if weights is not None:
            # Rows that weigh nothing do not count here either.
            joint, truth = joint[weights > 0], truth[weights > 0]
        if isinstance(self.target_, RegressionTarget):
            self._residuals = _residual_quantiles(joint, truth)
        self.oob_score_ = self._oob_score(joint, truth)

    def _n_views(self) -> int:
        """Views whose members judge all rows between them; 1 if they do so only together."""
        views = len(self.recipe_.views)
        return views if self.recipe_.members // views >= self._n_folds() else 1

    def _oob_score(self, outputs: Tensor, truth: Tensor) -> float:
        raise NotImplementedError

    def _identity(self) -> dict[str, Any]:
        return {} if self._folds is None else {"folds": checksum(self._folds)}

    def _fold(self) -> None:
        if not self._is_forest():
            return super()._fold()
        self.network_.eval()
        assert isinstance(self.network_, ForestNetwork)
        self.predictor_ = self.network_.fold().requires_grad_(False)
        return None

    def _extra_header(self) -> dict[str, Any]:
        if not self._is_forest():
            return {}
        residuals = getattr(self, "_residuals", None)
        assert isinstance(self.network_, ForestNetwork)
        shape = {
            "in_features": self.encoder_.n_features_out_,
            "index": list(self.network_.index.shape),
            "n_bins": self.network_.bins.n_bins,
            "n_levels": self.network_.bins.n_levels,
        }
        return {
            "forest": shape,
            "oob_score": None if not hasattr(self, "oob_score_") else self.oob_score_.hex(),
            "residuals": None if residuals is None else residuals.tolist(),
        }

    def _restore_extra(self, header: dict[str, Any]) -> None:
        self._shape = header.get("forest")
        if header.get("oob_score") is not None:
            self.oob_score_ = float.fromhex(header["oob_score"])
        if header.get("residuals") is not None:
            self._residuals = np.array(header["residuals"])


class _EachMember(nn.Module):
    """The members' own outputs side by side, (B, K · out_features)."""

    def __init__(self, forest: Any) -> None:
        super().__init__()
        self.forest = forest

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.forest.members(x)
        alone = torch.stack([combine(member[None], self.forest.kind) for member in outputs], 1)
        return (alone / self.forest.temperature).flatten(1)


# Residuals are kept as so many quantiles: enough for intervals of 99.9 %.
N_QUANTILES = 2001


def _residual_quantiles(outputs: Tensor, truth: Tensor) -> np.ndarray:
    """Sizes of the out-of-bag errors in standardised units, (N_QUANTILES, n_outputs), ascending."""
    errors = (outputs - truth).abs().double().numpy()
    levels: np.ndarray = np.linspace(0, 1, N_QUANTILES)
    # Conformal: of n errors the ⌈level · (n + 1)⌉-th, so that a new row is covered often enough.
    n = len(errors)
    ranks = np.clip(np.ceil(levels * (n + 1)).astype(int), 1, n) - 1
    quantiles: np.ndarray = np.sort(errors, axis=0)[ranks]
    return quantiles
