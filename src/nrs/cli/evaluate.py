"""``nrs evaluate``: a model and a labelled file in, scores out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.options import (
    AsJson,
    LabelledParts,
    Model,
    echo_scores,
    score_line,
)
from nrs.cli.reading import reads_files
from nrs.cli.terminal import echo, echo_json


@refusals
@reads_files
def evaluate(
    model: Model,
    source: LabelledParts,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="Column with the truth; default: as in the fit. Several: comma-separated, or "
            "repeat the option.",
        ),
    ] = None,
    qid: Annotated[
        str | None,
        typer.Option(
            "--qid",
            metavar="COLUMN",
            help="Column of queries, of a ranker; default: as in the fit.",
            show_default=False,
        ),
    ] = None,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Score a model on labelled rows that it was not trained on.

    Example: nrs evaluate churn.safetensors next_month.csv
    """
    from nrs.cli.predict import check_files, end_skipped, good_parts
    from nrs.files.evaluate import evaluate_file
    from nrs.files.load import load_model
    from nrs.files.scores import ScoredTargets

    check_files(model, source)
    fitted = load_model(model)
    known = (fitted.about_ or {}).get("target")
    names = target or ([known] if isinstance(known, str) else known)
    if names is None:
        raise ValueError(f"{model} does not name its target; add --target COLUMN")
    wanted = [
        *getattr(fitted, "feature_names_in_", []),
        *([names] if isinstance(names, str) else []),
    ]
    parts, skipped = good_parts(source, wanted)
    scored, unlabelled = evaluate_file(fitted, parts, names, qid=qid, **reading)
    scores = scored.scores()
    by_target = scored.scores_by_target() if isinstance(scored, ScoredTargets) else {}
    several, names = bool(by_target), list(by_target) or names
    if as_json:
        facts = {"rows": len(scored), "unlabelled": unlabelled, "target": names[0]}
        shown = {"target": names, "scores_by_target": by_target} if several else {}
        echo_json(facts | shown | scores)
        end_skipped(skipped)
        return
    what = f"mean of {len(names)} targets" if several else names[0]
    echo(f"{source}: {len(scored):,} rows, {what} {score_line(scores)}")
    if several:
        echo_scores(by_target)
    if unlabelled:
        echo(f"left out {unlabelled:,} rows without a value of {' or '.join(names)}")
    end_skipped(skipped)
