import subprocess

import pytest

from nrs._util import lock
from nrs._util.launch import end, launch
from nrs._util.lock import locked

pytestmark = pytest.mark.skipif(lock.fcntl is None, reason="no locks on this system")
HOLD = """
import sys, time
from nrs._util.lock import locked
with locked(sys.argv[1]) as ours:
    print(ours, flush=True)
    time.sleep(600)
"""


def test_the_second_taker_is_refused_until_the_first_is_done(tmp_path):
    path = tmp_path / "lock"
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)
    with locked(path) as third:
        assert third


def test_the_lock_ends_with_a_killed_process_and_leaves_the_content(tmp_path):
    path = tmp_path / "file"
    path.write_text("content")
    holder = launch(HOLD, path, stdout=subprocess.PIPE)
    with holder.stdout:
        assert holder.stdout.readline().strip() == b"True"
        with locked(path) as ours:
            assert ours is False
        end(holder)
    with locked(path) as ours:
        assert ours
    assert path.read_text() == "content"


def test_without_locks_there_is_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    with locked(tmp_path / "lock") as ours:
        assert ours is None
