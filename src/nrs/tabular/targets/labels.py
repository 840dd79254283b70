"""Labels as users have them: what is refused, what each weighs, and how they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import column_or_1d

if TYPE_CHECKING:
    from nrs.tabular.types import ArrayLike, ClassWeights, Json


def refuse_dates(y: np.ndarray) -> None:
    """Refuse dates and durations where numbers are needed: a unit would be a matter of luck."""
    if y.dtype.kind in "mM":
        held = "dates" if y.dtype.kind == "M" else "durations"
        raise ValueError(
            f"y must hold numbers; it holds {held}. Turn them into numbers, such as days."
        )


def check_offset(offset: ArrayLike) -> np.ndarray:
    """Offsets (n,) as float64; refuse any that is not finite."""
    found = column_or_1d(np.asarray(offset, dtype=np.float64))
    if (wrong := ~np.isfinite(found)).any():
        raise ValueError(
            f"offset must be finite; got {found[wrong][0]:g} in row {int(np.argmax(wrong))}. It is "
            "on the scale of the logarithm: pass np.log(exposure)."
        )
    return found


def check_labelled(n_rows: int, target: str, source: str) -> None:
    """Refuse a table (called `source`) with fewer than two rows that have a value of the target."""
    if n_rows < 2:
        raise ValueError(
            f"{source} must have at least two rows with a value of {target!r}; it has {n_rows}. "
            "Add rows, or choose another target."
        )


def weights_of_rows(class_weight: ClassWeights, labels: np.ndarray) -> np.ndarray | None:
    """The weight of each row by its class; None of several columns, whose losses have weights."""
    if labels.ndim == 2 and labels.dtype.kind == "O":
        return None
    return weights_of_labels(class_weight, labels)


def weights_of_labels(class_weight: ClassWeights, labels: np.ndarray) -> np.ndarray:
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
            "class_weight must be finite, at least 0 and not 0 for all classes; got "
            f"{class_weight!r}"
        )
    return weights


def weights_of_classes(
    class_weight: ClassWeights, classes: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """The weight of each class by how many rows have it; see :func:`weights_of_labels`.

    Examples
    --------
    >>> weights_of_classes("balanced", np.array(["a", "b"]), np.array([3, 1])).round(2).tolist()
    [0.67, 2.0]
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        found: np.ndarray = counts.sum() / (len(classes) * counts)
        return found
    return weights_of_labels(class_weight, classes)


def onnx_labels(classes: np.ndarray) -> np.ndarray:
    """Labels as ONNX knows them: integers, floats, booleans or texts."""
    known: Json = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    if classes.dtype.kind in known:
        return classes.astype(known[classes.dtype.kind])
    return np.array([str(label) for label in classes.tolist()], dtype=object)


def shown(values: np.ndarray, most: int = 8) -> str:
    """The first few values, for a message."""
    first = ", ".join(repr(value) for value in values[:most].tolist())
    return f"[{first}{', …' if len(values) > most else ''}]"


def array_state(values: np.ndarray) -> Json:
    """Labels as JSON values, to the last bit."""
    kind, name = values.dtype.kind, values.dtype.str
    if kind == "O":
        name = "object"
        if not all(isinstance(value, (str, int, float, bool)) for value in values):
            raise ValueError(
                "class labels of mixed or unusual types cannot be saved; use strings or numbers"
            )
    cells = (values.astype(np.int64) if kind in "mM" else values).tolist()
    return {"dtype": name, "values": [cell.hex() for cell in cells] if kind == "f" else cells}


def array_from_state(state: Json) -> np.ndarray:
    """Read what :func:`array_state` wrote."""
    dtype, cells = np.dtype(state["dtype"]), state["values"]
    if dtype.kind == "f":
        cells = [float.fromhex(cell) for cell in cells]
    return np.array(cells, dtype=dtype)
