"""The groups of commands put together; nothing heavy is imported until a command runs."""

from __future__ import annotations

import inspect

import typer

from nrs._version import __version__
from nrs.cli.check import check
from nrs.cli.compare import compare
from nrs.cli.datasets import datasets
from nrs.cli.evaluate import evaluate
from nrs.cli.explain import explain
from nrs.cli.export import export
from nrs.cli.fit import fit
from nrs.cli.info import info
from nrs.cli.options import Command
from nrs.cli.paper import paper
from nrs.cli.predict import predict
from nrs.cli.serve import serve
from nrs.cli.terminal import echo
from nrs.cli.train import train
from nrs.cli.tune import tune

app = typer.Typer(
    name="nrs",
    help="Neural Random Subspace: from a file to a decision, and the paper's tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(datasets, name="datasets")
app.add_typer(paper, name="paper")
app.add_typer(train, name="train")
for command in (check, fit, tune, predict, evaluate, explain, compare, info, export, serve):
    # typer keeps the breaks of a docstring's lines, which are not those of a terminal's.
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    app.command(cls=Command, help=text)(command)


def _version(wanted: bool) -> None:
    if wanted:
        echo(f"nrs {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Options of the command itself."""


# The callback's docstring would replace the help above.
options.__doc__ = None
