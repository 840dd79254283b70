"""Hostile command lines of every command, in processes of their own.

A line is a good one, changed a few times: options and values that are missing, unknown, repeated or
absurd; inputs that are damaged, special or forbidden; outputs that are inputs or cannot be written;
streams that are closed, broken, full or a terminal.

Laws: the exit code is documented; no traceback, no signal, no hang; bounded memory; an input stays
as it was; a command that fails writes nothing; what is written is whole; no temporary file is left;
no text of data steers the terminal.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shlex
import shutil
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer

from benchmarks.fuzz.command_files import (
    MODELS,
    PAYLOADS,
    snapshot,
    write_bad_models,
    write_inputs,
)
from benchmarks.fuzz.forks import BROKEN, CLOSED, Ended, Server
from benchmarks.fuzz.run import BrokenLawError
from nrs.cli.app import app
from nrs.datasets.table_files import read_table_file
from nrs.training import read_model

# Seconds and bytes, beyond those of the server, that a command may take.
MAX_SECONDS, MAX_MEMORY = 90.0, 1 << 30
FULL, TERMINAL = "/dev/full", "terminal"
# Lines that work, by command, with how often each is drawn.
LINES = {
    "fit IN/t_class.csv -t y --preset fast --time-limit 0.1 --no-report -o new": 3,
    "fit IN/t_class.csv -t y --preset fast --time-limit 0.1 --drop id": 3,
    "fit IN/t_number.csv --target y --preset single --time-limit 0.1 --no-report --json": 1,
    "fit IN/t_several.csv -t y -t z --preset fast --time-limit 0.1 --no-report": 1,
    "fit IN/parts -t y --preset fast --time-limit 0.1 --no-report": 1,
    "fit IN/t_class.parquet -t y --stream --preset fast --time-limit 0.1 -q": 1,
    "fit IN/t_escape.csv -t y --preset fast --time-limit 0.1": 1,
    "tune IN/t_class.csv -t y --preset fast --trials 1 --budget 0.2 --no-report": 3,
    "tune IN/t_number.csv -t y --preset fast --trials 1 --budget 0.2 --storage trials.log": 1,
    "predict IN/m_class.safetensors IN/t_class.csv -o out.csv -p --keep id": 4,
    "predict IN/m_number.safetensors IN/t_number.csv --interval 0.9": 2,
    "predict IN/m_several.safetensors IN/t_several.csv -o out.parquet": 1,
    "predict IN/m_class.safetensors IN/parts -o out.jsonl": 1,
    "predict IN/m_escape.safetensors IN/t_escape.csv --safe-csv -o out.csv": 1,
    "predict IN/m_escape.safetensors IN/t_escape.csv -p": 1,
    "predict IN/m_image.safetensors IN/p_good.png": 2,
    "predict IN/m_image.safetensors IN/pictures -o out.json": 1,
    "predict IN/m_points.safetensors IN/c_good.off -o out.csv": 1,
    "predict IN/m_points.safetensors IN/c_good.xyz --json": 1,
    "evaluate IN/m_class.safetensors IN/t_class.csv": 4,
    "evaluate IN/m_several.safetensors IN/t_several.csv --json": 1,
    "evaluate IN/m_single.safetensors IN/t_class.jsonl -t y": 1,
    "explain IN/m_class.safetensors IN/t_class.csv --trees 2 --output page.html": 3,
    "explain IN/m_escape.safetensors": 1,
    "compare IN/t_class.csv -t y --methods NRS --folds 2": 1,
    "compare IN/t_number.csv -t y --methods RF --folds 2 --json": 1,
    "info IN/m_class.safetensors": 3,
    "info IN/m_escape.safetensors": 1,
    "info IN/m_image.safetensors --json": 1,
    "export IN/m_class.safetensors -o out.onnx": 2,
    "export IN/m_number.safetensors": 1,
    "train vision --config IN/vision.toml --output run": 2,
    "train points --config IN/points.toml --output run --quiet": 2,
    "datasets list": 1,
    "datasets info letter --json": 1,
    "datasets get letter": 2,
    "datasets get iris": 1,
    "paper list": 1,
    "paper show accuracy --results results": 2,
    "paper report --output report --tables accuracy,speed": 1,
    "paper run accuracy --datasets letter --methods NRS --trials 1 --timeout 5": 0.3,
}
WORDS = [
    "", " ", "-", "--", "-1", "0", "1", "2", "1.5", "nan", "inf", "-inf", "1e309", "1e-320", "é",
    "9" * 20, "\udcff\udcfe", *PAYLOADS, ",", "a,b,,", "%s{}{0}%n", "x" * 5000, "../..", "\r\n",
    "~", "$HOME", "*", "[", "auto", "y", "a", "id", "Y", "letter", "accuracy", "json:loads", ":",
    "s3://x/y", "file:///nowhere", "/", ".", "utf-16", "latin-1", "rot13", "NRS,RF", "GBDT", "3/2",
    "0/1", "rows", "members", "single", "best", "paper", "regression", "classification", "t=1",
]  # fmt: skip
SETS = [
    "train.epochs=0", "train.epochs=-1", "train.epochs=nan", "train.lr=nan", "train.lr=-1",
    "train.lr=1e30", "run.batch_size=0", "run.batch_size=-5", "run.batch_size=1000000000",
    "run.device=cuda", "run.device=nosuch", "run.seed=-1", "model.name=hf-hub:x/y",
    "model.name=../../etc", "model.n_mul=0", "model.head=nosuch", "data.root=/dev/zero",
    "data.root=nowhere", "data.source=/dev/zero", "data.points=0", "picture.size=0",
    "picture.size=-3", "nosuch.key=1", "train", "=", "train.=", ".lr=1", "train.lr=[[",
    "run.seed=1", "train.optimizer=adam", "train.lr=\udcff", f"train.lr={PAYLOADS[0]}",
    "model.weights=IN/b_pipe.csv",
]  # fmt: skip
# Options whose value could ask for hours of honest work.
ENDLESS = {"--trials", "--budget", "--folds", "--time-limit", "--preset", "--timeout", "--workers"}
BRIEF = ["0", "-1", "nan", "-inf", "x", "", "2", "1.5", "0.1", "é", PAYLOADS[0]]
ENDINGS = (".csv", ".parquet", ".arrow", ".jsonl", ".json", ".csv.gz", ".html", ".onnx",
           ".safetensors", ".xlsx", "", ".CSV", ".csv.zst")  # fmt: skip
# What a command may leave when it fails, to be resumed or read.
RESUMED = re.compile(r"(run|results|checkpoint|trials\.log|nrs\.log)\b")
ADVICE = re.compile(r"out of memory|nested too deeply|No space left")
OUTPUTS = {"-o", "--output"}
# Colours, cursor moves and line clearing by rich.
DRAWN = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
STEERING = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


@dataclass
class Line:
    """A command line, and the streams and variables that it runs with."""

    words: list[str]
    streams: list[str] = field(default_factory=lambda: [os.devnull, "", ""])
    environment: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{shlex.join(self.words)} with {self.streams} {self.environment}"


class Bench:
    """A folder of inputs, and one of outputs that is made anew for every line."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="nrs-fuzz-"))
        atexit.register(self.close)
        self.server = Server()
        self.inputs, self.work = self.root / "in", self.root / "work"
        self.inputs.mkdir()
        write_inputs(self.inputs)
        self.said = [self.root / "stdout", self.root / "stderr"]
        for line in MODELS.values():
            self._clear()
            ended = self._run(Line(shlex.split(line)), self.inputs)
            if ended is None or ended.code:
                raise RuntimeError(f"{line}: {self.said[1].read_text()}")
        write_bad_models(self.inputs)
        self.before = snapshot(self.inputs)
        self.names = sorted(os.listdir(self.inputs))

    def close(self) -> None:
        """End the server and remove the folder."""
        self.server.close()
        for path in (self.inputs / "b_closed", self.work / "locked"):
            if path.exists():
                path.chmod(0o700)
        shutil.rmtree(self.root, ignore_errors=True)

    def _clear(self) -> None:
        """The folder of outputs: a few old files, and places that cannot be written."""
        if self.work.exists():
            (self.work / "locked").chmod(0o700)
            shutil.rmtree(self.work)
        for name in ("old", "cwd", "tmp", "home", "locked", "old/folder.csv", "old/folder.html"):
            (self.work / name).mkdir(parents=True)
        for ending in (".csv", ".html", ".onnx", ".safetensors", ".parquet"):
            (self.work / "old" / f"old{ending}").write_text("old")
        os.mkfifo(self.work / "old" / "pipe.html")
        os.mkfifo(self.work / "old" / "pipe.csv")
        (self.work / "old" / "loop.csv").symlink_to("loop.csv")
        (self.work / "locked").chmod(0o555)
        for path in self.said:
            path.write_bytes(b"")

    def run(self, line: Line) -> str:
        """Run a line under the laws; returns how it ended."""
        self._clear()
        for link, target in _links(line):
            (self.work / "old" / link).symlink_to(self.inputs / target)
        before = snapshot(self.work)
        ended = self._run(line, self.work / "cwd")
        try:
            return self._check(line, ended, before)
        except BrokenLawError as error:
            said = b" | ".join(path.read_bytes()[-600:] for path in self.said)
            raise BrokenLawError(f"{error}: {line}: {said!r}") from None

    def _run(self, line: Line, folder: Path) -> Ended | None:
        words = [self._path(word) for word in line.words]
        variables = {
            "HOME": str(self.work / "home"), "NRS_CACHE": str(self.work / "home/cache"),
            "TMPDIR": str(self.work / "tmp"), "NRS_DATA": str(self.inputs / "data"),
            "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9",
            "HF_HUB_OFFLINE": "1", "COLUMNS": "", "TERM": "xterm-256color",
        }  # fmt: skip
        given = {name: self._path(value) for name, value in line.environment.items()}
        streams = [self._path(line.streams[0]), *line.streams[1:]]
        terminal = _Terminal(self.said[0]) if TERMINAL in streams else None
        for number in (1, 2):
            if streams[number] == TERMINAL and terminal is not None:
                streams[number] = terminal.name
            streams[number] = streams[number] or str(self.said[number - 1])
        self.server.start(
            "nrs.cli.main:main", words, folder=folder, streams=streams,
            environment=variables | given, mortal=True,
        )  # fmt: skip
        ended = self.server.wait(MAX_SECONDS)
        if ended is None:
            self.server.kill_all()
            self.server.wait(60)
        if terminal is not None:
            terminal.close()
        return ended

    def _path(self, word: str) -> str:
        return re.sub(r"(^|=)IN(?=/|$)", lambda m: f"{m[1]}{self.inputs}", word)

    def _check(self, line: Line, ended: Ended | None, before: dict[str, object]) -> str:
        if ended is None:
            raise BrokenLawError(f"took more than {MAX_SECONDS:g} seconds")
        if ended.memory > self.server.memory + MAX_MEMORY:
            raise BrokenLawError(f"took {(ended.memory - self.server.memory) >> 20} MB")
        self._check_said(line, ended.code)
        now = snapshot(self.inputs)
        if {name: now.get(name) for name in self.before} != self.before:
            changed = [name for name in self.before if now.get(name) != self.before[name]]
            raise BrokenLawError(f"changed its inputs {changed}")
        for name in now.keys() - self.before.keys():
            raise BrokenLawError(f"wrote {name} to its inputs")
        self._check_files(line, ended.code, before)
        return {0: "done", 1: "failed", 2: "refused"}[ended.code]

    def _check_said(self, line: Line, code: int) -> None:
        out, errors = (path.read_bytes() for path in self.said)
        text = (errors + out).decode(errors="backslashreplace")
        for word in ("Traceback", "Exception ignored", "this is a defect", "Fatal Python"):
            if word in text:
                raise BrokenLawError(f"says {word!r}")
        if code not in (0, 1, 2):
            raise BrokenLawError(f"ended with {code}")
        heard = line.streams[2] in ("", TERMINAL)
        own = _command(line.words) not in ("datasets", "paper")
        if code == 1 and heard and own and not ADVICE.search(text):
            raise BrokenLawError("ended with 1 for no documented reason")
        if code and heard and not text.strip():
            raise BrokenLawError("failed without a word")
        told = errors.decode(errors="replace").partition("error: ")[2].strip()
        if line.streams[2] == "" and len(told.splitlines()) > 3:
            raise BrokenLawError("more than three lines")
        # A pipe or a file gets predictions as they are.
        table = _command(line.words) == "predict" and line.streams[1] == ""
        for said in (errors,) if table else (errors, out):
            if any(payload.encode() in said for payload in PAYLOADS):
                raise BrokenLawError("text of data steers the terminal")
            if STEERING.search(DRAWN.sub(b"", said) if TERMINAL in line.streams else said):
                raise BrokenLawError("writes control characters")

    def _check_files(self, line: Line, code: int, before: dict[str, object]) -> None:
        now = snapshot(self.work)
        new = {name for name in now if now[name] != before.get(name)}
        gone = before.keys() - now.keys()
        if gone:
            raise BrokenLawError(f"removed {sorted(gone)}")
        for name in new:
            if ".tmp-" in name or name.startswith("tmp/"):
                raise BrokenLawError(f"left {name}")
        written = {name for name in new if not name.startswith("home")}
        if code and line.streams[1] in ("", TERMINAL):
            kept = {name for name in written if RESUMED.match(name.partition("/")[2])}
            if written - kept:
                raise BrokenLawError(f"failed, but wrote {sorted(written - kept)}")
        for name in written:
            _check_whole(self.work / name)


