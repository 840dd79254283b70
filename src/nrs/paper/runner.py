"""Run the cells of a table: resumed, in several processes, each cell within a time limit.

Finished cells are skipped; so a run that was interrupted or killed is resumed by starting it
again. Several runs may share a folder: a cell that another run is at is left to it, and looked
at again in the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace

from nrs._util.launch import end, launch
from nrs.paper.registry import find_table
from nrs.paper.results import Item, Results
from nrs.paper.select import cells_of, shard_of
from nrs.paper.table import Cell, Search
from nrs.paper.trial import DEVICE
from nrs.paper.worker import Outcome, Task, ended, home_of, is_finished

# Seconds until a cell that another run is at is looked at again.
_BUSY_WAIT = 0.5
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Event:
    """An item that is finished: for a progress bar."""

    item: Item
    outcome: Outcome
    done: int
    total: int


@dataclass
class Summary:
    """What a run did.

    Attributes
    ----------
    measured : cells measured by this run, by status.
    skipped : cells that were finished before, or by another run meanwhile.
    """

    measured: Counter[str] = field(default_factory=Counter)
    skipped: int = 0

    @property
    def n_bad(self) -> int:
        """Cells that this run measured without success."""
        return self.measured["failed"] + self.measured["timeout"]


def run(
    tables: str | Sequence[str],
    results: str | os.PathLike[str] = "results",
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    trials: int | None = None,
    jobs: int = 1,
    shard: tuple[int, int] = (1, 1),
    timeout: float | None = None,
    retry_failed: bool = False,
    device: str = "auto",
    on_event: Callable[[Event], None] | None = None,
) -> Summary:
    """Measure the cells of tables.

    Parameters
    ----------
    tables : names of `nrs.paper.tables`, or ``"module:attribute"`` for a table of your own.
    results : folder of the results.
    datasets, methods : only these.
    trials : seeds of each; the table's own number by default.
    jobs : processes, each with one thread.
    shard : ``(2, 8)`` is the second of eight shares of the work, for several machines.
    timeout : seconds for a cell or search; one that takes longer is ended and recorded.
    retry_failed : whether cells that failed or timed out before are tried again.
    device : where networks are trained; "auto" is the GPU where there is one. Times of the tables
        of speed and latency are those of one CPU thread in any case.
    on_event : called after each item.

    Raises
    ------
    ValueError
        If a name or argument is unknown.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, however: jobs={jobs}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be more than 0 seconds, however: timeout={timeout}")
    _check_device(device)
    names = [tables] if isinstance(tables, str) else list(tables)
    tasks: dict[Cell, Task] = {}
    for name in names:
        cells = cells_of(find_table(name), datasets=datasets, methods=methods, trials=trials)
        tasks |= {cell: Task(name, cell, retry_failed) for cell in shard_of(cells, shard)}
    folder = Results(results)
    folder.root.mkdir(parents=True, exist_ok=True)
    return _Run(folder, timeout, on_event, device).run(list(tasks.values()), jobs, retry_failed)


def _check_device(device: str) -> None:
    if device in ("auto", "cpu"):
        return
    # Importing torch takes seconds, which the usual devices do without.
    from nrs.training.processes import find_device

    find_device(device)


