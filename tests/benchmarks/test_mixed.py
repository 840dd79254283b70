"""The section of mixed tables, on made ones: strings, missing cells, a level of few rows."""

import numpy as np
import pytest

from benchmarks import accuracy, accuracy_page, mixed, mixed_page, peers
from benchmarks.cost import counting
from nrs import NRSClassifier
from nrs.paper.results import Results
from nrs.paper.table import Cell, NotHereError, Subject
from tests.benchmarks.conftest import made_table

pytest.importorskip("pandas", reason="needs pandas")
pytest.importorskip("pyarrow", reason="needs pyarrow")


def test_all_methods_get_the_same_rows_and_at_most_so_many(mixed_folder, monkeypatch):
    X, y, X_test, y_test = mixed.read("loan", 0)
    assert (len(X), len(X_test)) == (105, 45)
    assert not set(X.index) & set(X_test.index)
    # Stratified.
    assert np.abs(np.bincount(y) / 105 - np.bincount(y_test) / 45).max() < 0.02
    assert list(mixed.read("loan", 1)[0].index) != list(X.index)
    monkeypatch.setattr(accuracy, "MOST_ROWS", 60)
    fewer, _, same_test, _ = mixed.read("loan", 0)
    assert len(fewer) == 60
    assert set(fewer.index) < set(X.index)
    assert same_test.equals(X_test)


def test_a_table_that_is_not_here_is_named():
    with pytest.raises(NotHereError, match=r"sick.parquet not found .* NRS_DATA"):
        mixed.read("sick", 0)


@pytest.mark.parametrize("method", ["RF", "HGB", "LightGBM", "XGBoost", "CatBoost"])
def test_peers_read_categories_and_missing_cells(mixed_folder, method):
    packages = {"LightGBM": "lightgbm", "XGBoost": "xgboost", "CatBoost": "catboost"}
    pytest.importorskip(packages.get(method, "sklearn"), reason=f"needs {method}")
    of_classes = mixed.measure(Cell(Subject("mixed", "loan", method), 0), {})
    # The levels alone give 70 %.
    assert of_classes.metrics["accuracy"] > 60
    assert of_classes.metrics["auc"] > 75
    of_numbers = mixed.measure(Cell(Subject("mixed", "ames", method), 0), {})
    assert of_numbers.metrics["rmse"] < 0.9 * mixed.read("ames", 0)[3].std()


def test_levels_that_only_test_rows_have_are_predicted():
    frame, value = made_table(60)
    model = peers.at_defaults_on_frames("HGB", "regression", 0).fit(frame, value)
    unseen = frame.assign(**{"a, name": "never seen"})
    assert np.isfinite(model.predict(unseen)).all()


def test_columns_of_too_many_levels_keep_the_most_frequent():
    frame, value = made_table(1500, n_levels=400)
    model = peers.at_defaults_on_frames("HGB", "regression", 0).fit(frame, value)
    levels = model.levels_["a, name"]
    assert len(levels) == 255
    assert set(levels[:-1]) <= set(frame["a, name"])
    counts = frame["a, name"].value_counts()
    assert counts[levels[:-1]].min() >= counts.drop(levels[:-1]).max()


def test_the_cost_of_a_fit_grows_with_rows_and_epochs(mixed_folder):
    X, y, _, _ = mixed.read("loan", 0)

    def cost(rows=105, **given):
        model = NRSClassifier(preset="fast", random_state=0, verbose=0, n_jobs=1, **given)
        with counting() as work:
            model.fit(X[:rows], y[:rows])
        return work.total, model

    once, model = cost(epochs=1)
    network, recipe = model.network_, model.recipe_
    members, subspaces, size = network.index.shape
    after = subspaces * recipe.hidden[0] + recipe.hidden[0] * 3
    trained = members * 105 * (2 * subspaces * size + 3 * after)
    # Rows are also scored: out of bag, and for importances.
    assert once > trained
    assert 2 * trained < cost(epochs=3)[0] - once < 4 * trained
    assert cost(rows=53, epochs=1)[0] < 0.6 * once


