"""Runs that are killed at random moments and started again until they end.

After its first checkpoint a run is killed one to three times: all of its processes, only the
first, or only one that it started; by SIGKILL or SIGTERM; at any moment, or while a file is being
written.

Laws: what a run leaves in the end is that of a run that was never killed, bit by bit but for times
of day and durations; after every kill each output is as it was before the run, or whole; no process
outlives the first one; no file is left that an unbroken run would not have left.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.fuzz.forks import Ended, Server
from benchmarks.fuzz.killed_runs import MODEL, write_inputs
from benchmarks.fuzz.run import BrokenLawError
from nrs._util.atomic import temporary_prefix
from nrs.training import read_model

# Different runs of each kind, so that the unbroken ones are run once.
SEEDS = 2
# A run that takes longer hangs; processes may outlive the first one for so long.
MAX_SECONDS, MAX_ORPHANED = 60.0, 10.0
# About as long as a small file takes to reach the disk.
WRITING = 0.005
OLD = b"what was there before"
# Entries of results that differ between two runs that are otherwise the same.
TIMES = frozenset({"seconds", "finished", "times"})


@dataclass(frozen=True)
class Kind:
    """A run that resumes.

    Attributes
    ----------
    function : ``module:name`` of what its process calls.
    arguments : of its command line; ``IN`` is the folder of inputs, ``SEED`` the seed.
    checkpoints : pattern of the files that say that there is something to resume.
    resumable : whether such a file does hold something to resume.
    outputs : what it makes.
    retry : further arguments after a process that it started was killed.
    weight : how often it is drawn; more for those that often end before they are killed.
    """

    function: str
    arguments: str
    checkpoints: str = "run/**/checkpoint-?.safetensors"
    resumable: Callable[[Path], bool] = Path.exists
    outputs: tuple[str, ...] = (MODEL,)
    retry: str = ""
    weight: float = 1.0


def _has_a_trial(journal: Path) -> bool:
    # The entry of Optuna's file that makes a trial.
    return b'{"op_code":4,' in journal.read_bytes()


_RUNS, _NRS = "benchmarks.fuzz.killed_runs", "nrs.cli.main:main"
KINDS = {
    "fit": Kind(f"{_RUNS}:fit", "SEED", weight=1.5),
    "refit": Kind(
        _NRS, "fit IN/table.csv -t y --preset fast -o model --checkpoint run -q --seed SEED",
        outputs=(MODEL, "model.html"),
    ),
    "stream": Kind(f"{_RUNS}:stream", "IN/rows SEED", weight=1.5),
    "workers": Kind(f"{_RUNS}:workers", "SEED", weight=1.5),
    "ranker": Kind(f"{_RUNS}:ranker", "SEED"),
    "tune": Kind(
        f"{_RUNS}:tune", "SEED", "run.log", _has_a_trial, (MODEL, "found.json"), weight=2
    ),
    "vision": Kind(
        _NRS, "train vision --config IN/vision.toml --output run --quiet --set train.epochs=8 "
        "--set run.seed=SEED --set run.workers=1", outputs=(f"run/{MODEL}",),
    ),
    "points": Kind(
        _NRS, "train points --config IN/points.toml --output run --quiet --set train.epochs=8 "
        "--set run.seed=SEED", outputs=(f"run/{MODEL}",), weight=2,
    ),
    "paper": Kind(
        f"{_RUNS}:paper", "paper run smoke --datasets synthetic --methods RankNet,ListNet+NRS "
        "--trials 1SEED --results run --jobs 2", "run/paper/**/[!.]*.json",
        outputs=(), retry="--retry-failed",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Unbroken:
    """What a run that was never killed leaves, and when: seconds to its first checkpoint and end.

    `files` has of each file a text that is the same for the same content.
    """

    files: dict[str, str]
    first: float
    end: float


@dataclass(frozen=True)
class Kill:
    """Whom to kill, how and when."""

    victim: str
    signal: signal.Signals
    # What must be being written, if anything: a file or an output.
    writing: str
    # Seconds after that, or after the first checkpoint.
    delay: float
    # Whether to wait for the other processes before the run is started again.
    patient: bool

    @classmethod
    def draw(cls, rng: np.random.Generator, seconds: float) -> Kill:
        """Draw a kill within some seconds."""
        writing = str(rng.choice(["", "file", "output"], p=[0.6, 0.2, 0.2]))
        return cls(
            str(rng.choice(["all", "first", "started"], p=[0.4, 0.3, 0.3])),
            signal.Signals(rng.choice([signal.SIGKILL, signal.SIGTERM], p=[0.75, 0.25])),
            writing,
            float(rng.uniform(0, WRITING if writing else seconds)),
            bool(rng.random() < 0.5),
        )


class Bench:
    """A folder of inputs, and one of a run that is made anew for every case."""

    def __init__(self, server: Server | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="nrs-fuzz-"))
        atexit.register(self.close)
        self.server = server or Server()
        self.inputs, self.work, self.tmp = (self.root / name for name in ("in", "work", "tmp"))
        self.said = self.root / "said"
        self.inputs.mkdir()
        write_inputs(self.inputs)
        self.unbroken: dict[tuple[str, int], Unbroken] = {}

    def close(self) -> None:
        """End the server and remove the folder."""
        self.server.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, name: str, seed: int, rng: np.random.Generator) -> Counter[str]:
        """Run a kind under the laws; returns how often it was killed, and how."""
        try:
            return self._run(name, seed, rng)
        finally:
            self.server.stop()

    def _run(self, name: str, seed: int, rng: np.random.Generator) -> Counter[str]:
        kind, known = KINDS[name], self.unbroken_run(name, seed)
        self._clear()
        old = [self.work / output for output in kind.outputs]
        if name != "refit" and rng.random() < 0.5:
            old = []
        for path in old:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(OLD)
        counts = Counter({f"cases {name}": 1})
        arguments = ""
        # Sessions of the runs so far, whose processes must all end.
        sessions: list[int] = []
        kills = int(rng.choice([1, 2, 3], p=[0.2, 0.3, 0.5]))
        while True:
            sessions.append(self._start(kind, seed, arguments))
            if kills == 0:
                ended = self._wait()
                break
            kills -= 1
            ended, how = self._kill(kind, known, rng, sessions[-1])
            if ended.code == 0:
                break
            if how is None:
                raise BrokenLawError(f"ended with {ended.code} by itself: {self._last()}")
            counts.update([f"kills {name}", f"kills {how}", f"{name} {how}"])
            if "started" in how:
                arguments = kind.retry
            missing = [path.name for path in old if not path.exists()]
            if missing:
                raise BrokenLawError(f"{missing} were there before and are gone")
            self._check_outputs(kind, known, bool(arguments))
        if ended.code:
            raise BrokenLawError(f"could not be resumed, ended with {ended.code}: {self._last()}")
        for session in sessions:
            self._check_ended(session)
        self.check_files(known)
        return counts

    def _clear(self) -> None:
        for folder in (self.work, self.tmp):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def unbroken_run(self, name: str, seed: int) -> Unbroken:
        """What an unbroken run leaves; it runs once."""
        if (name, seed) not in self.unbroken:
            kind = KINDS[name]
            self._clear()
            begin = time.monotonic()
            self._start(kind, seed)
            self._until(lambda: self._can_resume(kind))
            first = time.monotonic() - begin
            ended = self._wait()
            if ended.code:
                raise RuntimeError(f"the unbroken {name} ended with {ended.code}: {self._last()}")
            left = _files(self.work) | _files(self.tmp)
            self.unbroken[name, seed] = Unbroken(left, first, ended.seconds)
        return self.unbroken[name, seed]

    def _start(self, kind: Kind, seed: int, more: str = "") -> int:
        words = f"{kind.arguments} {more}".split()
        self.said.write_bytes(b"")
        return self.server.start(
            kind.function,
            [word.replace("SEED", str(seed)).replace("IN/", f"{self.inputs}/") for word in words],
            folder=self.work,
            streams=[os.devnull, str(self.said), str(self.said)],
            environment={"TMPDIR": str(self.tmp), "SOURCE_DATE_EPOCH": "0"},
        )

    def _wait(self) -> Ended:
        ended = self.server.wait(MAX_SECONDS)
        if ended is None:
            raise BrokenLawError(f"took more than {MAX_SECONDS:g} seconds: {self._last()}")
        return ended

    def _kill(
        self, kind: Kind, known: Unbroken, rng: np.random.Generator, session: int
    ) -> tuple[Ended, str | None]:
        """Wait for the moment, and kill; returns how the run ended, and by what kill if any."""
        resumed = self._can_resume(kind)
        # A resumed run has less to do.
        kill = Kill.draw(rng, known.end / 2 if resumed else known.end - known.first)
        left = self._temporary()
        ended = self._until(lambda: _has_session(session) and self._can_resume(kind))
        if ended is None and kill.writing:
            names = kind.outputs if kill.writing == "output" else ()
            ended = self._until(lambda: bool(self._temporary(names) - left), 0.0005)
        if ended is None:
            ended = self.server.wait(kill.delay)
        if ended is not None:
            return ended, None
        started = [pid for pid in _processes(session) if pid != session]
        victim = kill.victim if started else "all"
        try:
            if victim == "all":
                os.killpg(session, kill.signal)
            else:
                os.kill(session if victim == "first" else started[0], kill.signal)
        except ProcessLookupError:  # It has just ended.
            return self._wait(), None
        ended = self._wait()
        if kill.patient:
            self._check_ended(session)
        return ended, f"{victim} by {kill.signal.name} {kill.writing and 'writing'}".strip()

    def _until(self, come: Callable[[], bool], pause: float = 0.005) -> Ended | None:
        """Wait until something has come; how the run ended, if it did before."""
        while not come():
            ended = self.server.wait(pause)
            if ended is not None:
                return ended
        return None

    def _can_resume(self, kind: Kind) -> bool:
        return any(kind.resumable(path) for path in self.work.glob(kind.checkpoints))

    def _temporary(self, outputs: tuple[str, ...] = ()) -> set[Path]:
        """Files, or these alone, that are being written, or were when their writer was killed."""
        starts = tuple(temporary_prefix(Path(name).name) for name in outputs)
        found = {path for path in _walk(self.work) if ".tmp-" in path.name}
        return {path for path in found if not starts or path.name.startswith(starts)}

    def _last(self) -> str:
        return self.said.read_text(errors="replace")[-1500:]

    def _check_ended(self, session: int) -> None:
        end = time.monotonic() + MAX_ORPHANED
        while left := _processes(session):
            if time.monotonic() > end:
                os.killpg(session, signal.SIGKILL)
                raise BrokenLawError(f"{len(left)} processes outlive the run")
            time.sleep(0.01)

    def _check_outputs(self, kind: Kind, known: Unbroken, failures: bool) -> None:
        """Each output is as it was, or whole; checkpoints can be read."""
        for path in _walk(self.work):
            name = str(path.relative_to(self.work))
            if name not in known.files or path.read_bytes() == OLD:
                continue
            found = _content(path)
            if "checkpoint-" in name or found == known.files[name]:
                continue
            # A cell of which the process was killed is recorded as such.
            if not (failures and kind.retry and '"failed"' in found):
                raise BrokenLawError(f"{name} is neither old nor whole: {found[:300]}")

    def check_files(self, known: Unbroken) -> None:
        """What was left is what an unbroken run leaves."""
        found = _files(self.work) | _files(self.tmp)
        # Of a run killed right after it wrote a result: an empty file, at most one per cell.
        more = {name for name in found.keys() - known.files.keys() if not name.endswith(".claim")}
        fewer = known.files.keys() - found.keys()
        if more or fewer:
            raise BrokenLawError(f"left {sorted(more)}, and not {sorted(fewer)}")
        differing = [name for name in sorted(known.files) if found[name] != known.files[name]]
        if differing:
            raise BrokenLawError(f"other content than in an unbroken run: {differing}")


def _walk(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _files(folder: Path) -> dict[str, str]:
    """The files of a folder, and folders without any, with their content."""
    found = {str(path.relative_to(folder)): _content(path) for path in _walk(folder)}
    for parent, folders, names in os.walk(folder):
        if not folders and not names and Path(parent) != folder:
            found[str(Path(parent).relative_to(folder))] = "a folder"
    return found


def _content(path: Path) -> str:
    """What a file holds, but for times, as a text."""
    if path.suffix == ".safetensors":
        try:
            file = read_model(path)
        except ValueError as error:
            raise BrokenLawError(f"{path.name} cannot be read: {error}") from None
        digest = hashlib.sha256()
        for name, tensor in sorted(file.tensors.items()):
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
        facts = [file.kind, _timeless(file.header), file.made, digest.hexdigest()]
        return json.dumps(facts, sort_keys=True)
    if path.suffix == ".json":
        return json.dumps(_timeless(json.loads(path.read_bytes())), sort_keys=True)
    if path.suffix == ".html":
        # Its numbers are those of the model; it shows the duration too.
        return "whole" if path.read_text().rstrip().endswith("</html>") else "cut"
    return "present"


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(entry) for name, entry in value.items() if name not in TIMES}
    return [_timeless(entry) for entry in value] if isinstance(value, list) else value


def _has_session(pid: int) -> bool:
    """Whether a process has begun a session of its own; one that is gone has."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return True


def _processes(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, group, session.
            facts = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(facts[3]) == session and facts[0] not in "ZX":
            found.append(int(folder.name))
    return sorted(found)


@functools.cache
def _bench() -> Bench:
    return Bench()


def case(rng: np.random.Generator) -> Counter[str]:
    """Kill one run, and start it again until it ends."""
    weights = np.array([kind.weight for kind in KINDS.values()])
    name = str(rng.choice(list(KINDS), p=weights / weights.sum()))
    return _bench().run(name, int(rng.integers(SEEDS)), rng)
