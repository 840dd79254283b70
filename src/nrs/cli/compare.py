"""``nrs compare``: NRS, random forest and boosting on the same folds of a table."""

from __future__ import annotations

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
from nrs.cli.terminal import Grid, echo_json, echo_status


@refusals
@reads_files
def compare(
    source: Labelled,
    target: Target,
    task: Task = "auto",
    methods: Annotated[
        str, typer.Option(help="Methods, comma-separated.")
    ] = "NRS,RF,LightGBM,GBDT",
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    seed: Seed = 0,
    drop: Drop = None,
    categorical: Categorical = None,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Cross-validate NRS, a random forest, LightGBM and XGBoost (GBDT) on the same folds.

    NRS has its default settings, the others 500 trees as in the paper; nothing is tuned.

    Example: nrs compare churn.csv --target churned --folds 3
    """
    from nrs.baselines.compare import METRICS, compare_methods
    from nrs.files.read import read_labelled

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

    names = [name.strip() for name in methods.split(",") if name.strip()]
    compared = compare_methods(table, names, folds=folds, seed=seed, on_fit=show)
    echo_status("")
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
            }
        )
        return
    metrics = METRICS[table.task]
    grid = Grid(f"{table.source}: {table.task} of {target}, {folds} folds, mean ± std")
    grid.add_column("")
    for name in (*metrics, "fit s", "predict s"):
        grid.add_column(name.replace("_", " "), right=True)
    for one in compared:
        if one.problem is not None:
            grid.add_row(one.name, one.problem)
            continue
        found = map(one.mean_and_std, metrics)
        cells = [f"{mean:.4f} ± {std:.4f}" if mean == mean else "–" for mean, std in found]
        grid.add_row(one.name, *cells, f"{one.fit_seconds:.2f}", f"{one.predict_seconds:.2f}")
    grid.print()
