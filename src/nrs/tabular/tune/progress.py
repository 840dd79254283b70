"""How far a search is: a bar on a terminal, or log lines."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

from nrs._util.progress import Bar
from nrs.tabular.tune.study import best_of, counted

logger = logging.getLogger("nrs.tabular")
# Seconds between two looks at the trials.
INTERVAL = 0.5


@contextlib.contextmanager
def watching(
    study: Any, begin: float, budget: float | None, n_trials: int | None, verbose: int
) -> Iterator[None]:
    """Show in this block how many trials there are, and the best score.

    On a terminal: a bar on stderr (rich), or, without rich, one log line per trial. Elsewhere:
    silence, or log lines with ``verbose`` of at least 2. They go to the logger ``nrs.tabular`` at
    level INFO.

    Parameters
    ----------
    begin : float
        When the search began, in seconds since 1970.
    """
    bar = Bar("the default", verbose=verbose)
    if not bar.shown and not bar.logs:
        yield
        return
    end = threading.Event()
    seen = {trial.number for trial in counted(study) if trial.state.is_finished()}

    def look() -> None:
        done = [trial for trial in counted(study) if trial.state.is_finished()]
        best = best_of(study)
        if bar.logs:
            for trial in done:
                if trial.number not in seen:
                    seen.add(trial.number)
                    logger.info(
                        "trial %d %s  score %s  best %.4g",
                        trial.number, trial.state.name.lower(), trial.value, best.value,
                    )  # fmt: skip
            return
        parts = [0.0 if budget is None else (time.time() - begin) / budget]
        parts.append(0.0 if n_trials is None else len(done) / n_trials)
        text = "the default"
        if best is not None:
            text = f"{len(done)} trial{'s' * (len(done) != 1)}  best score {best.value:.4g}"
        bar.update(completed=min(1.0, max(parts)), description=text)

    def watch() -> None:
        while not end.wait(INTERVAL):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        with bar:
            yield
    finally:
        end.set()
        thread.join()
        look()
