"""Where the trials of a search are kept: in memory, or in a file of JSON lines that outlives it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nrs._util.lock import locked
from nrs._util.optional import import_optional
from nrs.tabular.encode.table import read_table
from nrs.tabular.runtime import checksum
from nrs.tabular.targets import labels_as_array
from nrs.tabular.tune.space import OF_A_RUN, as_json

STUDY = "nrs.tune"
# Checks of a trial that are compared; a trial may be ended after a quarter of them.
STEPS = 20
# How Optuna's files begin.
_FIRST = b'{"op_code":'


def _import_optuna() -> Any:
    return import_optional("optuna", "nrs.tune", "tune")


@contextlib.contextmanager
def quiet_optuna() -> Iterator[Any]:
    """Optuna, which in this block logs only warnings."""
    optuna = _import_optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)


def open_study(journal: Path | None) -> Any:
    """The study of a file, which is made if need be; without a file one in memory."""
    optuna = _import_optuna()
    storage: Any = None
    if journal is not None:
        from optuna.storages.journal import JournalFileBackend, JournalStorage

        try:
            storage = JournalStorage(JournalFileBackend(str(journal)))
        except (ValueError, KeyError, AttributeError, TypeError):
            raise _not_ours(journal) from None
    return optuna.create_study(
        study_name=STUDY,
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=STEPS // 4),
    )


@contextlib.contextmanager
def held(storage: str | os.PathLike[str]) -> Iterator[Path]:
    """Lock a file of trials for this search, and repair what a killed one left; gives its path.

    Raises
    ------
    FileNotFoundError
        If its folder does not exist.
    ValueError
        If another search is using it, or it is no file of trials.
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


def _not_ours(path: Path) -> ValueError:
    return ValueError(
        f"storage must be a file that nrs.tune wrote, or a new one; {path} has other content. "
        "Choose another file."
    )


def forget_unfinished(study: Any) -> None:
    """Give up the trials that a killed search was at."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)


def counted(study: Any) -> list[Any]:
    """The trials that count: finished, pruned, running, or failed by their own settings."""
    from optuna.trial import TrialState

    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state != TrialState.FAIL or "error" in trial.user_attrs
    ]


def best_of(study: Any) -> Any:
    """The finished trial of the best score, the first of equals; None if there is none."""
    from optuna.trial import TrialState

    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return max(done, key=lambda trial: (trial.value, -trial.number), default=None)


def seconds_spent(study: Any) -> float:
    """Time during which at least one trial ran, of those that finished."""
    spans = []
    for trial in counted(study):
        seconds = trial.user_attrs.get("seconds")
        if seconds is not None and trial.datetime_complete is not None:
            end = trial.datetime_complete.timestamp()
            spans.append((end - seconds, end))
    spent, until = 0.0, -np.inf
    for begin, end in sorted(spans):
        spent += max(0.0, end - max(begin, until))
        until = max(until, end)
    return float(spent)


def identify(
    estimator: Any, X: Any, y: Any, arguments: Mapping[str, Any], space: Any
) -> dict[str, Any]:
    """What tells one search from another, as JSON values."""
    parameters = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in OF_A_RUN
    }
    seed = estimator.random_state
    parameters["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return {
        "estimator": type(estimator).__name__,
        "settings": as_json(parameters),
        "space": "default" if space is None else as_json(space),
        "data": _data_checksum(X, y, arguments),
    }


def claim(study: Any, identity: dict[str, Any], storage: Any) -> None:
    """Write into a study whose it is.

    Raises
    ------
    ValueError
        If it belongs to another search.
    """
    known = study.user_attrs.get("identity")
    if known is None and not study.get_trials(deepcopy=False):
        study.set_user_attr("identity", identity)
        return
    differing = [name for name in identity if (known or {}).get(name) != identity[name]]
    if differing:
        raise ValueError(
            f"storage={os.fspath(storage)!r} belongs to a search that differs in "
            f"{', '.join(differing)}; choose another file"
        )


def _data_checksum(X: Any, y: Any, arguments: Mapping[str, Any]) -> str:
    table = read_table(X)
    parts: list[Any] = [np.array(table.names or [], dtype=str)]
    if table.matrix is not None:
        parts.append(table.matrix)
    elif table.sparse is not None:
        parts.append(table.sparse)
    else:
        for index in range(table.n_columns):
            column = table.column(index)
            parts += [_plain(column.values), np.array(column.levels, dtype=str)]
    parts += [_plain(labels_as_array(y))]
    for name, value in sorted(arguments.items()):
        parts += [np.array([name]), _plain(labels_as_array(value))]
    return checksum(*parts)


def _plain(values: np.ndarray) -> np.ndarray:
    """An array whose bytes are its values: dates as numbers, objects as texts."""
    if values.dtype.kind in "Mm":
        return values.view(np.int64)
    return values.astype(str) if values.dtype.kind == "O" else values
