"""What a fit's page says of columns and rows."""

import numpy as np
import pandas as pd
import pytest

from nrs.files.explained import MAX_ROWS, MIN_ROWS, affordable_rows, explain_fitted
from nrs.files.fit import fit_table
from nrs.files.read import read_labelled


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 240
    table = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "town": rng.choice(["north", "south"], n),
            "ticket": [f"T{k}" for k in rng.permutation(n) // 2],
            "day": pd.date_range("2024-01-01", periods=n).astype(str),
            "weight": rng.uniform(0.5, 2, n),
        }
    )
    table["late"] = np.where(table["age"] + (table["town"] == "north") > 0.5, "yes", "no")
    table["price"] = table["age"] * 10
    path = tmp_path_factory.mktemp("explained") / "table.csv"
    table.to_csv(path, index=False)
    return path


def _fit(path, target, *, preset="fast", holdout=None, **roles):
    drop = [one for one in ("late", "price") if one not in target.split(",")]
    drop += [] if roles else ["weight"]
    table = read_labelled(path, target, drop=drop, **roles)
    return fit_table(table, preset=preset, epochs=5, holdout=holdout, verbose=0)


@pytest.mark.parametrize(
    ("target", "roles"),
    [
        ("late", {}),
        ("price", {}),
        ("price", {"time": "day"}),
        ("late", {"sample_weight": "weight"}),
    ],
)
def test_columns_that_matter_lead_and_the_worst_rows_are_explained(path, target, roles):
    fitted = _fit(path, target, **roles)
    done = []
    found = explain_fitted(fitted, lambda share, words: done.append(share))
    assert found.source == "out-of-bag"
    assert found.permutation.columns[found.permutation.order()[0]] == "age"
    assert found.effects[0].column == "age"
    assert list(found.reasons) == fitted.scored.worst()[:8].tolist()
    for place, why in found.reasons.items():
        if target == "price":
            assert why.answer == pytest.approx(fitted.scored.predicted[place], rel=0.02, abs=0.1)
        else:
            assert why.answer == pytest.approx(fitted.scored.probabilities[place, 1], abs=1e-4)
    assert done == sorted(done)
    assert done[-1] == 1


def test_rows_that_were_held_out_are_explained_by_the_whole_model(path):
    for preset, holdout in (("single", None), ("fast", 0.25)):
        fitted = _fit(path, "late", preset=preset, holdout=holdout)
        found = explain_fitted(fitted)
        assert found.source == "held-out rows"
        assert found.permutation.n_rows == len(fitted.scored)


def test_rankers_say_why_there_is_nothing(path, tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"q": np.repeat(np.arange(10), 5), "a": rng.normal(size=50)})
    rows["grade"] = (rows["a"] > 0).astype(int)
    rows.to_csv(tmp_path / "rank.csv", index=False)
    table = read_labelled(tmp_path / "rank.csv", "grade", qid="q")
    fitted = fit_table(table, preset="fast", epochs=2, verbose=0)
    assert "by query" in explain_fitted(fitted).why_not


def test_wide_tables_and_large_models_are_shuffled_on_fewer_rows(path):
    model = _fit(path, "late").model
    rows = [affordable_rows(model, columns, unseen=True) for columns in (1, 20, 10**4)]
    assert rows == sorted(rows, reverse=True)
    assert all(MIN_ROWS <= one <= MAX_ROWS for one in rows)
    assert rows[-1] == MIN_ROWS
