"""From a file to a decision: fit, predict, evaluate, explain, compare, info, export."""

import gzip
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor

ROOT = Path(__file__).parents[2]


def test_fit_prints_what_it_read_and_writes_two_files(churn):
    folder, said = churn
    assert "300 rows, 7 columns" in said
    assert re.search(r"usage_gb +number .*\d+", said)
    assert re.search(r"joined +date", said)
    assert "classification, 2 classes: no" in said
    assert re.search(r"out-of-bag: accuracy 0\.\d+", said)
    assert (folder / "churn.safetensors").exists()
    page = (folder / "churn.html").read_text("utf-8")
    assert "Predicting churned" in page


def test_predict_gives_what_the_model_gives(churn, run, tmp_path):
    folder, _ = churn
    rows = pd.read_csv(folder / "new.csv", parse_dates=["joined"])
    model = NRSClassifier.load(folder / "churn.safetensors")
    X = rows[model.feature_names_in_.tolist()]
    expected = model.predict_proba(X)
    for name, read in (
        ("out.csv", pd.read_csv), ("out.parquet", pd.read_parquet),
        ("out.csv.gz", pd.read_csv), ("out.feather", pd.read_feather),
        ("out.jsonl", lambda path: pd.read_json(path, lines=True)), ("out.json", pd.read_json),
    ):  # fmt: skip
        result = run(
            "predict", folder / "churn.safetensors", folder / "new.csv", "-o", tmp_path / name,
            "-p", "--keep", "customer_id",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        found = read(tmp_path / name)
        assert found["customer_id"].tolist() == rows["customer_id"].tolist()
        assert found["prediction"].tolist() == model.predict(X).tolist()
        np.testing.assert_allclose(found["probability_yes"], expected[:, 1], atol=1e-6)


def test_predict_reads_a_pipe_and_every_format(churn, run, tmp_path):
    folder, _ = churn
    model = folder / "churn.safetensors"
    expected = run("predict", model, folder / "new.csv").output
    text = (folder / "new.csv").read_bytes()
    assert run("predict", model, "-", input=text).output == expected
    assert run("predict", model, "-", input=gzip.compress(text)).output == expected
    frame = pd.read_csv(folder / "new.csv", parse_dates=["joined"])
    frame.to_parquet(tmp_path / "new.parquet")
    frame.to_feather(tmp_path / "new.arrow")
    (tmp_path / "new.csv.gz").write_bytes(gzip.compress(text))
    frame.assign(joined=frame["joined"].astype(str)).to_json(
        tmp_path / "new.jsonl", orient="records", lines=True
    )
    for name in ("new.parquet", "new.arrow", "new.csv.gz", "new.jsonl"):
        result = run("predict", model, tmp_path / name)
        assert result.output == expected, name


def test_evaluate_info_explain_export(churn, run, tmp_path):
    folder, _ = churn
    model = folder / "churn.safetensors"
    scores = json.loads(run("evaluate", model, folder / "new.csv", "--json").output)
    labels = pd.read_csv(folder / "new.csv")["churned"]
    lines = run("predict", model, folder / "new.csv").output.splitlines()[1:]
    assert scores["rows"] == 80
    assert scores["accuracy"] == pytest.approx(np.mean(labels.to_numpy() == np.array(lines)))
    facts = json.loads(run("info", model, "--json").output)
    assert (facts["kind"], facts["classes"]) == ("table", ["no", "yes"])
    assert facts["about"]["target"] == "churned"
    shown = run("info", model).output
    assert "months (number)" in shown
    assert "platform" in facts["made"]
    assert f"versions    nrs {facts['made']['nrs']}, torch" in shown
    for words in ("task        classification", "classes     no, yes", "settings    n_mul=",
                  "scores      accuracy 0.", "seed        ", "fitted      20",
                  "fitted to   rows 300, columns 7, fingerprint "):  # fmt: skip
        assert words in shown, words
    shown = json.loads(run("explain", model, "--trees", 2, "--json").output)
    assert len(shown["trees"]) == 2
    assert sum(shown["importance"].values()) == pytest.approx(1)
    page = tmp_path / "why.html"
    result = run("explain", model, folder / "new.csv", "--output", page)
    assert result.exit_code == 0, result.output
    assert "≥" in result.output
    assert "What decides" in page.read_text("utf-8")
    result = run("export", model, "-o", tmp_path / "churn.onnx")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "churn.onnx").stat().st_size > 1000


