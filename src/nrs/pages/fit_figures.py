"""The figures of a fit's report, as plotly's own description of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrs.pages.figures import plain
from nrs.pages.series import COLOURS

# Points of a curve, and of a cloud of points: more only make the page larger.
_CURVE, _CLOUD = 200, 2000
_MAX_CLASSES = 12
_MARGIN = {"l": 50, "r": 12, "t": 58, "b": 44}


def colour(place: int) -> str:
    """The colour of a class."""
    return COLOURS[place % len(COLOURS)]


def draw_panel(
    title: str, data: list[dict[str, Any]], x: str, y: str, height: int = 320, **layout: Any
) -> dict[str, Any]:
    """A panel of these traces with a title and the names of its axes."""
    return {
        "data": data,
        "layout": {
            "title": {"text": f"<b>{plain(title)}</b>", "font": {"size": 14}, "x": 0.5},
            "height": height,
            "margin": _MARGIN,
            "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
            "hovermode": "closest",
            **layout,
            "xaxis": {"title": {"text": x}, "automargin": True, **layout.get("xaxis", {})},
            "yaxis": {"title": {"text": y}, "automargin": True, **layout.get("yaxis", {})},
        },
    }


def draw_line(name: str, x: Any, y: Any, ink: str, **more: Any) -> dict[str, Any]:
    """A line of this colour."""
    return {
        "type": "scatter", "mode": "lines", "name": plain(name), "x": as_numbers(x),
        "y": as_numbers(y), "line": {"color": ink, "width": 2} | more.pop("line", {}), **more,
    }  # fmt: skip


def learning_curves(history: Any) -> dict[str, Any]:
    """Losses by epoch, or by round of a forest, with the one that was kept."""
    epochs = [value + 1 for value in history["epoch"]]
    marks = "lines+markers" if len(epochs) < 3 else "lines"
    data = [draw_line("training", epochs, history["train_loss"], COLOURS[0], mode=marks)]
    shapes = []
    if "val_loss" in history:
        data.append(
            draw_line("not learned from", epochs, history["val_loss"], COLOURS[1], mode=marks)
        )
    if history.best_epoch is not None:
        at = history.best_epoch + 1
        shapes = [_upright(at, 1, {"color": COLOURS[6], "dash": "dot", "width": 1.5})]
    return draw_panel("Loss", data, "round", "loss", shapes=shapes)


def score_curve(history: Any) -> dict[str, Any] | None:
    """The metric that decided which weights to keep, where there was one."""
    names = [name for name in history.columns if name.startswith("val_") and name != "val_loss"]
    if not names:
        return None
    epochs = [value + 1 for value in history["epoch"]]
    words = names[-1].removeprefix("val_").replace("_", " ")
    return draw_panel(
        words.capitalize(),
        [draw_line(words, epochs, history[names[-1]], COLOURS[2])],
        "round",
        words,
    )


def confusion(scored: Any) -> dict[str, Any]:
    """How often each class was taken for each; the most frequent classes where there are many."""
    labels, counts = np.unique(scored.truth, return_counts=True)
    labels = np.sort(labels[np.argsort(-counts)[: 2 * _MAX_CLASSES]])
    table = np.array(
        [[int(((scored.truth == a) & (scored.predicted == b)).sum()) for b in labels]
         for a in labels]
    )  # fmt: skip
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    names = [plain(label) for label in labels.tolist()]
    few = len(labels) <= _MAX_CLASSES
    data = {
        "type": "heatmap", "x": names, "y": names, "z": as_numbers(shares),
        "text": [[f"{n:,}" for n in row] for row in table.tolist()],
        "texttemplate": "%{text}" if few else "",
        "hovertemplate": "%{y} taken for %{x}: %{text}<extra></extra>",
        "colorscale": [[0, "rgba(0,114,178,0.04)"], [1, "rgba(0,114,178,0.85)"]],
        "zmin": 0, "zmax": 1, "showscale": False,
    }  # fmt: skip
    axis = {"type": "category"}
    return draw_panel(
        "Confusion matrix", [data], "predicted", "true",
        xaxis=axis, yaxis=axis | {"autorange": "reversed"},
    )  # fmt: skip


def roc_and_precision(scored: Any) -> list[dict[str, Any]]:
    """ROC and precision–recall curves: of the second of two classes, else of each."""
    from sklearn import metrics

    roc, precision = [], []
    classes = scored.classes
    shown = [1] if len(classes) == 2 else range(min(len(classes), _MAX_CLASSES))
    for place in shown:
        truth, chance = scored.truth == classes[place], scored.probabilities[:, place]
        if not 0 < truth.sum() < len(truth):
            continue
        wrong, right, _ = metrics.roc_curve(truth, chance)
        exact, found, _ = metrics.precision_recall_curve(truth, chance)
        name, ink = str(classes[place]), colour(place)
        roc.append(draw_line(name, *_thinned(wrong, right), ink))
        precision.append(draw_line(name, *_thinned(found, exact), ink))
    guess = _diagonal("guessing", [0, 1])
    # A little room, so that a curve along the edge is seen.
    unit = {"range": [-0.02, 1.02]}
    both: dict[str, Any] = {"xaxis": unit, "yaxis": unit, "showlegend": len(classes) > 2}
    return [
        draw_panel("ROC", [*roc, guess], "false positive rate", "true positive rate", **both),
        draw_panel("Precision and recall", precision, "recall", "precision", **both),
    ]


def calibration(scored: Any) -> dict[str, Any]:
    """How often a prediction of some confidence was right, in ten bins."""
    confidence = scored.probabilities.max(1)
    right = scored.truth == scored.predicted
    if len(scored.classes) == 2:
        confidence, right = scored.probabilities[:, 1], scored.truth == scored.classes[1]
    bins = np.minimum((confidence * 10).astype(int), 9)
    points = [
        (confidence[bins == b].mean(), right[bins == b].mean(), int((bins == b).sum()))
        for b in range(10)
        if (bins == b).any()
    ]
    x, y, n = zip(*points, strict=True)
    most = max(n)
    data = {
        "type": "scatter", "mode": "lines+markers", "x": as_numbers(x), "y": as_numbers(y),
        "marker": {"color": COLOURS[0], "size": [6 + 14 * (k / most) ** 0.5 for k in n]},
        "line": {"color": COLOURS[0], "width": 1.5}, "name": "model",
        "hovertext": [f"{k:,} rows" for k in n],
    }  # fmt: skip
    ideal = _diagonal("ideal", [0, 1])
    unit = {"range": [-0.04, 1.04]}
    of = f" of {plain(scored.classes[1])}" if len(scored.classes) == 2 else ""
    return draw_panel(
        "Calibration", [ideal, data], f"predicted probability{of}", "observed share",
        xaxis=unit, yaxis=unit, showlegend=False,
    )  # fmt: skip


def residuals(scored: Any) -> list[dict[str, Any]]:
    """Predicted beside true numbers, and the distribution of the errors."""
    some = np.linspace(0, len(scored) - 1, min(_CLOUD, len(scored))).astype(int)
    truth, predicted = scored.truth[some], scored.predicted[some]
    ends = [float(min(truth.min(), predicted.min())), float(max(truth.max(), predicted.max()))]
    cloud = {
        "type": "scatter", "mode": "markers", "x": as_numbers(truth), "y": as_numbers(predicted),
        "marker": {"color": COLOURS[0], "size": 5, "opacity": 0.5}, "name": "rows",
    }  # fmt: skip
    ideal = _diagonal("ideal", ends)
    errors = scored.predicted - scored.truth
    counts, edges = np.histogram(errors, bins=40)
    bars = draw_bars((edges[1:] + edges[:-1]) / 2, counts, COLOURS[1])
    return [
        draw_panel("Predicted beside true", [ideal, cloud], "true", "predicted", showlegend=False),
        draw_panel("Residuals", [bars], "predicted − true", "rows", bargap=0.03, showlegend=False),
    ]


def importance(names: list[str], shares: np.ndarray, most: int = 20) -> dict[str, Any]:
    """The columns that count most, as bars."""
    order = np.argsort(-shares)[:most][::-1]
    data = {
        "type": "bar", "orientation": "h", "x": as_numbers(100 * shares[order]),
        "y": [plain(_short(names[place])) for place in order.tolist()],
        "marker": {"color": COLOURS[0]},
        "hovertemplate": "%{y}: %{x:.1f} %<extra></extra>",
    }  # fmt: skip
    return draw_panel(
        "Importance", [data], "share of the response, %", "",
        height=90 + 26 * max(len(order), 3), yaxis={"type": "category"},
    )  # fmt: skip


def sums(values: np.ndarray, groups: list[tuple[str, str, np.ndarray]]) -> dict[str, Any]:
    """Where the rows lie around the threshold of a tree: stacked bars, one colour a group.

    **Shape** values ``(n_rows,)``; a group is a name, a colour and a mask ``(n_rows,)``.
    """
    low, high = np.quantile(values, [0.005, 0.995])
    low, high = min(low, -1e-9), max(high, 1e-9)
    edges = np.linspace(low, high, 33)
    clipped = np.clip(values, low, high)
    data = []
    for name, ink, mask in groups:
        counts, _ = np.histogram(clipped[mask], bins=edges)
        data.append(draw_bars((edges[1:] + edges[:-1]) / 2, counts, ink) | {"name": plain(name)})
    threshold = _upright(0, 1.02, {"color": COLOURS[6], "width": 2})
    panel = draw_panel(
        "", data, "weighted sum − threshold", "rows", height=190,
        barmode="stack", bargap=0.03, shapes=[threshold], showlegend=False,
    )  # fmt: skip
    panel["layout"]["margin"] = {"l": 44, "r": 8, "t": 8, "b": 40}
    del panel["layout"]["title"]
    return panel


def _upright(x: float, top: float, line: dict[str, Any]) -> dict[str, Any]:
    """A vertical line up to this share of the height."""
    place = {"x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": top}
    return {"type": "line", **place, "line": line}


def _diagonal(name: str, ends: list[float]) -> dict[str, Any]:
    return draw_line(name, ends, ends, COLOURS[6], line={"dash": "dot", "width": 1})


def draw_bars(x: Any, y: Any, ink: str) -> dict[str, Any]:
    """Bars of this colour."""
    return {"type": "bar", "x": as_numbers(x), "y": as_numbers(y), "marker": {"color": ink}}


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    some = np.unique(np.linspace(0, len(x) - 1, min(_CURVE, len(x))).astype(int))
    return x[some], y[some]


def as_numbers(values: Any) -> Any:
    """JSON numbers of five digits; what is not finite is a gap."""
    array = np.asarray(values, dtype=float)
    if array.ndim == 2:
        return [as_numbers(row) for row in array]
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in array.tolist()]


def _short(text: str, most: int = 28) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
