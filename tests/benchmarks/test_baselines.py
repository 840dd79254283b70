"""The benchmark of the comparison, on a few rows."""

import json

import numpy as np
import pytest

from benchmarks import baselines


def test_synthetic_rows_have_the_shape_of_letter():
    rows = baselines.letters(None)
    assert rows["X_train"].shape == (15_000, 16)
    assert rows["X_test"].shape == (5_000, 16)
    assert len(np.unique(rows["y_train"])) == 26


def test_the_data_are_found(monkeypatch, tmp_path):
    monkeypatch.delenv("NRS_DATA", raising=False)
    assert baselines.find_data(None) is None
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    assert baselines.find_data(None) is None
    (tmp_path / "letter.npz").touch()
    assert baselines.find_data(None) == str(tmp_path / "letter.npz")
    assert baselines.find_data("other.npz") == "other.npz"


@pytest.mark.slow
def test_the_table_names_what_was_not_run(monkeypatch, tmp_path, capsys, here):
    monkeypatch.delenv("NRS_DATA", raising=False)
    here(baselines)
    missing = "thundergbm is not installed"
    monkeypatch.setattr(
        baselines, "available", lambda name: (False, missing) if "Thunder" in name else (True, "")
    )
    path = tmp_path / "baselines.json"
    methods = ["NDF", "RF", "ThunderGBM RF"]
    short = ["--rows", "300", "--epochs", "1", "--trees", "3", "--json", str(path)]
    assert baselines.main(["--methods", *methods, *short]) == 0
    printed = capsys.readouterr().out
    assert f"not run: {missing}" in printed
    assert "where an epoch of NDF goes" in printed
    report = json.loads(path.read_text())
    assert [result["method"] for result in report["methods"]] == methods
    assert report["methods"][1]["epoch_seconds"] is None
    ndf, mlp = report["epochs"]["ndf_parameters"], report["epochs"]["mlp_parameters"]
    assert mlp == pytest.approx(ndf, rel=0.02)
