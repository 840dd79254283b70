"""Run one fuzzer or all of them, and save what they found."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

import torch

from benchmarks.fuzz.run import run

FUZZERS = ("tables", "models", "commands", "kills", "requests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shown = f"{', '.join(FUZZERS)}; all by default"
    parser.add_argument("fuzzers", nargs="*", metavar="NAME", help=shown)
    parser.add_argument("--cases", type=int, default=1 << 40, help="how many cases of each")
    parser.add_argument("--minutes", type=float, default=1.0, help="at most so long for each")
    parser.add_argument("--seed", type=int, default=0, help="printed with every failure")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--save", type=Path, help="a folder for NAME.json, the counts and failures")
    chosen = parser.parse_args()
    for name in set(chosen.fuzzers) - set(FUZZERS):
        parser.error(f"unknown fuzzer {name!r}; known are {', '.join(FUZZERS)}")
    torch.set_num_threads(1)
    failed = False
    for name in chosen.fuzzers or FUZZERS:
        case = importlib.import_module(f"benchmarks.fuzz.{name}").case
        numbers = range(chosen.first, chosen.first + chosen.cases)
        report = run(name, case, numbers, chosen.seed, chosen.minutes)
        failed |= bool(report.failures)
        print(json.dumps(report.to_dict(), indent=1))
        if chosen.save:
            chosen.save.mkdir(parents=True, exist_ok=True)
            saved = chosen.save / f"{name}.json"
            saved.write_text(json.dumps(report.to_dict(), indent=1) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
