"""What commands print: everything passes here, so no text from data can steer the terminal."""

from __future__ import annotations

import codecs
import io
import json
import logging
import math
import re
import sys
import time
import warnings
from typing import Any, BinaryIO, cast

import typer

from nrs._util.text import printable


def echo(*lines: object, err: bool = False) -> None:
    """Print lines; characters in them that do not print, line ends included, show as escapes."""
    typer.echo("\n".join(map(printable, lines)), err=err)


def echo_json(value: object) -> None:
    """Print one JSON document; its texts have escapes where a character would not print."""
    text = json.dumps(value, indent=1, ensure_ascii=False, default=_plain)
    # What is left outside texts are line ends.
    typer.echo(re.sub(r"[^\n -~]", lambda m: m[0] if m[0].isprintable() else _escape(m[0]), text))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def echo_status(text: str) -> None:
    """Replace the last line of a terminal by how far a command is; elsewhere nothing is shown."""
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{printable(text)}", err=True, nl=False)


def table_output() -> BinaryIO:
    """Standard output for a table: its bytes in a pipe or a file, printable on a terminal.

    Raises
    ------
    OSError
        If standard output is closed.
    """
    if sys.stdout is None:
        raise OSError("Standard output is closed; name an output file: output=FILE")
    stream = typer.get_binary_stream("stdout")
    return cast(BinaryIO, Printed(stream)) if sys.stdout.isatty() else stream


class Printed(io.RawIOBase):
    """UTF-8 text for a terminal, with escapes for what does not print but line ends."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        text = self._decoder.decode(bytes(content))
        self._stream.write(printable(text, keep="\n").encode())
        return len(content)

    def flush(self) -> None:
        self._stream.flush()


class Grid:
    """A table on the terminal, drawn by rich; a cell is a text, or a tuple of lines."""

    def __init__(self, title: str = "", caption: str | None = None, *, boxed: bool = False) -> None:
        from rich.table import Table

        plain: dict[str, Any] = {"box": None, "pad_edge": False}
        self._table = Table(
            title=_text(title, "table.title") if title else None, caption=caption,
            header_style="bold", title_justify="center" if boxed else "left",
            show_lines=boxed, **({} if boxed else plain),
        )  # fmt: skip

    def add_column(self, name: str, *, right: bool = False, min_width: int | None = None) -> None:
        self._table.add_column(
            _text(name), justify="right" if right else "left", min_width=min_width
        )

    def add_row(self, *cells: str | tuple[str, ...]) -> None:
        self._table.add_row(*map(_text, cells))

    def print(self) -> None:
        from rich.console import Console

        Console().print(self._table)


def terminal_width() -> int:
    """Columns of the terminal."""
    from rich.console import Console

    return Console().width


def _text(cell: str | tuple[str, ...], style: str = "") -> Any:
    from rich.text import Text

    lines = cell if isinstance(cell, tuple) else (cell,)
    return Text("\n".join(map(printable, lines)), style)


class _Seldom(logging.Filter):
    """Lets a line on how far a training is pass every `SECONDS` at most, and all other lines."""

    SECONDS = 2.0

    def __init__(self) -> None:
        super().__init__()
        self._last = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO or record.name != "nrs.training":
            return True
        if time.monotonic() - self._last < self.SECONDS:
            return False
        self._last = time.monotonic()
        return True


def show_warnings() -> None:
    """Let warnings and log messages of any library be printable lines as well."""

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record), keep="\n")

    def format_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        return f"warning: {printable(message)}\n"

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Formatter())
    # How far a fit is, where no terminal shows a bar.
    progress = logging.StreamHandler()
    progress.setFormatter(Formatter())
    progress.addFilter(_Seldom())
    logging.getLogger("nrs").addHandler(progress)
    logging.getLogger("nrs").setLevel(logging.INFO)
    logging.getLogger("nrs").propagate = False
    warnings.formatwarning = format_warning
