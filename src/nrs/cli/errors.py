"""Errors a user can act on become one message and an exit code, without a traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")


def clear_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Let a command end with exit code 1 and ``error: …`` where the library complains."""
    return _telling(command, code=1)


def refusals(command: Callable[P, R]) -> Callable[P, R]:
    """Like `clear_errors`, with exit code 2: what was given to the command cannot be used."""
    return _telling(command, code=2)


def _telling(command: Callable[P, R], code: int) -> Callable[P, R]:
    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            # The reader, such as head, has seen enough.
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            typer.echo("interrupted; start the same command again to go on", err=True)
            raise typer.Exit(130) from None
        except (ValueError, TypeError, OSError, ImportError, ArithmeticError) as error:
            # Three lines at most: what was given, what was expected, what to do.
            lines = [line for line in str(error).splitlines() if line.strip()][:3]
            typer.echo("error: " + "\n".join(lines), err=True)
            raise typer.Exit(code) from None

    return wrapped
