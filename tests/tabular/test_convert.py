"""Columns of texts that hold numbers and dates: read alike in memory, files, streams and models."""

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

import nrs
from nrs import NRSClassifier, NRSRegressor, Table
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.table import read_table

QUICK = {"preset": "fast", "epochs": 1, "random_state": 0, "verbose": 0}


def _rows(n, seed=0):
    rng = np.random.default_rng(seed)
    price, area = rng.gamma(2, 800, n).round(2), rng.integers(20, 2000, n)
    day = np.datetime64("2023-01-01") + rng.integers(0, 700, n)
    typed = pd.DataFrame({"price": price, "area": area.astype(float), "day": day})
    german = pd.DataFrame(
        {
            "price": [f"{one:,.2f} €".translate({44: ".", 46: ","}) for one in price],
            "area": [f"{one} sqm" for one in area],
            "day": pd.to_datetime(day).strftime("%d.%m.%Y"),
        }
    )
    return typed, german, price * 0.01 + area


@pytest.mark.parametrize("library", ["pandas", "objects", "polars", "arrow", "file"])
def test_texts_give_the_features_of_what_they_say(library, tmp_path):
    typed, german, _ = _rows(80)
    frame = {
        "pandas": lambda: german,
        "objects": lambda: german.astype(object),
        "polars": lambda: polars.from_pandas(german),
        "arrow": lambda: pa.Table.from_pandas(german),
        "file": lambda: _through_a_file(german, tmp_path / "a.csv"),
    }[library]()
    expected = TableEncoder().fit_transform(typed)
    encoder = TableEncoder().fit(read_table(frame, convert=True))
    assert np.array_equal(encoder.transform(frame), expected)
    assert encoder.kinds_ == ["number", "number", "date"]
    # What comes later is read the same, as texts or as what they say.
    assert np.array_equal(encoder.transform(frame[:7]), expected[:7])
    assert np.array_equal(encoder.transform(typed[:7]), expected[:7])
    again = TableEncoder.from_state(encoder.to_state())
    assert np.array_equal(again.transform(frame[:7]), expected[:7])


def _through_a_file(frame, path):
    frame.to_csv(path, index=False, sep=";")
    return nrs.read_table(path)


def test_dates_of_few_rows_are_read_in_the_order_of_the_fit():
    _, german, y = _rows(80)
    model = NRSRegressor(**QUICK).fit(german, y)
    one = german[:1].assign(day="03.02.2024")
    assert model.encoder_.plans[2].order == "dmy"
    other = german[:1].assign(day=np.datetime64("2024-02-03"))
    assert model.predict(one) == model.predict(other)


def test_convert_false_leaves_texts():
    _, german, y = _rows(80)
    model = NRSRegressor(convert=False, **QUICK).fit(german, y)
    assert set(model.encoder_.kinds_) == {"category"}
    assert model.encoder_.plans == {}


def test_categories_stay_what_they_were():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "code": rng.choice(["1", "2", "3"], 60),
            "zip": rng.choice(["01234", "99999", "80331"], 60),
            "band": rng.choice(["18-24", "25-34", "35+"], 60),
            "declared": rng.choice([f"{k},5" for k in range(30)], 60),
        }
    )
    chosen = pd.Categorical(rng.choice([f"{k}.5" for k in range(40)], 60))
    frame["coded"] = chosen
    model = NRSClassifier(categorical_features=["declared"], **QUICK)
    model.fit(frame, rng.integers(0, 2, 60))
    assert set(model.encoder_.kinds_) == {"category"}


def test_a_file_is_predicted_as_it_was_fitted(tmp_path):
    _, german, y = _rows(120)
    german.loc[::10, "area"] = "?"
    german.to_csv(tmp_path / "a.csv", index=False, sep=";")
    table = nrs.read_table(tmp_path / "a.csv")
    model = NRSRegressor(**QUICK).fit(table, y)
    model.save(tmp_path / "m.safetensors")
    loaded = NRSRegressor.load(tmp_path / "m.safetensors")
    for one in (model, loaded):
        one.predict_file(tmp_path / "a.csv", tmp_path / "out.csv")
        found = pd.read_csv(tmp_path / "out.csv")["prediction"].to_numpy()
        assert np.allclose(found, model.predict(table), atol=1e-5)


def test_sentinels_of_a_fit_are_missing_in_later_rows(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(20, 3, 200).round(1)
    x[::9] = -999
    path = tmp_path / "a.csv"
    pd.DataFrame({"x": x, "z": rng.normal(size=200)}).to_csv(path, index=False)
    table = nrs.read_table(path)
    model = NRSRegressor(**QUICK).fit(table, rng.normal(size=200))
    rows = pd.DataFrame({"x": [-999.0, np.nan], "z": [0.5, 0.5]})
    assert len(set(model.predict(rows))) == 1


def test_a_stream_is_read_like_rows_in_memory(tmp_path):
    _, german, y = _rows(300)
    german["name"] = [f"flat {k % 5}" for k in range(300)]
    for place in range(3):
        rows = slice(100 * place, 100 * (place + 1))
        part = pa.Table.from_pandas(german[rows].assign(y=y[rows]), preserve_index=False)
        parquet.write_table(part, tmp_path / f"{place}.parquet")
    table = Table(tmp_path, target="y")
    model = NRSRegressor(**QUICK).fit(table)
    assert model.encoder_.kinds_ == ["number", "number", "date", "category"]
    assert model.encoder_.plans == NRSRegressor(**QUICK).fit(german, y).encoder_.plans
    assert np.allclose(model.predict(german), model.predict(table))


def test_what_allows_two_readings_is_said():
    n = 40
    frame = pd.DataFrame(
        {"day": [f"0{k % 9 + 1}/0{k % 7 + 1}/2024" for k in range(n)], "x": range(n)}
    )
    with pytest.warns(nrs.ColumnWarning, match="'day' allows two readings"):
        NRSRegressor(**QUICK).fit(frame, np.arange(n))
