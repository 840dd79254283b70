"""The command ``nrs``."""

from __future__ import annotations

import gc
import sys

from nrs._util.text import printable
from nrs.cli.report import flush_output, report, unwinding_signals


def main() -> None:
    """Run the command line; whatever happens ends with a message and an exit code."""
    # Imports make objects that stay: looking for garbage among them takes a tenth of a start.
    gc.set_threshold(200_000, 20, 20)
    with unwinding_signals():
        try:
            code = _run()
        except Exception as error:
            code = report(error)
        except KeyboardInterrupt as error:
            code = report(error)
        except SystemExit as error:
            # rich and typer exit by themselves where standard output was closed.
            if not isinstance(error.__context__, BrokenPipeError):
                raise
            code = report(error.__context__)
        failed = flush_output()
        if failed is not None:
            code = max(code, report(failed))
    sys.exit(code)


def _run() -> int:
    """Run the command line; without typer, say how to get it."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the command line needs {error.name}, which is not installed; "
            "run: pip install 'neural-random-subspace[cli]'"
        ) from None
    from typer.rich_utils import rich_format_error

    from nrs.cli.app import app
    from nrs.cli.terminal import show_warnings

    show_warnings()

    try:
        code = app(standalone_mode=False)
    except Exception as error:
        # Wrong usage. typer's own exceptions were click's before version 0.20.
        if not hasattr(error, "format_message"):
            raise
        error.message = printable(error.message, keep="\n")  # type: ignore[attr-defined]
        rich_format_error(error)  # type: ignore[arg-type]
        return int(getattr(error, "exit_code", 2))
    return code if isinstance(code, int) else 0
