"""``nrs tune``: a table file in, the best of several forests out."""

import json

import pytest

from nrs import NRSClassifier

pytest.importorskip("optuna")


def test_tune_writes_the_best_model_and_tells_what_it_tried(churn, run, tmp_path):
    folder, _ = churn
    given = (
        "tune", folder / "churn.csv", "-t", "churned", "--drop", "customer_id", "--preset", "fast",
        "--trials", 2, "--storage", tmp_path / "trials.log",
    )  # fmt: skip
    result = run(*given, "-o", tmp_path / "best", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    assert [trial["number"] for trial in facts["search"]] == [0, 1]
    assert facts["best_score"] >= facts["default_score"]
    assert (facts["scored_on"], facts["trials"]) == ("out-of-bag", 2)
    assert "Predicting churned" in (tmp_path / "best.html").read_text("utf-8")
    model = NRSClassifier.load(tmp_path / "best.safetensors")
    assert {name: getattr(model, name) for name in facts["params"]} == facts["params"]
    # The trials are there already: the same search again is one fit.
    again = run(*given, "-o", tmp_path / "again", "--no-report")
    assert again.exit_code == 0, again.output
    assert "tried 2 settings" in again.output
    assert f"{facts['best_score']:.4f} at best" in again.output
    assert not (tmp_path / "again.html").exists()
    # Another target is another search.
    refused = run(*given[:3], "months", *given[4:], "-o", tmp_path / "months")
    assert refused.exit_code == 2
    assert "differs in estimator, settings, data" in refused.output
    assert not (tmp_path / "months.safetensors").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--budget", -1), "above 0"),
        (("--trials", 0), "at least 1"),
        (("--preset", "paper"), "'default', 'fast', 'best'"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_line(churn, run, tmp_path, given, message):
    folder, _ = churn
    out = tmp_path / "model"
    result = run("tune", folder / "churn.csv", "-t", "churned", "-q", "-o", out, *given)
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_the_help_has_an_example(run):
    assert "nrs tune churn.csv --target churned" in run("tune", "--help").output
