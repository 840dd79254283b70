"""`nrs fit --qid`: a ranker from a file, with the commands that follow."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nrs import NRSRanker


@pytest.fixture
def documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    rows = pd.DataFrame(generator.normal(size=(240, 2)).round(3), columns=["bm25", "age"])
    rows["query"] = [f"q{k:02}" for k in generator.permutation(np.repeat(np.arange(20), 12))]
    rows["grade"] = np.digitize(rows["bm25"], [0.3, 1.0])
    rows.to_csv("rows.csv", index=False)
    rows.to_parquet("rows.parquet")
    return rows


@pytest.mark.parametrize("given", [(), ("--holdout", "0.3"), ("--preset", "single")])
def test_a_ranker_is_fitted_scored_and_used(documents, given, run):
    given = given if "--preset" in given else (*given, "--preset", "fast")
    fit = ("fit", "rows.csv", "-t", "grade", "--qid", "query", "--time-limit", 2, *given)
    result = run(*fit)
    assert result.exit_code == 0, result.output
    assert "ranking, 3 grades: 0 (" in result.output
    assert "grade: NDCG@10 " in result.output
    assert "in random order 0." in result.output
    model = NRSRanker.load("rows.safetensors")
    assert model.qid_column_ == "query"
    assert model.about_["qid"] == "query"
    assert "NDCG@10" in Path("rows.html").read_text(encoding="utf-8")

    scores = json.loads(run("evaluate", "rows.safetensors", "rows.csv", "--json").output)
    expected = model.score(documents.drop(columns="grade"), documents["grade"])
    assert scores["ndcg@10"] == pytest.approx(expected)
    result = run("predict", "rows.safetensors", "rows.csv", "-o", "out.csv", "--keep", "query")
    assert result.exit_code == 0, result.output
    assert np.allclose(
        pd.read_csv("out.csv")["prediction"], model.predict(documents[["bm25", "age"]])
    )


def test_info_shows_a_ranker(documents, run):
    fit = ("fit", "rows.csv", "-t", "grade", "--qid", "query", "--preset", "fast", "--no-report")
    assert run(*fit, "--time-limit", 1).exit_code == 0
    shown = run("info", "rows.safetensors").output
    for words in ("estimator   NRSRanker", "task        ranking", "scores      NDCG@10",
                  "columns     2: bm25 (number), age (number)", "qid         query", "seed ",
                  "settings    ", "fitted to   "):  # fmt: skip
        assert words in shown, words


def test_parts_of_a_table_are_read_whole(documents, run):
    result = run(
        "fit", "*.parquet", "-t", "grade", "--qid", "query", "--preset", "fast", "--time-limit", 2,
        "--no-report", "-q", "-o", "model",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert NRSRanker.load("model.safetensors").about_["rows"] == 240


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("-t", "grade", "--qid", "qeury"), "is it 'query'?"),
        (("-t", "bm25", "--qid", "query"), "must hold grades 0, 1, 2, … of relevance; 'bm25'"),
        (("-t", "grade", "--qid", "grade"), "'grade' is a target"),
        (("-t", "grade,age", "--qid", "query"), "A ranker has one target"),
        (("-t", "grade", "--qid", "query", "--divide", "rows"), "--divide is not for a ranker"),
        (("-t", "grade", "--qid", "query", "--groups", "age"), "--groups is not for a ranker"),
        (("-t", "grade", "--qid", "query", "--loss", "poisson"), "or one of ranknet"),
    ],
)
def test_what_a_ranker_cannot_be(documents, given, message, run, tmp_path):
    before = sorted(tmp_path.iterdir())
    result = run("fit", "rows.csv", *given)
    assert result.exit_code == 2
    assert message in result.output
    assert sorted(tmp_path.iterdir()) == before
