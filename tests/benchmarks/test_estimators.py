"""The estimator benchmark at its smallest."""

import pytest

from benchmarks import estimators


@pytest.mark.slow
def test_a_tiny_run_resumes_and_prints(tmp_path):
    path = tmp_path / "report.json"
    methods = ["NRS", "RandomForest(500)"]
    report = estimators.run(["synthetic"], methods, path, again=[])
    assert [cell["method"] for cell in report["cells"]] == methods[::-1]
    for cell in report["cells"]:
        assert cell["fit_seconds"] > 0
        assert cell["accuracy"] > 0.6
        assert set(cell["predict_seconds"]) == {"1", "1000", "100000"}
    again = estimators.run(["synthetic"], methods, path, again=[])
    assert again["cells"] == report["cells"]
    text = estimators.tables(again)
    assert "synthetic (400 rows)" in text
    assert text.count("RandomForest(500)") == 5