def written(tmp_path, values):
    """Cells of made-up log-losses, by method, set and seed."""
    results = Results(tmp_path)
    for (method, name), by_seed in values.items():
        for seed, value in enumerate(by_seed):
            metric = "rmse" if name in mixed.NUMBERS else "log_loss"
            metrics = dict.fromkeys(mixed_page.OF_CLASSES, value) | {metric: value}
            record = {
                "status": "ok", "metrics": metrics, "data": {"multiply_adds": 1000 * (1 + seed)},
                "times": {"fit_cpu_s": 1.0, "predict_cpu_s": 1.0},
            }  # fmt: skip
            results.write(Cell(Subject("mixed", name, method), seed), record)


def test_the_section_counts_wins_and_lists_sets_that_are_behind(tmp_path, monkeypatch):
    for module in (mixed, mixed_page):
        monkeypatch.setattr(module, "CLASSES", ("loan", "sick", "car"))
        monkeypatch.setattr(module, "NUMBERS", ("ames",))
    written(
        tmp_path,
        {
            ("NRS", "loan"): [0.5, 0.5, 0.5],
            ("CatBoost", "loan"): [0.6, 0.6],  # Its third seed is not there yet.
            ("RF", "loan"): [0.4, 0.41, 0.9],
            ("NRS", "sick"): [0.1], ("CatBoost", "sick"): [0.099], ("RF", "sick"): [0.3],
            ("NRS", "car"): [0.01, 0.03], ("CatBoost", "car"): [0.005, 0.005],
            ("RF", "car"): [0.5, 0.5],
            ("NRS", "ames"): [1.0], ("CatBoost", "ames"): [1.2], ("RF", "ames"): [1.3],
        },
    )  # fmt: skip
    text = mixed_page.section(tmp_path)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["CatBoost", "1 of 3", "1 of 1", "2 of 4"] in rows
    assert ["RF", "2 of 3", "1 of 1", "3 of 4"] in rows
    # On loan only two seeds are compared; sick is within the bounds; car's seeds differ too much.
    assert [
        "loan", "RF", "0.5000", "0.4050", "+0.0950", "+23.5 %", "0.0100", "2", "8 % and 0.005",
    ] in rows  # fmt: skip
    assert [
        "car", "CatBoost", "0.0200", "0.0050", "+0.0150", "+300.0 %", "0.0200", "2", "–",
    ] in rows  # fmt: skip
    assert not any(row[:2] == ["sick", "CatBoost"] for row in rows)
    assert "Mean calibration error on 3 sets: NRS" in text
    assert "Wilcoxon" in text
    assert "median of 4 sets: 1.25e+03" in text
    assert accuracy_page.MEASURES["auc"][0]


def test_tests_are_adjusted_for_the_number_of_peers():
    names = tuple("abcdefgh")
    ours = {name: 0.1 + 0.01 * k for k, name in enumerate(names)}
    worse, level = ({n: v + add for n, v in ours.items()} for add in (0.05, 0.0))
    found = {"NRS": ours, "RF": worse, "HGB": level, "TabM": {"a": 0.0}}
    text = mixed_page.against({"log_loss": found})
    # All eight signs alike: p = 2 / 2 ** 8, times two peers.
    assert "8/0/0, p = 0.016" in text
    assert "0/8/0, p = 1.000" in text
    assert "TabM" not in text
    assert "0/0/8, p = 0.016" in mixed_page.against({"accuracy": found})


def test_costs_of_two_commits_are_compared_as_ratios(tmp_path):
    written(tmp_path / "old", {("NRS", "loan"): [0.5], ("NRS", "ames"): [0.5]})
    written(tmp_path / "new", {("NRS", "loan"): [0.5, 0.5]})
    results = Results(tmp_path / "new")
    cell = Cell(Subject("mixed", "loan", "NRS"), 0)
    record = results.read(cell)
    results.write(cell, {"status": "ok", "data": {"multiply_adds": 1300}} | {
        key: record[key] for key in ("metrics", "times")
    })  # fmt: skip
    text = mixed_page.cost(tmp_path / "new", tmp_path / "old")
    assert "median of 1 sets: 1.30 (from 1.30 to 1.30)" in text
    assert "over those" not in mixed_page.cost(tmp_path / "new")
