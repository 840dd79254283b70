"""The estimator benchmark at its smallest."""

from benchmarks import estimators


def test_a_tiny_run_resumes_and_prints(tmp_path, monkeypatch, here, brief):
    here(estimators)
    brief(estimators)
    assert estimators.PREDICT_ROWS == (1, 1_000, 100_000)
    monkeypatch.setattr(estimators, "PREDICT_ROWS", (1, 10, 100))
    path = tmp_path / "report.json"
    methods = ["NRS", "RandomForest(500)"]
    report = estimators.run(["synthetic"], methods, path)
    assert [cell["method"] for cell in report["cells"]] == methods[::-1]
    for cell in report["cells"]:
        assert cell["fit_seconds"] > 0
        assert cell["accuracy"] > 0.6
        assert set(cell["predict_seconds"]) == {"1", "10", "100"}
    again = estimators.run(["synthetic"], methods, path)
    assert again["cells"] == report["cells"]
    text = estimators.tables(again)
    assert "synthetic (400 rows)" in text
    assert text.count("RandomForest(500)") == 5


def test_a_fit_over_the_limit_is_a_lower_bound(monkeypatch):
    def stopped(function, **arguments):
        raise estimators.ChildError("stopped", estimators.OVER_LIMIT)

    monkeypatch.setattr(estimators, "in_fresh_process", stopped)
    report = estimators.run(["synthetic"], ["NRS"], limit=7)
    assert "> 7.0" in estimators.tables(report)
