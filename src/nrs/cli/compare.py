"""``nrs compare``: NRS, random forest and boosting on the same folds of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import (
    AsJson,
    Categorical,
    Drop,
    Labelled,
    Seed,
    Target,
    Task,
)
from nrs.cli.reading import reads_files
from nrs.cli.terminal import Grid, echo, echo_json, echo_status


@refusals
@reads_files
def compare(
    source: Labelled,
    target: Target,
    task: Task = "auto",
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods, comma-separated; default: NRS, RF, and what is installed of XGBoost, "
            "LightGBM and CatBoost.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    seed: Seed = 0,
    drop: Drop = None,
    categorical: Categorical = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="HTML page to write: scores, settings, accuracy against time."
        ),
    ] = None,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Cross-validate NRS, a random forest, XGBoost, LightGBM and CatBoost on the same folds.

    NRS has its default settings, boosting stops early on a tenth of the training rows and reads
    categories itself, a random forest has 500 trees. Nothing is tuned; each has one thread.

    Example: nrs compare churn.csv --target churned --folds 3 -o compared.html
    """
    from nrs.baselines.compare import METRICS, compare_methods, usual_methods
    from nrs.files.read import read_labelled

    if output is not None:
        _check_page(output)

    table = read_labelled(
        source,
        target,
        task=task,
        drop=drop or [],
        categorical=categorical or [],
        **reading,
    )

    def show(method: str, fold: int) -> None:
        echo_status(f"{method}, fold {fold + 1} of {folds}")

    names = usual_methods()
    if methods is not None:
        names = [name.strip() for name in methods.split(",") if name.strip()]
    compared = compare_methods(table, names, folds=folds, seed=seed, on_fit=show)
    echo_status("")
    if output is not None:
        from nrs._util.atomic import atomic_write
        from nrs.pages.compare_page import draw_comparison

        page = draw_comparison(table, compared, folds, seed)
        with atomic_write(output) as file:
            file.write(page.encode())
    if as_json:
        echo_json(
            {
                "source": table.source,
                "target": target,
                "task": table.task,
                "rows": len(table.truth),
                "folds": folds,
                "seed": seed,
                "methods": [one.to_dict() for one in compared],
                "wrote": None if output is None else str(output),
            }
        )
        return
    metrics = METRICS[table.task]
    stopped = any(one.rounds for one in compared)
    grid = Grid(f"{table.source}: {table.task} of {target}, {folds} folds, mean ± std")
    grid.add_column("")
    grid.add_column("settings")
    for name in (*metrics, "seconds"):
        grid.add_column(name.replace("_", " "), right=True)
    for one in compared:
        if one.problem is not None:
            grid.add_row(one.name, one.problem)
            continue
        found = map(one.mean_and_std, metrics)
        cells = [f"{mean:.3f} ± {std:.3f}" if mean == mean else "–" for mean, std in found]
        grid.add_row(
            one.name, one.how(), *cells, f"{one.fit_seconds:.2f} + {one.predict_seconds:.2f}"
        )
    grid.print()
    echo("seconds: of a fit, and of predicting a fold, with one thread")
    if stopped:
        echo("rounds: chosen by early stopping on a tenth of the training rows")
    if output is not None:
        echo(f"wrote {output}")


def _check_page(output: Path) -> None:
    """Refuse a page that could not be written, before anything is fitted."""
    from nrs._util.atomic import check_output

    if output.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"output must end with .html; got {output}")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"Folder not found: {output.parent}; create it")
    check_output(output)
