"""``nrs explain``: the most important columns and trees of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import AsJson, Model
from nrs.cli.reading import reads_files
from nrs.cli.terminal import echo, echo_json


@refusals
@reads_files
def explain(
    model: Model,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Rows to draw on both sides of each tree, for --html.",
            show_default=False,
        ),
    ] = None,
    trees: Annotated[int, typer.Option(min=1, help="Number of trees to show.")] = 5,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write an HTML page with drawings of the trees.")
    ] = None,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Show the columns of a model by importance, and its most decisive trees.

    Example: nrs explain churn.safetensors --trees 3
    """
    from nrs.cli.predict import check_files
    from nrs.files.load import load_model, read_rows

    check_files(model, *([source] if source is not None else []))
    fitted = load_model(model)
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