class _Terminal:
    """A terminal whose output goes to a file."""

    def __init__(self, path: Path) -> None:
        self._main, self._side = os.openpty()
        self.name = os.ttyname(self._side)
        self._path = path
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with self._path.open("ab") as file:
            while True:
                try:
                    content = os.read(self._main, 1 << 16)
                except OSError:  # Everyone has closed the other side.
                    return
                file.write(content)

    def close(self) -> None:
        os.close(self._side)
        self._reader.join(10)
        os.close(self._main)


def _command(words: list[str]) -> str:
    return next((word for word in words if word in _names()), "")


def _check_whole(path: Path) -> None:
    """Read a file that was written."""
    if not path.is_file():
        return
    try:
        name = path.name.lower()
        # A page is one whatever its name.
        if path.read_bytes()[:9].lower() == b"<!doctype":
            name = "page.html"
        if name.endswith(".safetensors") and not name.startswith("checkpoint"):
            read_model(path)
        elif name.endswith(".html"):
            assert path.read_text(encoding="utf-8").rstrip().endswith("</html>"), "cut"
        elif name.endswith(".json"):
            json.loads(path.read_text(encoding="utf-8"))
        elif name.endswith(".onnx"):
            import onnx

            onnx.checker.check_model(onnx.load(path))
        elif re.search(r"\.(csv|parquet|arrow|jsonl)(\.gz|\.zst)?$", name):
            read_table_file(path)
    except Exception as error:
        raise BrokenLawError(f"wrote a file that cannot be read: {path.name}: {error}") from error


