"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from nrs._util.launch import check_count
from nrs.cli.terminal import echo

# Short names of values, so that the words of a help have the width.
_VALUES: dict[object, str] = {
    bool: "", int: "N", float: "NUMBER", str: "TEXT", Path: "PATH", list[str]: "TEXT",
}  # fmt: skip
# Parts of a long help, and the options of each; what is not here comes first.
_PARTS = {
    "Columns": "drop categorical groups time sample_weight qid offset monotone",
    "Training": "preset loss quantiles metric class_weight threshold holdout time_limit seed jobs "
    "workers divide checkpoint stream budget trials storage",
    "Reading the file": "encoding sheet decimal dates na types",
    "Output": "out output force report quiet as_json safe_csv keep",
}
_MANY_OPTIONS = 16
_PART_OF = {name: part for part, names in _PARTS.items() for name in names.split()}


class Command(TyperCommand):
    """A command whose help is in parts, and leaves its width to the words."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        options = [one for one in self.params if isinstance(one, TyperOption)]
        for one in options:
            # Versions of typer that have short names of their own describe no types.
            described = getattr(one, "type_descriptor", None)
            if one.metavar is None and described is not None:
                one.metavar = _VALUES.get(described.annotation)
            if len(options) >= _MANY_OPTIONS:
                one.rich_help_panel = _PART_OF.get(str(one.name))

    def get_help_option(self, ctx: Any) -> Any:
        """``--help``, which takes no value either."""
        found = super().get_help_option(ctx)
        if found is not None:
            found.metavar = ""
        return found


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file saved by nrs.", show_default=False)
]
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
    str,
    typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.", show_default=False),
]
Targets = Annotated[
    list[str],
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="Column to predict; several: comma-separated, or repeat the option.",
        show_default=False,
    ),
]
Task = Annotated[str, typer.Option(help="auto, classification or regression.")]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="COLUMN",
        help="Columns to leave out, such as an ID; comma-separated, or repeat the option.",
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical",
        metavar="COLUMN",
        help="Column whose numbers are categories; may be repeated.",
    ),
]
Monotone = Annotated[
    list[str] | None,
    typer.Option(
        "--monotone",
        metavar="COLUMN=SIGN",
        help="Columns with which the prediction may only rise (+1) or fall (-1), such as "
        "age=+1,price=-1; comma-separated, or repeat the option.",
    ),
]
Loss = Annotated[
    str,
    typer.Option(
        help="Of a numeric target: squared, absolute, huber, poisson, gamma, tweedie, or quantile "
        "(5, 50 and 95 %); aft of times between two bounds, --target lower,upper. Of a ranker: "
        "lambdarank, listnet and others."
    ),
]
Offset = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column added to the logarithm of the prediction, such as that of the exposure; "
        "needs --loss poisson, gamma or tweedie.",
        show_default=False,
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="Score by which the best epoch is chosen: accuracy, balanced_accuracy, f1, log_loss, "
        "roc_auc or average_precision; of a number r2, rmse or mae.",
        show_default=False,
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(help="balanced: all classes count the same.", show_default=False),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        help="Probability from which on the second of two classes is predicted; balanced and f1 "
        "choose it on out-of-bag rows.",
        show_default=False,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of groups, such as patients: rows are scored by members that have not seen "
        "their group. No feature.",
        show_default=False,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of times: rows are scored by members that have seen earlier rows only. No "
        "feature.",
        show_default=False,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight",
        metavar="COLUMN",
        help="Column of how much each row counts in training. No feature.",
        show_default=False,
    ),
]
QueryColumn = Annotated[
    str | None,
    typer.Option(
        "--qid",
        metavar="COLUMN",
        help="Column of queries: fits a ranker, whose target holds grades of relevance. No "
        "feature.",
        show_default=False,
    ),
]
Holdout = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Share of rows to score the model on and not to train on, such as 0.2; the latest "
        "with --time, whole groups with --groups.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a model or report that exists.")]
Quantiles = Annotated[
    str | None,
    typer.Option(
        metavar="LEVELS",
        help="Quantiles to predict, ascending and comma-separated, such as 0.1,0.5,0.9.",
        show_default=False,
    ),
]


def loss_of(loss: str, quantiles: str | None) -> dict[str, Any]:
    """The settings of ``--loss`` and ``--quantiles``; none if they ask for the mean.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> loss_of("squared", None), loss_of("squared", "0.1,0.9")
    ({}, {'loss': 'squared', 'quantiles': [0.1, 0.9]})
    """
    if loss == "squared" and quantiles is None:
        return {}
    from nrs.tabular.targets import find_loss

    try:
        levels = None if quantiles is None else [float(one) for one in quantiles.split(",")]
    except ValueError:
        raise ValueError(
            f"--quantiles needs comma-separated numbers, such as 0.1,0.5,0.9; got {quantiles!r}"
        ) from None
    find_loss(loss, levels)
    return {"loss": loss, "quantiles": levels}


def class_settings(class_weight: str | None, threshold: str | None) -> dict[str, Any]:
    """The settings of ``--class-weight`` and ``--threshold``, of those that are given.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> class_settings(None, "0.3"), class_settings("balanced", "f1")
    ({'threshold': 0.3}, {'class_weight': 'balanced', 'threshold': 'f1'})
    """
    found: dict[str, Any] = {}
    if class_weight is not None:
        if class_weight != "balanced":
            raise ValueError(
                f"--class-weight must be balanced; got {class_weight!r}. Weights of your own are "
                "for NRSClassifier."
            )
        found["class_weight"] = class_weight
    if threshold is not None:
        wrong = f"--threshold must be balanced, f1 or a number between 0 and 1; got {threshold!r}"
        try:
            found["threshold"] = threshold if threshold in ("balanced", "f1") else float(threshold)
        except ValueError:
            raise ValueError(wrong) from None
        if threshold not in ("balanced", "f1") and not 0 < found["threshold"] < 1:
            raise ValueError(wrong)
    return found


def signs_of(monotone: list[str] | None) -> dict[str, int] | None:
    """The sign of each column of ``--monotone``; None without any.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> signs_of(["age=+1,price=-1", "a=b=1"])
    {'age': 1, 'price': -1, 'a=b': 1}
    """
    signs = {"+1": 1, "1": 1, "-1": -1}
    found = {}
    for part in ",".join(monotone or ()).split(",") if monotone else ():
        name, _, sign = part.rpartition("=")
        if not name or sign.strip() not in signs:
            raise ValueError(
                f"--monotone needs COLUMN=+1 or COLUMN=-1, such as age=+1,price=-1; got {part!r}"
            )
        found[name.strip()] = signs[sign.strip()]
    return found or None


def check_jobs(count: int | None) -> int | None:
    """Refuse many more threads or processes than cores: they only cost memory, and can crash.

    Raises
    ------
    typer.BadParameter
    """
    try:
        check_count(count or 0, "it")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return count


Jobs = Annotated[int, typer.Option(help="Threads; -1 for all cores.", callback=check_jobs)]
Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same model.", min=0)]


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
        echo(f"  {name:{width}}  {score_line(scores)}")


_WORDS = {
    "all_right": "all right",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1 (macro)",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
    "map": "MAP",
    "mrr": "MRR",
    "ndcg@10": "NDCG@10",
    "ndcg@5": "NDCG@5",
}
