"""The figures of a fit's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.pages.html import Html, tag
from nrs.pages.series import COLOURS
from nrs.pages.svg import FONT, Axis, Chart, framed, short, short_each, text_width

if TYPE_CHECKING:
    from nrs.files.scores import Scored
    from nrs.tabular.explain import Effect

# Points of a curve, and of a cloud of points: more only make the page larger.
_CURVE, _CLOUD = 120, 1500
# Classes with a colour of their own in a figure, and with a row in the confusion matrix.
_NAMED, _MAX_CLASSES = 6, 50
# From so many classes on cells hold no numbers, and the matrix has a row of its own.
_CROWDED = 12
# Curves of single rows, and classes, in the picture of an effect.
_CURVES, _MEANS = 40, 4
GREY = COLOURS[6]


def colour(place: int) -> str:
    """The colour of a class."""
    return COLOURS[place % len(COLOURS)]


def learning_curves(history: Any) -> Html:
    """Losses by epoch, or by round of a forest, with the one that was kept."""
    epochs = [value + 1 for value in history["epoch"]]
    parts = {"training": history["train_loss"]}
    if "val_loss" in history:
        parts["not learned from"] = history["val_loss"]
    chart = Chart("Loss", _rounds(epochs), Axis.around(list(parts.values()), "loss"))
    for place, (name, values) in enumerate(parts.items()):
        _curve_of_rounds(chart, epochs, values, name, colour(place))
    if history.best_epoch is not None:
        chart.upright(history.best_epoch + 1, GREY, "kept")
    return chart.draw()


def score_curve(history: Any) -> Html | None:
    """The metric that decided which weights to keep, where there was one."""
    names = [name for name in history.columns if name.startswith("val_") and name != "val_loss"]
    if not names:
        return None
    epochs = [value + 1 for value in history["epoch"]]
    words = names[-1].removeprefix("val_").replace("_", " ")
    values = history[names[-1]]
    chart = Chart(words.capitalize(), _rounds(epochs), Axis.around(values, words))
    _curve_of_rounds(chart, epochs, values, words, colour(2))
    chart.names.clear()
    return chart.draw()


def _rounds(epochs: list[int]) -> Axis:
    few = sorted({epochs[0], epochs[-1], *epochs[:: max(1, len(epochs) // 5)]})
    return Axis(epochs[0] - 0.4, epochs[-1] + 0.4, "round", [(one, str(one)) for one in few])


def _curve_of_rounds(
    chart: Chart, epochs: list[int], values: Sequence[float], name: str, ink: str
) -> None:
    chart.line(epochs, values, ink, name)
    said = [f"{name}, round {at}: {value:.4g}" for at, value in zip(epochs, values, strict=True)]
    chart.dots(epochs, values, ink, said, 2.5)


def confusion(scored: Scored) -> Html:
    """How often each class was taken for each; the most frequent classes where there are many."""
    from sklearn.metrics import confusion_matrix

    labels, counts = np.unique(scored.truth, return_counts=True)
    labels = np.sort(labels[np.argsort(-counts, kind="stable")[:_MAX_CLASSES]])
    table = confusion_matrix(scored.truth, scored.predicted, labels=labels)
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    few, names = len(labels) <= _CROWDED, short_each(labels.tolist(), 14)
    widest = max(text_width(name) for name in names)
    numbers = max(text_width(f"{n:,}", FONT - 1) for n in table.ravel().tolist())
    # Some fonts are wider than the one that is measured.
    left, top = 1.1 * widest + 26, 22.0
    step = max(numbers + 6, 26.0) if few else 15.0
    upright = not few or widest > step
    head = 1.1 * widest + 8 if upright else 18.0
    step = max(step, min(70.0, (360 - left) / len(labels)))
    parts = [_turned("true", 9, top + head + step * len(labels) / 2)]
    for row, name in enumerate(names):
        y, x = top + head + step * (row + 0.5), left + step * (row + 0.5)
        parts.append(_words(name, left - 5, y, "end"))
        above = top + head - 6
        parts.append(_turned(name, x, above, "start") if upright else
                     _words(name, x, above - 4, "middle"))  # fmt: skip
        for column in range(len(labels)):
            count, share = int(table[row, column]), float(shares[row, column])
            said = f"{labels[row]} taken for {labels[column]}: {count:,} ({100 * share:.0f} %)"
            place = {
                "x": f"{left + step * column + 0.5:.1f}",
                "y": f"{top + head + step * row + 0.5:.1f}",
            }
            if not count and not few:
                continue
            cell = tag(
                "rect", tag("title", said), **place, width=f"{step - 1:.1f}",
                height=f"{step - 1:.1f}", fill=COLOURS[0],
                fill_opacity=f"{0.04 + 0.81 * share:.2f}",
            )  # fmt: skip
            parts.append(cell)
            if few:
                ink = "#fff" if share > 0.5 else None
                at = (left + step * (column + 0.5), y)
                parts.append(_words(f"{count:,}", *at, "middle", FONT - 1, ink))
    size = step * len(labels)
    box = tag(
        "rect", x=f"{left:.1f}", y=f"{top + head:.1f}", width=f"{size:.1f}", height=f"{size:.1f}",
        class_="frame",
    )  # fmt: skip
    parts += [box, _words("predicted", left, 9, "start")]
    whole = (left + size + 10, top + head + size + 6)
    return framed("Confusion matrix", [], parts, *whole, "Confusion matrix", fixed=True)


def _words(
    text: str, x: float, y: float, anchor: str, size: int = FONT, ink: str | None = None
) -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    style = f"fill: {ink}" if ink else None
    return tag("text", text, **place, font_size=size, dominant_baseline="central", style=style)


def _turned(text: str, x: float, y: float, anchor: str = "middle") -> Html:
    turn = f"translate({x:.1f} {y:.1f}) rotate(-90)"
    return tag("text", text, transform=turn, text_anchor=anchor, dominant_baseline="central")


def roc_and_precision(scored: Scored) -> list[Html]:
    """ROC and precision–recall curves: of the second of two classes, else of each.

    Of many classes those that are told apart worst have a colour.
    """
    from sklearn import metrics

    assert scored.classes is not None
    assert scored.probabilities is not None
    classes, found = scored.classes, []
    for place in [1] if len(classes) == 2 else range(min(len(classes), _MAX_CLASSES)):
        truth, chance = scored.truth == classes[place], scored.probabilities[:, place]
        if 0 < truth.sum() < len(truth):
            area = float(metrics.roc_auc_score(truth, chance))
            found.append((area, str(classes[place]), truth, chance))
    worst = sorted(found, key=lambda one: one[0])[:3] if len(found) > _NAMED else found
    inks = {name: colour(place) for place, (_, name, *_) in enumerate(worst)}
    unit = unit_axis("false positive rate")
    roc = Chart("ROC", unit, unit_axis("true positive rate"))
    exactly = Chart(
        "Precision and recall",
        unit_axis("recall"),
        unit_axis("precision"),
    )
    alone = len(found) == 1
    for area, name, truth, chance in sorted(found, key=lambda one: one[1] in inks):
        wrong, right, _ = metrics.roc_curve(truth, chance)
        exact, hit, _ = metrics.precision_recall_curve(truth, chance)
        thin, said = name not in inks, f"{name}, area {area:.3f}"
        ink = inks.get(name, GREY)
        for chart, x, y in ((roc, wrong, right), (exactly, hit, exact)):
            legend = "" if thin or alone else name
            chart.line(*_thinned(x, y), ink, legend, thin=thin, said=said)
    roc.line([0, 1], [0, 1], GREY, "guessing", dotted=True)
    if len(found) > _NAMED:
        for chart in (roc, exactly):
            chart.names.append((f"{len(found) - len(worst)} others", GREY, False))
    return [roc.draw(), exactly.draw()]


def unit_axis(title: str) -> Axis:
    """An axis of shares, with a little room, so that a curve along its end is seen."""
    return Axis(-0.03, 1.03, title, [(k / 5, f"{k / 5:.1g}") for k in range(6)])


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    some = np.unique(np.linspace(0, len(x) - 1, min(_CURVE, len(x))).astype(int))
    return x[some], y[some]


def calibration(scored: Scored) -> Html:
    """How often a prediction of some confidence was right, in ten bins."""
    assert scored.classes is not None
    assert scored.probabilities is not None
    confidence = scored.probabilities.max(1)
    right, of = scored.truth == scored.predicted, ""
    if len(scored.classes) == 2:
        confidence, right = scored.probabilities[:, 1], scored.truth == scored.classes[1]
        of = f" of {scored.classes[1]}"
    bins = np.minimum((confidence * 10).astype(int), 9)
    used = np.unique(bins)
    n = np.array([(bins == one).sum() for one in used])
    x = np.array([confidence[bins == one].mean() for one in used])
    y = np.array([right[bins == one].mean() for one in used])
    # By Agresti and Coull, as the headline's interval.
    middle = (y * n + 2) / (n + 4)
    margin = 1.96 * np.sqrt(middle * (1 - middle) / (n + 4))
    chart = Chart(
        "Calibration",
        unit_axis(f"predicted probability{of}"),
        unit_axis("observed share"),
    )
    chart.line([0, 1], [0, 1], GREY, "ideal", dotted=True)
    chart.whiskers(x, (middle - margin).clip(0), (middle + margin).clip(max=1), COLOURS[0])
    said = [
        f"{k:,} rows predicted {a:.2f} on average: {b:.2f} observed"
        for k, a, b in zip(n, x, y, strict=True)
    ]
    chart.line(x, y, COLOURS[0], "model, 95 % interval")
    chart.dots(x, y, COLOURS[0], said, 3 + 4 * np.sqrt(n / n.max()))
    return chart.draw()


def thresholds(scored: Scored, chosen: float) -> Html:
    """Precision, recall and balanced accuracy of the second of two classes by threshold."""
    found = by_threshold(scored, np.linspace(0.01, 0.99, 99))
    label = "" if scored.classes is None else scored.classes[1]
    chart = Chart(
        "Where to draw the line",
        unit_axis(f"threshold for {label}"),
        unit_axis("share"),
    )
    for place, name in enumerate(("precision", "recall", "balanced accuracy")):
        chart.line(found["threshold"], found[name], colour(place), name)
    chart.upright(chosen, GREY, f"threshold {chosen:.2f}")
    return chart.draw()


def by_threshold(scored: Scored, levels: np.ndarray) -> dict[str, np.ndarray]:
    """What each threshold for the second of two classes finds, misses and wrongly calls."""
    assert scored.classes is not None
    assert scored.probabilities is not None
    truth, chance = scored.truth == scored.classes[1], scored.probabilities[:, 1]
    called = chance[None, :] >= levels[:, None]
    hit, wrong = (called & truth).sum(1), (called & ~truth).sum(1)
    n, others = int(truth.sum()), int((~truth).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = hit / (hit + wrong), hit / np.float64(n)
        balanced = (recall + 1 - wrong / np.float64(others)) / 2
    return {
        "threshold": levels, "called": hit + wrong, "precision": precision, "recall": recall,
        "missed": n - hit, "wrongly called": wrong, "balanced accuracy": balanced,
    }  # fmt: skip


def residuals(scored: Scored) -> list[Html]:
    """Predicted beside true numbers, and the distribution of the errors."""
    some = np.linspace(0, len(scored) - 1, min(_CLOUD, len(scored))).astype(int)
    truth, predicted = scored.truth[some], scored.predicted[some]
    both = np.concatenate([truth, predicted])
    cloud = Chart(
        "Predicted beside true", Axis.around(both, "true"), Axis.around(both, "predicted")
    )
    cloud.cloud(truth, predicted, COLOURS[0])
    ends = [float(both.min()), float(both.max())]
    cloud.line(ends, ends, GREY, "ideal", dotted=True)
    errors = scored.predicted - scored.truth
    furthest = some[np.argsort(-np.abs(errors[some]), kind="stable")[:10]]
    said = [
        f"true {t:.6g}, predicted {p:.6g}"
        for t, p in zip(scored.truth[furthest], scored.predicted[furthest], strict=True)
    ]
    cloud.dots(scored.truth[furthest], scored.predicted[furthest], COLOURS[1], said, 3,
               "largest errors")  # fmt: skip
    return [cloud.draw(), _histogram("Residuals", errors, "predicted − true", COLOURS[1])]


def _histogram(title: str, values: np.ndarray, words: str, ink: str) -> Html:
    low, high = np.quantile(values, [0.005, 0.995])
    if not low < high:
        low, high = float(values.min()) - 0.5, float(values.max()) + 0.5
    counts, edges = np.histogram(np.clip(values, low, high), bins=40, range=(low, high))
    chart = Chart(title, Axis.around(edges, words), Axis(0, 1.05 * max(1, counts.max()), "rows"))
    chart.bars(edges, counts, ink)
    if low < 0 < high:
        chart.upright(0.0, GREY)
    return chart.draw()


def sums(values: np.ndarray, groups: list[tuple[str, str, np.ndarray]]) -> Html:
    """Where the rows lie around the threshold of a tree: stacked bars, one colour a group.

    **Shape** values ``(n_rows,)``; a group is a name, a colour and a mask ``(n_rows,)``.
    """
    low, high = np.quantile(values, [0.005, 0.995])
    low, high = min(low, -1e-9), max(high, 1e-9)
    edges = np.linspace(low, high, 33)
    clipped = np.clip(values, low, high)
    counts = [np.histogram(clipped[mask], bins=edges)[0] for _, _, mask in groups]
    most = max(1, int(np.sum(counts, axis=0).max())) if counts else 1
    axes = Axis.around(edges, "weighted sum − threshold"), Axis(0, 1.05 * most, "rows")
    chart = Chart("", *axes, height=170)
    base = np.zeros(32)
    for (name, ink, _), heights in zip(groups, counts, strict=True):
        chart.bars(edges, heights, ink, name, base)
        base = base + heights
    chart.upright(0.0, GREY)
    return chart.draw("Rows by their sum")


def effect(found: Effect, target: str) -> Html:
    """How the answer changes with a column: the mean, and single rows thin behind it."""
    wanted = f"predicted {target}"
    if found.answers is not None:
        name = found.answers[found.shown]
        wanted = "probability" + (f" of {name}" if len(found.answers) == 2 else "")
    if np.isnan(found.at).all():
        return _effect_of_levels(found, wanted)
    known = ~np.isnan(found.at)
    at, ends = found.at[known], found.at[known]
    gap = (float(ends[-1] - ends[0]) or 1.0) * (0.16 if not known.all() else 0.03)
    ticks = _dates(ends) if found.kind == "date" else None
    across = Axis(float(ends[0]) - 0.03 * gap, float(ends[-1]) + gap, found.column, ticks)
    if ticks is None:
        inner = Chart("", Axis(float(ends[0]), float(ends[-1])), Axis(0, 1))
        across.ticks = list(inner.x.ticks or [])
    if not known.all():
        across.ticks = [*(across.ticks or []), (float(ends[-1]) + 0.75 * gap, "missing")]
    some, shown = _some_curves(found), _shown(found)
    drawn = np.concatenate([some.ravel(), found.mean[:, shown].ravel()])
    chart = Chart(short(found.column, 40), across, _answer_axis(found, drawn, wanted))
    for curve in some.T:
        chart.line(at, curve[known], GREY, thin=True)
    for ink, place in zip(COLOURS, shown, strict=False):
        name = _mean_of(found, place)
        values = found.mean[:, place]
        said = [
            f"{found.column} {cell}: {value:.4g}"
            for cell, value in zip(found.cells, values, strict=True)
        ]
        chart.line(at, values[known], ink, name)
        # No cell stands apart, on the right.
        places = np.where(known, found.at, across.high - 0.25 * gap)
        chart.dots(places, values, ink, said, 3)
    chart.names.append((_rows_of(found, some), GREY, False))
    return chart.draw(f"Effect of {found.column}")


def _mean_of(found: Effect, answer: int) -> str:
    several = found.answers is not None and len(found.answers) > 2
    return found.answers[answer] if several and found.answers else "mean"


def _rows_of(found: Effect, some: np.ndarray) -> str:
    """What the thin curves are."""
    name = _mean_of(found, found.shown)
    return f"{some.shape[1]} single rows" + ("" if name == "mean" else f", {name}")


def _effect_of_levels(found: Effect, wanted: str) -> Html:
    """Levels one below the other, so that their names have room."""
    some, shown = _some_curves(found), _shown(found)
    drawn = np.concatenate([some.ravel(), found.mean[:, shown].ravel()])
    step, names = 22, [short(cell, 20) for cell in found.cells]
    places = np.arange(len(names), dtype=float)
    ticks = list(zip((-places).tolist(), names, strict=True))
    across = _answer_axis(found, drawn, wanted)
    upward = Axis(-len(names) + 0.4, 0.6, "", ticks)
    chart = Chart(short(found.column, 40), across, upward, height=56 + step * len(names))
    for place, row in enumerate(some):
        chart.cloud(row, np.full(len(row), -place), GREY)
    for ink, answer in zip(COLOURS, shown, strict=False):
        name = _mean_of(found, answer)
        values = found.mean[:, answer]
        said = [
            f"{cell}, {100 * share:.0f} % of the rows: {value:.4g}"
            for cell, share, value in zip(found.cells, found.share, values, strict=True)
        ]
        chart.dots(values, -places, ink, said, 5, name)
    chart.names.append((_rows_of(found, some), GREY, False))
    return chart.draw(f"Effect of {found.column}")


def _some_curves(found: Effect) -> np.ndarray:
    n = found.curves.shape[1]
    return found.curves[:, np.linspace(0, n - 1, min(n, _CURVES)).astype(int)]


def _shown(found: Effect) -> list[int]:
    """The answers that move most; of two classes the second alone."""
    if found.answers is None or len(found.answers) == 2:
        return [found.shown]
    moved = np.ptp(found.mean, axis=0)
    moved[found.shown] = np.inf
    return np.argsort(-moved, kind="stable")[:_MEANS].tolist()


def _answer_axis(found: Effect, drawn: np.ndarray, wanted: str) -> Axis:
    if found.answers is None:
        return Axis.around(drawn, wanted)
    low, high = max(0.0, float(drawn.min()) - 0.03), min(1.0, float(drawn.max()) + 0.03)
    return Axis(low - 0.005, high + 0.005, wanted)


def _dates(seconds: np.ndarray) -> list[tuple[float, str]]:
    """Four dates from the first to the last, as exact as tells them apart."""
    low, high = float(seconds[0]), float(seconds[-1])
    days = (high - low) / 86_400
    length = 4 if days > 5 * 365 else 7 if days > 120 else 10 if days > 3 else 16
    found: dict[str, float] = {}
    for at in np.linspace(low, high, 4):
        text = str(np.datetime64(int(at), "s"))[:length].replace("T", " ")
        found.setdefault(text, float(at))
    return [(at, text) for text, at in found.items()]