@functools.cache
def _bench() -> Bench:
    return Bench()


@functools.cache
def _options(command: str) -> list[tuple[str, bool]]:
    """The options of a command or of its parts, and whether each takes a value."""
    found: dict[str, bool] = {}

    def collect(one: Any) -> None:
        for parameter in one.params:
            for name in parameter.opts + parameter.secondary_opts:
                if name.startswith("-"):
                    found[name] = not getattr(parameter, "is_flag", False)
        for part in getattr(one, "commands", {}).values():
            collect(part)

    root: Any = typer.main.get_command(app)
    collect(root.commands[command])
    return sorted(found.items())


def draw_line(rng: np.random.Generator, names: list[str]) -> Line:
    """A good line, changed a few times."""
    weights = np.array(list(LINES.values()))
    words = shlex.split(str(rng.choice(list(LINES), p=weights / weights.sum())))
    line = Line(words)
    command = words[0]
    for _ in range(int(rng.choice(5, p=[0.1, 0.4, 0.3, 0.15, 0.05]))):
        _CHANGES[int(rng.choice(len(_CHANGES), p=_CHANCES))](line, command, rng, names)
    _spare_others(line)
    _draw_streams(line, rng, names)
    return line


def _spare_others(line: Line) -> None:
    """An output may overwrite what the command does not read: name only what it does read."""
    for place in range(1, len(line.words)):
        name = line.words[place].rpartition("=")[2]
        option = line.words[place].partition("=")[0] if "=" in line.words[place] else ""
        if not {option, line.words[place - 1]} & OUTPUTS or not name.startswith("IN/"):
            continue
        if name not in [word for other, word in enumerate(line.words) if other != place]:
            line.words[place] = line.words[place].replace(name, "new.csv")


