"""`nrs.tune`: the settings of an estimator, searched by out-of-bag score."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone

from nrs._util.launch import check_count
from nrs._util.optional import import_optional
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.run import draw_seed

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nrs.tabular.tune.space import Spec
    from nrs.tabular.types import ArrayLike, Json, TableLike

# Seconds of a search that is given neither a time nor a number of trials.
DEFAULT_BUDGET = 600.0


@dataclass(frozen=True)
class TuneResult:
    """What a search found; made by :func:`tune`.

    Attributes
    ----------
    best_estimator_ : fitted estimator of the best score.
    best_params_ : what was set on it; empty if nothing was better than the default.
    best_score_ : its out-of-bag (or held-out) score; as the best of several it flatters.
    default_score_ : the same score of the estimator as it was given.
    trials_ : dicts of number, state (complete, pruned, failed), score, seconds, params, error.
    seconds_ : duration of the search, including earlier runs that a storage holds.
    """

    best_estimator_: TableEstimator
    best_params_: Json
    best_score_: float
    default_score_: float
    trials_: list[Json]
    seconds_: float

    def __repr__(self) -> str:
        scores = f"best_score_={self.best_score_:.4g}, default_score_={self.default_score_:.4g}"
        return f"TuneResult({scores}, {len(self.trials_)} trials, best_params_={self.best_params_})"

    def to_pandas(self) -> pandas.DataFrame:
        """The trials as a ``pandas.DataFrame``, one column per parameter."""
        frames = import_optional("pandas", "TuneResult.to_pandas", "frames")
        return frames.DataFrame([one | one["params"] for one in self.trials_]).drop(
            columns="params"
        )

    def plot_history(self, ax: Axes | None = None) -> Axes:
        """Draw the trials' scores and the best so far on `ax` or a new figure; returns the axes."""
        from nrs.tabular.explain.plots import plot_trials

        return plot_trials(self.trials_, ax)


