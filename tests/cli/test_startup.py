"""Start-up, as ratios to importing torch: CPU time, each the least of a few."""

import os
import resource
import subprocess
import sys

import pytest


def _cpu_seconds(*arguments, times=2):
    least = float("inf")
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *map(str, arguments)],
            check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        least = min(least, spent)
    return least


@pytest.mark.slow
def test_help_and_a_small_prediction_start_quickly(churn):
    folder, _ = churn
    torch = _cpu_seconds("-c", "import torch")
    helped = _cpu_seconds("-m", "nrs", "--help")
    predicted = _cpu_seconds(
        "-m", "nrs", "predict", folder / "churn.safetensors", folder / "new.csv"
    )
    # torch takes from one to two seconds: half a second, and four.
    assert helped < 0.35 * torch
    assert predicted < 2.6 * torch
