"""One trial of a search: a fit that reports its score at every check, and may be ended by it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from nrs._util.launch import end_with_parent
from nrs.tabular.tune.space import settings_of
from nrs.tabular.tune.study import STEPS, counted, open_study, quiet_optuna
from nrs.training import Callback, TimeLimit
from nrs.training.state import TrainState

# A trial is not begun in less time than this part of what the default took: it would learn nothing.
LEAST_PART = 0.1
# Seconds between two looks at whether the default has been tried.
WAIT = 0.1


@dataclass(frozen=True)
class Plan:
    """What every process of a search is told.

    Attributes
    ----------
    estimator : unfitted, with a seed.
    X, y, arguments : what it is fitted to, and further arguments of `fit`.
    seed : int
        Of the choice of settings.
    deadline : float or None
        When the search ends, in seconds since 1970.
    n_trials : int or None
        Trials in all.
    journal : path or None
        The file that several processes share.
    """

    estimator: Any
    X: Any
    y: Any
    arguments: dict[str, Any]
    seed: int
    deadline: float | None
    n_trials: int | None
    journal: Path | None = None


@dataclass(frozen=True)
class Kept:
    """The fitted model of a finished trial."""

    number: int
    score: float
    model: Any


class Report(Callback):
    """Tell a trial the score of every check; collect them.

    Parameters
    ----------
    trial : optuna.Trial or None
        None for a fit that is never ended early.
    """

    def __init__(self, trial: Any = None) -> None:
        self.trial = trial
        self.score = math.nan
        self.checks: dict[int, float] = {}

    def on_epoch_end(self, state: TrainState) -> None:
        if "score" not in state.metrics:
            raise ValueError(
                "nrs.tune needs a score of rows that a fit does not learn from, however: this one "
                "has neither out-of-bag nor held-out rows; give the estimator "
                "validation_fraction=0.2, use preset='default', or take more rows"
            )
        score = state.metrics["score"]
        self.score = float(np.fmax(self.score, score))
        # Settings differ in their epochs: what is compared is the part of the way.
        step = STEPS * (state.epoch + 1) // state.settings.epochs
        if step in self.checks:
            return
        self.checks[step] = score
        if self.trial is None:
            return
        self.trial.report(score, step)
        if self.trial.should_prune():
            from optuna import TrialPruned

            raise TrialPruned


class Until(TimeLimit):
    """Stop in time for a moment, in seconds since 1970."""

    def __init__(self, deadline: float) -> None:
        super().__init__(1.0)
        self.deadline = deadline

    def on_train_begin(self, state: TrainState) -> None:
        # Encoding the table took some of it.
        self.seconds = max(self.deadline - time.time(), 1e-3)
        super().on_train_begin(state)


def fit_trial(plan: Plan, settings: dict[str, Any], report: Callback | None = None) -> Any:
    """Fit a copy of the plan's estimator with some settings."""
    model = clone(plan.estimator).set_params(**settings)
    mine = [] if report is None else [report]
    if plan.deadline is not None:
        mine.append(Until(plan.deadline))
    theirs = model.callbacks
    model.set_params(callbacks=[*(theirs or []), *mine], verbose=0)
    model.fit(plan.X, plan.y, **plan.arguments)
    return model.set_params(callbacks=theirs, verbose=plan.estimator.verbose)


def run_trials(plan: Plan, study: Any, worker: int = 0) -> Kept | None:
    """Try settings until trials or time are used up; gives the best model that was fitted here.

    What is tried depends on the seed and on the trials so far alone, so that a search that was
    killed and is taken up again by one process is the same search.

    Raises
    ------
    ValueError
        If the estimator refuses settings of the space.
    """
    from optuna import TrialPruned, distributions
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    space = {
        name: distributions.json_to_distribution(text)
        for name, text in study.user_attrs["space"].items()
    }
    least = LEAST_PART * counted(study)[0].user_attrs["seconds"]
    kept: Kept | None = None
    while True:
        begin = time.time()
        before = len(counted(study))
        if study.user_attrs.get("given_up") or before >= (plan.n_trials or math.inf):
            return kept
        if plan.deadline is not None and plan.deadline - begin < least:
            return kept
        drawn = np.random.SeedSequence([plan.seed, before, worker]).generate_state(1)
        study.sampler = TPESampler(seed=int(drawn[0]), multivariate=False)
        trial = study.ask(space)
        if plan.n_trials is not None and _place(study, trial.number) >= plan.n_trials:
            # Another process was faster.
            study.tell(trial, state=TrialState.FAIL)
            return kept
        settings = settings_of(trial.params)
        report = Report(trial)
        try:
            model = fit_trial(plan, settings, report)
            if not math.isfinite(report.score):
                raise RuntimeError(f"the score was {report.score}")
        except TrialPruned:
            trial.set_user_attr("seconds", time.time() - begin)
            study.tell(trial, state=TrialState.PRUNED)
        except (RuntimeError, MemoryError) as error:
            # Such as a loss that became infinite: these settings are no good, others may be.
            trial.set_user_attr("seconds", time.time() - begin)
            trial.set_user_attr("error", f"{type(error).__name__}: {error}")
            study.tell(trial, state=TrialState.FAIL)
        except BaseException:
            study.tell(trial, state=TrialState.FAIL)
            raise
        else:
            trial.set_user_attr("seconds", time.time() - begin)
            study.tell(trial, report.score)
            if kept is None or report.score > kept.score:
                kept = Kept(trial.number, report.score, model)


def work(plan: Plan, worker: int, parent: int) -> Kept | None:
    """What one of several processes does: trials, once `parent` has tried the default."""
    end_with_parent(parent)
    with quiet_optuna():
        study = open_study(plan.journal)
        while not counted(study):
            if study.user_attrs.get("given_up"):
                return None
            time.sleep(WAIT)
        return run_trials(plan, study, worker)


def _place(study: Any, number: int) -> int:
    """How many trials that count come before a trial."""
    return sum(trial.number < number for trial in counted(study))
