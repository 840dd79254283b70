"""Predictions of files from Python."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.encode.column_encoder import ColumnWarning
from nrs.tabular.predict_file import TargetColumns, predict_chunks

QUICK = {"preset": "fast", "epochs": 2, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    frame["prediction"] = 1
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    frame.to_csv(path, index=False)
    return frame, path


def test_several_targets_without_names_are_numbered(rows, tmp_path):
    frame, path = rows
    X, Y = frame[["a", "b"]], np.column_stack([frame["a"] > 0, frame["b"] > 0]).astype(int)
    model = NRSClassifier(**QUICK).fit(X, Y)
    out = tmp_path / "out.csv"
    assert model.predict_file(path, out, probabilities=True, keep=["a"]) == 60
    found = pd.read_csv(out)
    assert found.columns.tolist() == [
        "a", "prediction_0", "prediction_1", "probability_0", "probability_1",
    ]  # fmt: skip
    assert np.array_equal(found[["prediction_0", "prediction_1"]].to_numpy(), model.predict(X))


def test_several_columns_of_classes_have_their_own_labels(rows, tmp_path):
    frame, path = rows
    X, sizes = frame[["a", "b"]], np.where(frame["a"] > 0, "large", "small")
    Y = np.array([sizes, frame["b"].round().clip(-1, 1).astype(int)], object).T
    model = NRSClassifier(**QUICK).fit(X, Y)
    (chunk,) = predict_chunks(model, path, probabilities=True)
    names = ["large", "small"], ["-1", "0", "1"]
    each = zip(names, model.predict_proba(X), strict=True)
    for place, (labels, chances) in enumerate(each):
        for label, values in zip(labels, chances.T, strict=True):
            assert np.array_equal(chunk[f"probability_{place}_{label}"].to_numpy(), values)
        assert chunk[f"prediction_{place}"].to_pylist() == model.predict(X)[:, place].tolist()
    (plain,) = predict_chunks(model, path)
    assert plain.equals(chunk.select(["prediction_0", "prediction_1"]))


def test_a_model_of_an_array_reads_columns_by_position(rows, tmp_path):
    frame, path = rows
    model = NRSRegressor(**QUICK).fit(frame.to_numpy(), frame["a"].to_numpy())
    (chunk,) = predict_chunks(model, path, interval=0.8)
    assert chunk.column_names == ["prediction", "low", "high"]
    np.testing.assert_allclose(chunk["prediction"].to_numpy(), model.predict(frame.to_numpy()))
    with pytest.raises(ValueError, match="without column names cannot read standard input"):
        next(predict_chunks(model, "-"))
    frame[["a", "b"]].to_csv(tmp_path / "narrow.csv", index=False)
    with pytest.raises(ValueError, match=r"must have 3 columns, as in the fit; it has 2"):
        next(predict_chunks(model, tmp_path / "narrow.csv"))


def test_mistakes_are_refused_in_the_words_of_python(rows):
    frame, path = rows
    model = NRSRegressor(**QUICK).fit(frame[["a", "b"]], frame["a"])
    with pytest.raises(ValueError, match=r"^probabilities needs a classifier"):
        next(predict_chunks(model, path, probabilities=True))
    with pytest.raises(ValueError, match=r"^keep must not .*; got 'prediction'"):
        next(predict_chunks(model, path, keep=["prediction"]))
    with pytest.raises(ValueError, match=r"^interval needs a regressor"):
        next(
            predict_chunks(
                NRSClassifier(**QUICK).fit(frame[["a"]], frame["a"] > 0), path, interval=0.9
            )
        )


def test_names_are_as_many_as_targets(rows):
    frame, _ = rows
    model = NRSRegressor(**QUICK).fit(frame[["a"]], frame[["a", "b"]])
    assert TargetColumns.of_model(model, ["x", "y"]).names == ["x", "y"]
    with pytest.raises(ValueError, match="predicts 2 targets; got 1: x"):
        TargetColumns.of_model(model, ["x"])


@pytest.mark.parametrize("model", [NRSRegressor(**QUICK), NRSClassifier(**QUICK)])
def test_unusual_rows_of_a_file_are_named_once(model, rows, tmp_path):
    frame, _ = rows
    X = frame[["a", "b"]]
    model.fit(X, frame["a"] > 0)
    path, table = tmp_path / "wild.parquet", X.copy()
    table.iloc[[5, 25, 45], 0] = 1e9
    table.to_parquet(path, row_group_size=20)
    for options in ({}, {"interval": 0.9} if isinstance(model, NRSRegressor) else {}):
        with pytest.warns(ColumnWarning, match="3 in 'a'") as shown:
            assert model.predict_file(path, tmp_path / "out.csv", **options) == 60
        assert [Path(one.filename) for one in shown] == [Path(__file__)]


def test_sets_of_classes_are_columns(rows):
    frame, path = rows
    classifier = NRSClassifier(**QUICK).fit(frame[["a"]], frame["a"] > 0)
    (chunk,) = predict_chunks(classifier, path, sets=0.8, probabilities=True)
    expected = classifier.predict_set(frame[["a"]], 0.8)
    found = np.column_stack([chunk["in_set_False"], chunk["in_set_True"]])
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"^sets needs a classifier"):
        list(predict_chunks(NRSRegressor(**QUICK).fit(frame[["a"]], frame["a"]), path, sets=0.8))
