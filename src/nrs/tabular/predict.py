"""Predictions of a saved table model for the rows of a file, for ``nrs predict``."""

from __future__ import annotations

import os
from typing import Any

from nrs.tabular.classifier import NRSClassifier
from nrs.tabular.regressor import NRSRegressor
from nrs.training import ModelFileError, read_model


def predict_file(
    model: str | os.PathLike[str], source: str | os.PathLike[str]
) -> list[dict[str, Any]]:
    """Predict every row of a comma-separated table whose first line names the columns.

    Columns that the model was not fitted with are left out.

    Parameters
    ----------
    model : path
        A file that ``NRSClassifier.save`` or ``NRSRegressor.save`` wrote.
    source : path
        The table.

    Returns
    -------
    list of dict
        ``prediction`` for each row; ``prediction_0``, … of several outputs.

    Raises
    ------
    ModelFileError
        If the model file is not a table model.
    ValueError
        If the table cannot be read or lacks a column.
    ImportError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "predicting the rows of a file needs pandas, which is not installed; "
            "run: pip install 'neural-random-subspace[frames]'"
        ) from None
    estimator = _load(model)
    try:
        table = pandas.read_csv(source)
    except (UnicodeDecodeError, pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise ValueError(
            f"{source} must be a comma-separated table, however: {str(error).strip()}"
        ) from None
    if hasattr(estimator, "feature_names_in_"):
        wanted = list(estimator.feature_names_in_)
        missing = [name for name in wanted if name not in table.columns]
        if missing:
            raise ValueError(
                f"{source} must have the columns that the model was fitted with, however: "
                f"{', '.join(map(repr, missing[:5]))} "
                f"{'is' if len(missing) == 1 else 'are'} missing"
            )
        table = table[wanted]
    predicted = estimator.predict(table)
    if predicted.ndim == 1:
        return [{"prediction": value} for value in predicted.tolist()]
    return [
        {f"prediction_{place}": value for place, value in enumerate(row)}
        for row in predicted.tolist()
    ]


def _load(path: str | os.PathLike[str]) -> NRSClassifier | NRSRegressor:
    name = read_model(path, kind="table").header["estimator"]
    for kind in (NRSClassifier, NRSRegressor):
        if name == kind.__name__:
            return kind.load(path)
    raise ModelFileError(
        f"{os.fspath(path)} must hold a model of NRSClassifier or NRSRegressor, however: {name}"
    )
