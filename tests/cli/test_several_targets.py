"""Several targets at once: numbers, and yes or no."""

import json

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor


def _patients(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(20, 90, n), "ward": rng.choice(["a", "b"], n)})
    risk = (frame["age"] - 55) / 10 + 2 * (frame["ward"] == "b") + rng.normal(size=n) / 2
    frame["ill"] = np.where(risk > 0, "yes", "no")
    frame["alone"] = frame["age"] + rng.normal(size=n) > 60
    frame["days"] = (3 * risk + 20).round(2)
    frame["cost, net"] = (100 * risk + rng.normal(size=n)).round(2)
    return frame


@pytest.fixture(scope="module")
def ward(tmp_path_factory, run):
    """A folder with two fitted models, of labels and of numbers; and what the fits printed."""
    folder = tmp_path_factory.mktemp("ward")
    _patients(200, 0).to_csv(folder / "ward.csv", index=False)
    new = _patients(60, 1)
    new["ill"] = new["ill"].mask(new.index < 5)
    new.to_csv(folder / "new.csv", index=False)
    said = {}
    for name, targets, others in (
        ("labels", ["-t", "ill,alone"], ["days", "cost, net"]),
        ("numbers", ["-t", "days", "--target", "cost, net"], ["ill", "alone"]),
    ):
        drop = [word for column in others for word in ("--drop", column)]
        result = run(
            "fit", folder / "ward.csv", *targets, *drop, "--preset", "fast", "-o", folder / name
        )
        assert result.exit_code == 0, result.output
        said[name] = result.output
    return folder, said


def test_fit_prints_each_target(ward):
    folder, said = ward
    assert "2 columns and 2 targets" in said["labels"]
    assert "2 targets: classification (inferred: two values each)" in said["labels"]
    assert "  ill: 2 classes: no (" in said["labels"]
    assert "out-of-bag, mean of 2 targets: all right 0." in said["labels"]
    assert "2 targets: regression (inferred: all numeric)" in said["numbers"]
    assert "  cost, net  R² 0." in said["numbers"]
    page = (folder / "labels.html").read_text("utf-8")
    for words in ("Predicting ill, alone", "<h3>ill</h3>", "<h3>alone</h3>", "alone, predicted",
                  "alone = True: "):  # fmt: skip
        assert words in page
    page = (folder / "numbers.html").read_text("utf-8")
    for words in ("<h3>cost, net</h3>", "Residuals", "mean cost, net ", "largest errors over all"):
        assert words in page


def test_predict_writes_one_column_per_target(ward, run, tmp_path):
    folder, _ = ward
    X = pd.read_csv(folder / "new.csv")[["age", "ward"]]
    out = tmp_path / "out.csv"
    run("predict", folder / "labels.safetensors", folder / "new.csv", "-o", out, "-p")
    found = pd.read_csv(out)
    assert found.columns.tolist() == [
        "prediction_ill", "prediction_alone", "probability_ill_yes", "probability_alone",
    ]  # fmt: skip
    model = NRSClassifier.load(folder / "labels.safetensors")
    labels = model.predict(X)
    assert found["prediction_ill"].tolist() == np.where(labels[:, 0], "yes", "no").tolist()
    assert found["prediction_alone"].tolist() == (labels[:, 1] == 1).tolist()
    np.testing.assert_allclose(found["probability_alone"], model.predict_proba(X)[:, 1], atol=1e-6)
    model = folder / "numbers.safetensors"
    run("predict", model, folder / "new.csv", "-o", out, "--interval", 0.8)
    found = pd.read_csv(out)
    expected = NRSRegressor.load(model).predict(X)
    np.testing.assert_allclose(found["prediction_cost, net"], expected[:, 1], rtol=1e-5)
    assert (found["low_days"] < found["prediction_days"]).all()
    assert (found["prediction_days"] < found["high_days"]).all()


def test_evaluate_info_explain_and_export(ward, run, tmp_path):
    folder, _ = ward
    model = folder / "labels.safetensors"
    facts = json.loads(run("evaluate", model, folder / "new.csv", "--json").output)
    assert (facts["rows"], facts["unlabelled"], facts["target"]) == (55, 5, ["ill", "alone"])
    named = run("evaluate", model, folder / "new.csv", "--json", "-t", "ill,alone").output
    assert json.loads(named) == facts
    lines = run("predict", model, folder / "new.csv").output.splitlines()[1:]
    new = pd.read_csv(folder / "new.csv")
    given = [f"{ill},{str(alone).lower()}" for ill, alone in new[["ill", "alone"]].to_numpy()]
    right = np.array(lines)[5:] == np.array(given)[5:]
    assert facts["all_right"] == pytest.approx(right.mean())
    each = facts["scores_by_target"]
    assert facts["accuracy"] == pytest.approx(np.mean([one["accuracy"] for one in each.values()]))
    said = run("evaluate", folder / "numbers.safetensors", folder / "new.csv").output
    assert "mean of 2 targets R² 0." in said
    assert "  days       R² 0." in said
    assert "ill: no, yes; alone: False, True" in run("info", model).output
    assert json.loads(run("info", model, "--json").output)["classes"]["ill"] == ["no", "yes"]
    for command in (
        ("explain", model, folder / "new.csv", "--output", tmp_path / "why.html"),
        ("export", model, "-o", tmp_path / "ward.onnx"),
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
    assert "Classification of ill, alone" in (tmp_path / "why.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-t", "ill,ill"], "'ill' is repeated"),
        (["-t", "ill,alon"], "is it 'alone'?"),
        (["-t", "ill,days"], "'days' has "),
        (["-t", "age,alone", "--task", "classification"], "'age' has "),
        (["-t", "ill,days", "--task", "regression"], "'ill' holds categories"),
        (["-t", ","], "--target must name at least one column"),
    ],
)
def test_targets_that_do_not_go_together_are_refused(ward, run, tmp_path, arguments, words):
    result = run("fit", ward[0] / "ward.csv", *arguments, "-o", tmp_path / "model")
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.splitlines()) <= 3
    assert list(tmp_path.iterdir()) == []


def test_files_that_do_not_fit_the_targets_are_refused(ward, run, tmp_path):
    folder, _ = ward
    frame = pd.read_csv(folder / "ward.csv")
    frame.assign(ill="perhaps").to_csv(tmp_path / "other.csv", index=False)
    for command, words in (
        (("evaluate", folder / "labels.safetensors", tmp_path / "other.csv"), "'perhaps'"),
        (("evaluate", folder / "labels.safetensors", folder / "new.csv", "-t", "ill"), "2 targets"),
        (("compare", folder / "ward.csv", "-t", "ill,alone"), "one target"),
    ):
        result = run(*command)
        assert result.exit_code == 2, result.output
        assert words in result.output
        assert len(result.output.splitlines()) <= 3
