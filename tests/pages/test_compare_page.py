"""The page of a comparison: its table, charts and ticks."""

import numpy as np
import pytest

from nrs.baselines.compare import Compared
from nrs.files.read import read_labelled
from nrs.pages.compare_page import draw_comparison
from tests.pages.test_fit_report import BROWSER, probe_pages


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "".join(f"{k}.5,{k / 7:.3f}\n" for k in range(60)))
    return read_labelled(path, "y")


def test_what_ran_is_drawn_and_what_did_not_says_why(table):
    scores = {"r2": [0.5, 0.7], "rmse": [1.0, 2.0], "mae": [1.0, np.nan]}
    compared = [
        Compared("NRS", scores, [30.0, 40.0], [0.1, 0.1]),
        Compared("LightGBM", scores, [0.02, 0.03], [0.01, 0.01], rounds=[80, 90]),
        Compared("CatBoost", problem="catboost is <not> installed"),
    ]
    page = str(draw_comparison(table, compared, 2, 0))
    assert page.count("<circle") == 4
    for words in ("0.6000 ± 0.1414", "85 rounds", "catboost is &lt;not&gt; installed", ">0.1<"):
        assert words in page, words
    assert "Scores against time" in str(draw_comparison(table, compared[2:], 2, 0))


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome is installed")
def test_nothing_overlaps(table, tmp_path):
    scores = {"r2": [0.5, 0.7], "rmse": [1.0, 2.0], "mae": [1.0, 3.0]}
    names = ["NRS", "RF", "XGBoost", "LightGBM", "CatBoost", "ThunderGBM GBDT"]
    compared = [
        Compared(name, scores, [3.0**k], [0.1], settings={"n_estimators": 2000, "patience": 50})
        for k, name in enumerate(names)
    ]
    pages = {"compared": str(draw_comparison(table, compared, 2, 0))}
    assert all(probe["charts"] == 2 for probe in probe_pages(pages, tmp_path))
