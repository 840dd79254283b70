"""A saved table model, and rows of a file as it reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from nrs.datasets.table_files import stream_table_file
from nrs.ranking import NRSRanker
from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.header import estimator_name
from nrs.tabular.predict_file import Source, input_columns
from nrs.tabular.regressor import NRSRegressor
from nrs.training.files import loading, read_kind, read_model
from nrs.training.schema import ModelFileError

if TYPE_CHECKING:
    import pyarrow

    from nrs.tabular.types import TableModel


def load_model(path: str | os.PathLike[str]) -> TableModel:
    """Load a model of tables, whichever estimator saved it.

    Raises ModelFileError if the file is not a complete model file of a table or a ranker.
    """
    if read_kind(path) == "ranker":
        # What all models of tables have is what is asked of it.
        return cast("TableModel", NRSRanker.load(path))
    header = read_model(path, kind="table").header
    with loading(path):
        name = estimator_name(header)
    for kind in (NRSClassifier, NRSRegressor):
        if name == kind.__name__:
            return kind.load(path)
    raise ModelFileError(
        f"{os.fspath(path)} must hold a model of NRSClassifier, NRSRegressor or NRSRanker; it "
        f"holds one of {name}. Load it with the class that saved it."
    )


def read_rows(
    model: TableModel, source: Source, max_rows: int = 20_000, **reading: Any
) -> pyarrow.Table:
    """The first rows of a table file, with the columns that the model reads."""
    import pyarrow

    columns = input_columns(model, source, **reading)
    chunks, n_rows = [], 0
    for chunk in stream_table_file(source, columns, **reading):
        chunks.append(chunk)
        n_rows += chunk.num_rows
        if n_rows >= max_rows:
            break
    return pyarrow.concat_tables(chunks).slice(0, max_rows)


def read_row(
    model: TableModel, source: Source, row: int, others: int = 1_000, **reading: Any
) -> pyarrow.Table:
    """A row of a table file by its number from 1, after so many of the file's first rows.

    With the columns that the model reads. Raises ValueError if the file has fewer rows.
    """
    import pyarrow

    columns = input_columns(model, source, **reading)
    kept: list[pyarrow.Table] = []
    found, n_rows = None, 0
    for chunk in stream_table_file(source, columns, **reading):
        missing = others - sum(map(len, kept))
        if missing > 0:
            kept.append(chunk.slice(0, missing))
        if found is None and n_rows + len(chunk) >= row:
            found = chunk.slice(row - 1 - n_rows, 1)
        n_rows += len(chunk)
        if found is not None and sum(map(len, kept)) >= others:
            break
    if found is None:
        raise ValueError(f"row must be from 1 to {n_rows}, the rows of {source}; got {row}")
    return pyarrow.concat_tables([*kept, found])
