import numpy as np
import pytest

from benchmarks import accuracy, accuracy_page

pytest.importorskip("lightgbm", reason="needs lightgbm")
pytest.importorskip("scikit_posthocs", reason="needs scikit-posthocs")


@pytest.fixture
def small_sets(monkeypatch):
    monkeypatch.setattr(accuracy, "MOST_ROWS", 120)
    for module in (accuracy, accuracy_page):
        monkeypatch.setattr(module, "FRESH", ("sklearn-wine", "iris"))
        monkeypatch.setattr(module, "DEVELOPMENT", ("sklearn-breast-cancer",))
        monkeypatch.setattr(module, "REGRESSION", ("sklearn-diabetes",))


def test_cells_become_a_page_with_ranks_tests_and_a_picture(small_sets, tmp_path):
    from nrs.paper.results import Results
    from nrs.paper.table import Cell, Subject

    results = Results(tmp_path)
    for name in ("sklearn-wine", "iris", "sklearn-breast-cancer", "sklearn-diabetes"):
        for method in ("NRS fast", "LightGBM", "RF"):
            cell = Cell(Subject("benchmark", name, method), 0)
            measured = accuracy.measure(cell, {})
            stored = "NRS" if method == "NRS fast" else method
            record = {"status": "ok", "metrics": measured.metrics, "times": measured.times}
            results.write(Cell(Subject("benchmark", name, stored), 0), record)
    accuracy.main(["show", "--results", str(tmp_path), "--out", str(tmp_path / "accuracy")])
    page = (tmp_path / "accuracy.md").read_text()
    assert "Means and ranks over 2 sets" in page
    assert "Wilcoxon" in page
    assert "intervals of NRS cover" in page
    assert (tmp_path / "accuracy.png").stat().st_size > 10_000


def test_a_variant_differs_from_the_default_in_what_it_names():
    model = accuracy._estimator("without gains", "classification", 0)
    X = np.random.default_rng(0).normal(size=(60, 3))
    model.set_params(epochs=1).fit(X, X[:, 0] > 0)
    assert model.recipe_.least_gain == 1.0
    assert (model.network_.gain == 1).all()


def test_methods_that_ran_on_few_sets_are_not_ranked():
    names = tuple("abcde")
    found = {
        "NRS": dict(zip(names, (1.0, 2.0, 3.0, 4.0, 5.0), strict=True)),
        "RF": dict(zip(names, (1.0, 2.0, 2.0, 2.0), strict=False)),
        "TabM": {"a": 1.0, "c": 9.0, "e": 9.0},
    }
    chosen = accuracy_page.ranked(found, names)
    assert list(chosen) == ["NRS", "RF"]
    assert list(chosen["NRS"]) == ["a", "b", "c", "d"]
    assert accuracy_page._against(found, "TabM", more=True) == "0/1/2"
    # Its own sets are ranked, as far as the others have them.
    (line,) = accuracy_page._partial(found, chosen, "accuracy")
    assert "the 2 sets of TabM: TabM 1.50, NRS 2.00, RF 2.50" in line


def test_errors_of_different_units_are_compared_by_ratios():
    chosen = {"NRS": {"a": 1.0, "b": 100.0}, "RF": {"a": 2.0, "b": 800.0}}
    assert accuracy_page._means(chosen, "rmse")[1] == pytest.approx({"NRS": 1.0, "RF": 4.0})
    assert accuracy_page._means(chosen, "accuracy")[1]["RF"] == 401.0
