"""What is predicted: how labels become numbers, the loss on them, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_sample_weight
from torch import Tensor

from nrs.tabular.encode.number import LIMIT, moments


class ClassTarget:
    """One of several classes: cross-entropy on one output a class."""

    kind = "classes"

    def __init__(self, classes: np.ndarray) -> None:
        self.classes = classes
        self.n_outputs = len(classes)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Positions of the labels among the classes.

        Raises
        ------
        ValueError
            If a label is not one of the classes, or a row has several.
        """
        if y.ndim != 1:
            raise ValueError(
                "y must have one label a row as in training, however: its shape is "
                f"{y.shape}; give (n_rows,) labels, or fit again"
            )
        position = np.searchsorted(self.classes, y)
        position = np.minimum(position, len(self.classes) - 1)
        unknown = self.classes[position] != y
        if unknown.any():
            raise ValueError(
                f"y holds the label {y[unknown][0]!r}, which is not among the classes "
                f"{_shown(self.classes)}"
            )
        return position.astype(np.int64)

    def loss(self, output: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        if weights is None:
            return F.cross_entropy(output, y)
        return _weighted(F.cross_entropy(output, y, reduction="none"), weights)

    def member_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Losses of the (K, classes, B) outputs of K members: (K, B)."""
        return F.cross_entropy(outputs, y.expand(len(outputs), -1), reduction="none")

    def probabilities(self, output: Tensor) -> np.ndarray:
        # In float64, so that the rows sum to one as precisely as scikit-learn expects.
        values: np.ndarray = output.double().softmax(1).cpu().numpy()
        return values

    def labels(self, output: Tensor) -> np.ndarray:
        labels: np.ndarray = self.classes[output.argmax(1).cpu().numpy()]
        return labels

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "classes": _array_state(self.classes)}


class MultilabelTarget:
    """Any number of labels at once: binary cross-entropy on one output a label."""

    kind = "multilabel"

    def __init__(self, n_labels: int) -> None:
        self.n_outputs = n_labels
        self.classes = np.arange(n_labels)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """The 0/1 labels as float32, (n, labels).

        Raises
        ------
        ValueError
            If the number of labels is another one than in training.
        """
        if y.ndim != 2 or y.shape[1] != self.n_outputs:
            raise ValueError(
                f"y must have {self.n_outputs} labels a row, 0 or 1 each, as in training, however: "
                f"its shape is {y.shape}; give ({len(y)}, {self.n_outputs}) labels, or fit again"
            )
        return np.ascontiguousarray(y, dtype=np.float32)

    def loss(self, output: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        if weights is None:
            return F.binary_cross_entropy_with_logits(output, y)
        each = F.binary_cross_entropy_with_logits(output, y, reduction="none")
        return _weighted(each.mean(1), weights)

    def member_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Losses of the (K, labels, B) outputs of K members: (K, B)."""
        truth = y.t().expand_as(outputs)
        return F.binary_cross_entropy_with_logits(outputs, truth, reduction="none").mean(1)

    def probabilities(self, output: Tensor) -> np.ndarray:
        values: np.ndarray = output.double().sigmoid().cpu().numpy()
        return values

    def labels(self, output: Tensor) -> np.ndarray:
        labels: np.ndarray = (output > 0).long().cpu().numpy()
        return labels

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_labels": self.n_outputs}


class RegressionTarget:
    """One or several numbers: squared error on standardised values."""

    kind = "regression"

    def __init__(self, mean: np.ndarray, std: np.ndarray, *, single: bool) -> None:
        self.mean, self.std, self.single = mean, std, single
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
                "y must span a range within float64, however: it goes from "
                f"{low[wide][0]:g} to {high[wide][0]:g}; divide it by a constant"
            )
        # Squares of 1e300 and of 1e-300 leave float64, and the mean of equal numbers may be none
        # of them.
        odd = ~np.isfinite(mean + std) | (std == 0) | (low == high)
        if odd.any():
            exact = moments(lambda: iter([(0, columns)]), len(odd), lambda row, column: None)
            mean, std = np.where(odd, exact.mean, mean), np.where(odd, exact.std, std)
        return cls(mean, std, single=y.ndim == 1)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Standardised values, (n, outputs).

        Raises
        ------
        ValueError
            If the number of outputs is another one.
        """
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_outputs:
            raise ValueError(
                f"y must have {self.n_outputs} outputs as in training, however: {columns.shape[1]}"
            )
        # A constant output has no scale, and is predicted as its mean whatever the network says.
        scale = np.where(self.std > 0, self.std, 1.0)
        # A row of weight 0 may be far off, and 0 times infinity would be NaN in the loss.
        with np.errstate(over="ignore"):
            standard = (columns - self.mean) / scale
        return np.clip(standard, -LIMIT, LIMIT).astype(np.float32)

    def loss(self, output: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        if weights is None:
            return F.mse_loss(output, y)
        return _weighted((output - y).square().mean(1), weights)

    def member_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Losses of the (K, n_outputs, B) outputs of K members: (K, B)."""
        return (outputs - y.t()).square().mean(1)

    def labels(self, output: Tensor) -> np.ndarray:
        values = output.double().cpu().numpy() * self.std + self.mean
        return values[:, 0] if self.single else values

    def state(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "mean": [value.hex() for value in self.mean.tolist()],
            "std": [value.hex() for value in self.std.tolist()],
            "single": self.single,
        }