class _Run:
    """The state of one run: what waits, what is under way, what was done."""

    def __init__(
        self,
        results: Results,
        timeout: float | None,
        on_event: Callable[[Event], None] | None,
        device: str,
    ) -> None:
        self.results, self.timeout, self.on_event = results, timeout, on_event
        self.device = device
        self.summary = Summary()
        self.done = self.total = 0

    def run(self, tasks: list[Task], jobs: int, retry_failed: bool) -> Summary:
        waiting = [task for task in tasks if not self._is_finished(task)]
        self.summary.skipped = len(tasks) - len(waiting)
        self.needs = {task.item: self._searches(task) for task in waiting}
        searches: dict[Search, Task] = {}
        for task in waiting:
            for search in self.needs[task.item]:
                searches.setdefault(search, Task(home_of(task), search, retry_failed))
        self.queue = [task for task in searches.values() if not self._is_finished(task)]
        self.open = {task.item for task in self.queue}
        self.queue += waiting
        self.not_before: dict[Item, float] = {}
        self.total = len(self.queue)
        n_workers = min(jobs, len(self.queue))
        self.workers = [_Worker(self.results, self.device) for _ in range(n_workers)]
        try:
            while self.queue or any(worker.task for worker in self.workers):
                self._hand_out()
                self._collect()
        finally:
            for worker in self.workers:
                end(worker.process)
        return self.summary

    def _is_finished(self, task: Task) -> bool:
        return is_finished(self.results.status(task.item), redo=task.redo)

    def _searches(self, task: Task) -> tuple[Search, ...]:
        assert isinstance(task.item, Cell)
        return find_table(home_of(task)).searches(task.item.subject)

    def _hand_out(self) -> None:
        for number, worker in enumerate(self.workers):
            if worker.task is None:
                task = self._next()
                if task is None:
                    return
                if not worker.alive():
                    self.workers[number] = worker = _Worker(self.results, self.device)
                worker.begin(task, self.timeout)

    def _next(self) -> Task | None:
        now = time.monotonic()
        for position, task in enumerate(self.queue):
            ready = not any(search in self.open for search in self.needs.get(task.item, ()))
            if ready and self.not_before.get(task.item, 0) <= now:
                return self.queue.pop(position)
        return None

    def _collect(self) -> None:
        """Wait until a worker has finished, a time limit has passed, or waiting cells are due."""
        busy = [worker for worker in self.workers if worker.task is not None]
        if not busy:
            time.sleep(_BUSY_WAIT / 5)
            return
        now = time.monotonic()
        until = [worker.deadline - now for worker in busy if worker.deadline is not None]
        if any(worker.task is None for worker in self.workers) and self.queue:
            until.append(_BUSY_WAIT)
        answers = [worker.answer for worker in busy]
        wait(answers, max(0, min(until)) if until else None, FIRST_COMPLETED)
        for worker in busy:
            if worker.answer.done():
                self._finish(worker, worker.answer.result())
            elif worker.deadline is not None and time.monotonic() >= worker.deadline:
                self._finish(worker, None)

    def _finish(self, worker: _Worker, outcome: Outcome | None) -> None:
        task = worker.task
        assert task is not None
        if outcome is None:
            outcome = self._give_up(worker, task)
        worker.task = worker.deadline = None
        if outcome.status == "busy":
            # Whatever the other run finds is good enough for this one.
            self.queue.append(replace(task, redo=False))
            self.not_before[task.item] = time.monotonic() + _BUSY_WAIT
            return
        self.open.discard(task.item)
        self.done += 1
        if isinstance(task.item, Cell):
            if outcome.fresh:
                self.summary.measured[outcome.status] += 1
            else:
                self.summary.skipped += 1
        if self.on_event is not None:
            self.on_event(Event(task.item, outcome, self.done, self.total))

    def _give_up(self, worker: _Worker, task: Task) -> Outcome:
        """Record an item whose process takes too long or has died."""
        seconds = time.monotonic() - worker.begun
        if worker.alive():
            status, error = "timeout", f"took longer than {self.timeout:g} s"
        else:
            status, error = "failed", f"its process died with exit code {worker.process.returncode}"
        # Before the claim ends with the process: no other run takes the item for unfinished.
        if not self._is_finished(task):
            self.results.write(task.item, ended(status, error, seconds))
        end(worker.process)
        return Outcome(status, fresh=True, error=error)


class _Worker:
    """A process of `nrs.paper.worker`, and what it is at."""

    def __init__(self, results: Results, device: str) -> None:
        self.process = launch(
            "from nrs.paper.worker import serve; serve()",
            results.folder,
            os.getpid(),
            stdout=subprocess.PIPE,
            environment=dict.fromkeys(_THREADS, "1") | {DEVICE: device},
        )
        self.ready = False
        self.task: Task | None = None
        self.answer: Future[Outcome | None] = Future()
        self.begun = 0.0
        self.deadline: float | None = None

    def begin(self, task: Task, timeout: float | None) -> None:
        if not self.ready:
            # Importing takes seconds that are not the cell's.
            if self.outcome() is None:
                raise RuntimeError(
                    "a process to measure cells could not start; its exit code is "
                    f"{self.process.returncode}"
                )
            self.ready = True
        self.task, self.begun = task, time.monotonic()
        self.deadline = None if timeout is None else self.begun + timeout
        with contextlib.suppress(OSError):  # It has died; the wait that follows finds out.
            self.process.stdin.write(task.to_line())  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        self.answer = Future()
        threading.Thread(target=self._listen, args=(self.answer,), daemon=True).start()

    def _listen(self, answer: Future[Outcome | None]) -> None:
        answer.set_result(self.outcome())

    def outcome(self) -> Outcome | None:
        """What it answered; None if it died instead."""
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if line:
            return Outcome(**json.loads(line))
        self.process.wait()
        return None

    def alive(self) -> bool:
        return self.process.poll() is None
