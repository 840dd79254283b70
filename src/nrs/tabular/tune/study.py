"""All trials of a search: in memory or in a file of JSON lines that outlives it, and on screen."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import distribution_to_json
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, TrialState

from nrs._util.lock import locked
from nrs._util.progress import Bar
from nrs.tabular.encode.table import read_table
from nrs.tabular.estimator import TableEstimator
from nrs.tabular.parameters import to_json
from nrs.tabular.rows.memory import checksum
from nrs.tabular.run import draw_seed
from nrs.tabular.targets import labels_as_array
from nrs.tabular.tune.space import OF_A_RUN, Distribution, settings_of

logger = logging.getLogger("nrs.tabular")
# Checks of a trial that are compared; a trial may be ended after a quarter of them.
STEPS = 20
# Seconds between two looks at the trials.
INTERVAL = 0.5
# How Optuna's files begin.
_FIRST = b'{"op_code":'


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Let Optuna log only warnings in this block."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def open_study(journal: Path | None) -> optuna.Study:
    """The study of a file, which is made if need be; without a file one in memory."""
    try:
        storage = None if journal is None else JournalStorage(JournalFileBackend(str(journal)))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise _not_ours(journal) from None
    return optuna.create_study(
        study_name="nrs.tune",
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=STEPS // 4),
    )


@contextlib.contextmanager
def held(storage: str | os.PathLike[str]) -> Iterator[Path]:
    """Lock a file of trials for this search, and repair what a killed one left; gives its path.

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
        if content[: len(_FIRST)] != _FIRST[: len(content)]:
            raise _not_ours(path)
        # A line that was cut off would spoil the one appended to it.
        file.truncate(content.rfind(b"\n") + 1)
        path.with_name(path.name + ".lock").unlink(missing_ok=True)
        yield path


def _not_ours(path: Path | None) -> ValueError:
    return ValueError(
        f"storage must be a file that nrs.tune wrote, or a new one; {path} has other content. "
        "Choose another file."
    )


def identify(
    estimator: TableEstimator, space: Mapping[str, Distribution] | None, **data: Any
) -> dict[str, Any]:
    """What distinguishes one search from another, as JSON values; `data` are arguments of `fit`."""
    settings = {
        name: getattr(value, "__name__", repr(value)) if callable(value) else to_json(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in OF_A_RUN
    }
    seed = estimator.random_state
    settings["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return {
        "estimator": type(estimator).__name__,
        "settings": settings,
        "space": {name: distribution_to_json(one) for name, one in (space or {}).items()},
        "data": _data_checksum(**data),
    }


def resume(
    study: optuna.Study,
    identity: dict[str, Any],
    random_state: Any,
    storage: str | os.PathLike[str],
) -> int:
    """Write into a new study which search it is of; forget unfinished trials of an old one.

    Gives the search's seed: as asked, else that of the old one. Raises ValueError if the study
    belongs to another search.
    """
    known, seed = study.user_attrs.get("identity", {}), {"random_state": draw_seed(random_state)}
    if not known and not study.get_trials(deepcopy=False):
        known = identity | seed
        study.set_user_attr("identity", known)
    asked = identity if random_state is None else identity | seed
    differing = [name for name in asked if known.get(name) != asked[name]]
    if differing:
        raise ValueError(
            f"storage={os.fspath(storage)!r} belongs to a search that differs in "
            f"{', '.join(differing)}; repeat that one, or choose another file"
        )
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
    return int(known["random_state"])


def counted(study: optuna.Study, *, finished: bool = False) -> list[FrozenTrial]:
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


def seconds_spent(study: optuna.Study) -> float:
    """Time during which at least one of the finished trials ran."""
    spent = until = 0.0
    for begin, end in sorted(map(span, counted(study, finished=True))):
        spent += max(0.0, end - max(begin, until))
        until = max(until, end)
    return spent


def rows(study: optuna.Study) -> list[dict[str, Any]]:
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
    study: optuna.Study, begin: float, budget: float | None, n_trials: int | None, verbose: int
) -> Iterator[None]:
    """Show in this block how many trials there are, and the best score.

    On a terminal by a bar; without rich, or elsewhere with ``verbose`` of at least 2, by one line
    per trial in the log ``nrs.tabular``. The search began at `begin`, in seconds since 1970.
    """
    bar = Bar("the default", verbose=verbose)
    ended = threading.Event()
    logged = {trial.number for trial in counted(study, finished=True)}

    def watch() -> None:
        last = False
        while not last:
            last = ended.wait(INTERVAL)
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


def _data_checksum(X: Any, **columns: Any) -> str:
    table = read_table(X)
    arrays: list[Any] = [np.array(table.names or [], dtype=str)]
    whole = table.matrix if table.matrix is not None else table.sparse
    if whole is not None:
        arrays.append(whole)
    else:
        for column in map(table.column, range(table.n_columns)):
            arrays += [column.values, np.array(column.levels, dtype=str)]
    for name, value in sorted(columns.items()):
        arrays += [np.array([name]), labels_as_array(value)]
    # Bytes that are the values: dates as numbers, objects as texts.
    plain = {"M": np.int64, "m": np.int64, "O": str}
    return checksum(
        *(one.astype(plain.get(one.dtype.kind, one.dtype), copy=False) for one in arrays)
    )
