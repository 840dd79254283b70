"""What the paper does to the inputs before training, fitted on the training part only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nrs.datasets.dataset import PARTS, Dataset

Floats = NDArray[np.float64]
_RANGES = {"minmax": (-1.0, 1.0), "unit": (0.0, 1.0)}


def paper_preprocess(dataset: Dataset) -> Dataset:
    """Scale the inputs as the paper does.

    The rule is the dataset's ``preprocess``:

    - ``"standardise"``: mean 0 and variance 1 (protein, pendigits, poker, splice, cod-rna, SUSY,
      phishing);
    - ``"minmax"`` and ``"unit"``: every column to [-1, 1] or [0, 1], which is how LIBSVM scales
      its files. A column that already spans that range over the whole file, as in those files,
      stays as it is;
    - ``"pixels"``: divided by 255;
    - ``"none"``: as in the file.

    Parameters
    ----------
    dataset : Dataset
        Its training part decides the scales; the other parts follow.

    Returns
    -------
    Dataset
        With scaled float32 inputs and ``preprocess="none"``, so that doing it again does nothing.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)
    >>> data = Dataset("tiny", X, np.array([0, 1]), preprocess="minmax")
    >>> paper_preprocess(data).X_train.tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    if dataset.preprocess == "none":
        return dataset
    shift, scale = _fit(dataset)
    changed = {}
    for part in PARTS:
        X = dataset.part(part)[0]
        if X is None:
            continue
        if dataset.preprocess == "pixels":
            changed[f"X_{part}"] = X.astype(np.float32) / np.float32(255)
        else:
            changed[f"X_{part}"] = ((X - shift) * scale).astype(np.float32)
    # mypy cannot match the computed names with the fields.
    return replace(dataset, preprocess="none", **changed)  # type: ignore[arg-type]


def _fit(dataset: Dataset) -> tuple[Floats, Floats]:
    """Give shift and scale of ``(X - shift) * scale``."""
    if dataset.preprocess == "pixels":
        return np.zeros(()), np.ones(())
    X = dataset.X_train.astype(np.float64)
    if dataset.preprocess == "standardise":
        deviation = X.std(axis=0)
        return X.mean(axis=0), np.where(deviation > 0, 1 / np.where(deviation > 0, deviation, 1), 1)
    low, high = _RANGES[dataset.preprocess]
    least, most = X.min(axis=0), X.max(axis=0)
    width = most - least
    # LIBSVM leaves a constant column out of its sparse files, so it reads as 0.
    scale = np.where(width > 0, (high - low) / np.where(width > 0, width, 1), 0.0)
    shift = np.where(width > 0, least - low / np.where(scale > 0, scale, 1), least)
    parts = [part for name in PARTS if (part := dataset.part(name)[0]) is not None]
    whole_least = np.min([part.min(axis=0) for part in parts], axis=0)
    whole_most = np.max([part.max(axis=0) for part in parts], axis=0)
    scaled = (whole_least == low) & (whole_most == high)
    return np.where(scaled, 0.0, shift), np.where(scaled, 1.0, scale)
