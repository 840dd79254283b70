"""Numbers: squared error on standardised values, and the sizes of out-of-bag errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from nrs._util.lazy import torch
from nrs.tabular.encode.number import LIMIT, MAX_FLOAT, moments
from nrs.tabular.encode.table import Table
from nrs.tabular.metrics import NUMBER_METRICS
from nrs.tabular.targets.base import Functional, Result, Target, conformal_quantiles

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nrs.tabular.export.graph import Graph
    from nrs.tabular.types import ArrayLike, Json


class RegressionTarget(Target):
    """One or several numbers: squared error on standardised values."""

    kind, nouns, task = "regression", "numbers", "regression"
    criterion = Functional("mse_loss")
    metrics = NUMBER_METRICS

    def __init__(self, mean: np.ndarray, std: np.ndarray, *, single: bool) -> None:
        self.mean, self.std, self.single = mean, std, single
        self.several = not single
        self.n_outputs = len(mean)

    @classmethod
    def of(cls, y: np.ndarray) -> RegressionTarget:
        """Learn mean and standard deviation of the (n,) or (n, outputs) training targets.

        Raises
        ------
        ValueError
            If the range of an output is beyond float64.
        """
        columns = y.reshape(len(y), -1)
        low, high = columns.min(0), columns.max(0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, std, wide = columns.mean(0), columns.std(0), ~np.isfinite(high - low)
        if wide.any():
            raise ValueError(
                f"y spans more than float64 can hold: from {low[wide][0]:g} to {high[wide][0]:g}. "
                "Divide it by a constant."
            )
        # Squares of 1e300 and of 1e-300 leave float64, and the mean of equal numbers may be none
        # of them.
        odd = ~np.isfinite(mean + std) | (std == 0) | (low == high)
        if odd.any():
            exact = moments(lambda: iter([(0, columns)]), len(odd), lambda row, column: None)
            mean, std = np.where(odd, exact.mean, mean), np.where(odd, exact.std, std)
        return cls(mean, std, single=y.ndim == 1)

    def varying(self) -> RegressionTarget:
        """The same target with a scale of 1 for a constant output, which other rows may vary."""
        return RegressionTarget(self.mean, self.scale, single=self.single)

    def units(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        weights = weights if weights.any() else np.ones(len(y))
        mean = np.average(y.astype(np.float64), axis=0, weights=weights)
        std = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weights))
        return np.where(std > 0, std, 1.0), mean

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        return 2 * (outputs - y.t()) / self.n_targets

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Standardised values, ``(n, outputs)``.

        Raises
        ------
        ValueError
            If the number of outputs is another one.
        """
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_targets:
            raise ValueError(
                f"y must have {self.n_targets} outputs as in training; got {columns.shape[1]}"
            )
        # A constant output has no scale, and is predicted as its mean whatever the network says.
        # A row of weight 0 may be far off, and 0 times infinity would be NaN in the loss.
        with np.errstate(over="ignore"):
            standard = (columns - self.mean) / self.scale
        return np.clip(standard, -LIMIT, LIMIT).astype(np.float32)

    @property
    def scale(self) -> np.ndarray:
        """The standard deviation of each output, 1 for a constant one."""
        return np.where(self.std > 0, self.std, 1.0)

    def encode_column(self, table: Table) -> np.ndarray:
        columns = [table.column(place, "number").values for place in range(table.n_columns)]
        y = np.stack(columns, axis=1).astype(np.float64)
        return self.encode(y[:, 0] if y.shape[1] == 1 else y)

    def answer(self, outputs: np.ndarray | Tensor) -> np.ndarray:
        return self.numbers(np.asarray(outputs, dtype=np.float64))

    def numbers(self, standard: np.ndarray) -> np.ndarray:
        """Standardised numbers in the units of the target."""
        # Of targets near the ends of float64, what would be beyond it is its end.
        with np.errstate(over="ignore"):
            values = standard * self.std + self.mean
        values = np.clip(values, -MAX_FLOAT, MAX_FLOAT)
        return values[:, 0] if self.single else values

    def deviations(self, standard: np.ndarray) -> np.ndarray:
        found = standard * self.scale
        return found[:, 0] if self.single else found

    def truth(self, y: Tensor) -> np.ndarray:
        return self.numbers(y.double().cpu().numpy())

    def residuals(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> np.ndarray | None:
        """Sizes of the out-of-bag errors in standardised units, (N_QUANTILES, n_outputs)."""
        errors = (outputs - y).abs().double().numpy()
        weight = np.ones(len(errors)) if weights is None else weights.double().numpy()
        each = [conformal_quantiles(one, weight) for one in errors.T]
        return np.column_stack(each)

    def score(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> float:
        from sklearn.metrics import r2_score

        # A constant output is predicted as its mean, 0 here, whatever the network says.
        known, truth = outputs.numpy() * (self.std > 0), y.numpy()
        if weights is None:
            return float(r2_score(truth, known))
        counts = weights.numpy() > 0
        return float(r2_score(truth[counts], known[counts], sample_weight=weights[counts]))

    def rate(self, y: ArrayLike, answers: np.ndarray, weights: ArrayLike | None = None) -> float:
        """What `score` of an estimator gives for labels and predictions: R²."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, answers, sample_weight=weights))

    def explained(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """The number in the units of the target."""
        mean, std = (torch.from_numpy(values)[chosen] for values in (self.mean, self.std))
        return super().explained(outputs, chosen) * std + mean

    def to_torch(self) -> nn.Module:
        from nrs.tabular.targets.modules import Scale

        return Scale(self.mean, self.std)

    def to_onnx(self, graph: Graph, outputs: str) -> list[Result]:
        numbers = graph.op("Mul", graph.cast(outputs, np.float64), graph.constant(self.std))
        numbers = graph.op("Add", numbers, graph.constant(self.mean))
        if self.single:
            return [("prediction", graph.reshape(numbers, -1), np.float64, ())]
        return [("prediction", numbers, np.float64, (self.n_outputs,))]

    def state(self) -> Json:
        return {
            "kind": self.kind,
            "mean": [value.hex() for value in self.mean.tolist()],
            "std": [value.hex() for value in self.std.tolist()],
            "single": self.single,
        }

    @classmethod
    def from_state(cls, state: Json) -> Self:
        mean, std = (np.array([float.fromhex(v) for v in state[key]]) for key in ("mean", "std"))
        return cls(mean, std, single=state["single"])
