"""The paper's table of its 35 datasets, as printed: sizes and the layer's settings for each."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's dataset table.

    Attributes
    ----------
    dataset : str
        The name in the catalog.
    classes : int or None
        Number of classes; None for the regression set.
    n_train, n_test : int
        Rows of the training and of the test part.
    dim : int
        Number of features.
    n_mul, n_per, n_h : int
        The settings of :class:`nrs.NRS` that the paper uses on this set.
    """

    dataset: str
    classes: int | None
    n_train: int
    n_test: int
    dim: int
    n_mul: int
    n_per: int
    n_h: int


@functools.cache
def paper_table() -> Mapping[str, PaperRow]:
    """Give the paper's dataset table by dataset name, in the paper's order.

    Examples
    --------
    >>> table = paper_table()
    >>> len(table), table["letter"].n_mul, table["letter"].dim
    (35, 100, 16)
    """
    text = resources.files("nrs.datasets").joinpath("data/paper_datasets.csv").read_text("utf-8")
    rows = {}
    for row in csv.DictReader(text.splitlines()):
        name, classes = row.pop("dataset"), row.pop("classes")
        numbers = {key: int(value) for key, value in row.items()}
        rows[name] = PaperRow(name, int(classes) if classes else None, **numbers)
    return MappingProxyType(rows)
