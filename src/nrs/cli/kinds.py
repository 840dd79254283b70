"""What commands do with models of pictures and of point clouds: one package for each kind."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
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
# The exit code where some files of a folder could not be read.
SKIPPED = 3


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


def end_skipped(skipped: Sequence[str]) -> None:
    """Name the files that were skipped, and end with an exit code that says so.

    Raises
    ------
    typer.Exit
    """
    # Standard output holds predictions, for other programs.
    for said in skipped:
        echo(f"skipped: {said}", err=True)
    if skipped:
        echo(f"skipped files: {len(skipped)}; the others were read", err=True)
        raise typer.Exit(SKIPPED)
