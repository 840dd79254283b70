"""`nrs explain --row`: why a row gets its answer."""

import json

import pandas as pd
import pytest


def test_the_parts_of_a_row_add_up_to_what_is_predicted(churn, run):
    folder, _ = churn
    model, rows = folder / "churn.safetensors", folder / "new.csv"
    facts = json.loads(run("explain", model, rows, "--row", 17, "--json").output)
    assert facts["row"] == 17
    predicted = run("predict", model, rows, "--probabilities", "-o", folder / "out.csv")
    assert predicted.exit_code == 0, predicted.output
    chance = pd.read_csv(folder / "out.csv")[f"probability_{facts['label']}"][16]
    assert facts["answer"] == pytest.approx(chance, abs=1e-5)
    added = sum(part["part"] for part in facts["parts"])
    assert facts["usual"] + added == pytest.approx(facts["answer"])
    table = pd.read_csv(rows, dtype=str)
    plan = next(part for part in facts["parts"] if part["column"] == "plan")
    assert plan["cell"] == table["plan"][16]
    shown = run("explain", model, rows, "--row", 17).output
    assert shown.startswith(f"row 17: probability of {facts['label']}: ")
    assert f"plan = {table['plan'][16]}" in shown


def test_a_row_must_be_there(churn, run):
    folder, _ = churn
    model, rows = folder / "churn.safetensors", folder / "new.csv"
    result = run("explain", model, rows, "--row", 81)
    assert result.exit_code == 2
    assert "--row must be from 1 to 80, the rows of" in result.output
    assert "got 81" in result.output
    result = run("explain", model, "--row", 3)
    assert "--row needs the file of the row" in result.output
    result = run("explain", model, rows, "--row", 3, "--output", folder / "why.html")
    assert "leave one of them out" in result.output
    assert not (folder / "why.html").exists()
