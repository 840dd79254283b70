"""The page of ``nrs evaluate`` on a folder of pictures or clouds."""

from __future__ import annotations

import base64

from nrs._version import __version__
from nrs.files.folder import Drawing, EvaluatedFolder
from nrs.pages.document import draw_document
from nrs.pages.html import Html, facts_list, header_row, scrollable, tag, tile
from nrs.pages.scores_html import draw_scores

# Files that are shown with what explains their answers.
MAX_SHOWN = 12
_WORDS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1, mean over classes",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
}
# Scores that are no shares.
_PLAIN = ("log_loss", "roc_auc")


def draw_folder_report(evaluated: EvaluatedFolder, model: str) -> Html:
    """Draw the page: scores, confusion matrix, worst files with what explains them, skipped files.

    Parameters
    ----------
    evaluated : EvaluatedFolder
    model : str
        Name of the model file.
    """
    scored = evaluated.scored
    main = tag(
        "main",
        _summary(evaluated),
        draw_scores(None, scored),
        _worst(evaluated),
        _skipped(evaluated),
        tag(
            "section",
            tag("h2", "The model"),
            facts_list({"file": model, **evaluated.facts, "nrs": __version__}.items()),
            id="model",
            class_="facts",
        ),
    )
    header = tag("header", tag("h1", f"{model} on {scored.source}"), tag("p", evaluated.note))
    return draw_document(f"{model} on {scored.source}", header, main, "fit.css", "folder.css")


def _summary(evaluated: EvaluatedFolder) -> Html:
    scored = evaluated.scored
    skipped = len(evaluated.skipped)
    lead = f"{len(scored):,} files of {len(set(scored.truth.tolist())):,} classes."
    if skipped:
        lead += f" {skipped:,} more could not be read and were skipped."
    tiles = [
        tile(f"{value:.4f}" if name in _PLAIN else f"{100 * value:.1f} %", _WORDS[name])
        for name, value in scored.scores().items()
    ]
    parts = tag("p", lead, class_="lead"), tag("ul", *tiles, class_="tiles")
    return tag("section", *parts, tag("p", scored.headline()), id="summary")


def _worst(evaluated: EvaluatedFolder) -> Html:
    scored = evaluated.scored
    cards = [_card(evaluated, place) for place in evaluated.worst(MAX_SHOWN)]
    words = (
        f"The {len(cards)} files whose true class got the least probability, the least first. "
        "Warm colours mark what speaks for the predicted class."
    )
    wrong = int((scored.truth != scored.predicted).sum())
    words += f" {wrong:,} of {len(scored):,} files got a wrong class."
    heading = tag("h2", "Worst files"), tag("p", words)
    return tag("section", *heading, tag("div", *cards, class_="files"), id="worst")


def _card(evaluated: EvaluatedFolder, place: int) -> Html:
    scored = evaluated.scored
    assert scored.probabilities is not None
    truth, predicted = str(scored.truth[place]), str(scored.predicted[place])
    chance = f"{100 * scored.probabilities[place].max():.1f}\N{NO-BREAK SPACE}%"
    path = evaluated.paths[place]
    words = f"True: {truth}. Predicted: {predicted} ({chance})."
    drawings = [_drawing(one) for one in evaluated.draw(place)]
    return tag(
        "article",
        tag("h3", f"{path.parent.name}/{path.name}"),
        tag("p", words),
        tag("div", *drawings, class_="drawings"),
        class_="file",
    )


def _drawing(drawing: Drawing) -> Html:
    caption, png = drawing
    data = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return tag("figure", Html(f'<img src="{data}" alt="">'), tag("figcaption", caption))


def _skipped(evaluated: EvaluatedFolder) -> Html:
    if not evaluated.skipped:
        return Html("")
    lines = [
        tag("tr", tag("th", path.name, scope="row"), tag("td", why))
        for path, why in evaluated.skipped
    ]
    grid = tag("table", header_row(("file", "why")), tag("tbody", *lines), class_="cells")
    heading = tag("h2", "Skipped files"), tag("p", "These could not be read and count nowhere.")
    return tag("section", *heading, scrollable(grid, aria_label="Skipped files"), id="skipped")
