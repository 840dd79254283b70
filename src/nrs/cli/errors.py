"""Errors a user can act on become one message and an exit code, without a traceback."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar, get_type_hints

import typer
from typer.models import OptionInfo

P = ParamSpec("P")
R = TypeVar("R")


def clear_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Let a command end with exit code 1 and ``error: …`` where the library raises."""
    return _reporting(command, code=1)


def refusals(command: Callable[P, R]) -> Callable[P, R]:
    """Like `clear_errors`, with exit code 2: the command cannot use what it was given."""
    return _reporting(command, code=2)


def in_flags(message: str, flags: Mapping[str, str]) -> str:
    """A message of the library, which speaks of Python's arguments, in the options of a command.

    Parameters
    ----------
    flags : mapping of str to str
        The options by the names of their arguments.

    Examples
    --------
    >>> in_flags("task must be auto; got 'x'", {"task": "--task"})
    "--task must be auto; got 'x'"
    >>> in_flags("Not UTF-8. Use encoding='latin-1'.", {"encoding": "--encoding"})
    'Not UTF-8. Use --encoding latin-1.'
    """
    if not flags:
        return message
    names = "|".join(map(re.escape, flags))
    message = re.sub(rf"^({names})(?= (?:must|needs)\b)", lambda m: flags[m[1]], message)
    return re.sub(
        rf"\b({names})=(?:'([^']*)'|([\w+-]+))",
        lambda m: f"{flags[m[1]]} {shlex.quote(m[2]) if m[2] is not None else m[3]}",
        message,
    )


def _flags(command: Callable[..., object]) -> dict[str, str]:
    """The options of a command by the names of their arguments."""
    found = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for option in getattr(hint, "__metadata__", ()):
            if isinstance(option, OptionInfo):
                long = [text for text in option.param_decls or () if text.startswith("--")]
                found[name] = long[0] if long else "--" + name.replace("_", "-")
    return found


def _reporting(command: Callable[P, R], code: int) -> Callable[P, R]:
    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            # The reader, such as head, has seen enough.
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            typer.echo("Interrupted; run the same command again to resume.", err=True)
            raise typer.Exit(130) from None
        except (ValueError, TypeError, OSError, ImportError, ArithmeticError) as error:
            # Three lines at most: what was given, what was expected, what to do.
            lines = [line for line in str(error).splitlines() if line.strip()][:3]
            typer.echo("error: " + in_flags("\n".join(lines), _flags(command)), err=True)
            raise typer.Exit(code) from None

    return wrapped
