"""Children find the package, and end with their parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

import nrs
from nrs._util.launch import FEW, check_count, end, launch

# A parent that starts a child, prints its process id and waits.
BY_PIPE = """
import sys, time
from nrs._util.launch import launch
child = launch("import time; from nrs._util.launch import end_with_parent; "
               "end_with_parent(); time.sleep(600)")
print(child.pid, flush=True)
time.sleep(600)
"""
BY_ID = """
import os, subprocess, sys, time
code = ("import sys, time; from nrs._util.launch import end_with_parent; "
        "end_with_parent(int(sys.argv[1])); time.sleep(600)")
child = subprocess.Popen([sys.executable, "-c", code, str(os.getpid())])
print(child.pid, flush=True)
time.sleep(600)
"""


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("code", [BY_PIPE, BY_ID])
def test_a_child_ends_when_its_parent_is_killed(code):
    parent = launch(code, stdout=subprocess.PIPE)
    with parent.stdout:
        child = int(parent.stdout.readline())
    assert _runs(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdin.close()
    until = time.monotonic() + 30
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(child)


def test_a_child_finds_what_its_parent_finds(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("name = 'beside'")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    code = "import beside, nrs, os; print(beside.name, nrs.__file__, os.getenv('A'))"
    child = launch(code, stdout=subprocess.PIPE, environment={"A": "b"})
    out, _ = child.communicate()
    assert out.decode().split() == ["beside", nrs.__file__, "b"]


def test_standard_error_goes_to_a_file(tmp_path):
    child = launch("raise SystemExit('it broke')", stderr=tmp_path / "stderr")
    assert child.wait() == 1
    end(child)
    assert (tmp_path / "stderr").read_text().strip() == "it broke"


def test_a_child_that_does_not_end_is_killed():
    child = launch("import time; time.sleep(600)")
    end(child, grace=0.05)
    assert child.returncode not in (None, 0)


def test_the_process_itself_is_not_its_own_parent():
    code = "import os; from nrs._util.launch import end_with_parent; end_with_parent(os.getpid())"
    assert launch(code + "; import time; time.sleep(0.5)").wait() == 0


def test_many_more_threads_or_processes_than_cores_are_refused():
    check_count(FEW, "n_jobs")
    with pytest.raises(ValueError, match=r"n_workers=100,000 is far above the \d+ cores"):
        check_count(100_000, "n_workers")
