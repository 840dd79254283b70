"""``nrs predict``: the model file says what it reads; mistakes end with exit code 2."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from nrs import NRSClassifier
from nrs.cli.app import app
from nrs.training import write_model

runner = CliRunner()


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60)})
    labels = np.where(frame["a"] > 0, "up", "down")
    model = NRSClassifier(epochs=2, random_state=0, verbose=0).fit(frame, labels)
    model.save(folder / "model.safetensors")
    frame.assign(extra=1).to_csv(folder / "rows.csv", index=False)
    frame[["a"]].to_csv(folder / "narrow.csv", index=False)
    (folder / "empty.csv").write_text("")
    return folder, model.predict(frame).tolist()


def _predict(*arguments):
    return runner.invoke(app, ["predict", *map(str, arguments)])


def test_the_rows_of_a_table(fitted, tmp_path):
    folder, expected = fitted
    result = _predict(folder / "model.safetensors", folder / "rows.csv")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == ["prediction", *expected]
    result = _predict(folder / "model.safetensors", folder / "rows.csv", "--json")
    assert [row["prediction"] for row in json.loads(result.output)] == expected
    out = tmp_path / "out.csv"
    assert _predict(folder / "model.safetensors", folder / "rows.csv", "-o", out).exit_code == 0
    assert pd.read_csv(out)["prediction"].tolist() == expected


@pytest.mark.parametrize(
    ("model", "source", "message"),
    [
        ("model.safetensors", "narrow.csv", "must have the column 'b'"),
        ("model.safetensors", "empty.csv", "is empty"),
        ("model.safetensors", "nowhere.csv", "File not found: "),
        ("nowhere.safetensors", "rows.csv", "File not found: "),
        ("rows.csv", "rows.csv", "is not a model file"),
        ("other.safetensors", "rows.csv", "is 'checkpoint'"),
    ],
)
def test_mistakes_are_refused_without_a_traceback(fitted, model, source, message):
    folder, _ = fitted
    write_model(folder / "other.safetensors", {}, {}, kind="checkpoint")
    result = _predict(folder / model, folder / source)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_kept_columns_are_handed_through_as_they_are(name, tmp_path):
    frame = pd.DataFrame({"id": 10**17 + 1 + np.arange(40), "a": np.arange(40) % 7})
    frame["day"] = [f"2024-01-{k % 28 + 1:02d}" for k in range(40)]
    dates = frame.assign(day=pd.to_datetime(frame["day"]))
    model = NRSClassifier(preset="fast", epochs=1, random_state=0).fit(dates, frame["a"] > 3)
    model.save(tmp_path / "model.safetensors")
    path = tmp_path / name
    if name == "rows.csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    given = [tmp_path / "model.safetensors", path, "--keep", "id", "--keep", "day"]
    result = _predict(*given)
    assert result.exit_code == 0, result.output
    lines = [line.split(",") for line in result.output.splitlines()[1:]]
    assert [line[:2] for line in lines] == frame[["id", "day"]].astype(str).to_numpy().tolist()
    assert [line[2] == "true" for line in lines] == model.predict(dates).tolist()
    path.write_text(path.read_text().replace("2024-01-05", "soon"))
    result = _predict(*given)
    assert result.exit_code == 2
    assert "must hold dates such as 2024-01-31 in column 'day'" in result.output
    assert "'soon'" in result.output


def test_a_kept_column_does_not_vanish_behind_a_prediction(fitted, tmp_path):
    folder, _ = fitted
    rows = pd.read_csv(folder / "rows.csv").assign(prediction="mine")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    given = [folder / "model.safetensors", tmp_path / "rows.csv", "--keep", "prediction"]
    result = _predict(*given, "-o", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "--keep must not name a prediction column; got 'prediction'" in result.output
    assert not (tmp_path / "out.csv").exists()


def test_a_model_of_columns_without_names_is_evaluated(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = NRSClassifier(preset="fast", epochs=5, random_state=0).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    pd.DataFrame({"y": y, "a": X[:, 0], "b": X[:, 1]}).to_csv(tmp_path / "rows.csv", index=False)
    given = ["evaluate", tmp_path / "model.safetensors", tmp_path / "rows.csv", "-t", "y", "--json"]
    result = runner.invoke(app, list(map(str, given)))
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["accuracy"] == model.score(X, y)


def test_a_column_of_other_values_is_not_scored_as_wrong_classes(churn, run):
    folder, _ = churn
    model, file = folder / "churn.safetensors", folder / "new.csv"
    done = run("evaluate", model, file, "--target", "customer_id")
    assert done.exit_code == 2
    assert "'customer_id' must hold classes that the model knows" in done.output
    assert "--target" in done.output


def test_the_advice_to_drop_an_identifier_can_be_typed_as_it_is(tmp_path, run):
    rows = [f"C{k:03},{k % 7},{'yes' if k % 7 > 3 else 'no'}" for k in range(60)]
    (tmp_path / "rows.csv").write_text("customer id,calls,left\n" + "\n".join(rows))
    given = ["fit", tmp_path / "rows.csv", "-t", "left", "--preset", "fast", "--time-limit", 1]
    done = run(*given, "--output", tmp_path / "model")
    assert done.exit_code == 0, done.output
    assert "'customer id' is different in every row and looks like an ID" in done.output
    assert "consider --drop 'customer id'\n" in done.output


def test_cells_that_a_spreadsheet_would_run_are_quoted_on_request(fitted, tmp_path):
    folder, expected = fitted
    rows = pd.read_csv(folder / "rows.csv").assign(note="=1+1", change="-5")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    given = [folder / "model.safetensors", tmp_path / "rows.csv", "--keep", "note"]
    given += ["--keep", "change"]
    safe, plain = _predict(*given, "--safe-csv"), _predict(*given)
    assert safe.output.splitlines()[1] == f"'=1+1,-5,{expected[0]}"
    assert plain.output.splitlines()[1] == f"=1+1,-5,{expected[0]}"
    out = tmp_path / "out.csv.gz"
    assert _predict(*given, "--safe-csv", "-o", out).exit_code == 0
    assert set(pd.read_csv(out)["note"]) == {"'=1+1"}
    for wrong in (("-o", tmp_path / "out.jsonl"), ("--json",)):
        result = _predict(*given, "--safe-csv", *wrong)
        assert result.exit_code == 2
        assert "--safe-csv needs CSV output" in result.output


@pytest.mark.parametrize("output", ["nowhere/out.csv", "nowhere/out.parquet"])
def test_an_output_that_cannot_be_written_is_refused_before_predictions(
    monkeypatch, tmp_path, output
):
    def predict_file(model, source):
        raise AssertionError("predicted, and drew pictures, before the output was opened")

    monkeypatch.setattr("nrs.points.predict.predict_file", predict_file)
    write_model(tmp_path / "cloud.safetensors", {}, {}, kind="points")
    (tmp_path / "cloud.xyz").write_text("0 0 0\n")
    result = _predict(
        tmp_path / "cloud.safetensors", tmp_path / "cloud.xyz", "-o", tmp_path / output
    )
    assert result.exit_code == 2, result.output
    assert "Directory not found" in result.output
