"""``nrs paper``: the paper's tables, reported and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nrs.cli.errors import clear_errors
from nrs.cli.options import Command, check_jobs
from nrs.cli.terminal import echo, echo_json

if TYPE_CHECKING:
    from nrs.paper import Table

paper = typer.Typer(help="The paper's tables as experiments.", no_args_is_help=True)

Results = Annotated[Path, typer.Option(help="Folder of the results.", show_default=True)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@paper.command("list", cls=Command)
@clear_errors
def list_tables(as_json: AsJson = False) -> None:
    """List the tables and figures that can be run."""
    from nrs.paper import tables

    if as_json:
        rows = [
            {"name": t.name, "kind": t.kind, "title": t.title, "cells": _n_cells(t)}
            for t in tables().values()
        ]
        echo_json(rows)
        return
    for table in tables().values():
        echo(f"{table.name:13} {table.kind:7} {_n_cells(table):4} cells  {table.title}")


@paper.command(cls=Command)
@clear_errors
def run(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...", help="Names from 'nrs paper list', or module:attribute."
        ),
    ],
    datasets: Annotated[str | None, typer.Option(help="Only these, comma-separated.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these, comma-separated.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Seeds per cell.")] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes, each with one thread.", callback=check_jobs)
    ] = 1,
    shard: Annotated[str, typer.Option(help="Share of the cells, such as 2/8.")] = "1/1",
    timeout: Annotated[
        float | None, typer.Option(help="Time limit for a cell or search, in seconds.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed and timed-out cells again.")
    ] = False,
    device: Annotated[
        str, typer.Option(help="Where networks are trained: auto, cpu, cuda, cuda:1.")
    ] = "auto",
    results: Results = Path("results"),
) -> None:
    """Measure the cells of tables; finished cells are skipped, so an interrupted run resumes.

    The exit code is 1 if a cell failed or took too long; its result file says why.
    """
    from nrs.cli.progress import progress
    from nrs.paper import run as run_tables

    with progress() as on_event:
        summary = run_tables(
            tables,
            results,
            datasets=_names(datasets),
            methods=_names(methods),
            trials=trials,
            jobs=jobs,
            shard=_shard(shard),
            timeout=timeout,
            retry_failed=retry_failed,
            device=device,
            on_event=on_event,
        )
    counts = [f"{count} {status}" for status, count in sorted(summary.measured.items())]
    measured = ", ".join(counts) or "nothing to measure"
    echo(f"{measured}; {summary.skipped} finished before, in {results / 'paper'}")
    raise typer.Exit(1 if summary.n_bad else 0)


@paper.command(cls=Command)
@clear_errors
def show(
    table: Annotated[str, typer.Argument(help="Name of a table, see 'nrs paper list'.")],
    results: Results = Path("results"),
    every: Annotated[
        bool, typer.Option("--all", help="Include rows without a measurement.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a table: reported and measured values."""
    from nrs.paper import entries, find_table

    found = find_table(table)
    cells = entries(found, results)
    if as_json:
        echo_json(cells)
        return
    from nrs.cli.show import print_table

    print_table(found, cells, every=every)


@paper.command(cls=Command)
@clear_errors
def report(
    out: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write the report into.")
    ] = Path("report"),
    results: Results = Path("results"),
    tables: Annotated[str | None, typer.Option(help="Only these, comma-separated.")] = None,
) -> None:
    """Write the report of all tables: one HTML page, Markdown, and diagrams."""
    from nrs.paper.report import write

    for path in write(out, results, _names(tables)):
        echo(path)


def _n_cells(table: Table) -> int:
    return sum(not printed.extra for printed in table.printed)


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _shard(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    try:
        return int(number), int(of)
    except ValueError:
        raise ValueError(f"shard must be like 2/8; got {text!r}") from None
