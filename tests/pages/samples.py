"""Tables for the tests: one of every sort of cell, and names that try to be markup."""

NASTY = "<img src=x onerror=\"alert(1)\"> & 'a' |b| *c* $d$ `e` </script> %{x}"


def cell(row, column, reported=None, measured=None, **rest):
    return {
        "table": "t",
        "row": row,
        "column": column,
        "reported": reported,
        "measured": measured,
    } | rest


def accuracy():
    cells = [
        cell("letter", "NRS", 97.85, 97.92, reported_std=0.1, measured_std=0.12, n=5, status="ok"),
        cell("letter", "RF", 96.14, 98.0, n=5, status="ok"),
        cell("letter", "GBDT", 94.66, None, status="timeout", note="more than 60 s"),
        cell("german", "NRS", 76.6, 72.5, n=5, status="ok", note="epochs are not known"),
        cell("german", "RF", 75.0, 70.0, reported_std=2.0, measured_std=2.0, n=5, status="ok"),
        cell("german", "GBDT", 74.0, None, status="failed", note="ValueError: <nan>"),
        cell("MNIST", "NRS", 98.57, None, status="not run", note="no such file"),
        cell("MNIST", "RF", 96.96, None),
        cell("ours", "NRS", None, 88.0, n=1, status="ok"),
        *(cell(f"row {i}", "NRS", 90.0, status="not run", note="no such file") for i in range(9)),
    ]
    return {
        "name": "accuracy",
        "title": "Accuracy",
        "finding": "NRS is best.",
        "verdict": "It is level.",
        "protocol": "Five trials.\nLast epoch.",
        "kind": "table",
        "x_label": "data set",
        "cells": cells,
        "statistics": {
            "win_tie_lose": {"RF": [3, 1, 0], "GBDT": [2, 2, 0]},
            "average_ranks": {"NRS": 1.25, "RF": 2.0, "GBDT": 2.75},
            "friedman_p": 0.0123,
            "wilcoxon_holm": [["NRS", "RF", 0.3], ["NRS", "GBDT", 0.01], ["RF", "GBDT", 0.2]],
            "scores": {"NRS": [1, 2, 3, 4], "RF": [1, 2, 3, 4], "GBDT": [1, 2, 3, 4]},
        },
    }


def study():
    cells = [
        cell(x, "letter", 97 - 1 / x, 97.1 - 1 / x, reported_std=0.1, measured_std=0.2, n=5)
        for x in (1, 5, 20, 100)
    ]
    return {
        "name": "n_mul",
        "title": "Study of n_mul",
        "kind": "figure",
        "x_label": "n_mul",
        "y_label": "accuracy (%)",
        "cells": [*cells, cell(1, "USPS", 95.0, None)],
    }


def variants():
    cells = [
        cell(row, f"MLP-{i}", level + i, level + i + 0.5, n=5)
        for row, level in (("letter", 95.0), ("yeast", 60.0))
        for i in (2, 3)
    ]
    return {"name": "variants", "kind": "figure", "y_label": "accuracy (%)", "cells": cells}


def speed():
    """Times are shown, not compared; fewer errors are better."""
    return {
        "name": "speed",
        "higher_is_better": False,
        "cells": [
            cell("NRS", "seconds", 10.0, 90.0, tolerance=None),
            cell("NRS", "error", 10.0, 5.0),
            cell("NRS", "accuracy", 90.0, 99.0, higher_is_better=True),
            cell("NRS", "NDCG", 0.5, 0.53, higher_is_better=True, tolerance=0.02),
        ],
    }


def nasty():
    """Every text of a table is markup."""
    texts = dict.fromkeys(("title", "finding", "verdict", "protocol", "x_label", "y_label"), NASTY)
    cells = [
        cell(f"{NASTY} {i}", f"{NASTY} {j}", 90.0 + i, 91.0 + j, n=2, note=f"{NASTY} {i}")
        for i in (0, 1)
        for j in (0, 1)
    ]
    cells.append(cell(NASTY, NASTY, 1.0, None, status="failed", note=NASTY))
    ranks = {f"{NASTY} {i}": 1.0 + i for i in (0, 1)}
    statistics = {
        "average_ranks": ranks,
        "win_tie_lose": {name: [1, 0, 0] for name in ranks},
        "wilcoxon_holm": [[*ranks, 0.5]],
        "reference": NASTY,
    }
    both = {**texts, "cells": cells, "statistics": statistics}
    return [{**both, "name": NASTY}, {**both, "name": f"{NASTY} 2", "kind": "figure"}]


def everything():
    return [accuracy(), study(), variants(), speed(), *nasty()]
