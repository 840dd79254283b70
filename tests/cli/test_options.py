"""Options that several commands share."""

import numpy as np
import pandas as pd
import pytest
import typer

from nrs import NRSRegressor
from nrs.cli.options import check_jobs, signs_of


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "m", "x.csv", "--jobs"),
        ("fit", "x.csv", "-t", "y", "--jobs"),
        ("fit", "x.csv", "-t", "y", "--workers"),
        ("tune", "x.csv", "-t", "y", "--jobs"),
        ("paper", "run", "accuracy", "--jobs"),
    ],
    ids=lambda arguments: arguments[0] + arguments[-1],
)
def test_jobs_far_above_the_cores_are_refused(arguments, run):
    result = run(*arguments, 100_000)
    assert result.exit_code == 2
    assert "far above the" in result.output
    assert "use at most" in " ".join(result.output.replace("│", " ").split())


def test_jobs_near_the_cores_pass(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [check_jobs(count) for count in (-1, 1, 32, None)] == [-1, 1, 32, None]
    with pytest.raises(typer.BadParameter, match=r"33 is far above the 8 cores .* at most 32"):
        check_jobs(33)


def test_signs_of_columns_are_read():
    assert signs_of(None) is None
    assert signs_of(["age=+1, price=-1", "x=1"]) == {"age": 1, "price": -1, "x": 1}
    for wrong in ("age", "age=2", "=1", "age=+1,"):
        with pytest.raises(ValueError, match="COLUMN="):
            signs_of([wrong])


def test_a_fit_obeys_its_signs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 17},{-(k % 17) + k % 3}" for k in range(120)]
    (tmp_path / "rows.csv").write_text("x,y\n" + "\n".join(rows))
    given = ["fit", "rows.csv", "-t", "y", "--preset", "fast", "--no-report", "--task"]
    result = run(*given, "regression", "--monotone", "x=+1")
    assert result.exit_code == 0, result.output
    predicted = NRSRegressor.load(tmp_path / "rows.safetensors").predict(
        pd.DataFrame({"x": range(17)})
    )
    assert (np.diff(predicted) >= 0).all()
    result = run(*given, "regression", "--monotone", "z=+1")
    assert result.exit_code == 2
    assert "monotone names 'z'" in result.output
