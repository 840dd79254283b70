"""Saved models and the rows they read."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSRegressor
from nrs.files.load import load_model, read_rows
from nrs.training import ModelFileError, write_model


def test_rows_have_the_columns_of_the_fit(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    model = NRSRegressor(preset="fast", epochs=1, verbose=0).fit(frame[["b", "a"]], frame["c"])
    model.save(tmp_path / "model.safetensors")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    loaded = load_model(tmp_path / "model.safetensors")
    assert isinstance(loaded, NRSRegressor)
    rows = read_rows(loaded, tmp_path / "rows.csv", 7)
    assert (rows.column_names, rows.num_rows) == (["b", "a"], 7)


def test_another_estimator_is_named(tmp_path):
    path = tmp_path / "model.safetensors"
    write_model(path, {}, {"estimator": "MLPClassifier"}, kind="table")
    with pytest.raises(ModelFileError, match=r"NRSRanker; it holds one of MLPClassifier. Load it"):
        load_model(path)