def tune(
    estimator: TableEstimator,
    X: TableLike,
    y: ArrayLike | None,
    *,
    budget: float | None = None,
    n_trials: int | None = None,
    n_jobs: int | None = 1,
    storage: str | os.PathLike[str] | None = None,
    space: Mapping[str, Spec] | None = None,
    random_state: int | np.random.RandomState | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    qid: ArrayLike | None = None,
    verbose: int = 1,
) -> TuneResult:
    """Search the settings of an estimator by the score that its own fit measures.

    The score is out-of-bag for a forest and held-out for a single network: by `metric` of the
    estimator, else accuracy − 0.1 · log-loss for classes, the negative loss for numbers, NDCG@10
    for grades. The first trial is the estimator as it is given, so the result is never worse by
    that score. Then Optuna's tree-structured Parzen estimator chooses; a trial that is below the
    median of the others after a quarter of its epochs is ended. The best of many such scores
    flatters, the more so the fewer rows: score the result on rows that the search has not seen.

    The default space lies around the values that the preset takes for the table: `lr` (a fifth to
    five times, log scale), `dropout` (0 to 0.5), `weight_decay` (0, 0.001, 0.01, 0.1), `n_h` (1 to
    4), `hidden` (one or two layers; half, once or twice as wide), and `n_mul`, `batch_size` and
    `epochs` (half, once or twice). What is set on the estimator stays as it is.

    Parameters
    ----------
    estimator : NRSClassifier, NRSRegressor or NRSRanker; it is not changed.
    X, y : the table and its target, as the estimator takes them.
    budget : seconds in all; the running trial then ends with the best weights found so far. 600 if
        neither `budget` nor `n_trials` is given.
    n_trials : number of trials in all; the first has the defaults.
    n_jobs : parallel processes, -1 for one per core; threads are those of the estimator's `n_jobs`.
    storage : file that keeps the trials as JSON lines; the same search resumes from it. `budget`
        and `n_trials` count what it holds, so ask for more to continue a finished search.
    space : names of arguments to lists of choices, or to ranges ``(low, high)`` or
        ``(low, high, "log")``; replaces the default space.
    random_state : seed of the choice of settings; the estimator's own if None. With a seed,
        `n_trials` and one process the same search gives the same model.
    sample_weight, groups, qid : further arguments of the estimator's `fit`.
    verbose : 0 silence, 1 a progress bar on a terminal, 2 also log lines elsewhere.

    Raises
    ------
    ImportError
        Without optuna; the extra ``tune`` installs it.
    ValueError
        Bad input, an estimator whose fit has no score, or a storage of another search.

    Examples
    --------
    >>> import nrs
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = nrs.NRSClassifier(preset="fast", epochs=4, random_state=0)
    >>> found = nrs.tune(model, X, y, n_trials=3)
    >>> found.best_score_ >= found.default_score_, len(found.trials_)
    (True, 3)
    """
    given = {"sample_weight": sample_weight, "groups": groups, "qid": qid}
    arguments = {name: value for name, value in given.items() if value is not None}
    _check(estimator, budget, n_trials, arguments)
    import_optional("optuna", "nrs.tune", "tune")
    from nrs.tabular.tune import trials
    from nrs.tabular.tune.space import check_space, settings_of

    if budget is None and n_trials is None:
        budget = DEFAULT_BUDGET
    workers, begin = effective_n_jobs(n_jobs), time.time()
    check_count(workers, "n_jobs")
    random_state = estimator.random_state if random_state is None else random_state
    with contextlib.ExitStack() as stack:
        searched = None if space is None else check_space(space, estimator)
        if storage is None and workers > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nrs-tune-"))
            storage = Path(folder) / "trials.log"
        if storage is None:
            study, seed = trials.open_study(), draw_seed(random_state)
        else:
            study = stack.enter_context(trials.held(storage))
            identity = trials.identify(estimator, searched, X, y=y, **arguments)
            seed = trials.resume(study, identity, random_state)
        own = clone(estimator)
        if not isinstance(own.random_state, (int, np.integer)):
            # The same folds in every trial, or scores could not be compared.
            own.set_params(random_state=seed)
        begin -= trials.seconds_spent(study)
        deadline = None if budget is None else begin + budget
        plan = trials.Plan(own, X, y, arguments, searched, seed, deadline, n_trials)
        with trials.watching(study, begin, budget, n_trials, verbose):
            models = trials.search(plan, study, workers)
            best = study.best_trial
            if best.number not in models:
                # Fitted by a process that is gone: only its settings and score were kept.
                models[best.number] = replace(plan, deadline=None).fit(settings_of(best))
        rows = trials.rows(study)
        return TuneResult(
            best_estimator_=models[best.number],
            best_params_=settings_of(best),
            best_score_=study.best_value,
            default_score_=rows[0]["score"],
            trials_=rows,
            seconds_=time.time() - begin,
        )


def _check(
    estimator: object,
    budget: float | None,
    n_trials: int | None,
    arguments: Mapping[str, object],
) -> None:
    if not isinstance(estimator, TableEstimator):
        raise ValueError(
            "estimator must be an NRSClassifier, NRSRegressor or NRSRanker; got "
            f"{type(estimator).__name__}. Of a pipeline tune the last step."
        )
    if estimator.checkpoint is not None:
        raise ValueError(
            f"checkpoint={estimator.checkpoint!r} is shared by all trials; give tune a storage"
        )
    if n_trials is not None and (not hasattr(n_trials, "__index__") or n_trials < 1):
        raise ValueError(f"n_trials must be an integer of at least 1; got {n_trials!r}")
    if budget is not None and (isinstance(budget, str) or not 0 < budget < math.inf):
        raise ValueError(
            f"budget must be seconds above 0; got {budget!r}. For a number of trials use n_trials."
        )
    for name in arguments:
        if name not in inspect.signature(estimator.fit).parameters:
            raise ValueError(f"{type(estimator).__name__}.fit does not take {name}; leave it out")
