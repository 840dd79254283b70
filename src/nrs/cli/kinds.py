"""What commands do with models of pictures and of point clouds: one package for each kind."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from nrs.cli.terminal import echo

# The kind in a model file's header -> the package whose modules do the work of the commands:
#   predict.predict_file(model, source) -> one row for each file; of one that cannot be read
#       {"input": path, "error": why}
#   predict.describe(header) -> what `nrs info` shows
#   evaluate.evaluate_folder(model, folder) -> nrs.files.folder.EvaluatedFolder
#   export.export_onnx(model, path) -> None
PACKAGES = {"image": "nrs.vision", "points": "nrs.points"}
# Exit code of a command that did its work, but for files that cannot be read.
SOME_SKIPPED = 3


def work_of(kind: str, work: str) -> Any:
    """The module that does some work for models of a kind.

    Raises
    ------
    ValueError
        If no package does that.
    """
    name = f"{PACKAGES.get(kind)}.{work}"
    if kind not in PACKAGES or importlib.util.find_spec(name) is None:
        raise ValueError(f"models of kind {kind!r} have no `nrs {work}`. See: nrs info MODEL")
    return importlib.import_module(name)


def end_if_skipped(skipped: Sequence[tuple[str | Path, str]]) -> None:
    """Name files that could not be read, and end the command with the exit code for that."""
    if skipped:
        # Standard output holds predictions, for other programs.
        echo(*(f"skipped {why}" for _, why in skipped), err=True)
        raise typer.Exit(SOME_SKIPPED)
