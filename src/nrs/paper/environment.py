"""Where numbers were measured: versions, processor, commit."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from nrs._version import __version__

_PACKAGES = (
    "torch", "numpy", "scipy", "scikit-learn", "xgboost-cpu", "xgboost", "lightgbm", "catboost",
    "pytabkit",
)  # fmt: skip


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python, this package and those it measures with, where installed."""
    found = {"python": platform.python_version(), "nrs": __version__}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def commit() -> str | None:
    """The commit of the source tree, with ``-dirty`` if it was changed since; None elsewhere."""
    source = Path(__file__).resolve().parents[1]
    # An installed package may lie inside someone else's repository.
    if not (source.parents[1] / ".git").exists():
        return None
    try:
        head = _git(source, "rev-parse", "HEAD")
        # What is measured is not part of what measures.
        changed = _git(source, "status", "--porcelain", "--", str(source))
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head}-dirty" if changed else head


def environment() -> dict[str, Any]:
    """Versions, commit and machine, as JSON values."""
    return {
        "versions": versions(),
        "commit": commit(),
        "platform": platform.platform(terse=True),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": _device(),
    }


def _device() -> str:
    """Where networks are trained: the GPU's own name, or the CPU."""
    torch = sys.modules.get("torch")
    if torch is None:  # What was measured needs no network, and importing it takes seconds.
        return "cpu"
    from nrs.paper.trial import device
    from nrs.training.processes import find_device

    where = find_device(device())
    return str(torch.cuda.get_device_name(where) if where.type == "cuda" else where)


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=True, capture_output=True, text=True, timeout=10,
    )  # fmt: skip
    return done.stdout.strip()


@functools.cache
def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
