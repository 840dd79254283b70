"""`nrs.tune`: the settings of an estimator, searched by out-of-bag score."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from nrs._util.optional import import_optional
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.run import draw_seed
from nrs.tabular.tune.progress import watching
from nrs.tabular.tune.space import (
    check_space,
    default_space,
    distribution,
    place_of,
    settings_of,
)
from nrs.tabular.tune.study import (
    best_of,
    claim,
    counted,
    forget_unfinished,
    held,
    identify,
    open_study,
    quiet_optuna,
    seconds_spent,
)
from nrs.tabular.tune.trial import Kept, Plan, Report, fit_trial, run_trials, work

# Seconds of a search that is told neither how long nor how many.
DEFAULT_BUDGET = 600.0


@dataclass(frozen=True)
class TuneResult:
    """What a search found; made by :func:`tune`.

    Attributes
    ----------
    best_estimator_ : fitted, of the best score.
    best_params_ : dict
        What was set on it; empty if nothing was better than the default.
    best_score_ : float
        Out-of-bag (or held-out) score that its `metric` asks for, higher being better. It was the
        best of several, so it flatters: judge the model by rows that the search did not see.
    default_score_ : float
        The same score of the estimator as it was given.
    trials_ : list of dict
        A row a trial: number, state ("complete", "pruned" or "failed"), score, seconds, params,
        error.
    seconds_ : float
        What the search took, with what a storage held from before.
    """

    best_estimator_: Any
    best_params_: dict[str, Any]
    best_score_: float
    default_score_: float
    trials_: list[dict[str, Any]]
    seconds_: float

    def __repr__(self) -> str:
        return (
            f"TuneResult(best_score_={self.best_score_:.4g}, "
            f"default_score_={self.default_score_:.4g}, {len(self.trials_)} trials, "
            f"best_params_={self.best_params_})"
        )

    def to_pandas(self) -> Any:
        """The trials as a ``pandas.DataFrame``, a column a parameter.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "TuneResult.to_pandas", "frames")
        rows = [
            {name: value for name, value in trial.items() if name != "params"} | trial["params"]
            for trial in self.trials_
        ]
        return pandas.DataFrame(rows)

    def plot_history(self, ax: Any = None) -> Any:
        """Draw the score of every trial and the best so far with matplotlib; returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if None.
        """
        from nrs.tabular.explain.plots import plot_trials

        return plot_trials(self.trials_, ax)


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    budget: float | None = None,
    n_trials: int | None = None,
    n_jobs: int | None = 1,
    storage: str | os.PathLike[str] | None = None,
    space: Mapping[str, Any] | None = None,
    random_state: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    qid: Any = None,
    verbose: int = 1,
) -> TuneResult:
    """Search the settings of an estimator by the score that its own fit measures.

    The score is out-of-bag for a forest and held-out for a single network: by
    `metric` of the estimator, else accuracy − 0.1 · log-loss for classes, the negative loss for
    numbers, NDCG@10 for grades. The first trial is the estimator as it is given, so the result is
    never worse by that score. Then Optuna's tree-structured Parzen estimator chooses; a trial that
    after a quarter of its way is below the median of the others is ended.

    The documented space, around the values that the preset takes for the table: `lr` (a fifth to
    five times, by logarithm), `dropout` (0 to 0.5), `weight_decay` (0, 0.001, 0.01, 0.1), `n_h`
    (1 to 4), `hidden` (one or two layers; half, once or twice as wide), and `n_mul`, `batch_size`
    and `epochs` (half, once or twice). What is set on the estimator stays as it is.

    The best of many out-of-bag scores flatters, the more so the fewer rows there are. Judge the
    result by rows that the search has not seen.

    Parameters
    ----------
    estimator : NRSClassifier, NRSRegressor or NRSRanker
        Left as it is.
    X, y : the table and its target, as the estimator takes them.
    budget : float, optional
        Seconds in all. The trial that is running then ends with the best weights found so far.
        600 if neither `budget` nor `n_trials` is given.
    n_trials : int, optional
        Trials in all, the first with the defaults.
    n_jobs : int, default=1
        Processes that search side by side, -1 for one a core; each fit has the threads that the
        estimator's own `n_jobs` asks for.
    storage : path, optional
        A file that keeps the trials, as JSON lines. A search that was killed and is started again
        with the same file goes on with what was finished; `budget` and `n_trials` count what the
        file holds, so ask for more to go on with a finished one.
    space : mapping, optional
        Instead of the documented one: names of arguments to lists of choices, or to ranges
        ``(low, high)`` or ``(low, high, "log")``.
    random_state : int, RandomState or None
        Of the choice of settings; the estimator's own if None. With a seed, `n_trials` and one
        process the same search gives the same model.
    sample_weight, groups, qid : optional
        Further arguments of the estimator's `fit`.
    verbose : int
        0 silence, 1 a progress bar on a terminal, 2 also log lines elsewhere.

    Returns
    -------
    TuneResult
        With `best_estimator_`, `best_params_`, `best_score_` and `trials_`.

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
    >>> found.best_estimator_.predict(X[:1])
    array([0])
    """
    budget = _check(estimator, budget, n_trials)
    if space is not None:
        space = check_space(space, estimator)
    workers = effective_n_jobs(n_jobs)
    given = {"sample_weight": sample_weight, "groups": groups, "qid": qid}
    arguments = {name: value for name, value in given.items() if value is not None}
    _check_arguments(estimator, arguments)
    begin = time.time()
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet_optuna())
        journal = None
        if storage is not None:
            journal = stack.enter_context(held(storage))
        elif workers > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nrs-tune-"))
            journal = Path(folder) / "trials.log"
        study = open_study(journal)
        if storage is not None:
            claim(study, identify(estimator, X, y, arguments, space), storage)
            forget_unfinished(study)
        # The same folds in every trial, or scores could not be compared.
        seed = _seed(study, random_state, estimator)
        own = clone(estimator)
        if not isinstance(own.random_state, (int, np.integer)):
            own.set_params(random_state=seed)
        spent = seconds_spent(study)
        deadline = None if budget is None else begin + budget - spent
        plan = Plan(own, X, y, arguments, seed, deadline, n_trials, journal)
        stack.enter_context(watching(study, begin - spent, budget, n_trials, verbose))
        kept = _search(plan, study, workers, space)
        return _result(plan, study, kept, spent + time.time() - begin)