def _pick(rng: np.random.Generator, choices: Any) -> str:
    chosen = list(choices)
    return str(chosen[int(rng.integers(len(chosen)))])


def _change_input(line: Line, command: str, rng: np.random.Generator, names: list[str]) -> None:
    """Read another file: one that suits, half the time."""
    places = [k for k, word in enumerate(line.words) if word.startswith("IN/")]
    if not places:
        return
    place = places[int(rng.integers(len(places)))]
    start = line.words[place].removeprefix("IN/")[:2]
    suited = [name for name in names if name[:2] == start] if rng.random() < 0.3 else names
    others = suited or names
    devices = ["/dev/zero", "/dev/null", "-", "IN/*.csv", "IN/parts/*.parquet", "IN/nowhere.csv"]
    line.words[place] = _pick(rng, devices) if rng.random() < 0.15 else f"IN/{_pick(rng, others)}"


def _draw_output(rng: np.random.Generator, line: Line) -> str:
    own = [word for word in line.words if word.startswith("IN/")]
    ending = _pick(rng, ENDINGS)
    if own and rng.random() < 0.3:
        name = _pick(rng, own)
        return name if rng.random() < 0.7 else f"../old/link-{name.removeprefix('IN/')}"
    return _pick(rng, [
        f"new{ending}", f"../old/old{ending}", f"../locked/new{ending}", f"nowhere/new{ending}",
        f"../old/folder{ending}", f"../old/pipe{ending}", "../old/loop.csv", "", "/", ".", "..",
        f"/proc/new{ending}", f"{PAYLOADS[0]}{ending}", f"\udcff{ending}", "x" * 300 + ending,
        f"../old/old.csv/new{ending}", f"-{ending}", f"~/new{ending}",
    ])  # fmt: skip


