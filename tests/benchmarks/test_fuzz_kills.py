"""A few of the runs that the fuzzer kills."""

import numpy as np
import pytest

from benchmarks.fuzz import kills
from benchmarks.fuzz.forks import Server
from benchmarks.fuzz.run import BrokenLawError


@pytest.fixture(scope="module")
def bench():
    modules = ["nrs.tabular", "nrs.paper.runner", "nrs.cli.app", "torch._dynamo", "pandas"]
    bench = kills.Bench(Server(modules))
    yield bench
    bench.close()


@pytest.mark.parametrize(("name", "number"), [("fit", 28), ("workers", 14)])
def test_a_killed_run_ends_where_an_unbroken_one_does(bench, name, number):
    counts = bench.run(name, 0, np.random.default_rng(number))
    assert counts[f"kills {name}"] >= 1


def test_what_differs_from_an_unbroken_run_is_found(bench):
    known = bench.unbroken_run("fit", 0)
    (bench.work / "run").mkdir(exist_ok=True)
    (bench.work / "run" / ".checkpoint-0.safetensors.tmp-0123").touch()
    with pytest.raises(BrokenLawError, match=r"left \['run/.checkpoint-0.*tmp-0123"):
        bench.check_files(known)
