"""``nrs evaluate``: a model and a labelled file in, scores out."""

from __future__ import annotations

from typing import Annotated

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import AsJson, Encoding, LabelledParts, Model, echo_json, score_line


@refusals
def evaluate(
    model: Model,
    source: LabelledParts,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="The column with the truth; else the fit's target."),
    ] = None,
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Measure a model on labelled rows that it has not seen.

    Example: nrs evaluate churn.safetensors next_month.csv
    """
    from nrs.cli.predict import check_files
    from nrs.tabular.predict import judge_file, load_model

    check_files(model, source)
    fitted = load_model(model)
    target = target or (fitted._about or {}).get("target")
    if target is None:
        raise ValueError(f"{model} does not tell what its target is called; add --target COLUMN")
    judged, unlabelled = judge_file(fitted, source, target, encoding=encoding)
    scores = judged.scores()
    if as_json:
        echo_json({"rows": len(judged), "unlabelled": unlabelled, "target": target, **scores})
        return
    typer.echo(f"{source}: {len(judged):,} rows, {target} {score_line(scores)}")
    if unlabelled:
        typer.echo(f"left out {unlabelled:,} rows without a value of {target}")