def _draw_value(rng: np.random.Generator, name: str, line: Line, names: list[str]) -> str:
    if name in ENDLESS:
        return _pick(rng, BRIEF)
    if name == "--set":
        return _pick(rng, SETS if rng.random() < 0.8 else WORDS)
    if name == "--config":
        recipes = [one for one in names if one.endswith(".toml")]
        return f"IN/{_pick(rng, recipes if rng.random() < 0.6 else names)}"
    if name in ("--checkpoint", "--storage", "--results"):
        kept = {"--checkpoint": "checkpoint", "--storage": "trials.log", "--results": "results"}
        return _draw_output(rng, line) if rng.random() < 0.5 else kept[name]
    if name in OUTPUTS:
        return _draw_output(rng, line)
    return _pick(rng, WORDS)


def _set_option(line: Line, command: str, rng: np.random.Generator, names: list[str]) -> None:
    options = _options(command)
    name, valued = options[int(rng.integers(len(options)))]
    value = _draw_value(rng, name, line, names) if valued else ""
    if valued and name in line.words[:-1] and rng.random() < 0.7:
        line.words[line.words.index(name) + 1] = value
    elif valued and name.startswith("--") and rng.random() < 0.2:
        line.words.append(f"{name}={value}")
    else:
        line.words += [name, value] if valued else [name]


def _remove(line: Line, command: str, rng: np.random.Generator, names: list[str]) -> None:
    places = [
        k for k in range(1, len(line.words)) if not ENDLESS & {line.words[k], line.words[k - 1]}
    ]
    if places:
        del line.words[places[int(rng.integers(len(places)))]]


