"""Errors a user can act on become one message and an exit code, without a traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from nrs._util.inputs import check_ordinary, reading, refuse_input
from nrs.cli.report import report

P = ParamSpec("P")
R = TypeVar("R")


def clear_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Let a command end with exit code 1 and ``error: …`` where the library raises."""
    return _reporting(command, code=1)


def refusals(command: Callable[P, R]) -> Callable[P, R]:
    """Like `clear_errors`, with exit code 2: the command cannot use what it was given."""
    return _reporting(command, code=2)


def _parameters(command: Callable[..., object]) -> Iterator[tuple[str, ParameterInfo]]:
    """The arguments and options of a command, by the names that its function gives them."""
    for name, hint in get_type_hints(command, include_extras=True).items():
        for found in getattr(hint, "__metadata__", ()):
            if isinstance(found, ParameterInfo):
                yield name, found


def _flags(command: Callable[..., object]) -> dict[str, str]:
    """The options of a command by the names of their arguments."""
    found = {}
    for name, option in _parameters(command):
        if isinstance(option, OptionInfo):
            # In an annotation the first name of an option stands in the place of its default.
            named = (option.default, *(option.param_decls or ()))
            long = [text for text in named if isinstance(text, str) and text.startswith("--")]
            found[name] = long[0] if long else "--" + name.replace("_", "-")
    return found


def _inputs(command: Callable[..., object], given: Mapping[str, object]) -> list[str | Path]:
    """What a command reads: its arguments, and --config."""
    return [
        one
        for name, parameter in _parameters(command)
        if isinstance(parameter, ArgumentInfo) or name == "config"
        for one in _listed(given.get(name))
        if isinstance(one, (str, Path))
    ]


def _check(command: Callable[..., object], given: Mapping[str, object]) -> None:
    """Refuse inputs that are no files and outputs that are inputs: before a fit, not after it."""
    for path in _inputs(command, given):
        check_ordinary(path)
    for name, parameter in _parameters(command):
        value = given.get(name)
        if isinstance(parameter, OptionInfo) and isinstance(value, Path):
            refuse_input(value)


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _reporting(command: Callable[P, R], code: int) -> Callable[P, R]:
    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        # Outside the try: NRS_LOG_FILE must not name an input either.
        with reading(*_inputs(command, kwargs)):
            try:
                _check(command, kwargs)
                return command(*args, **kwargs)
            except typer.Exit:
                raise
            except (Exception, KeyboardInterrupt) as error:
                raise typer.Exit(report(error, code, _flags(command))) from None

    return wrapped
