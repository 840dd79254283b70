"""Start-up, as ratios to importing torch: CPU time, each the least of up to six turns."""

import os
import resource
import subprocess
import sys

import pytest

ROUNDS = 6


def _cpu_seconds(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *map(str, arguments)],
        check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_help_and_a_small_prediction_start_quickly(churn):
    folder, _ = churn
    commands = {
        "torch": ("-c", "import torch"),
        "help": ("-m", "nrs", "--help"),
        "predict": ("-m", "nrs", "predict", folder / "churn.safetensors", folder / "new.csv"),
    }
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(ROUNDS):
        for name, command in commands.items():
            least[name] = min(least[name], _cpu_seconds(*command))
        # torch takes from one to two seconds: half a second, and four.
        if least["help"] < 0.35 * least["torch"] and least["predict"] < 2.6 * least["torch"]:
            return
    pytest.fail(f"CPU seconds, each the least of {ROUNDS}: {least}")
