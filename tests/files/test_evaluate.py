"""Models scored on labelled files, from Python."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor
from nrs.files.evaluate import evaluate_file
from nrs.tabular.encode.column_encoder import ColumnWarning

QUICK = {"preset": "fast", "epochs": 2, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    return frame.assign(up=(frame["a"] > 0).astype(int), c=frame["a"] * 2, d=frame["b"] + 1)


def _written(frame, folder):
    frame.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def test_the_score_is_that_of_the_model(rows, tmp_path):
    model = NRSClassifier(**QUICK).fit(rows[["a", "b"]], rows["up"])
    gaps = rows.assign(up=rows["up"].astype("Int64").mask(rows.index % 10 == 0))
    scored, unlabelled = evaluate_file(model, _written(gaps, tmp_path), "up")
    kept = rows[rows.index % 10 != 0]
    assert (len(scored), unlabelled) == (54, 6)
    assert scored.rows.tolist() == kept.index.tolist()
    assert scored.scores()["accuracy"] == model.score(kept[["a", "b"]], kept["up"])


def test_several_targets_are_named_in_the_order_of_the_fit(rows, tmp_path):
    model = NRSRegressor(**QUICK).fit(rows[["a", "b"]], rows[["c", "d"]])
    path = _written(rows, tmp_path)
    listed, _ = evaluate_file(model, path, ["c", "d"])
    text, _ = evaluate_file(model, path, "c,d")
    assert listed.scores_by_target() == text.scores_by_target()
    assert list(listed.parts) == ["c", "d"]
    with pytest.raises(ValueError, match=r"predicts 2 targets; got 1: c. Name all of them"):
        evaluate_file(model, path, "c")


def test_what_cannot_be_scored_is_refused_in_the_words_of_python(rows, tmp_path):
    model = NRSClassifier(**QUICK).fit(rows[["a", "b"]], rows["up"])
    path = _written(rows.assign(other=rows["up"] + 5, none=None), tmp_path)
    with pytest.raises(ValueError, match="predicts one target; got up, other"):
        evaluate_file(model, path, ["up", "other"])
    with pytest.raises(
        ValueError, match=r"such as 0; it holds others, such as \d. .*target=COLUMN"
    ):
        evaluate_file(model, path, "other")
    with pytest.raises(ValueError, match="has no rows with a value of 'none'"):
        evaluate_file(model, path, "none")


def test_unusual_rows_of_a_file_are_named_once(rows, tmp_path):
    model = NRSClassifier(**QUICK).fit(rows[["a", "b"]], rows["up"])
    wild = rows.assign(a=rows["a"].where(rows.index % 20 != 0, 1e9))
    wild.to_parquet(tmp_path / "rows.parquet", row_group_size=20)
    with pytest.warns(ColumnWarning, match="3 in 'a'") as shown:
        evaluate_file(model, tmp_path / "rows.parquet", "up")
    assert len(shown) == 1
