"""``nrs export``: a model as ONNX, for use without this library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nrs.cli.errors import refusals
from nrs.cli.kinds import PACKAGES, work_of
from nrs.cli.options import AsJson, Model
from nrs.cli.terminal import echo, echo_json


@refusals
def export(
    model: Model,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="ONNX file; default: MODEL's name with .onnx."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model and its preprocessing as ONNX: raw rows, images or clouds in, predictions out.

    Example: nrs export churn.safetensors -o churn.onnx
    """
    from nrs.cli.predict import check_files
    from nrs.files.load import load_model
    from nrs.training import read_kind

    check_files(model)
    path = out or Path(model.with_suffix(".onnx").name)
    if path.suffix != ".onnx":
        raise ValueError(f"out must end with .onnx; got {path}")
    kind = read_kind(model)
    if kind in PACKAGES:
        work_of(kind, "export").export_onnx(model, path)
    else:
        load_model(model).to_onnx(path)
    if as_json:
        echo_json({"wrote": str(path), "bytes": path.stat().st_size})
    else:
        echo(f"wrote {path} ({path.stat().st_size:,} bytes)")
