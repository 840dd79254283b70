"""Options that several commands share."""

import numpy as np
import pandas as pd
import pytest
import typer

from nrs import NRSClassifier, NRSRegressor
from nrs.cli.options import check_jobs, class_settings, loss_of, signs_of


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
    result = run(*given, "regression", "--monotone", "z=+1", "--force")
    assert result.exit_code == 2
    assert "monotone names 'z'" in result.output


def test_losses_and_quantiles_are_read():
    assert loss_of("poisson", None) == {"loss": "poisson", "quantiles": None}
    for loss, quantiles, message in [
        ("hinge", None, "loss must be one of"),
        ("squared", "half", "--quantiles needs comma-separated numbers"),
        ("squared", "0.9,0.1", "quantiles must be ascending"),
        ("poisson", "0.5", "quantiles are for loss='quantile'"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss_of(loss, quantiles)


def test_quantiles_come_out_as_columns(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=90)
    pd.DataFrame({"x": x, "y": np.round(np.exp(x))}).to_csv("rows.csv", index=False)
    given = ("fit", "rows.csv", "-t", "y", "--preset", "fast", "--no-report")
    # Few whole numbers would be classes.
    result = run(*given, "--quantiles", "0.1,0.5,0.9", "--output", "q")
    assert result.exit_code == 0, result.output
    assert run("predict", "q.safetensors", "rows.csv", "-o", "out.csv").exit_code == 0
    found = pd.read_csv("out.csv")
    assert list(found) == ["prediction", "quantile_0.1", "quantile_0.5", "quantile_0.9"]
    assert (found["quantile_0.1"] <= found["quantile_0.9"]).all()
    result = run(*given, "--loss", "gamma", "--output", "g")
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
    given = ("fit", "rows.parquet", "-t", "n", "--no-report", "--output", "m", "--preset", "fast")
    result = run(*given, "--loss", "poisson", "--offset", "log_hours", *more)
    assert result.exit_code == 0, result.output
    assert run("predict", "m.safetensors", "rows.parquet", "-o", "out.csv").exit_code == 0
    model = NRSRegressor.load("m.safetensors")
    assert model.feature_names_in_.tolist() == ["x"]
    expected = model.predict(pd.DataFrame({"x": x}), offset=np.log(hours))
    np.testing.assert_allclose(pd.read_csv("out.csv")["prediction"], expected)
    result = run("evaluate", "m.safetensors", "rows.parquet", "-t", "n")
    assert result.exit_code == 0, result.output
    result = run(*given, "--offset", "log_hours", "--force")
    assert result.exit_code == 2
    assert "losses with a log link" in result.output


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """Rows of patients, in a CSV file and a Parquet file of the folder that is current."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=160)
    frame = pd.DataFrame({"x": x, "id": range(160), "note": "n", "patient": np.arange(160) // 8})
    frame["day"] = pd.date_range("2024-01-01", periods=160)[rng.permutation(160)]
    frame["count"] = rng.integers(1, 4, 160)
    frame["ill"] = np.where(x + rng.normal(size=160) > 1, "yes", "no")
    frame.to_csv("rows.csv", index=False)
    frame.to_parquet("rows.parquet")
    return frame


FIT = ("-t", "ill", "--preset", "fast", "--time-limit", 1, "--no-report", "--output", "m")


@pytest.mark.parametrize("given", [("rows.csv",), ("rows.parquet", "--stream")])
@pytest.mark.parametrize(
    "columns",
    [{"--groups": "patient"}, {"--time": "day", "--weight": "count"}],
    ids=lambda columns: "".join(columns),
)
def test_columns_of_a_fit_are_no_features(run, visits, given, columns):
    options = [part for pair in columns.items() for part in pair]
    others = {"patient", "day", "count", "note", "id"} - set(columns.values())
    # A column that is dropped may be one of them.
    drop = ",".join([*others, "patient"])
    result = run("fit", *given, *FIT, *options, "--drop", drop)
    assert result.exit_code == 0, result.output
    model = NRSClassifier.load("m.safetensors")
    assert model.feature_names_in_.tolist() == ["x"]
    named = {"--groups": "groups", "--time": "time", "--weight": "sample_weight"}
    assert {named[flag]: name for flag, name in columns.items()}.items() <= model.about_.items()
    assert run("predict", "m.safetensors", "rows.csv", "-o", "out.csv").exit_code == 0


def test_settings_of_classes_reach_the_model(run, visits):
    given = ("--class-weight", "balanced", "--threshold", "0.3", "--metric", "roc_auc")
    result = run("fit", "rows.csv", *FIT, *given, "--holdout", 0.25)
    assert result.exit_code == 0, result.output
    assert "held-out rows: accuracy" in result.output
    assert "guessing" in result.output
    model = NRSClassifier.load("m.safetensors")
    assert model.threshold_ == pytest.approx(0.3)
    assert (model.class_weight, model.metric) == ("balanced", "roc_auc")
    assert model.about_["holdout"] == 0.25


def test_settings_of_classes_are_read():
    assert class_settings(None, None) == {}
    assert class_settings(None, "balanced") == {"threshold": "balanced"}
    for class_weight, threshold in [("heavy", None), (None, "half"), (None, "1"), (None, "nan")]:
        with pytest.raises(ValueError, match=r"^--(class-weight|threshold) must be balanced"):
            class_settings(class_weight, threshold)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--groups", "patient", "--time", "day"), "groups and time cannot both"),
        (("--holdout", 1.5), "--holdout must be above 0 and below 1"),
        (("--holdout", 0.2, "--stream"), "--holdout needs two files or more"),
        (("--weight", "day"), "--weight must name a column of numbers; 'day' holds dates"),
        (("--weight", "x"), "--weight must name a column of finite numbers of at least 0"),
        (("--weight", "ill"), "--weight must name a column of its own; 'ill' is a target"),
        (("--groups", "ward"), "ward"),
        (("--time", "note"), "must hold numbers, dates or texts"),
        (("--metric", "rmse"), "--metric must be"),
        (("--threshold", "f1", "--preset", "single"), "threshold is learned on out-of-bag rows"),
    ],
)
def test_options_that_cannot_be_used_are_refused_in_a_line(
    run, visits, tmp_path, arguments, message
):
    source = "rows.parquet" if "--stream" in arguments else "rows.csv"
    result = run("fit", source, *FIT, "-q", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "m.safetensors").exists()


def test_a_model_that_exists_is_replaced_only_by_force(run, visits, tmp_path):
    for name in ("m.safetensors", "m.html"):
        (tmp_path / name).write_text("mine")
        # Before the table is read.
        result = run("fit", "none.csv", "-t", "ill", "--output", "m")
        assert result.exit_code == 2
        assert f"{name} exists already; --force replaces it" in result.output
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
    (tmp_path / "m.safetensors").write_text("mine")
    assert run("fit", "rows.csv", *FIT, "--force").exit_code == 0
    assert NRSClassifier.load("m.safetensors").classes_.tolist() == ["no", "yes"]
