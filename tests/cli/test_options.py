"""Options that several commands share."""

import numpy as np
import pandas as pd
import pytest
import typer

from nrs import NRSRegressor
from nrs.cli.options import check_jobs, loss_of, signs_of


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


def test_losses_and_quantiles_are_read():
    assert loss_of("poisson", None) == {"loss": "poisson", "quantiles": None}
    for loss, quantiles, message in [
        ("hinge", None, "loss must be one of"),
        ("squared", "half", "--quantiles needs comma-separated numbers"),
        ("squared", "0.9,0.1", "quantiles must be ascending"),
        ("poisson", "0.5", "quantiles are for loss='quantile'"),
        ("aft", None, "two bounds for each time"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss_of(loss, quantiles)


def test_quantiles_come_out_as_columns(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=90)
    pd.DataFrame({"x": x, "y": np.round(np.exp(x))}).to_csv("rows.csv", index=False)
    given = ("fit", "rows.csv", "-t", "y", "--preset", "fast", "--no-report")
    # Few whole numbers would be classes.
    result = run(*given, "--quantiles", "0.1,0.5,0.9", "--out", "q")
    assert result.exit_code == 0, result.output
    assert run("predict", "q.safetensors", "rows.csv", "-o", "out.csv").exit_code == 0
    found = pd.read_csv("out.csv")
    assert list(found) == ["prediction", "quantile_0.1", "quantile_0.5", "quantile_0.9"]
    assert (found["quantile_0.1"] <= found["quantile_0.9"]).all()
    result = run(*given, "--loss", "gamma", "--out", "g")
    assert result.exit_code == 2
    assert "needs y above 0; got 0" in result.output
    result = run(*given, "--loss", "poisson", "--task", "classification")
    assert result.exit_code == 2
    assert "are for a numeric target" in result.output


@pytest.mark.parametrize("more", [(), ("--stream",), ("--preset", "single")])
def test_a_column_of_offsets_is_read_wherever_a_model_is_used(run, tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, hours = rng.normal(size=120), rng.uniform(1, 20, size=120)
    rows = {"x": x, "log_hours": np.log(hours), "n": rng.poisson(hours * np.exp(x / 2))}
    pd.DataFrame(rows).to_parquet("rows.parquet")
    given = ("fit", "rows.parquet", "-t", "n", "--no-report", "--out", "m", "--preset", "fast")
    result = run(*given, "--loss", "poisson", "--offset", "log_hours", *more)
    assert result.exit_code == 0, result.output
    assert run("predict", "m.safetensors", "rows.parquet", "-o", "out.csv").exit_code == 0
    model = NRSRegressor.load("m.safetensors")
    assert model.feature_names_in_.tolist() == ["x"]
    expected = model.predict(pd.DataFrame({"x": x}), offset=np.log(hours))
    np.testing.assert_allclose(pd.read_csv("out.csv")["prediction"], expected)
    result = run("evaluate", "m.safetensors", "rows.parquet", "-t", "n")
    assert result.exit_code == 0, result.output
    result = run(*given, "--offset", "log_hours")
    assert result.exit_code == 2
    assert "losses with a log link" in result.output
