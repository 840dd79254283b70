"""``nrs train``: experiments as configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import Command
from nrs.cli.terminal import echo

train = typer.Typer(help="Train networks from configuration files.", no_args_is_help=True)

Config = Annotated[str, typer.Option(help="TOML file, or the name of a recipe of this package.")]
Out = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for checkpoints and the model file.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value; may be repeated."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no summary.")]


@train.command(cls=Command)
@refusals
def vision(
    config: Config,
    out: Out = Path("run"),
    changes: Sets = None,
    quiet: Quiet = False,
) -> None:
    """Train an image classifier; the same command resumes an interrupted run.

    Several devices or processes: torchrun --nproc-per-node 4 -m nrs train vision --config …
    """
    from nrs.vision.train import run

    outcome = run(config, out, overrides=changes or [], verbose=0 if quiet else 2)
    if outcome.is_writer and not quiet:
        echo(outcome.summary())


@train.command(cls=Command)
@refusals
def points(
    config: Config,
    out: Out = Path("run"),
    changes: Sets = None,
    quiet: Quiet = False,
) -> None:
    """Train an encoder of point clouds; the same command resumes an interrupted run.

    Several devices or processes: torchrun --nproc-per-node 4 -m nrs train points --config …
    """
    from nrs.points.train import run

    outcome = run(config, out, overrides=changes or [], verbose=0 if quiet else 2)
    if outcome.is_writer and not quiet:
        echo(outcome.summary())
