"""NRS beside a random forest and boosted trees, on data that ships with scikit-learn.

Run by `make demo`, or `python examples/demo.py`. It fits every method on the same folds, prints a
table and writes `demo-report.html`, a page that works offline.
"""

import html
import time
import warnings
from pathlib import Path

import lightgbm
import numpy as np
import xgboost
from plotly.subplots import make_subplots
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn import datasets
from sklearn.base import is_classifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import KFold, StratifiedKFold

import nrs

SEED = 0
FOLDS = 3
REPORT = Path("demo-report.html")
NRS = "NRS"
COLOURS = {NRS: "#c8553d", "Random forest": "#588157", "XGBoost": "#4878a8", "LightGBM": "#8a6fb0"}

CLASSIFIERS = {
    NRS: lambda: nrs.NRSClassifier(random_state=SEED, verbose=0),
    "Random forest": lambda: RandomForestClassifier(500, random_state=SEED),
    "XGBoost": lambda: xgboost.XGBClassifier(random_state=SEED, n_jobs=1),
    "LightGBM": lambda: lightgbm.LGBMClassifier(random_state=SEED, n_jobs=1, verbose=-1),
}
REGRESSORS = {
    NRS: lambda: nrs.NRSRegressor(random_state=SEED, verbose=0),
    "Random forest": lambda: RandomForestRegressor(500, random_state=SEED),
    "XGBoost": lambda: xgboost.XGBRegressor(random_state=SEED, n_jobs=1),
    "LightGBM": lambda: lightgbm.LGBMRegressor(random_state=SEED, n_jobs=1, verbose=-1),
}
TASKS = {
    "Digits": (datasets.load_digits, CLASSIFIERS, "accuracy"),
    "Breast cancer": (datasets.load_breast_cancer, CLASSIFIERS, "accuracy"),
    "Wine": (datasets.load_wine, CLASSIFIERS, "accuracy"),
    "Diabetes": (datasets.load_diabetes, REGRESSORS, "R²"),
}


def measure() -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """Score and fit time of every method on every fold of every data set."""
    columns = (
        TextColumn("[bold]{task.description:<42}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(),
    )  # fmt: skip
    results: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:
        total = sum(len(methods) for _, methods, _ in TASKS.values()) * FOLDS
        bar = progress.add_task("", total=total)
        for title, (load, methods, _) in TASKS.items():
            X, y = load(return_X_y=True, as_frame=True)
            results[title] = {}
            for name, make in methods.items():
                progress.update(bar, description=f"{title}: {name}")
                scores, seconds = [], []
                for train, test in folds(make(), X, y):
                    start = time.perf_counter()
                    model = make().fit(X.iloc[train], y.iloc[train])
                    seconds.append(time.perf_counter() - start)
                    scores.append(model.score(X.iloc[test], y.iloc[test]))
                    progress.advance(bar)
                results[title][name] = {"score": np.array(scores), "seconds": np.array(seconds)}
    return results


def folds(model, X, y):
    """The same folds for every method."""
    splitter = StratifiedKFold if is_classifier(model) else KFold
    return splitter(FOLDS, shuffle=True, random_state=SEED).split(X, y)


def show(results) -> None:
    """Print the comparison; the best mean of a row is bold."""
    table = Table(title=f"Mean of {FOLDS} folds, and seconds to fit", title_justify="left")
    table.add_column("Data", no_wrap=True)
    for name in CLASSIFIERS:
        table.add_column(name, justify="right", no_wrap=True)
    for title, by_method in results.items():
        measure = TASKS[title][2]
        best = max(cell["score"].mean() for cell in by_method.values())
        cells = []
        for cell in by_method.values():
            mean = cell["score"].mean()
            text = f"{100 * mean:.1f} %" if measure == "accuracy" else f"{mean:.3f}"
            text = f"[bold]{text}[/bold]" if mean == best else text
            cells.append(f"{text} [dim]{cell['seconds'].mean():.1f}s[/dim]")
        table.add_row(title if measure == "accuracy" else f"{title} ({measure})", *cells)
    Console().print(table)


def draw(results) -> str:
    """One panel a data set: the folds of each method as points, their mean as a line."""
    figure = make_subplots(1, len(results), subplot_titles=list(results), horizontal_spacing=0.06)
    for column, by_method in enumerate(results.values(), 1):
        for name, cell in by_method.items():
            colour = COLOURS[name]
            figure.add_scatter(
                x=[name] * FOLDS, y=cell["score"], mode="markers", opacity=0.55,
                marker={"color": colour, "size": 9}, hovertemplate="%{y:.3f}",
                name=name, showlegend=False, row=1, col=column,
            )  # fmt: skip
            figure.add_scatter(
                x=[name], y=[cell["score"].mean()], mode="markers",
                marker={"color": colour, "size": 34, "symbol": "line-ew", "line": {"width": 3}},
                hovertemplate="mean %{y:.3f}", name=name, showlegend=False, row=1, col=column,
            )  # fmt: skip
        figure.update_yaxes(tickformat=".3~f", row=1, col=column)
    for trace in figure.data:
        trace.marker.line.color = trace.marker.color
    figure.update_layout(
        template="plotly_white", height=420, margin={"t": 60, "b": 90, "l": 50, "r": 10}
    )
    return figure.to_html(full_html=False, include_plotlyjs=True)


def write_page(results) -> None:
    """The picture and the numbers as one page without outside parts."""
    rows = "".join(
        f"<tr><td>{html.escape(title)}</td>"
        + "".join(
            f"<td>{cell['score'].mean():.3f} ± {cell['score'].std():.3f}"
            f"<br><small>{cell['seconds'].mean():.1f} s</small></td>"
            for cell in by_method.values()
        )
        + "</tr>"
        for title, by_method in results.items()
    )
    heads = "".join(f"<th>{name}</th>" for name in CLASSIFIERS)
    REPORT.write_text(
        f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>NRS beside forests and boosting</title>
<style>
 body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 1150px; margin: 2rem auto;
        padding: 0 1rem; color: #222 }}
 table {{ border-collapse: collapse; width: 100% }}
 td, th {{ padding: .4rem .6rem; border-bottom: 1px solid #ddd; text-align: right }}
 td:first-child, th:first-child {{ text-align: left }}
 .scroll {{ overflow-x: auto }} .scroll > div {{ min-width: 760px }}
</style>
<h1>NRS beside forests and boosting</h1>
<p>Accuracy (R² for Diabetes) on {FOLDS} folds that are the same for every method, each at its
defaults, one thread; a point is a fold, a line the mean. Made by <code>make demo</code>, seed
{SEED}, nrs {nrs.__version__}.</p>
<div class="scroll"><div>{draw(results)}</div></div>
<div class="scroll"><table><tr><th>mean ± deviation, seconds to fit</th>{heads}</tr>{rows}</table>
</div></html>""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    # LightGBM warns of names it made itself.
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    # A fold may hold a cell that is far beyond those of the others.
    warnings.filterwarnings("ignore", category=nrs.ColumnWarning)
    measured = measure()
    show(measured)
    write_page(measured)
    Console().print(f"The picture: [link=file://{REPORT.resolve()}]{REPORT}[/link]")
