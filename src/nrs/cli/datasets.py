"""``nrs datasets``: list and download the datasets of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrs.cli.errors import clear_errors
from nrs.cli.options import Command
from nrs.cli.terminal import Grid, echo, echo_json

if TYPE_CHECKING:
    from nrs.datasets import Entry

datasets = typer.Typer(help="The catalog of datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of a dataset; case does not matter.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@datasets.command("list", cls=Command)
@clear_errors
def list_datasets(
    variants: Annotated[
        bool, typer.Option("--variants", help="Include parts and variants of datasets.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the datasets: sizes, the paper's split, and whether they are on this machine."""
    from nrs.datasets import info, names

    entries = [info(name) for name in names(variants=variants)]
    if as_json:
        echo_json([_facts(entry) for entry in entries])
        return
    table = Grid()
    for column in ("name", "task", "train", "test", "features", "classes", "split", "here"):
        table.add_column(column, right=column in ("train", "test", "features", "classes"))
    for entry in entries:
        facts = _facts(entry)
        sizes = [facts[key] for key in ("n_train", "n_test", "n_features", "n_classes")]
        table.add_row(
            entry.name,
            entry.task,
            *("" if size is None else f"{size:,}" for size in sizes),
            entry.split,
            "yes" if facts["here"] else "",
        )
    table.print()


@datasets.command(cls=Command)
@clear_errors
def info(name: Name, as_json: AsJson = False) -> None:
    """Show what the catalog knows about a dataset."""
    from nrs.datasets import info as entry_of
    from nrs.datasets import variants_of

    entry = entry_of(name)
    facts = _facts(entry) | {
        "title": entry.title,
        "preprocess": entry.preprocess,
        "page": entry.page,
        "sources": [source.url or source.file for source in entry.sources],
        "licence": entry.licence,
        "notes": entry.notes or None,
        "variant_of": entry.variant_of,
        "variants": [variant.name for variant in variants_of(entry.name)],
    }
    if as_json:
        echo_json(facts)
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        if value is None or value == []:
            continue
        shown = ", ".join(value) if isinstance(value, list) else value
        echo(f"{key:{width}}  {shown}")


@datasets.command(cls=Command)
@clear_errors
def get(
    name: Name, fold: Annotated[int, typer.Option(help="Which of the prepared folds.")] = 1
) -> None:
    """Download a dataset unless it is on this machine, and print where it is."""
    from nrs.datasets import get as path_of
    from nrs.datasets import info as entry_of

    entry = entry_of(name)
    if entry.package is not None:
        from nrs.datasets import load

        load(entry)
        echo(f"{entry.name} is part of the installed package {entry.package}")
        return
    echo(path_of(entry, fold=fold))


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "task": entry.task,
        "kind": entry.kind,
        "n_train": entry.n_train,
        "n_test": entry.n_test,
        "n_features": entry.n_features,
        "n_classes": entry.n_classes,
        "split": entry.split,
        "here": _is_here(entry),
    }


def _is_here(entry: Entry) -> bool:
    import importlib.util

    from nrs.datasets.locate import LocalFile, find_archive, find_folder, find_npz, find_sources

    if entry.package is not None:
        return importlib.util.find_spec(entry.package) is not None
    if entry.layout == "files":
        return find_folder(entry) is not None or find_archive(entry) is not None
    return isinstance(find_npz(entry, 1), LocalFile) or find_sources(entry, 1) is not None
