"""The trials of a search: kept in memory or in a file of JSON lines, run, and shown on screen."""

from __future__ import annotations

import contextlib
import glob
import logging
import math
import os
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from joblib import Parallel, delayed
from optuna import Study, Trial, TrialPruned
from optuna.distributions import distribution_to_json
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sklearn.base import clone

from nrs._util.launch import end_with_parent
from nrs._util.lock import locked
from nrs._util.progress import Bar
from nrs.tabular.encode.columns import labels_as_array
from nrs.tabular.encode.table import read_table
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.parameters import to_json
from nrs.tabular.rows.memory import checksum
from nrs.tabular.run import draw_seed
from nrs.tabular.tune.space import OF_A_RUN, Distribution, default_space, place_of, settings_of
from nrs.training import Callback, TimeLimit
from nrs.training.state import TrainState

if TYPE_CHECKING:
    from nrs.tabular.types import ArrayLike, Json, TableLike

logger = logging.getLogger("nrs.tabular")
# Checks of a trial that are compared; a trial may be ended after a quarter of them.
STEPS = 20
# A trial is not begun in less time than this part of what the default took: it would learn nothing.
MIN_PART = 0.1
# How Optuna's files begin.
_FIRST = b'{"op_code":'


def open_study(journal: Path | None = None) -> Study:
    """The study of a file, which is made if need be; without a file one in memory."""
    level = optuna.logging.get_verbosity()
    # A new study is not worth a line in the log.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(
            study_name="nrs.tune",
            storage=None if journal is None else JournalStorage(JournalFileBackend(str(journal))),
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=STEPS // 4),
        )
    finally:
        optuna.logging.set_verbosity(level)


@contextlib.contextmanager
def held(storage: str | os.PathLike[str]) -> Iterator[Study]:
    """Lock a file of trials for this search, repair what a killed one left, and open it.

    Raises FileNotFoundError if its folder does not exist, and ValueError if another search is
    using it or it is no file of trials.
    """
    # Absolute, because Optuna's lock is a link to this path.
    path = Path(storage).resolve()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Directory not found: {path.parent}; create it first")
    with locked(path) as ours, open(path, "a+b") as file:
        if ours is False:
            raise ValueError(
                f"Another search is using storage={str(path)!r}; wait for it, or use n_jobs to "
                "search in several processes"
            )
        file.seek(0)
        content = file.read()
        try:
            if content[: len(_FIRST)] != _FIRST[: len(content)]:
                raise ValueError
            # A line that was cut off would spoil the one appended to it.
            file.truncate(content.rfind(b"\n") + 1)
            # Optuna's own lock, and the names that it has while it is being released.
            released = path.parent.glob(f"{glob.escape(path.name)}.lock*.rename")
            for lock in (path.with_name(f"{path.name}.lock"), *released):
                lock.unlink(missing_ok=True)
            study = open_study(path)
        except (ValueError, KeyError, AttributeError, TypeError):
            raise ValueError(
                f"storage must be a file that nrs.tune wrote, or a new one; {path} has other "
                "content. Choose another file."
            ) from None
        yield study


def resume(study: Study, identity: Json, random_state: Any) -> int:
    """Write into a new study which search it is of; forget unfinished trials of an old one.

    Gives the seed: as asked, else the old one's. Raises ValueError if it is of another search.
    """
    known, seed = study.user_attrs.get("identity", {}), {"random_state": draw_seed(random_state)}
    if not known and not study.get_trials(deepcopy=False):
        known = identity | seed
        study.set_user_attr("identity", known)
    asked = identity if random_state is None else identity | seed
    differing = [name for name in asked if known.get(name) != asked[name]]
    if differing:
        raise ValueError(
            f"storage belongs to a search that differs in {', '.join(differing)}; repeat that one, "
            "or choose another file"
        )
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
    return int(known["random_state"])


