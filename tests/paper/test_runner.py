"""Runs that are killed, repeated, doubled, or meet cells that fail."""

import time

import pytest

from nrs.paper.results import Results
from nrs.paper.runner import run
from nrs.paper.table import Cell, Search, Subject
from nrs.paper.worker import Task


@pytest.mark.slow
def test_a_killed_run_repeats_no_finished_cell_and_loses_none(own):
    process = own.start("run", "own_tables:GOOD", "--jobs", "2", pace=0.4)
    limit = time.monotonic() + 60
    while len(own.lines("end")) < 3 and time.monotonic() < limit:
        time.sleep(0.02)
    process.kill()
    finished = {path for path in own.files() if path.startswith("good/") and "/." not in path}
    before = {path: own.record(path)["finished"] for path in finished}
    code, said = own.run("run", "own_tables:GOOD", "--jobs", "2")
    assert code == 0
    began = own.lines("begin")
    assert finished
    for path in finished:
        assert began.count(path) == 1, f"{path} was measured again"
        assert own.record(path)["finished"] == before[path]
    assert len({path for path in own.files() if path.startswith("good/")}) == 12
    assert own.lines("search") == ["searches/own/data/searched.json"]
    # Nothing is left of the killed processes.
    assert all(path.endswith(".json") and "/." not in path for path in own.files())
    assert "finished before" in said


@pytest.mark.slow
def test_two_runs_in_one_folder_share_the_work(own):
    runs = [own.start("run", "own_tables:GOOD", "--jobs", "1", pace=0.15) for _ in range(2)]
    for process in runs:
        said = process.rest()
        assert process.returncode == 0, said
    began = own.lines("begin")
    assert len(began) == len(set(began)) == 12
    assert len(own.lines("search")) == 1
    assert len(own.files()) == 13
    for path in own.files():
        assert own.record(path)["status"] == "ok"


@pytest.mark.slow
def test_failures_are_recorded_and_the_rest_goes_on(own):
    code, said = own.run("run", "own_tables:BAD")
    assert code == 1
    assert "Traceback" not in said
    failed = own.record("bad/data/fails/seed-0.json")
    assert failed["status"] == "failed"
    assert failed["error"] == "RuntimeError: it broke"
    assert "it broke" in failed["traceback"]
    assert own.record("bad/data/absent/seed-0.json")["status"] == "not run"
    assert own.record("bad/data/absent/seed-0.json")["error"] == "no such data here"
    died = own.record("bad/data/dies/seed-0.json")
    assert died["status"] == "failed"
    assert died["error"] == "its process died with exit code 9"
    unsearchable = own.record("bad/data/unsearchable/seed-0.json")
    assert "no settings work" in unsearchable["error"]
    good = own.record("bad/data/good/seed-0.json")
    assert good["status"] == "ok"
    for key in ("metrics", "times", "model_bytes", "settings", "versions", "commit", "seed"):
        assert key in good
    # Failures are not tried again unless asked; what was absent may have come.
    n_before = len(own.lines("begin"))
    assert own.run("run", "own_tables:BAD")[0] == 0
    assert own.lines("begin")[n_before:] == ["bad/data/absent/seed-0.json"]
    assert own.run("run", "own_tables:BAD", "--retry-failed", "--methods", "fails")[0] == 1
    assert own.lines("begin").count("bad/data/fails/seed-0.json") == 2


@pytest.mark.slow
def test_a_cell_that_takes_too_long_is_ended(own):
    code, _ = own.run("run", "own_tables:HANGS", "--timeout", "1")
    assert code == 1
    record = own.record("hangs/data/hangs/seed-0.json")
    assert record["status"] == "timeout"
    assert record["error"] == "took longer than 1 s"
    assert own.record("hangs/data/good/seed-0.json")["status"] == "ok"


def test_a_held_claim_is_busy_for_others(tmp_path):
    cell = Cell(Subject("t", "d", "m"), 0)
    first, second = Results(tmp_path), Results(tmp_path)
    with first.claim(cell) as ours:
        assert ours
        with second.claim(cell) as theirs:
            assert not theirs
    with second.claim(cell) as again:
        assert again
        second.write(cell, {"status": "ok"})
    assert [p.name for p in first.path(cell).parent.iterdir()] == ["seed-0.json"]


def test_a_damaged_file_counts_as_absent(tmp_path, caplog):
    results, cell = Results(tmp_path), Cell(Subject("t", "d", "m"), 0)
    results.write(cell, {"status": "ok", "value": float("nan")})
    assert results.read(cell)["value"] is None
    for text in ('{"status": "o', "[]", '{"status": "fine"}'):
        results.path(cell).write_text(text)
        assert results.read(cell) is None
        assert "measured anew" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"shard": (3, 2)}, "shard must be"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"datasets": ["leter"]}, "however: 'leter'"),
        ({"methods": ["SVM"]}, "however: 'SVM'"),
    ],
)
def test_bad_arguments_are_told(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run("accuracy", tmp_path, **arguments)


@pytest.mark.parametrize(
    "item",
    [
        Cell(Subject("n_mul", "letter", "NRS", (("n_mul", 50), ("lr", 0.1))), seed=3),
        Search("grid", "letter", "RF"),
    ],
)
def test_a_task_survives_the_way_to_another_process(item):
    task = Task("own:TABLE", item, redo=True)
    assert Task.from_line(task.to_line().decode()) == task


def test_a_device_that_is_not_here_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match="device must be"):
        run("smoke", tmp_path, device="no-such-device")
    assert not (tmp_path / "paper").exists()


def test_processes_are_told_the_device(monkeypatch):
    from nrs.paper.methods import estimator
    from nrs.paper.trial import DEVICE

    monkeypatch.setenv(DEVICE, "cpu")
    assert estimator("NRS", "classification", 0, "accuracy", {}).device == "cpu"
    assert estimator("MLP", "classification", 0, "accuracy", {}).device == "cpu"
    monkeypatch.setenv(DEVICE, "cuda:1")
    assert estimator("NRS", "classification", 0, "accuracy", {}).device == "cuda:1"
    # The table of speeds is about one core.
    assert estimator("NRS", "classification", 0, "speed", {}).device == "cpu"
