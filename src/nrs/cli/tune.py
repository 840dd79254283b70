"""``nrs tune``: search the settings of a forest for one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.fit import (
    Out,
    Quiet,
    Report,
    fit_facts,
    output_paths,
    print_schema,
    write_fitted,
)
from nrs.cli.options import (
    AsJson,
    Categorical,
    Drop,
    Force,
    Labelled,
    Seed,
    Target,
    Task,
    check_jobs,
    score_line,
)
from nrs.cli.reading import reads_files
from nrs.cli.terminal import echo, echo_json


@refusals
@reads_files
def tune(
    source: Labelled,
    target: Target,
    budget: Annotated[
        float | None,
        typer.Option(help="Time limit for the search, in seconds; 600 without --trials."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Number of settings to try; the first are the defaults.")
    ] = None,
    storage: Annotated[
        Path | None,
        typer.Option(help="File that stores the trials; the same command resumes from it."),
    ] = None,
    task: Task = "auto",
    preset: Annotated[str, typer.Option(help="default, fast or best.")] = "default",
    seed: Seed = 0,
    out: Out = None,
    force: Force = False,
    report: Report = True,
    drop: Drop = None,
    categorical: Categorical = None,
    jobs: Annotated[
        int, typer.Option(help="Parallel processes; -1 for one per core.", callback=check_jobs)
    ] = 1,
    *,
    reading: dict[str, Any],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search the settings of a forest by its out-of-bag score; save the best model.

    Example: nrs tune churn.csv --target churned --drop customer_id --budget 60
    """
    model_path, page_path = output_paths(source, out, force=force, report=report)
    from nrs.files.fit import tune_table
    from nrs.files.read import read_labelled

    table = read_labelled(
        source,
        target,
        task=task,
        drop=drop or [],
        categorical=categorical or [],
        **reading,
    )
    prints = not (quiet or as_json)
    if prints:
        print_schema(table)
    fitted, found = tune_table(
        table,
        seed=seed,
        preset=preset,
        budget=budget,
        n_trials=trials,
        storage=storage,
        n_jobs=jobs,
        verbose=2 if prints else 0,
    )
    written = write_fitted(fitted, model_path, page_path if report else None)
    if as_json:
        search = {
            "best_score": found.best_score_,
            "default_score": found.default_score_,
            "search": found.trials_,
        }
        echo_json(fit_facts(fitted, written) | search)
    elif prints:
        chosen = ", ".join(
            f"{name}={json.dumps(_short(value))}" for name, value in found.best_params_.items()
        )
        echo("", f"tried {len(found.trials_)} settings in {found.seconds_:.1f} s")
        echo(f"score {found.default_score_:.4f} by default, {found.best_score_:.4f} at best")
        echo(f"best: {chosen or 'the defaults'}")
        echo(f"out-of-bag, the best of all trials: {score_line(fitted.about['scores'])}")
        echo("wrote " + " and ".join(written))


def _short(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value
