"""Frames of other libraries, and pipelines of skrub."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from nrs import NRSClassifier
from tests.integrations.documents import run_section

duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
ibis = pytest.importorskip("ibis", reason="needs ibis")
skrub = pytest.importorskip("skrub", reason="needs skrub")
nw = pytest.importorskip("narwhals", reason="needs narwhals")
pl = pytest.importorskip("polars", reason="needs polars")

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, 150), "D")
    ages = np.where(rng.random(150) < 0.1, np.nan, rng.normal(40, 9, 150).round(1))
    return pd.DataFrame({"age": ages, "plan": rng.choice(["basic", "plus"], 150), "day": days})


def model():
    return NRSClassifier(preset="fast", epochs=3, random_state=0)


@pytest.mark.parametrize(
    "read",
    [
        duckdb.from_df,
        ibis.memtable,
        nw.from_native,
        lambda frame: nw.from_native(pl.from_pandas(frame)),
        lambda frame: duckdb.from_df(frame).fetch_record_batch(),
    ],
    ids=["duckdb", "ibis", "narwhals", "narwhals of polars", "record batches"],
)
def test_any_frame_gives_the_bits_of_pandas(read, frame):
    y = (frame["age"] > 40).to_numpy()
    wanted = model().fit(frame, y).predict_proba(frame)
    found = model().fit(read(frame), y)
    assert np.array_equal(found.predict_proba(read(frame)), wanted)


@pytest.mark.parametrize(
    "first",
    [
        skrub.TableVectorizer(),
        skrub.Cleaner(),
        skrub.TableVectorizer(
            low_cardinality="passthrough", high_cardinality="passthrough", datetime="passthrough"
        ),
    ],
    ids=["TableVectorizer", "Cleaner", "TableVectorizer passing columns through"],
)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_pipelines_of_skrub(first, library, frame):
    table = frame if library == "pandas" else pl.from_pandas(frame)
    y = frame["plan"].to_numpy()
    assert make_pipeline(first, model()).fit(table, y).score(table, y) > 0.9


def test_a_tabular_pipeline(frame):
    y = frame["plan"].to_numpy()
    assert skrub.tabular_pipeline(model()).fit(frame, y).score(frame, y) > 0.9


def test_the_document_runs():
    assert run_section("Frames and pipelines")["agree"]
