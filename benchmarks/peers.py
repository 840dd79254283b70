"""Every method at its own defaults, on one thread; on tables of numbers, and on mixed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nrs.paper.table import NotHereError

if TYPE_CHECKING:
    from pandas import DataFrame

# Categories beyond these are one: scikit-learn's boosting refuses a column of more than 255.
MAX_HGB_LEVELS = 255
MISSING, OTHERS = "missing", "other levels"


def at_defaults(method: str, task: str, seed: int) -> Any:
    """Make an unfitted estimator.

    Parameters
    ----------
    method : str
        "NRS", or with a preset ("NRS fast"); "RF" (500 trees), "HGB" (scikit-learn's
        HistGradientBoosting), "XGBoost", "LightGBM", "CatBoost"; or a name of
        :mod:`nrs.baselines`, as "RealMLP" and "TabM".
    task : str
        "classification" or "regression".

    Raises
    ------
    NotHereError
        If the method's package is not installed.

    Examples
    --------
    >>> at_defaults("NRS fast", "regression", 0).preset
    'fast'
    """
    kind = "Classifier" if task == "classification" else "Regressor"
    if method.startswith("NRS"):
        import nrs

        preset = method.removeprefix("NRS").strip() or "default"
        return getattr(nrs, f"NRS{kind}")(preset=preset, random_state=seed, verbose=0, n_jobs=1)
    try:
        if method == "RF":
            from sklearn import ensemble

            return getattr(ensemble, f"RandomForest{kind}")(500, random_state=seed, n_jobs=1)
        if method == "HGB":
            from sklearn import ensemble

            return getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=seed)
        if method == "XGBoost":
            import xgboost

            return getattr(xgboost, f"XGB{kind}")(random_state=seed, n_jobs=1)
        if method == "LightGBM":
            import lightgbm

            return getattr(lightgbm, f"LGBM{kind}")(random_state=seed, n_jobs=1, verbose=-1)
        if method == "CatBoost":
            import catboost

            return getattr(catboost, f"CatBoost{kind}")(
                random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False
            )
        from nrs import baselines

        return baselines.make(method, task=task, seed=seed)  # type: ignore[arg-type]
    except ImportError as error:
        raise NotHereError(f"{method} cannot run here: {error}") from None


def at_defaults_on_frames(method: str, task: str, seed: int) -> Any:
    """Make an unfitted estimator that reads a pandas frame with strings and missing cells.

    Ours takes the frame as it is. Peers take it through :class:`OnFrames`.

    Parameters
    ----------
    method, task, seed
        As of :func:`at_defaults`.

    Raises
    ------
    NotHereError
        If the method's package is not installed.
    """
    model = at_defaults(method, task, seed)
    if method.startswith("NRS"):
        return model
    if method in ("RealMLP", "TabM"):
        from nrs.baselines.peers import MissingPeerError

        # Its own estimator, as the adapter would make 0/1 columns of categories.
        try:
            model = model._make_peer(2 if task == "classification" else None, seed)
        except MissingPeerError as error:
            raise NotHereError(f"{method} cannot run here: {error}") from None
    return OnFrames(method, model)


class OnFrames:
    """A peer with the categories of a frame handed over as its package wants them.

    Strings are columns of categories: a dtype of pandas for LightGBM, XGBoost
    (``enable_categorical``), HGB (``categorical_features="from_dtype"``), RealMLP and TabM;
    ``cat_features`` of CatBoost. Levels are those of the training rows. Missing cells stay
    missing, except that CatBoost gets a level for them, RealMLP and TabM the median of a number.
    RF gets categories as 0/1 columns, one of them for missing, and medians. A column of more
    levels than HGB takes keeps the most frequent.

    Examples
    --------
    >>> import pandas
    >>> X = pandas.DataFrame({"colour": ["red", None, "blue", "red"], "size": [1.0, 2.0, 3.0, 4.0]})
    >>> model = OnFrames("RF", at_defaults("RF", "classification", 0)).fit(X, [0, 1, 1, 0])
    >>> model.predict_proba(X).shape
    (4, 2)
    """

    def __init__(self, method: str, model: Any) -> None:
        self.method, self.model = method, model

    def fit(self, X: DataFrame, y: Any) -> Self:
        """Learn levels and medians, and fit the peer."""
        numbers = X.select_dtypes("number")
        self.medians_ = numbers.median()
        self.levels_ = {name: self._levels(X[name]) for name in X if name not in numbers}
        frame, given = self._frame(X), {}
        categories = [str(list(X).index(name)) for name in self.levels_]
        if self.method == "CatBoost":
            given["cat_features"] = categories
        elif self.method == "XGBoost":
            self.model.set_params(enable_categorical=True)
        elif self.method == "RF":
            from sklearn.compose import make_column_transformer
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import OneHotEncoder

            encoder = OneHotEncoder(handle_unknown="ignore")
            encode = make_column_transformer((encoder, categories), remainder="passthrough")
            self.model = make_pipeline(encode, self.model)
        self.model.fit(frame, np.asarray(y), **given)
        return self

    def predict(self, X: DataFrame) -> np.ndarray:
        """Predict numbers."""
        return np.asarray(self.model.predict(self._frame(X)))

    def predict_proba(self, X: DataFrame) -> np.ndarray:
        """Predict probabilities."""
        return np.asarray(self.model.predict_proba(self._frame(X)))

    def _levels(self, column: Any) -> list[str]:
        levels = list(column.dropna().astype(str).value_counts().index)
        if self.method == "HGB" and len(levels) > MAX_HGB_LEVELS:
            return [*sorted(levels[: MAX_HGB_LEVELS - 1]), OTHERS]
        return sorted(levels)

    def _frame(self, X: DataFrame) -> DataFrame:
        import pandas

        parts = {}
        for number, name in enumerate(X):
            column = X[name]
            if name not in self.levels_:
                imputed = self.method in ("RF", "RealMLP", "TabM")
                part: Any = column.fillna(self.medians_[name]) if imputed else column
            else:
                levels, missing = self.levels_[name], column.isna().to_numpy()
                part = column.astype(str).astype(object)
                if levels and levels[-1] == OTHERS:
                    part = part.where(part.isin(levels), OTHERS)
                if self.method in ("CatBoost", "RF"):
                    part = part.mask(missing, MISSING)
                else:
                    part = part.mask(missing, np.nan).astype(pandas.CategoricalDtype(levels))
            # Some packages refuse names with brackets or commas.
            parts[str(number)] = part.to_numpy() if part.dtype == object else part
        return pandas.DataFrame(parts, index=X.index)
