"""``n_workers``: processes on this machine that help one fit, without a launcher.

The process that calls ``fit`` is the first of them: it keeps callbacks, progress and files. The
others are started anew, so that a script needs no guard against being imported twice, and find
their task in a temporary folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from nrs._util.atomic import atomic_write
from nrs._util.launch import end, end_with_parent, launch
from nrs._util.scratch import scratch
from nrs.tabular.model import ForestModel
from nrs.tabular.run import threads
from nrs.tabular.task import Task
from nrs.training.checkpoint import CheckpointError
from nrs.training.loop import DivergenceError
from nrs.training.processes import Processes, check_no_group, joined, own_group

# Errors that keep their type on the way from a worker.
_KNOWN: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (CheckpointError, DivergenceError, MemoryError, ValueError)
}
# Seconds that a failing process waits for the one that failed first to tell why.
_GRACE = 5.0


class WorkerError(RuntimeError):
    """A worker process failed or died; the message is the worker's."""


@contextlib.contextmanager
def workers(task: Task) -> Iterator[Task]:
    """Start ``run.n_workers - 1`` processes that train a forest together with this one.

    Yields the task with the group of processes that share it.

    Raises
    ------
    WorkerError
        If one of them fails, with what it said; a ValueError or DivergenceError as such.
    ValueError
        If the caller has initialised a process group.
    """
    check_no_group()
    with scratch("nrs-workers-") as folder:
        size = task.run.n_workers
        task.write(folder)
        start = f"from {task.worker} import main; main()"
        started = [
            launch(start, folder, rank, size, stderr=folder / f"stderr-{rank}")
            for rank in range(1, size)
        ]
        try:
            _wait_until_ready(folder, started)
            with _shared(task, folder, 0, size) as shared:
                yield shared
        except Exception as error:
            told = _told(folder, started)
            if told is not None:
                raise told from error
            raise
        finally:
            for process in started:
                end(process, _GRACE)


def main(read: Callable[[Path], Task] = Task.read, model: type[ForestModel] = ForestModel) -> None:
    """What a worker does: its share of one fit.

    Parameters
    ----------
    read : reads the task in a folder.
    model : what is trained.
    """
    folder, rank, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    end_with_parent()
    try:
        task = read(folder)
        (folder / f"ready-{rank}").touch()
        with _shared(task, folder, rank, size) as shared, threads(task.run.n_jobs):
            model.fit(shared)
    except Exception as error:
        with atomic_write(folder / f"error-{rank}.json") as file:
            kind = type(error).__name__
            file.write(json.dumps({"kind": kind, "message": str(error) or kind}).encode())
        os._exit(1)


def _wait_until_ready(folder: Path, started: list[subprocess.Popen[bytes]]) -> None:
    waiting = [folder / f"ready-{rank}" for rank in range(1, len(started) + 1)]
    while not all(path.exists() for path in waiting):
        if any(process.poll() is not None for process in started):
            raise WorkerError("a worker ended before it began")
        time.sleep(0.01)


def _told(folder: Path, started: list[subprocess.Popen[bytes]]) -> Exception | None:
    """The error of the worker that failed first, if one did."""
    end = time.monotonic() + _GRACE
    while time.monotonic() < end and all(process.poll() is None for process in started):
        time.sleep(0.05)
    for rank, process in enumerate(started, 1):
        path = folder / f"error-{rank}.json"
        if path.exists():
            error = json.loads(path.read_text())
            kind = _KNOWN.get(error["kind"])
            # One that lost its peer only tells of another's failure.
            if kind is not None:
                return kind(error["message"])
            if not any(sign in error["message"] for sign in ("gloo", "Connection")):
                return WorkerError(f"worker {rank}: {error['kind']}: {error['message']}")
        elif process.poll() not in (None, 0):
            last = (folder / f"stderr-{rank}").read_text(errors="replace").strip()[-2000:]
            ending = f"was killed by signal {-process.returncode}"
            if process.returncode > 0:
                ending = f"ended with code {process.returncode}"
            return WorkerError(
                f"worker {rank} {ending}; there may be too little memory for "
                f"n_workers={len(started) + 1}" + (f". It said: {last}" if last else "")
            )
    return None


@contextlib.contextmanager
def _shared(task: Task, folder: Path, rank: int, size: int) -> Iterator[Task]:
    """The task with the group of processes that meet in a folder."""
    device = task.rows.device
    backend = "nccl" if device.type == "cuda" else "gloo"
    with own_group():
        with _loopback():
            dist.init_process_group(
                backend,
                store=dist.FileStore(str(folder / "store"), size),
                rank=rank,
                world_size=size,
                timeout=timedelta(hours=24),
            )
        with joined(Processes(rank, size, device)) as group:
            yield replace(task, run=replace(task.run, group=group))


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Within the block gloo talks within the machine, whatever its name resolves to."""
    names = {name for _, name in socket.if_nameindex()} if hasattr(socket, "if_nameindex") else ()
    local = next((name for name in ("lo", "lo0") if name in names), None)
    if local is None or "GLOO_SOCKET_IFNAME" in os.environ:
        yield
        return
    os.environ["GLOO_SOCKET_IFNAME"] = local
    try:
        yield
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]
