"""Arguments and options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Model = Annotated[Path, typer.Argument(help="Model file saved by nrs.", show_default=False)]
Labelled = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="CSV, Parquet, Arrow or JSON lines, optionally compressed; - for standard input.",
        show_default=False,
    ),
]
LabelledParts = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="CSV, Parquet, Arrow or JSON lines, optionally compressed; - for standard input; a "
        "folder or a quoted pattern of Parquet or Arrow files.",
        show_default=False,
    ),
]
Target = Annotated[
    str, typer.Option("--target", "-t", help="Column to predict.", show_default=False)
]
Targets = Annotated[
    list[str],
    typer.Option(
        "--target",
        "-t",
        help="Column to predict; several: comma-separated, or repeat the option.",
        show_default=False,
    ),
]
Task = Annotated[str, typer.Option(help="auto, classification or regression.")]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="Column to leave out, such as an ID; may be repeated."),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", help="Column whose numbers are categories; may be repeated."),
]
Encoding = Annotated[str, typer.Option(help="Encoding of a text file.")]
Jobs = Annotated[int, typer.Option(help="Threads; -1 for all cores.")]
Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same model.", min=0)]


def echo_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def score_line(scores: dict[str, float]) -> str:
    """Scores on one line.

    Examples
    --------
    >>> score_line({"accuracy": 0.97512, "log_loss": 0.1})
    'accuracy 0.9751, log loss 0.1000'
    """
    return ", ".join(f"{_WORDS.get(name, name)} {value:.4f}" for name, value in scores.items())


def echo_scores(by_target: dict[str, dict[str, float]]) -> None:
    """Print the scores of several targets, one line per target."""
    width = max(map(len, by_target))
    for name, scores in by_target.items():
        typer.echo(f"  {name:{width}}  {score_line(scores)}")


_WORDS = {
    "all_right": "all right",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1 (macro)",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
}
