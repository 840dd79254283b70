"""SHAP on raw tables, with categories, dates and missing cells.

SHAP's explainers mix cells of a row with cells of background rows, and need numbers for that. So
each distinct cell of a column gets a number, and the function that SHAP calls looks up the cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nrs._util.optional import import_optional
from nrs.tabular.encode.table import Table
from nrs.tabular.explain.trees import encoded

if TYPE_CHECKING:
    from shap import Explanation

    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.types import TableLike

ALGORITHMS = ("auto", "exact", "permutation")


class CodedRows:
    """A model as a function of numbered cells, and rows as such numbers, for any SHAP explainer.

    Parameters
    ----------
    model : fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`
    X : rows to explain, as ``predict`` takes them.
    background : rows that stand for the usual cells of each column; a few dozen are enough.

    Attributes
    ----------
    rows, background : (n_rows, n_columns) the cells as numbers; equal cells have equal numbers.
    cells : (n_rows, n_columns) of object, the cells of `X` as they are.
    """

    def __init__(self, model: TableEstimator, X: TableLike, background: TableLike) -> None:
        check_is_fitted(model)
        usual, rows = encoded(model, background), encoded(model, X)
        self._model, self._features = model, np.concatenate([usual, rows])
        self._groups = model.encoder_.groups_
        codes = np.zeros((len(self._features), model.encoder_.n_features_in_))
        # For each column, a row that holds the cell of a number.
        self._where: list[np.ndarray] = []
        for column in range(codes.shape[1]):
            own = self._features[:, self._groups == column]
            _, first, inverse = np.unique(own, axis=0, return_index=True, return_inverse=True)
            codes[:, column] = inverse.ravel()
            self._where.append(first)
        self.background, self.rows = np.split(codes, [len(usual)])
        self.cells = _cells(model.read_table(X))

    def __call__(self, codes: Any) -> np.ndarray:
        """Probabilities of a classifier (n_rows, n_classes), or a regressor's numbers.

        Parameters
        ----------
        codes : (n_rows, n_columns) cells as numbers, taken from `rows` or `background`.
        """
        places = np.asarray(codes).astype(np.int64).T
        rows = np.column_stack([where[p] for where, p in zip(self._where, places, strict=True)])
        features = self._features[rows[:, self._groups], np.arange(len(self._groups))]
        return self._model.target_.answer(self._model.forward(features))


def shap_values(
    model: TableEstimator,
    X: TableLike,
    background: TableLike,
    *,
    algorithm: str = "auto",
    max_evals: int | str = "auto",
    seed: int = 0,
) -> Explanation:
    """Shapley values of a raw table's columns by the shap package.

    Parameters
    ----------
    model : fitted :class:`nrs.NRSClassifier` or :class:`nrs.NRSRegressor`
    X : rows to explain, as ``predict`` takes them: text, missing cells and dates as they are.
    background : rows that stand for the usual cells of each column; a few dozen are enough.
    algorithm : "auto", "exact" or "permutation", of ``shap.Explainer``; "auto" is exact for up to
        ten columns.
    max_evals : how often a row may be predicted, or "auto".
    seed : of the permutations.

    Returns
    -------
    shap.Explanation
        ``values`` (n_rows, n_columns, n_classes) of probabilities, or (n_rows, n_columns) of one
        number; with ``base_values`` they add up to the prediction. ``data`` holds the raw cells.

    Raises
    ------
    ValueError
        An unknown algorithm.
    ImportError
        Without shap; the extra ``explain`` installs it.

    Examples
    --------
    >>> import pandas as pd
    >>> from nrs import NRSRegressor
    >>> X = pd.DataFrame({"colour": ["red", "blue", None, "red"] * 10, "size": range(40)})
    >>> model = NRSRegressor(preset="fast", epochs=2, random_state=0).fit(X, X["size"] * 2.0)
    >>> why = shap_values(model, X[:3], X[10:30])
    >>> why.values.shape, why.data[0].tolist()
    ((3, 2), ['red', 0])
    >>> bool(np.allclose(why.base_values + why.values.sum(1), model.predict(X[:3]), atol=1e-3))
    True
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {ALGORITHMS}; got {algorithm!r}")
    shap = import_optional("shap", "shap_values", "explain")
    coded = CodedRows(model, X, background)
    # All of the background: by default SHAP takes a hundred rows of it.
    masker = shap.maskers.Independent(coded.background, max_samples=len(coded.background))
    explainer = shap.Explainer(coded, masker, algorithm=algorithm, seed=seed)
    found = explainer(coded.rows, max_evals=max_evals, silent=True)
    return shap.Explanation(
        found.values,
        found.base_values,
        data=coded.cells,
        feature_names=model.encoder_.column_names,
        output_names=model.target_.answer_names(),
    )


def _cells(table: Table) -> np.ndarray:
    """The cells as Python objects; None where one is missing."""
    cells = np.empty(table.shape, dtype=object)
    for place in range(table.n_columns):
        column = table.column(place)
        if column.levels:
            cells[:, place] = np.array([*column.levels, None], dtype=object)[column.values]
        else:
            cells[:, place] = column.values.astype(object)
            cells[column.missing(), place] = None
    return cells
