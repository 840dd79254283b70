"""The trials of one process: fits that report their score at every check, which may end them."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from optuna import Study, Trial, TrialPruned
from optuna.samplers import TPESampler
from optuna.trial import TrialState, create_trial
from sklearn.base import clone

from nrs._util.launch import end_with_parent
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.tune.space import Distribution, default_space, distribution, place_of, settings_of
from nrs.tabular.tune.study import STEPS, counted, open_study, quiet_optuna, span
from nrs.training import Callback, TimeLimit
from nrs.training.state import TrainState

# A trial is not begun in less time than this part of what the default took: it would learn nothing.
MIN_PART = 0.1


@dataclass(frozen=True)
class Plan:
    """What every process of a search needs.

    The estimator has a seed, and the choice of settings another; `arguments` are further ones of
    `fit`. A `space` of None is the default one. The `deadline` is in seconds since 1970.
    """

    estimator: TableEstimator
    X: Any
    y: Any
    arguments: dict[str, Any]
    space: dict[str, Distribution] | None
    seed: int
    deadline: float | None
    n_trials: int | None

    def fit(self, settings: dict[str, Any], *ours: Callback) -> TableEstimator:
        """Fit a copy of the estimator with some settings, until the deadline."""
        model = clone(self.estimator).set_params(**settings)
        theirs = model.callbacks
        if self.deadline is not None:
            # Encoding the table takes some of the time, too.
            left = max(self.deadline - time.time(), 1e-3)
            ours = (*ours, TimeLimit(left, begun=time.monotonic()))
        model.set_params(callbacks=[*(theirs or []), *ours], verbose=0)
        model.fit(self.X, self.y, **self.arguments)
        return model.set_params(callbacks=theirs, verbose=self.estimator.verbose)


class Report(Callback):
    """Collect the score of every check, and report it to a trial, if any, which may end the fit."""

    def __init__(self, trial: Trial | None = None) -> None:
        self.trial = trial
        self.score = math.nan
        self.checks: dict[int, float] = {}

    def on_epoch_end(self, state: TrainState) -> None:
        if "score" not in state.metrics:
            raise ValueError(
                "nrs.tune needs a score on rows that a fit does not learn from; this fit has "
                "neither out-of-bag nor held-out rows. Give the estimator validation_fraction=0.2, "
                "use preset='default', or take more rows."
            )
        score = state.metrics["score"]
        self.score = float(np.fmax(self.score, score))
        # Settings differ in their epochs: what is compared is the part of the way.
        step = STEPS * (state.epoch + 1) // state.settings.epochs
        if step in self.checks:
            return
        self.checks[step] = score
        if self.trial is not None:
            self.trial.report(score, step)
            if self.trial.should_prune():
                raise TrialPruned


def search(
    plan: Plan, study: Study, workers: int, journal: Path | None
) -> dict[int, TableEstimator]:
    """Try the default, unless a resumed search did, then other settings.

    Gives the best model that each process fitted, by the number of its trial.
    """
    found = {} if counted(study) else {0: try_default(plan, study)}
    if workers == 1:
        return found | run_trials(plan, study)
    # Processes of their own that need no guard in the user's script, and read large arrays from
    # one file.
    pool = Parallel(n_jobs=workers, backend="loky")
    for models in pool(delayed(work)(plan, journal, k, os.getpid()) for k in range(workers)):
        found |= models
    return found


def work(plan: Plan, journal: Path, worker: int, parent: int) -> dict[int, TableEstimator]:
    """What one of several processes does."""
    end_with_parent(parent)
    with quiet_optuna():
        return run_trials(plan, open_study(journal), worker)


def try_default(plan: Plan, study: Study) -> TableEstimator:
    """The first trial: the estimator as it is given, around which the default space lies.

    Raises ValueError if its score is not finite, or if it leaves nothing to search.
    """
    begin, report = datetime.now(), Report()
    model = plan.fit({}, report)
    if not math.isfinite(report.score):
        raise ValueError(f"The default's score must be finite; got {report.score}. Change metric.")
    space = plan.space or {
        name: distribution(name, spec) for name, spec in default_space(model).items()
    }
    if not space:
        raise ValueError(
            "Nothing is left to search: the estimator sets every argument of the default space. "
            "Leave some out, or give a space."
        )
    place = place_of(model, space)
    trial = create_trial(
        params=place,
        distributions={name: space[name] for name in place},
        value=report.score,
        intermediate_values=report.checks,
        user_attrs={"default": True},
    )
    trial.datetime_start = begin
    study.add_trial(trial)
    return model


def run_trials(plan: Plan, study: Study, worker: int = 0) -> dict[int, TableEstimator]:
    """Try settings until trials or time are used up; gives the best model fitted here, by trial.

    What is tried depends on the seed and on the trials so far alone, so that a search that was
    killed and is resumed by one process is the same search.
    """
    default = counted(study)[0]
    # All of the default's own values lie in the default space.
    space = plan.space or default.distributions
    begin, end = span(default)
    last = math.inf if plan.deadline is None else plan.deadline - MIN_PART * (end - begin)
    n_trials = plan.n_trials or math.inf
    best: dict[int, TableEstimator] = {}
    best_score = -math.inf
    while (before := len(counted(study))) < n_trials and time.time() <= last:
        drawn = np.random.SeedSequence([plan.seed, before, worker]).generate_state(1)
        study.sampler = TPESampler(seed=int(drawn[0]), multivariate=False)
        trial = study.ask(dict(space))
        report, state = Report(trial), TrialState.FAIL
        try:
            if sum(other.number < trial.number for other in counted(study)) >= n_trials:
                # Another process was faster.
                break
            model = plan.fit(settings_of(trial), report)
            if not math.isfinite(report.score):
                raise RuntimeError(f"the score was {report.score}")
            state = TrialState.COMPLETE
            if report.score > best_score:
                best, best_score = {trial.number: model}, report.score
        except TrialPruned:
            state = TrialState.PRUNED
        except (RuntimeError, MemoryError) as error:
            # Such as a loss that became infinite: these settings are no good, others may be.
            trial.set_user_attr("error", f"{type(error).__name__}: {error}")
        finally:
            study.tell(trial, report.score if state == TrialState.COMPLETE else None, state)
    return best
