"""Builds the compiled engine when the package is installed, where there is a compiler.

    python hatch_build.py [folder] [further flags of the compiler]

builds it by hand: next to its sources, or in a folder.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("src", "nrs", "engine")
LEVELS = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"],
}
# Nothing may be fused or reordered: both libraries give the same bits.
FLAGS = [
    "-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-exceptions", "-fno-rtti",
    "-fvisibility=hidden", "-fPIC", "-shared",
]  # fmt: skip
COST = "Training on the CPU will take several times as long."


class EngineError(Exception):
    """The engine cannot be built here; the message says why."""


def build(root: Path, folder: Path, *further: str) -> list[Path]:
    """Compile one library for each instruction set into a folder, each put in place in one step."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise EngineError(f"it is written for x86-64; this is {platform.machine()}")
    compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if shutil.which(compiler[0]) is None:
        raise EngineError(f"no compiler {compiler[0]!r}; install one, or name it in CXX")
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    folder.mkdir(parents=True, exist_ok=True)
    built = []
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as made:
        for level, own in LEVELS.items():
            library = Path(made, f"engine-{level}{suffix}")
            source = str(root / SOURCES / "engine.cpp")
            command = [*compiler, *FLAGS, *own, *further, source, "-o", str(library)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if done.returncode:
                said = done.stderr.strip().splitlines()
                reason = next((line for line in said if "error" in line), "it said nothing")
                raise EngineError(f"the compiler failed: {reason}")
            built.append(library)
        for library in built:
            os.replace(library, folder / library.name)
    return [folder / library.name for library in built]


class EngineHook(BuildHookInterface):  # type: ignore[misc]
    """Adds the libraries to a wheel, or puts them next to the sources of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        self.made = Path(tempfile.mkdtemp(prefix="nrs-engine-"))
        folder = root / SOURCES if version == "editable" else self.made
        try:
            if os.environ.get("NRS_ENGINE") == "torch":
                raise EngineError("NRS_ENGINE=torch is set")
            libraries = build(root, folder)
        except (EngineError, OSError) as error:
            self.app.display_warning(f"nrs: without its compiled engine: {error}. {COST}")
            return
        build_data["pure_python"] = False
        if version != "editable":
            for library in libraries:
                build_data["force_include"][str(library)] = f"nrs/engine/{library.name}"
        name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self.made, ignore_errors=True)


if __name__ == "__main__":
    here = Path(__file__).parent
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else here / SOURCES
    build(here, target, *sys.argv[2:])
