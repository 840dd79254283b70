"""Every table runs, in small."""

import json
import os
import subprocess
import sys

import pytest

from nrs.paper import entries, tables


@pytest.mark.slow
def test_every_table_runs_in_small(tmp_path):
    command = [sys.executable, "-m", "nrs", "paper"]
    done = subprocess.run(
        [*command, "run", "smoke", "--jobs", "2", "--results", str(tmp_path)],
        capture_output=True, text=True, timeout=180, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = entries("smoke", tmp_path)
    for entry in shown:
        if "ThunderGBM" not in entry["column"]:
            assert (entry["status"], entry["n"]) == ("ok", 2), entry
    tried = {entry["row"].split(":")[0] for entry in shown}
    # Learning curves are of the trials of another table.
    curves = {name for name in tables() if name.endswith(("_curves", "_loss"))}
    assert tried == set(tables()) - {"smoke"} - curves
    out = tmp_path / "report"
    done = subprocess.run(
        [*command, "report", "--tables", "smoke", "--results", str(tmp_path), "--out", str(out)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (out / "index.html").stat().st_size > 1000
    json.dumps(shown, allow_nan=False)
