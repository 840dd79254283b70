"""``torchrun -m nrs fit``: one model of two processes, also if one of them is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from nrs import NRSClassifier


def _launch(folder, churn):
    folder.mkdir()
    return subprocess.Popen(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
            "--max-restarts=3", "-m", "nrs", "fit", str(churn), "--target", "churned", "--drop",
            "customer_id", "--checkpoint", str(folder / "run"), "--output", str(folder / "model"),
            "--preset", "fast", "--divide", "rows", "--no-report", "--json",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def _workers(agent):
    """Process numbers of the workers of torchrun, by rank."""
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    found = {}
    for child in children:
        told = Path(f"/proc/{child}/environ").read_bytes().decode().split("\0")
        values = dict(entry.split("=", 1) for entry in told if "=" in entry)
        if "RANK" in values:
            found[int(values["RANK"])] = int(child)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in /proc")
def test_a_killed_worker_is_started_again_and_ends_where_it_would_have(churn, tmp_path):
    folder, _ = churn
    unbroken, broken = (_launch(tmp_path / name, folder / "churn.csv") for name in "ab")
    while not (tmp_path / "b" / "run" / "checkpoint-1.safetensors").exists():
        assert broken.poll() is None, broken.communicate()
        time.sleep(0.005)
    os.kill(_workers(broken)[1], signal.SIGKILL)
    models = []
    for run, name in ((unbroken, "a"), (broken, "b")):
        said, errors = run.communicate(timeout=300)
        assert run.returncode == 0, errors
        assert ("SIGKILL" in errors or "exitcode: -9" in errors) == (name == "b"), errors
        # One process alone speaks and writes.
        assert json.loads(said)["rows"] == 300
        models.append(NRSClassifier.load(tmp_path / name / "model.safetensors"))
    first, second = models
    for key, value in first.network_.state_dict().items():
        assert torch.equal(value, second.network_.state_dict()[key]), key
    assert first.oob_score_ == second.oob_score_
    assert first.history_["score"] == second.history_["score"]