Target = ClassTarget | MultilabelTarget | RegressionTarget


def labels_as_array(y: Any) -> np.ndarray:
    """Labels of a list, an array, a pandas or polars series or frame, or a pyarrow array."""
    if hasattr(y, "to_numpy") and not type(y).__module__.startswith("pyarrow"):
        y = y.to_numpy()
    array = np.asarray(y)
    if array.dtype.kind == "O" and array.size:
        # Objects of one kind are better as that kind: integers of a nullable column, strings.
        cells = [_as_python(cell) for cell in array.flat]
        kinds = {type(cell) for cell in cells}
        if kinds <= {str} or kinds <= {int, float, bool}:
            return np.array(cells).reshape(array.shape)
    return array


def _as_python(cell: Any) -> Any:
    """NumPy's numbers, booleans and strings as Python's; anything else as it is."""
    return cell.item() if isinstance(cell, np.generic) and cell.dtype.kind in "biufU" else cell


def refuse_dates(y: np.ndarray) -> None:
    """Refuse dates and durations where numbers are needed: a unit would be a matter of luck.

    Raises
    ------
    ValueError
        If the array holds dates or durations.

    Examples
    --------
    >>> refuse_dates(np.array([1.0, 2.0]))
    """
    if y.dtype.kind in "mM":
        held = "dates" if y.dtype.kind == "M" else "durations"
        raise ValueError(
            f"y must hold numbers, however: it holds {held}; turn them into numbers, such as days"
        )


def check_labelled(n_rows: int, target: str, source: str) -> None:
    """Refuse a table with fewer than two rows to learn from.

    Parameters
    ----------
    n_rows : rows that have a value of the target.
    target : the name of the target.
    source : what the table is called.

    Raises
    ------
    ValueError
        If there are fewer than two.
    """
    if n_rows < 2:
        raise ValueError(
            f"{source} must have at least two rows with a value of {target!r}, however: it has "
            f"{n_rows}; add rows, or choose another target"
        )


def weights_of_labels(class_weight: Any, labels: np.ndarray) -> np.ndarray:
    """The weight of each label by its class, as scikit-learn understands ``class_weight``.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or all are 0.

    Examples
    --------
    >>> weights_of_labels({"a": 1, "b": 3}, np.array(["b", "a"])).tolist()
    [3.0, 1.0]
    """
    weights: np.ndarray = compute_sample_weight(class_weight, labels)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(
            "class_weight must give finite weights of at least 0, not all 0, however: "
            f"{class_weight!r}"
        )
    return weights


def target_from_state(state: dict[str, Any]) -> Target:
    """Read what a target's `state` wrote."""
    if state["kind"] == "classes":
        return ClassTarget(_array_from_state(state["classes"]))
    if state["kind"] == "multilabel":
        return MultilabelTarget(state["n_labels"])
    mean, std = (np.array([float.fromhex(v) for v in state[key]]) for key in ("mean", "std"))
    return RegressionTarget(mean, std, single=state["single"])


def _weighted(losses: Tensor, weights: Tensor) -> Tensor:
    total = weights.sum()
    # A batch of rows that all have weight zero teaches nothing.
    return (losses * weights).sum() / total.clamp_min(torch.finfo(total.dtype).tiny)


def _shown(values: np.ndarray, most: int = 8) -> str:
    shown = ", ".join(repr(value) for value in values[:most].tolist())
    return f"[{shown}{', …' if len(values) > most else ''}]"


def _array_state(values: np.ndarray) -> dict[str, Any]:
    if values.dtype.kind == "O":
        if not all(isinstance(value, (str, int, float, bool)) for value in values):
            raise ValueError(
                "class labels of mixed or unusual types cannot be saved; use strings or numbers"
            )
        return {"dtype": "object", "values": values.tolist()}
    if values.dtype.kind == "f":
        return {"dtype": values.dtype.str, "values": [v.hex() for v in values.tolist()]}
    if values.dtype.kind in "mM":
        return {"dtype": values.dtype.str, "values": values.astype(np.int64).tolist()}
    return {"dtype": values.dtype.str, "values": values.tolist()}


def _array_from_state(state: dict[str, Any]) -> np.ndarray:
    if state["dtype"] == "object":
        return np.array(state["values"], dtype=object)
    dtype = np.dtype(state["dtype"])
    if dtype.kind == "f":
        return np.array([float.fromhex(v) for v in state["values"]], dtype=dtype)
    return np.array(state["values"], dtype=dtype)
