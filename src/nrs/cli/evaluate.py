"""``nrs evaluate``: a model and a labelled file in, scores out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nrs.cli.errors import refusals
from nrs.cli.kinds import PACKAGES, end_skipped, work_of
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
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            "-r",
            metavar="PAGE",
            help="Write an HTML page, of a model of images or point clouds.",
            show_default=False,
        ),
    ] = None,
    *,
    reading: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Score a model on labelled rows, images or point clouds that it was not trained on.

    Images and point clouds are in a folder with one folder per class.

    Example: nrs evaluate churn.safetensors next_month.csv
    """
    from nrs.cli.predict import check_files, good_parts
    from nrs.files.evaluate import evaluate_file
    from nrs.files.load import load_model
    from nrs.files.scores import ScoredTargets
    from nrs.training import read_kind

    check_files(model, source)
    kind = read_kind(model)
    if kind in PACKAGES:
        if target or qid:
            raise ValueError(f"--target and --qid need a model of tables; {model} is of {kind!r}")
        _evaluate_folder(kind, model, Path(source), report, as_json)
        return
    if report is not None:
        raise ValueError(
            "--report needs a model of images or point clouds; the page of a table is that of "
            "nrs fit"
        )
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


def _evaluate_folder(
    kind: str, model: Path, folder: Path, report: Path | None, as_json: bool
) -> None:
    evaluated = work_of(kind, "evaluate").evaluate_folder(model, folder)
    if report is not None:
        from nrs._util.atomic import atomic_write
        from nrs.pages.folder_report import draw_folder_report

        with atomic_write(report) as file:
            file.write(draw_folder_report(evaluated, model.name).encode())
    scores = evaluated.scored.scores()
    if as_json:
        skipped = [{"input": str(path), "error": why} for path, why in evaluated.skipped]
        facts = {"files": len(evaluated.paths), "skipped": skipped, "note": evaluated.note}
        echo_json(facts | ({} if report is None else {"report": str(report)}) | scores)
    else:
        echo(f"{folder}: {len(evaluated.paths):,} files, {score_line(scores)}")
        if evaluated.note:
            echo(evaluated.note)
        if report is not None:
            echo(f"report      {report}")
    end_skipped([why for _, why in evaluated.skipped])
