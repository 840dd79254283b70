"""A table of its own whose cells succeed, fail, take long or die, and keep a diary."""

import json
from pathlib import Path

import pytest

from tests.forked import Forked

MODULE = """
import os, time
from pathlib import Path
from nrs.paper.table import Measured, NotHereError, Printed, Search, Subject, Table

DIARY = Path(os.environ["DIARY"])


def note(text):
    with open(DIARY, "a") as file:
        file.write(text + "\\n")


def measure(cell, found):
    method = cell.subject.method
    note(f"begin {cell.path}")
    if method == "fails":
        raise RuntimeError("it broke")
    if method == "absent":
        raise NotHereError("no such data here")
    if method == "dies":
        os._exit(9)
    if method == "hangs":
        time.sleep(600)
    if method == "searched":
        (search,) = found
        assert found[search]["chosen"] == {"k": 3}
    time.sleep(float(os.environ.get("PACE", "0")))
    note(f"end {cell.path}")
    return Measured({"accuracy": 90.0 + cell.seed}, times={"fit_cpu_s": 0.5}, model_bytes=2_000_000)


def searches(subject):
    if subject.method in ("searched", "unsearchable"):
        return (Search("own", subject.dataset, subject.method),)
    return ()


def search(search):
    note(f"search {search.path}")
    if search.method == "unsearchable":
        raise RuntimeError("no settings work")
    return {"chosen": {"k": 3}}


def table(name, methods, trials=3):
    return Table(
        name=name, title=name, finding="", protocol="", measure=measure, searches=searches,
        search=search, trials=trials, reference="good",
        printed=tuple(
            Printed("data", method, Subject(name, "data", method), reported=91.0)
            for method in methods
        ),
    )


GOOD = table("good", ["good", "searched"], trials=6)
BAD = table("bad", ["fails", "absent", "dies", "unsearchable", "good"], trials=1)
HANGS = table("hangs", ["hangs", "good"], trials=1)
"""


COMMAND = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from nrs.cli.main import main
main()
"""


class Own:
    """Runs tables of a module outside the package in real processes."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "own_tables.py").write_text(MODULE)
        self.results = folder / "results"
        self.diary = folder / "diary.txt"
        self.environment = {"DIARY": str(self.diary), "OMP_NUM_THREADS": "1"}
        self.started = []

    def start(self, *arguments, pace=0.0):
        process = Forked(
            COMMAND, self.folder, "paper", *arguments, "--results", self.results,
            environment=self.environment | {"PACE": str(pace)}, parent=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *arguments, pace=0.0):
        process = self.start(*arguments, pace=pace)
        said = "".join(process.rest())
        return process.returncode, said

    def lines(self, kind):
        if not self.diary.exists():
            return []
        text = self.diary.read_text().splitlines()
        return [line.removeprefix(f"{kind} ") for line in text if line.startswith(f"{kind} ")]

    def record(self, path):
        return json.loads((self.results / "paper" / path).read_text())

    def files(self):
        root = self.results / "paper"
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


@pytest.fixture
def own(tmp_path):
    own = Own(Path(tmp_path))
    yield own
    for process in own.started:
        process.process.kill()