def _search(plan: Plan, study: Any, workers: int, space: Any) -> list[Kept]:
    """Try the default, unless a search that is taken up did, then other settings."""
    if workers == 1:
        first = [] if counted(study) else [_try_default(plan, study, space)]
        found = [run_trials(plan, study)]
    else:
        study.set_user_attr("given_up", False)
        # Processes of their own that need no guard in the user's script, and read large arrays
        # from one file. They start while the default is fitted, and wait for it.
        pool = Parallel(n_jobs=workers, backend="loky", return_as="generator")
        pending = pool(delayed(work)(plan, worker, os.getpid()) for worker in range(workers))
        try:
            first = [] if counted(study) else [_try_default(plan, study, space)]
            found = list(pending)
        except BaseException:
            study.set_user_attr("given_up", True)
            with warnings.catch_warnings():
                # That trials were cancelled is meant.
                warnings.simplefilter("ignore", UserWarning)
                pending.close()
            raise
    return first + [one for one in found if one is not None]


def _try_default(plan: Plan, study: Any, space: Any) -> Kept:
    """The first trial: the estimator as it is given; what is searched lies around it."""
    from optuna.distributions import distribution_to_json
    from optuna.trial import create_trial

    begin = time.time()
    report = Report()
    model = fit_trial(plan, {}, report)
    if not math.isfinite(report.score):
        raise ValueError(
            f"the default's score must be a number, however: it was {report.score}; change metric"
        )
    chosen = default_space(model) if space is None else space
    if not chosen:
        raise ValueError(
            "nothing is left to search, because the estimator sets every argument of the "
            "documented space; leave some out, or give a space"
        )
    searched = {name: distribution(spec) for name, spec in chosen.items()}
    study.set_user_attr("space", {n: distribution_to_json(d) for n, d in searched.items()})
    place = place_of(model, searched)
    study.add_trial(
        create_trial(
            params=place,
            distributions={name: searched[name] for name in place},
            value=report.score,
            intermediate_values=report.checks,
            user_attrs={"default": True, "seconds": time.time() - begin},
        )
    )
    return Kept(0, report.score, model)


