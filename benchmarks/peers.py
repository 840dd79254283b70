"""Every method at its own defaults, on one thread."""

from __future__ import annotations

from typing import Any

from nrs.paper.table import NotHereError


def at_defaults(method: str, task: str, seed: int) -> Any:
    """Make an unfitted estimator.

    Parameters
    ----------
    method : str
        "NRS", or with a preset ("NRS fast"); "RF" (500 trees), "XGBoost", "LightGBM", "CatBoost";
        or a name of :mod:`nrs.baselines`, as "RealMLP" and "TabM".
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
