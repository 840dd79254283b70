"""Install each engine or tool into an environment of its own and run its tests.

    python -m tests.integrations.run [NAME ...]

Environments stay in build/integrations and are used again. What cannot be installed, or is skipped,
is said at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "integrations"
TESTS = Path(__file__).parent
# What the suite's own set-up needs besides the extra of each tool.
NEEDED = ["hypothesis", "pytest>=8.2", "typer", "rich"]
MORE = {"frames": ["duckdb", "ibis-framework[duckdb]", "narwhals", "polars", "skrub"]}


def names() -> list[str]:
    """The tools that have tests here."""
    return sorted(path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py"))


def environment(name: str) -> Path:
    """The interpreter of the environment of a tool, made if it is not there.

    Raises
    ------
    subprocess.CalledProcessError
        If something cannot be installed.
    """
    python = FOLDER / name / "bin" / "python"
    ready = FOLDER / name / ".ready"
    if not ready.exists():
        venv.create(FOLDER / name, with_pip=True)
        # The tools have pins of their own; torch is the build that the other tests run with.
        torch = FOLDER / "torch.txt"
        lines = (ROOT / "constraints.txt").read_text().splitlines()
        torch.write_text("\n".join(line for line in lines if line.startswith("torch==")) + "\n")
        install = [python, "-m", "pip", "install", "-q", "-c", torch]
        subprocess.run(
            [*install, "-e", f"{ROOT}[{name}]", *NEEDED, *MORE.get(name, [])], check=True
        )
        ready.touch()
    return python


def run(name: str) -> str:
    """Run the tests of a tool; returns what became of them."""
    try:
        python = environment(name)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"skipped, not installed: {error}"
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    tests = str(TESTS / f"test_{name}.py")
    command = [python, "-m", "pytest", "-m", "integration", "-rs", tests]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr, flush=True)
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    return "; ".join(["passed" if done.returncode == 0 else "FAILED", *skipped])


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = {name: run(name) for name in sys.argv[1:] or names()}
    for name, what in found.items():
        print(f"{name}: {what}")
    sys.exit(any("FAILED" in what for what in found.values()))


if __name__ == "__main__":
    main()
