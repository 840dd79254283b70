"""``nrs train``: experiments as configuration files."""

from __future__ import annotations

import json
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
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with one folder of images per class, or with train and test of such; "
            "sets data.root.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="TOML file, or the name of a recipe of this package; default with FOLDER: folder.",
            show_default=False,
        ),
    ] = None,
    out: Out = Path("run"),
    changes: Sets = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Resume a finished run for more train.epochs.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the recipes of this package and exit.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train an image classifier; the same command resumes an interrupted run.

    Example: nrs train vision birds --output run

    Several devices or processes: torchrun --nproc-per-node 4 -m nrs train vision --config …
    """
    from nrs.vision.train import describe_recipe, recipes, run

    if listed:
        width = max(map(len, recipes()))
        echo(*(f"{name:{width}}  {describe_recipe(name)}" for name in recipes()))
        return
    if folder is None and config is None:
        raise ValueError("name a FOLDER of images or a --config; --list shows the recipes")
    # As TOML writes texts: a folder may be called 2024.
    root = json.dumps(str(folder), ensure_ascii=False)
    of_folder = [] if folder is None else ["data.reader=folder", f"data.root={root}"]
    outcome = run(
        config or "folder",
        out,
        overrides=[*of_folder, *(changes or [])],
        extend=extend,
        verbose=0 if quiet else 2,
    )
    if outcome.is_writer and not quiet:
        echo(outcome.summary())


@train.command(cls=Command)
@refusals
def points(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of meshes or clouds with one folder per class, or with train and test of "
            "such, or an .npz file; sets data.source.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="TOML file, or the name of a recipe of this package; default with FOLDER: folder.",
            show_default=False,
        ),
    ] = None,
    out: Out = Path("run"),
    changes: Sets = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Resume a finished run for more train.epochs.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the recipes of this package and exit.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train an encoder of point clouds; the same command resumes an interrupted run.

    Example: nrs train points shapes --output run

    Several devices or processes: torchrun --nproc-per-node 4 -m nrs train points --config …
    """
    from nrs.points.train import describe_recipe, recipe_names, run

    if listed:
        width = max(map(len, recipe_names()))
        echo(*(f"{name:{width}}  {describe_recipe(name)}" for name in recipe_names()))
        return
    if folder is None and config is None:
        raise ValueError("name a FOLDER of clouds or a --config; --list shows the recipes")
    # As TOML writes texts: a folder may be called 2024.
    source = json.dumps(str(folder), ensure_ascii=False)
    of_folder = [] if folder is None else [f"data.source={source}"]
    outcome = run(
        config or "folder",
        out,
        overrides=[*of_folder, *(changes or [])],
        extend=extend,
        verbose=0 if quiet else 2,
    )
    if outcome.is_writer and not quiet:
        echo(outcome.summary())