def identify(
    estimator: TableEstimator,
    space: Mapping[str, Distribution] | None,
    X: TableLike,
    **columns: Any,
) -> Json:
    """What distinguishes one search from another, as JSON values; `columns` are one value a row."""
    settings = {
        name: getattr(value, "__name__", repr(value)) if callable(value) else to_json(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in OF_A_RUN
    }
    seed = estimator.random_state
    settings["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    table = read_table(X)
    data: list[Any] = [np.array(table.names or [], dtype=str)]
    whole = [one for one in (table.matrix, table.sparse) if one is not None]
    for column in [] if whole else map(table.column, range(table.n_columns)):
        data += [column.values, np.array(column.levels, dtype=str)]
    data += whole
    for name, value in sorted(columns.items()):
        data += [np.array([name]), labels_as_array(value)]
    # Bytes that are the values: dates as numbers, objects as texts.
    plain = {"M": np.int64, "m": np.int64, "O": str}
    data = [one.astype(plain.get(one.dtype.kind, one.dtype), copy=False) for one in data]
    return {
        "estimator": type(estimator).__name__,
        "settings": settings,
        "space": {name: distribution_to_json(one) for name, one in (space or {}).items()},
        "data": checksum(*data),
    }


def counted(study: Study, *, finished: bool = False) -> list[FrozenTrial]:
    """The trials that count: complete, pruned, failed by their own settings, or still running."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if (trial.state != TrialState.FAIL or "error" in trial.user_attrs)
        and (trial.state.is_finished() or not finished)
    ]


def span(trial: FrozenTrial) -> tuple[float, float]:
    """When a finished trial began and ended, in seconds since 1970."""
    assert trial.datetime_start is not None
    assert trial.datetime_complete is not None
    return trial.datetime_start.timestamp(), trial.datetime_complete.timestamp()


def seconds_spent(study: Study) -> float:
    """Time during which at least one of the finished trials ran."""
    spent = until = 0.0
    for begin, end in sorted(map(span, counted(study, finished=True))):
        spent += max(0.0, end - max(begin, until))
        until = max(until, end)
    return spent


def rows(study: Study) -> list[Json]:
    """One dict per finished trial, as in :class:`nrs.tabular.tune.search.TuneResult`."""
    return [
        {
            "number": number,
            "state": "failed" if trial.state == TrialState.FAIL else trial.state.name.lower(),
            "score": trial.value,
            "seconds": round(span(trial)[1] - span(trial)[0], 3),
            "params": settings_of(trial),
            "error": trial.user_attrs.get("error"),
        }
        for number, trial in enumerate(counted(study, finished=True))
    ]


@contextlib.contextmanager
def watching(
    study: Study, begin: float, budget: float | None, n_trials: int | None, verbose: int
) -> Iterator[None]:
    """Show in this block the trials and the best score, by a bar or by one log line per trial.

    The search began at `begin`, in seconds since 1970.
    """
    bar = Bar("the default", verbose=verbose)
    ended = threading.Event()
    logged = {trial.number for trial in counted(study, finished=True)}

    def watch() -> None:
        last = False
        while not last:
            last = ended.wait(0.5)
            done, text = counted(study, finished=True), "the default"
            if done:
                best = study.best_value
                text = f"{len(done)} trial{'s' * (len(done) != 1)}  best score {best:.4g}"
            for trial in done:
                if bar.logs and trial.number not in logged:
                    logged.add(trial.number)
                    facts = trial.number, trial.state.name.lower(), trial.value, best
                    logger.info("trial %d %s  score %s  best %.4g", *facts)
            part = max((time.time() - begin) / (budget or np.inf), len(done) / (n_trials or np.inf))
            bar.update(completed=min(1.0, part), description=text)

    with contextlib.ExitStack() as stack:
        if bar.shown or bar.logs:
            thread = threading.Thread(target=watch, daemon=True)
            stack.callback(thread.join)
            stack.callback(ended.set)
            thread.start()
        stack.enter_context(bar)
        yield


@dataclass(frozen=True)
class Plan:
    """What every process of a search needs; `arguments` are those of `fit` besides X and y.

    The choice of settings has a seed of its own. A deadline is in seconds since 1970.
    """

    estimator: TableEstimator
    X: TableLike
    y: ArrayLike | None
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
        step = min(STEPS, STEPS * (state.epoch + 1) // state.settings.epochs)
        if step not in self.checks:
            self.checks[step] = score
            if self.trial is not None:
                self.trial.report(score, step)
                if self.trial.should_prune():
                    raise TrialPruned


def search(plan: Plan, study: Study, workers: int) -> dict[int, TableEstimator]:
    """Try the default, then other settings; gives the best model of each process by its trial."""
    found = try_default(plan, study)
    if workers == 1:
        return found | run_trials(plan, study)
    # Processes that need no guard in the user's script, and read large arrays from one file. They
    # start once the default has been fitted: an error of it ends no process that is starting.
    pool = Parallel(n_jobs=workers, backend="loky", return_as="generator")
    pending = pool(delayed(work)(plan, study, k, os.getpid()) for k in range(workers))
    with warnings.catch_warnings(), contextlib.closing(pending):
        # After an error processes are cancelled, which joblib warns of.
        warnings.simplefilter("ignore", UserWarning)
        for models in pending:
            found |= models
    return found


def work(plan: Plan, study: Study, worker: int, parent: int) -> dict[int, TableEstimator]:
    """What one of several processes does, once the default has been tried."""
    end_with_parent(parent)
    return run_trials(plan, study, worker)


def try_default(plan: Plan, study: Study) -> dict[int, TableEstimator]:
    """The first trial, unless a resumed search had it: the estimator as it is given."""
    if counted(study):
        return {}
    begin, report = datetime.now(), Report()
    model = plan.fit({}, report)
    if not math.isfinite(report.score):
        raise ValueError(f"The default's score must be finite; got {report.score}. Change metric.")
    space = plan.space or default_space(model)
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
    return {0: model}


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
        study.sampler = optuna.samplers.TPESampler(seed=int(drawn[0]), multivariate=False)
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
