"""What users pass, in its many forms: for type checkers and readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from scipy.sparse import csr_matrix

    from nrs.datasets.large_table import Table
    from nrs.tabular.classifier import NRSClassifier
    from nrs.tabular.regressor import NRSRegressor

    TableModel: TypeAlias = NRSClassifier | NRSRegressor

# Rows in memory: whatever nrs.tabular.encode.table.read_table reads.
Frame: TypeAlias = Union[
    np.ndarray,
    Sequence[Sequence[object]],
    "pandas.DataFrame",
    "polars.DataFrame",
    "pyarrow.Table",
    "csr_matrix",
]
# Rows in memory, or in files that need not fit in it.
TableLike: TypeAlias = Union[Frame, "Table"]
# One entry per row, or one row of entries: labels, weights, groups, query ids.
ArrayLike: TypeAlias = Union[
    np.ndarray,
    Sequence[object],
    "pandas.Series",
    "pandas.DataFrame",
    "polars.Series",
    "pyarrow.Array",
]
# Encoded rows.
Features: TypeAlias = Union[np.ndarray, "csr_matrix"]
# Names, indices or a mask of columns that are categories whatever they hold.
Categorical: TypeAlias = Sequence[object] | np.ndarray | str | None
ClassWeights: TypeAlias = Mapping[Any, float] | str | None
# What JSON can hold: the state of what was learned.
Json: TypeAlias = dict[str, Any]
