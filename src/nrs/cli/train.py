"""``nrs train``: experiments as configuration files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import Command
from nrs.cli.terminal import echo

train = typer.Typer(help="Train networks from configuration files.", no_args_is_help=True)

Config = Annotated[
    str | None,
    typer.Option(
        help="TOML file, or the name of a recipe of this package; default with FOLDER: folder.",
        show_default=False,
    ),
]
Extend = Annotated[
    bool, typer.Option("--extend", help="Resume a finished run for more train.epochs.")
]
Listed = Annotated[bool, typer.Option("--list", help="List the recipes of this package and exit.")]
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
    config: Config = None,
    out: Out = Path("run"),
    changes: Sets = None,
    extend: Extend = False,
    listed: Listed = False,
    quiet: Quiet = False,
) -> None:
    """Train an image classifier; the same command resumes an interrupted run.

    Example: nrs train vision birds --output run

    Several devices or processes: torchrun --nproc-per-node 4 -m nrs train vision --config …
    """
    from nrs.vision.train import describe_recipe, recipes, run

    if listed:
        _list({name: describe_recipe(name) for name in recipes()})
        return
    of_folder = None if folder is None else ["data.reader=folder", f"data.root={_toml(folder)}"]
    _train(run, "images", of_folder, config, out, changes, extend=extend, quiet=quiet)


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
    config: Config = None,
    out: Out = Path("run"),
    changes: Sets = None,
    extend: Extend = False,
    listed: Listed = False,
    quiet: Quiet = False,
) -> None:
    """Train an encoder of point clouds; the same command resumes an interrupted run.

    Example: nrs train points shapes --output run

    Several devices or processes: torchrun --nproc-per-node 4 -m nrs train points --config …
    """
    from nrs.points.train import describe_recipe, recipe_names, run

    if listed:
        _list({name: describe_recipe(name) for name in recipe_names()})
        return
    of_folder = None if folder is None else [f"data.source={_toml(folder)}"]
    _train(run, "clouds", of_folder, config, out, changes, extend=extend, quiet=quiet)


def _list(recipes: Mapping[str, str]) -> None:
    width = max(map(len, recipes))
    echo(*(f"{name:{width}}  {what}" for name, what in recipes.items()))


def _toml(folder: Path) -> str:
    """A path as TOML writes texts: a folder may be called 2024."""
    return json.dumps(str(folder), ensure_ascii=False)


def _train(
    run: Callable[..., Any],
    kind: str,
    of_folder: list[str] | None,
    config: str | None,
    out: Path,
    changes: list[str] | None,
    *,
    extend: bool,
    quiet: bool,
) -> None:
    """Run a recipe with what a folder changes in it; one process of several shows the summary."""
    if of_folder is None and config is None:
        raise ValueError(f"name a FOLDER of {kind} or a --config; --list shows the recipes")
    outcome = run(
        config or "folder",
        out,
        overrides=[*(of_folder or []), *(changes or [])],
        extend=extend,
        verbose=0 if quiet else 2,
    )
    if outcome.is_writer and not quiet:
        echo(outcome.summary())
