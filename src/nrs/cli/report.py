"""The last resort: whatever ends a command becomes one message and an exit code.

Free of typer and rich, since importing them can fail as well.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import NoReturn, TextIO

from nrs._util.inputs import refuse_input
from nrs._util.text import printable

# Exit code of what nobody foresaw; that of an input that cannot be used is the command's own.
FAILED = 1
# The file that tracebacks are appended to.
LOG_VARIABLE = "NRS_LOG_FILE"
# What the library raises where it was given something that it cannot use.
_FORESEEN = (ValueError, TypeError, OSError, ImportError, ArithmeticError)
_NO_MEMORY = re.compile(r"can't allocate memory|out of memory|std::bad_alloc", re.IGNORECASE)


class Terminated(KeyboardInterrupt):
    """A signal asks the process to end; it unwinds as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextlib.contextmanager
def unwinding_signals() -> Iterator[None]:
    """Within the block, let SIGTERM and SIGHUP raise `Terminated`, so that blocks clean up."""

    def unwind(number: int, frame: FrameType | None) -> NoReturn:
        # A second one must not interrupt the cleaning up.
        signal.signal(number, signal.SIG_IGN)
        raise Terminated(number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [signal.Signals[name] for name in names]
    # One that is ignored, as under nohup, stays so.
    changed = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def report(error: BaseException, code: int = FAILED, flags: Mapping[str, str] | None = None) -> int:
    """Say in one message what ended a command, and return its exit code.

    Parameters
    ----------
    error : exception
    code : int
        Exit code of an error that the library foresaw.
    flags : mapping of str to str
        The command's options by the names of their arguments.
    """
    if isinstance(error, BrokenPipeError):
        # The reader, such as head, has seen enough.
        _discard(sys.stdout)
        return 0
    if isinstance(error, KeyboardInterrupt):
        what = "terminated" if isinstance(error, Terminated) else "interrupted"
        _show(f"{what}; no file is half written. Run the same command again.")
        return error.exit_code if isinstance(error, Terminated) else 130
    logged = _log(error)
    if _is_memory(error):
        message, code = (
            "out of memory; use fewer rows, columns or jobs, or Parquet files, which are read in "
            "chunks",
            FAILED,
        )
    elif isinstance(error, RecursionError):
        message, code = "the input is nested too deeply; flatten it", FAILED
    elif isinstance(error, _FORESEEN):
        message = in_flags(_text(error), flags or {})
    else:
        message, code = (
            f"unexpected {type(error).__name__}: {_first_line(error)}; this is a defect of nrs. "
            f"{LOG_VARIABLE}=nrs.log keeps the traceback: please report it",
            FAILED,
        )
    _show(f"error: {message}{logged}")
    return code


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


def flush_output() -> OSError | None:
    """Write what is still in the buffers, while errors can be reported.

    Returns what went wrong with standard output; no result is lost where messages are.
    """
    failed = None
    for stream in (sys.stdout, sys.stderr):
        if stream is None or stream.closed:
            continue
        try:
            stream.flush()
        except OSError as error:
            _discard(stream)
            failed = error if stream is sys.stdout else failed
    return failed


def _discard(stream: TextIO | None) -> None:
    """Let the interpreter find nothing to complain about when it closes a stream."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
        os.close(nowhere)


def _is_memory(error: BaseException) -> bool:
    # torch reports it as a RuntimeError.
    torch = isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)[:1000])
    return isinstance(error, MemoryError) or bool(torch)


def _text(error: BaseException) -> str:
    """Three lines at most: what was given, what was expected, what to do."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return error.strerror + ("" if error.filename is None else f": {error.filename}")
    lines = [line for line in str(error).splitlines() if line.strip()][:3]
    return "\n".join(lines) or type(error).__name__


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no message")[:300]


def _log(error: BaseException) -> str:
    """Append the traceback to the file that was asked for; say where it is."""
    path = os.environ.get(LOG_VARIABLE)
    if not path:
        return ""
    try:
        refuse_input(path)
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError as problem:
        return f" ({LOG_VARIABLE} cannot be written: {_text(problem)})"
    return f" (traceback in {path})"


def _show(message: str) -> None:
    # Standard error may be closed too.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(printable(message, keep="\n") + "\n")
        sys.stderr.flush()
