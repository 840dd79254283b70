"""The command ``nrs``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without typer, say how to get it."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(
            f"error: the command line needs {error.name}, which is not installed; "
            "run: pip install 'neural-random-subspace[cli]'"
        )
    from nrs.cli.app import app

    app()