def _repeat(line: Line, command: str, rng: np.random.Generator, names: list[str]) -> None:
    place = int(rng.integers(len(line.words)))
    line.words.insert(int(rng.integers(1, len(line.words) + 1)), line.words[place])


def _insert(line: Line, command: str, rng: np.random.Generator, names: list[str]) -> None:
    words = [*WORDS, "--nosuch", "--nosuch=1", "-z", "--help", "--version", "--jso"]
    line.words.insert(int(rng.integers(len(line.words) + 1)), _pick(rng, words))


def _change_word(line: Line, command: str, rng: np.random.Generator, names: list[str]) -> None:
    places = [k for k in range(len(line.words)) if line.words[k - 1] not in ENDLESS]
    if places:
        line.words[places[int(rng.integers(len(places)))]] = _pick(rng, WORDS)


def _set_variable(line: Line, command: str, rng: np.random.Generator, names: list[str]) -> None:
    name, value = [
        ("NRS_LOG_FILE", "nrs.log"), ("NRS_LOG_FILE", "../locked/nrs.log"),
        ("NRS_LOG_FILE", "/proc/x"), ("NRS_LOG_FILE", "IN/t_class.csv"), ("COLUMNS", "1"),
        ("COLUMNS", "-5"), ("COLUMNS", "x"), ("NO_COLOR", "1"), ("SOURCE_DATE_EPOCH", "x"),
        ("SOURCE_DATE_EPOCH", "-1"), ("NRS_DATA", "/dev/zero"), ("NRS_DATA", "IN"),
        ("NRS_CACHE", "/dev/null"), ("NRS_CACHE", "../locked/x"), ("TMPDIR", "/nowhere"),
        ("WORLD_SIZE", "x"), ("RANK", "7"), ("HOME", ""), ("TERM", "dumb"),
    ][int(rng.integers(19))]  # fmt: skip
    # Only what the command reads is its input.
    if value != "IN/t_class.csv" or value in line.words:
        line.environment[name] = value


def _draw_streams(line: Line, rng: np.random.Generator, names: list[str]) -> None:
    if "-" in line.words:
        tables = [f"IN/{name}" for name in names if name.startswith(("t_class", "b_"))]
        readable = [one for one in tables if not one.endswith(("_pipe.csv", "_loop.csv"))]
        skipped = ("b_socket", "b_unreadable", "b_dangling", "b_closed")
        readable = [one for one in readable if not any(word in one for word in skipped)]
        line.streams[0] = _pick(rng, [*readable, CLOSED]) if rng.random() < 0.6 else CLOSED
        if rng.random() < 0.4:
            line.streams[0] = "IN/t_class.csv"
    elif rng.random() < 0.1:
        line.streams[0] = CLOSED
    chance = rng.random()
    if chance < 0.1:
        line.streams[1:] = [TERMINAL, TERMINAL]
    elif chance < 0.25:
        line.streams[1] = _pick(rng, [CLOSED, BROKEN, FULL])
    elif chance < 0.3:
        line.streams[2] = _pick(rng, [CLOSED, BROKEN, FULL])


def _links(line: Line) -> list[tuple[str, str]]:
    """The links to inputs that a line names as outputs."""
    named = [re.search(r"\.\./old/(link-([^/]+))$", word) for word in line.words]
    return list({(one[1], one[2]) for one in named if one})


_CHANGES = (
    _change_input, _set_option, _remove, _repeat, _insert, _change_word, _set_variable,
)  # fmt: skip
_CHANCES = (0.3, 0.35, 0.06, 0.05, 0.08, 0.08, 0.08)


def case(rng: np.random.Generator) -> Counter[str]:
    """Run one command line."""
    bench = _bench()
    line = draw_line(rng, bench.names)
    command = next((word for word in line.words if word in _names()), "none")
    return Counter({f"{command} {bench.run(line)}": 1})


@functools.cache
def _names() -> frozenset[str]:
    root: Any = typer.main.get_command(app)
    return frozenset(root.commands)
