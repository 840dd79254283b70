"""``nrs check``: what was converted and what to know, for people and for programs."""

import json

import pandas as pd
import pytest

from nrs import NRSRegressor
from nrs.tabular.encode.column_encoder import ColumnWarning


def test_check_says_what_was_converted_and_found(run, tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{k};{k % 7},5;0{k % 9 + 1}/0{k % 8 + 1}/2024;{k % 2}\n" for k in range(60))
    path.write_text("nr;size;day;y\n" + rows)
    result = run("check", path, "-t", "y")
    assert result.exit_code == 0, result.output
    assert "numbers with a decimal comma: size" in result.output
    assert "otherwise use --dates mdy" in result.output.replace("\n", " ")
    assert "consider --drop nr" in result.output.replace("\n", " ")
    found = json.loads(
        run("check", path, "-t", "y", "--dates", "dmy", "--drop", "nr", "--json").stdout
    )
    assert found["findings"] == []
    assert len(found["read"]) == 2


def test_check_needs_no_target(run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{k % 5},{k % 3}\n" for k in range(40)))
    assert "nothing to object to" in run("check", path).output
    assert run("check", path, "-t", "c").exit_code == 2


def test_new_rows_are_compared_with_those_of_the_fit(churn, run, tmp_path):
    folder, _ = churn
    model = folder / "churn.safetensors"
    rows = pd.read_csv(folder / "new.csv")
    result = run("check", folder / "new.csv", "--model", model)
    assert result.exit_code == 0, result.output
    assert "nothing to object to" in result.output
    path = tmp_path / "moved.csv"
    rows.assign(usage_gb=rows["usage_gb"] * 1024).to_csv(path, index=False)
    with pytest.warns(ColumnWarning, match="far beyond"):
        found = json.loads(run("check", path, "--model", model, "--json").stdout)
    assert [(one["kind"], one["column"]) for one in found["findings"]] == [("drift", "usage_gb")]
    for command in ("predict", "evaluate"):
        with pytest.warns(ColumnWarning, match="differ from those of training.*'usage_gb' at most"):
            assert run(command, model, path).exit_code == 0
    assert "leave --target" in run("check", path, "--model", model, "-t", "churned").output


def test_a_model_that_was_fitted_in_python_knows_no_training_rows(churn, run, tmp_path):
    rows = pd.DataFrame({"x": range(40)})
    NRSRegressor(preset="fast", epochs=1, verbose=0).fit(rows, rows["x"]).save(tmp_path / "m")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    result = run("check", tmp_path / "rows.csv", "--model", tmp_path / "m")
    assert result.exit_code == 2
    assert "models of nrs fit do" in result.output
