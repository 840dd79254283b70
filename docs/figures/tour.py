"""Record the tour of the command line into README.md: what each command really prints.

Run by `make tour`, in an empty folder; a few minutes.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
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
    """Run commands one after the other in a folder and tell what a terminal would show."""
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
    """Replace the recording in README.md."""
    with tempfile.TemporaryDirectory() as folder:
        recording = record(COMMANDS, Path(folder))
    text = README.read_text(encoding="utf-8")
    written, n = BLOCK.subn(lambda found: found[1] + recording + found[3], text)
    if n != 1:
        sys.exit(f"README.md must have one console block, however: {n}")
    README.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
