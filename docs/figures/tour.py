"""Record the tour of the command line into docs/command-line.md: what each command really prints.

Run by `make tour`, in an empty folder; a few minutes.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command-line.md"
BLOCK = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)
WIDTH = 120
COMMANDS = [
    "python examples/wine.py",
    "nrs fit wine.csv --target cultivar",
    "nrs predict wine.safetensors new.csv -o out.csv --probabilities",
    "nrs evaluate wine.safetensors new.csv",
    "nrs explain wine.safetensors --trees 2",
    "nrs compare wine.csv --target cultivar --folds 3",
    "nrs info wine.safetensors | head -n 12",
    "nrs export wine.safetensors -o wine.onnx",
]


def record(commands: list[str], folder: Path) -> str:
    """Run commands one after the other in a folder and return what a terminal would show."""
    (folder / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "COLUMNS": str(WIDTH)}
    shown = []
    for command in commands:
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=folder, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stderr)
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        shown += [f"$ {command}", *lines]
    return "\n".join(shown) + "\n"


def main() -> None:
    """Replace the recording in docs/command-line.md."""
    with tempfile.TemporaryDirectory() as folder:
        recording = record(COMMANDS, Path(folder))
    text = PAGE.read_text(encoding="utf-8")
    written, n = BLOCK.subn(lambda found: found[1] + recording + found[3], text)
    if n != 1:
        sys.exit(f"{PAGE} must have one console block; got {n}")
    PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