def test_compare_puts_methods_on_the_same_folds(churn, run):
    folder, _ = churn
    result = run(
        "compare", folder / "churn.csv", "-t", "churned", "--drop", "customer_id", "--folds", 2,
        "--methods", "RF,LightGBM", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    methods = json.loads(result.output)["methods"]
    assert [one["name"] for one in methods] == ["RF", "LightGBM"]
    assert all(len(one["folds"]["accuracy"]) == 2 for one in methods)
    assert all(one["scores"]["accuracy"]["mean"] > 0.7 for one in methods)


def test_compare_saves_a_page_and_names_its_settings(churn, run, tmp_path, monkeypatch):
    monkeypatch.chdir(churn[0])
    page = tmp_path / "compared.html"
    given = ("compare", "churn.csv", "-t", "churned", "--folds", 2)
    result = run(*given, "--methods", "RF,XGBoost,GBDT", "-o", page, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    *lines, _ = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[:3] for line in lines[2:5:2]] == [
        ["RF", "500", "trees"], ["GBDT", "500", "trees"]
    ]  # fmt: skip
    assert re.match(r"XGBoost +\d+ rounds +0\.\d{3} ± 0\.\d{3} ", lines[3])
    text = page.read_text("utf-8")
    for words in ("Scores against time", "seconds of a fit", "patience", "log loss", "XGBoost"):
        assert words in text, words
    assert len(text) < 100_000
    for wrong, message in (("page.pdf", "must end with .html"), ("none/a.html", "not found")):
        result = run(*given, "-o", tmp_path / wrong)
        assert result.exit_code == 2
        assert message in result.output


def test_compare_without_a_method_that_can_run_says_why(churn, run, monkeypatch):
    folder, _ = churn
    monkeypatch.setattr("nrs.baselines.compare.available", lambda name: (False, "no such thing"))
    result = run("compare", folder / "churn.csv", "-t", "churned", "--methods", "RF")
    assert result.exit_code == 0, result.output
    assert "no such thing" in result.output


def test_compare_without_all_classes_in_a_fold_or_any_method(run, tmp_path):
    path = tmp_path / "rare.csv"
    labels = ["once", *("up" if k % 3 else "down" for k in range(39))]
    path.write_text("a,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))
    given = ["compare", path, "-t", "y", "--folds", 2, "--methods"]
    result = run(*given, "RF", "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout, parse_constant=pytest.fail)["methods"]
    first, second = found["folds"]["roc_auc"]
    assert (first is None) != (second is None)
    assert found["scores"]["roc_auc"] == {"mean": first or second, "std": 0.0}
    assert f"{first or second:.3f} ± 0.000" in run(*given, "RF").output
    result = run(*given, "ThunderGBM RF")
    assert result.exit_code == 0, result.output
    assert "thundergbm" in result.output


@pytest.fixture(scope="module")
def flats(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"rooms": rng.integers(1, 6, 200), "north": rng.random(200) > 0.5})
    frame["price"] = frame["rooms"] * 100.5 + frame["north"] * 30 + rng.normal(size=200)
    folder = tmp_path_factory.mktemp("flats")
    frame.to_csv(folder / "flats.csv", index=False)
    return folder


def test_numbers_are_a_regression_with_intervals(flats, run):
    result = run(
        "fit", flats / "flats.csv", "-t", "price", "--preset", "fast", "-o", flats / "flats",
        "--json",
    )  # fmt: skip
    facts = json.loads(result.output)
    assert (facts["task"], facts["scored_on"]) == ("regression", "out-of-bag")
    assert facts["scores"]["r2"] > 0.9
    assert [one["kind"] for one in facts["columns"]] == ["number", "boolean"]
    out = flats / "out.csv"
    run("predict", flats / "flats.safetensors", flats / "flats.csv", "--interval", 0.9, "-o", out)
    found, truth = pd.read_csv(out), pd.read_csv(flats / "flats.csv")["price"]
    inside = (found["low"] <= truth) & (truth <= found["high"])
    assert inside.mean() > 0.8
    expected = NRSRegressor.load(flats / "flats.safetensors").predict(
        pd.read_csv(flats / "flats.csv")[["rooms", "north"]]
    )
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-6)


def test_a_single_network_is_scored_on_held_out_rows(flats, run):
    result = run(
        "fit", flats / "flats.csv", "-t", "north", "--preset", "single", "--time-limit", 2,
        "-o", flats / "north", "--no-report", "--json",
    )  # fmt: skip
    facts = json.loads(result.output)
    assert (facts["scored_on"], facts["task"]) == ("held-out rows", "classification")
    assert facts["classes"] == [False, True]
    assert not (flats / "north.html").exists()
    result = run("evaluate", flats / "north.safetensors", flats / "flats.csv", "--json")
    assert json.loads(result.output)["rows"] == 200


def test_rows_without_a_target_are_left_out(flats, run):
    frame = pd.read_csv(flats / "flats.csv")
    frame.loc[:9, "price"] = None
    frame.to_csv(flats / "gaps.csv", index=False)
    result = run("evaluate", flats / "flats.safetensors", flats / "gaps.csv", "--json")
    facts = json.loads(result.output)
    assert (facts["rows"], facts["unlabelled"]) == (190, 10)


def _skeleton(text):
    """The lines of an answer without their numbers, bars and trailing blanks."""
    lines = [re.sub(r"[\d.,]+", "#", line).rstrip() for line in text.splitlines()]
    return [re.sub(r" *# *", " # ", line).strip() for line in lines if line]


@pytest.mark.slow
def test_the_tour_of_the_docs_is_what_the_commands_print(run, tmp_path, monkeypatch):
    text = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    (recording,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    steps = re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", recording, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (first, shown), *steps = steps
    assert first == "python examples/wine.py"
    done = subprocess.run([sys.executable, ROOT / first.split()[1]], capture_output=True, text=True)
    assert done.stdout == shown
    # A quicker forest, and fewer fits, print the same lines with other numbers.
    quick = {"fit": ["--preset", "fast"], "compare": ["--folds", "2", "--methods", "RF,LightGBM"]}
    for command, shown in steps:
        command, _, head = command.partition(" | head -n ")
        name, *arguments = shlex.split(command)[1:]
        result = run(name, *arguments, *quick.get(name, []))
        assert result.exit_code == 0, result.output
        printed = _skeleton(result.stdout)[: int(head) if head else None]
        expected = _skeleton(shown)
        if name == "explain":
            # Which column and which tree comes first is the forest's own.
            assert len(printed) == len(expected)
            assert (printed[0], printed[14]) == (expected[0], expected[14])
            assert {line.split()[0] for line in printed[1:14]} == {
                line.split()[0] for line in expected[1:14]
            }
        elif name == "compare":
            # The width of a column depends on its rows.
            assert {" ".join(line.split()) for line in printed} <= {
                " ".join(line.split()) for line in expected
            }
            assert len(printed) == 6
        else:
            assert printed == expected
    names = [shlex.split(command)[1] for command, _ in steps]
    assert set(names) == {"fit", "predict", "evaluate", "explain", "compare", "info", "export"}
    assert (tmp_path / "wine.html").exists()
    assert len(pd.read_csv("out.csv")) == 38
