"""``nrs explain``: the most important columns and trees of a model, and the reasons of a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import AsJson, Model
from nrs.cli.reading import reads_files
from nrs.cli.terminal import echo, echo_json

if TYPE_CHECKING:
    from nrs.tabular.types import TableModel


@refusals
@reads_files
def explain(
    model: Model,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Rows: those of each side of a tree for --output, or that of --row.",
            show_default=False,
        ),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(
            min=1, help="Explain the answer for this row of FILE, from 1.", show_default=False
        ),
    ] = None,
    trees: Annotated[int, typer.Option(min=1, help="Number of trees to show.")] = 5,
    html: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML page to write, with drawings of the trees."),
    ] = None,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Show the columns of a model by importance, and its most decisive trees.

    With --row: what each cell of a row adds to its answer, compared with other rows of FILE.

    Example: nrs explain churn.safetensors --trees 3

    Example: nrs explain churn.safetensors new.csv --row 17
    """
    from nrs.cli.predict import check_files
    from nrs.files.load import load_model, read_rows

    if row is not None and source is None:
        raise ValueError("--row needs the file of the row: nrs explain MODEL FILE --row 17")
    if row is not None and html is not None:
        raise ValueError("--row prints text, and --output writes a page; leave one of them out")
    check_files(model, *([source] if source is not None else []))
    fitted = load_model(model)
    if row is not None and source is not None:
        _explain_row(fitted, source, row, reading, as_json=as_json)
        return
    names = getattr(fitted, "feature_names_in_", None)
    names = [f"x{i}" for i in range(fitted.n_features_in_)] if names is None else names.tolist()
    importance = sorted(
        zip(names, fitted.feature_importances_.tolist(), strict=True), key=lambda pair: -pair[1]
    )
    decisive = fitted.trees(trees)
    if html is not None:
        from nrs._util.atomic import atomic_write
        from nrs.pages.fit_report import draw_explanation

        rows = None if source is None else read_rows(fitted, source, **reading)
        page = draw_explanation(fitted, model.name, trees, rows)
        with atomic_write(html) as file:
            file.write(page.encode())
    if as_json:
        echo_json({"importance": dict(importance), "trees": decisive.to_dicts()})
        return
    width = max(len(name) for name, _ in importance[:20])
    echo("columns by importance")
    top = importance[0][1] or 1.0
    for name, share in importance[:20]:
        echo(f"  {name:{width}} {100 * share:5.1f} %  {'█' * round(24 * share / top)}")
    if len(importance) > 20:
        echo(f"  and {len(importance) - 20} more")
    echo("most decisive trees: a row says yes where")
    for tree in decisive:
        echo(f"  {tree.rule(4)}   ({100 * tree.yes:.0f} % of the rows)")
    if html is not None:
        echo(f"wrote {html}")


def _explain_row(
    model: TableModel, source: Path, row: int, reading: dict[str, Any], *, as_json: bool
) -> None:
    from nrs.files.load import read_row
    from nrs.tabular.explain import reasons

    rows = read_row(model, source, row, **reading)
    (why,) = reasons(model, rows, [len(rows) - 1])
    if as_json:
        cells = zip(why.columns, why.cells, why.parts.tolist(), strict=True)
        listed = [{"column": name, "cell": cell, "part": part} for name, cell, part in cells]
        facts = {"row": row, "label": why.label, "answer": why.answer, "usual": why.usual}
        echo_json(facts | {"parts": listed})
        return
    unit = "" if why.label is None else " (in percentage points)"
    first, *parts = str(why).splitlines()
    echo(f"row {row}: {first}", f"what its cells add, compared with other rows{unit}:", *parts)