def _result(plan: Plan, study: Any, kept: list[Kept], seconds: float) -> TuneResult:
    best = best_of(study)
    model = next((one.model for one in kept if one.number == best.number), None)
    params = _settings(best)
    if model is None:
        # Fitted by a process that is gone: only its settings and score were kept.
        model = fit_trial(replace(plan, deadline=None), params)
    trials = [trial for trial in counted(study) if trial.state.is_finished()]
    return TuneResult(
        best_estimator_=model,
        best_params_=params,
        best_score_=best.value,
        default_score_=trials[0].value,
        trials_=[_row(number, trial) for number, trial in enumerate(trials)],
        seconds_=seconds,
    )


def _row(number: int, trial: Any) -> dict[str, Any]:
    state = "failed" if trial.state.name == "FAIL" else trial.state.name.lower()
    return {
        "number": number,
        "state": state,
        "score": trial.value,
        "seconds": round(trial.user_attrs["seconds"], 3),
        "params": _settings(trial),
        "error": trial.user_attrs.get("error"),
    }


def _settings(trial: Any) -> dict[str, Any]:
    return {} if trial.user_attrs.get("default") else settings_of(trial.params)


def _seed(study: Any, random_state: Any, estimator: Any) -> int:
    """The search's seed: as asked, else that of the search which is taken up."""
    known = study.user_attrs.get("seed")
    chosen = estimator.random_state if random_state is None else random_state
    if chosen is None and known is not None:
        return int(known)
    seed = draw_seed(chosen)
    if known not in (None, seed):
        raise ValueError(
            f"a search that is taken up must have its seed again, however: random_state={chosen!r} "
            "is another; give the same integer, None, or another storage"
        )
    study.set_user_attr("seed", seed)
    return seed


def _check(estimator: Any, budget: Any, n_trials: Any) -> float | None:
    """Check what is searched and for how long; gives the seconds."""
    if not isinstance(estimator, TableEstimator):
        raise ValueError(
            "estimator must be an NRSClassifier, NRSRegressor or NRSRanker, however: "
            f"{type(estimator).__name__}; of a pipeline tune the last step"
        )
    if estimator.checkpoint is not None:
        raise ValueError(
            f"checkpoint={estimator.checkpoint!r} would be shared by all trials; leave it out, "
            "and give tune a storage"
        )
    if n_trials is not None and (not hasattr(n_trials, "__index__") or n_trials < 1):
        raise ValueError(f"n_trials must be a whole number of at least 1, however: {n_trials!r}")
    if budget is None:
        return DEFAULT_BUDGET if n_trials is None else None
    if isinstance(budget, str) or not 0 < budget < math.inf:
        raise ValueError(
            f"budget must be a number of seconds above 0, however: {budget!r}; for a number of "
            "trials use n_trials"
        )
    return float(budget)


def _check_arguments(estimator: Any, arguments: Mapping[str, Any]) -> None:
    import inspect

    taken = inspect.signature(estimator.fit).parameters
    for name in arguments:
        if name not in taken:
            raise ValueError(
                f"{name} must be left out for {type(estimator).__name__}, whose fit does not take "
                "it"
            )
