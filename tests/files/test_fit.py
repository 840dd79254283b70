"""Tables to fit to, and what a fitted model remembers of them."""

import numpy as np
import pandas as pd
import pytest

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
