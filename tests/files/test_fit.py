"""Tables to fit to, and what a fitted model remembers of them."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSRegressor
from nrs.files.fit import fit_table, tune_table
from nrs.files.load import load_model
from nrs.files.read import read_labelled


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng, n = np.random.default_rng(0), 80
    frame = pd.DataFrame({"rooms": rng.integers(1, 6, n), "district": rng.choice(["a", "b"], n)})
    frame["price"] = frame["rooms"] * 100.5 + rng.normal(size=n)
    frame["dear"] = np.where(frame["price"] > 300, "yes", "no")
    frame["big"] = frame["rooms"] > 3
    path = tmp_path_factory.mktemp("flats") / "flats.csv"
    frame.to_csv(path, index=False)
    return path


def test_what_a_model_was_fitted_to_travels_with_it(path, tmp_path):
    table = read_labelled(path, "dear,big", drop=["price"])
    fitted = fit_table(table, preset="fast", epochs=2, verbose=0)
    fitted.model.save(tmp_path / "model.safetensors")
    about = load_model(tmp_path / "model.safetensors").about_
    assert about == fitted.about
    assert (about["target"], about["labels"]) == (["dear", "big"], [["no", "yes"], [False, True]])
    assert (about["task"], about["source"], about["rows"]) == ("classification", "flats.csv", 80)
    assert about["scored_on"] == "out-of-bag"
    assert about["scores_by_target"] == fitted.scored.scores_by_target()


@pytest.mark.parametrize(("preset", "rows"), [("single", 80), ("paper", 80), ("single", 40)])
def test_a_single_network_is_scored_on_a_tenth(path, tmp_path, preset, rows):
    few = tmp_path / "few.csv"
    pd.read_csv(path).head(rows).to_csv(few, index=False)
    table = read_labelled(few, "price", drop=["dear"])
    fitted = fit_table(table, preset=preset, epochs=2, verbose=0)
    if rows < 50:
        assert fitted.scored is None
        assert fitted.about["scores"] is None
        return
    assert (fitted.about["scored_on"], len(fitted.scored)) == ("held-out rows", 8)
    assert np.array_equal(fitted.scored.truth, table.truth[fitted.scored.rows])


def test_only_forests_are_tuned(path):
    with pytest.raises(ValueError, match=r"preset must be one of .* to be tuned; got 'paper'"):
        tune_table(read_labelled(path, "dear"), preset="paper")


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    rng, n = np.random.default_rng(1), 120
    frame = pd.DataFrame({"x": rng.normal(size=n), "patient": rng.integers(0, 12, n)})
    frame["day"] = rng.permutation(n) // 2
    frame["y"] = frame["x"] * 2.5 + rng.normal(size=n)
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("preset", ["fast", "single", "paper"])
@pytest.mark.parametrize("role", ["groups", "time", None])
def test_held_out_rows_are_scored_and_not_trained_on(visits, monkeypatch, preset, role):
    column = {"groups": "patient", "time": "day"}.get(role, "day")
    table = read_labelled(visits, "y", **({role: column} if role else {"drop": ["day"]}))
    seen = []
    fit = NRSRegressor.fit

    def watched(self, X, y, **given):
        seen.append(np.concatenate([y, *(given["eval_set"][1:2] if "eval_set" in given else ())]))
        return fit(self, X, y, **given)

    monkeypatch.setattr(NRSRegressor, "fit", watched)
    runs = [
        fit_table(table, preset=preset, epochs=2, verbose=0, holdout=0.3, seed=seed)
        for seed in (0, 0, 1)
    ]
    for one, trained in zip(runs, seen, strict=True):
        assert one.scored.source == "held-out rows"
        assert np.array_equal(one.scored.truth, table.truth[one.scored.rows])
        # Every row is one of the two.
        assert sorted([*trained, *one.scored.truth]) == sorted(table.truth)
    held = [set(one.scored.rows.tolist()) for one in runs]
    assert held[0] == held[1]
    # The latest rows are no matter of chance.
    assert (held[0] == held[2]) == (role == "time")
    if role is not None:
        inside = np.isin(np.arange(table.n_rows), list(held[0]))
        values = table.given[role]
        assert not set(values[inside]) & set(values[~inside])
        assert role == "groups" or values[inside].min() > values[~inside].max()


def test_settings_that_do_not_fit_the_table_are_refused(visits):
    table = read_labelled(visits, "y")
    with pytest.raises(ValueError, match="threshold needs classes, and 'y' is predicted"):
        fit_table(table, threshold=0.4)
    for share, message in [(0.0, "above 0 and below 1"), (0.001, "too few"), (0.999, "too few")]:
        with pytest.raises(ValueError, match=message):
            fit_table(table, holdout=share, verbose=0)


def test_columns_of_a_fit_have_a_use_of_their_own(visits):
    for given in ({"groups": "y"}, {"offset": "day", "sample_weight": "day"}):
        with pytest.raises(ValueError, match="must name a column of its own"):
            read_labelled(visits, "y", **given)
    with pytest.raises(ValueError, match="must name a column of its own; 'day' is categorical"):
        read_labelled(visits, "y", categorical=["day"], time="day")
    assert read_labelled(visits, "y", drop=["day, patient"]).features.column_names == ["x"]
