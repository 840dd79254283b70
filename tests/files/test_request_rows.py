"""Rows in JSON and Arrow become tables that a model reads as it reads a frame."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nrs import NRSClassifier, NRSRegressor
from nrs.files.request_rows import RequestRows, TooManyRowsError


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 120
    return pd.DataFrame(
        {
            "an age": rng.normal(40, 9, n).round(1),
            "member": rng.random(n) < 0.5,
            "plan": rng.choice(["basic", "plus"], n),
            "zip": pd.Categorical(rng.integers(1, 4, n)),
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "call": pd.to_timedelta(rng.integers(1, 900, n), "s"),
            "price": [f"{value:.2f}".replace(".", ",") + " €" for value in rng.uniform(1, 99, n)],
        }
    )


@pytest.fixture(scope="module")
def model(frame):
    return NRSClassifier(preset="fast", epochs=4, random_state=0).fit(frame, frame["an age"] > 40)


def sent(frame):
    """The rows of the frame as a client writes them in JSON."""
    rows = frame.assign(
        since=frame["since"].dt.strftime("%Y-%m-%dT%H:%M:%S"),
        call=frame["call"].dt.total_seconds(),
        zip=frame["zip"].astype(int),
    )
    return json.dumps({"rows": rows.to_dict("records")}).encode()


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_json_and_arrow_are_read_as_the_frame(model, frame):
    rows, expected = RequestRows(model, 1000), model.predict_proba(frame)
    assert np.array_equal(model.predict_proba(rows.from_json(sent(frame))), expected)
    table = pa.Table.from_pandas(frame.assign(more=1), preserve_index=False)
    assert np.array_equal(model.predict_proba(rows.from_arrow(stream(table))), expected)
    parts = pa.concat_tables([table.slice(0, 50), table.slice(50)])
    assert np.array_equal(model.predict_proba(rows.from_arrow(stream(parts))), expected)


def test_every_way_to_write_a_cell(model, frame):
    rows = RequestRows(model, 10)
    one = json.loads(sent(frame[:1]))["rows"][0]

    def column(name, *cells):
        body = json.dumps({"rows": [one | {name: cell} for cell in cells]}).encode()
        return rows.from_json(body).column(name).to_pylist()

    assert column("an age", 1, "2.5", True, None) == [1.0, 2.5, 1.0, None]
    assert column("member", True, 0, "yes", None) == [True, False, True, None]
    assert column("zip", 1, 1.0, "1", True, None, float("nan")) == ["1"] * 3 + ["True", None, None]
    noon = datetime.datetime(2024, 5, 1, 12)
    assert column("since", "2024-05-01T12:00:00Z", "2024-05-01T14:00+02:00") == [noon, noon]
    assert column("since", "2024-05-01", None) == [datetime.datetime(2024, 5, 1), None]
    assert column("call", 90, "PT1M30S", None)[:2] == [datetime.timedelta(seconds=90)] * 2
    assert column("price", "7,50 €", "8,00", None) == ["7,50 €", "8,00", None]
    # A number among the texts is none of their convention.
    assert column("price", "7,50 €", 7.5, None) == [7.5, 7.5, None]
    assert column("price", None, 7.5) == [None, 7.5]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "Invalid JSON"),
        (b"[]", "body: Input should be an object"),
        (b'{"rows": []}', "at least 1 item"),
        (b'{"rows": [{}]}', "rows.0.an age: Field required"),
        (b'{"rows": [3]}', "rows.0: Input should be an object"),
        (b"[" * 10_000, "recursion limit"),
        (b"\xff", "Invalid JSON"),
    ],
)
def test_json_that_is_no_rows_is_refused(model, body, expected):
    with pytest.raises(ValueError, match=expected):
        RequestRows(model, 10).from_json(body)


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("an age", "old"), ("an age", [1]), ("an age", {}), ("member", 2), ("since", "soon"),
        ("since", 1e300), ("call", 1e300), ("plan", ["a"]), ("price", [1]), ("zip", {"a": 1}),
    ],
)  # fmt: skip
def test_a_bad_cell_is_named(model, frame, name, cell):
    body = json.loads(sent(frame[:2]))
    body["rows"][1][name] = cell
    with pytest.raises(ValueError, match=name):
        RequestRows(model, 10).from_json(json.dumps(body).encode())


def test_no_more_rows_than_allowed(model, frame):
    rows = RequestRows(model, 9)
    for read, body in (
        (rows.from_json, sent(frame[:10])),
        (rows.from_arrow, stream(pa.Table.from_pandas(frame[:10], preserve_index=False))),
    ):
        with pytest.raises(TooManyRowsError, match="may have 9 rows"):
            read(body)


def test_arrow_that_could_grow_is_refused(model, frame):
    rows = RequestRows(model, 1000)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for codec in ("zstd", "lz4"):
        with pytest.raises(ValueError, match="compressed"):
            rows.from_arrow(stream(table, compression=codec))
    # The dictionary of a column may be compressed too; without rows there is nothing else.
    coded = table.set_column(2, "plan", table["plan"].cast(pa.string()).dictionary_encode())
    assert rows.from_arrow(stream(coded))["plan"].to_pylist() == table["plan"].to_pylist()
    with pytest.raises(ValueError, match="compressed"):
        rows.from_arrow(stream(coded, compression="zstd"))
    for values in (
        pa.array([[1]] * 120), pa.array([{"a": 1}] * 120), pa.array(["a"] * 120, pa.string_view()),
        pa.RunEndEncodedArray.from_arrays([120], pa.array(["a"])),
        pa.DictionaryArray.from_arrays(pa.array([0] * 120), pa.array([[1]])),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="column 'plan' must hold"):
            rows.from_arrow(stream(table.set_column(2, "plan", values)))


def test_arrow_without_the_columns_or_rows_is_refused(model, frame):
    rows = RequestRows(model, 1000)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pytest.raises(ValueError, match="one column 'plan'; it has 0"):
        rows.from_arrow(stream(table.drop_columns(["plan"])))
    with pytest.raises(ValueError, match="one column 'plan'; it has 2"):
        rows.from_arrow(stream(table.append_column("plan", table["plan"])))
    with pytest.raises(ValueError, match="no rows"):
        rows.from_arrow(stream(table.slice(0, 0)))
    for body in (b"", b"\0" * 100, stream(table)[:300], b"ARROW1" + stream(table)):
        with pytest.raises(ValueError, match=r"Arrow IPC stream|no rows"):
            rows.from_arrow(body)


def test_a_wrong_text_in_arrow_is_refused(model, frame):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    body = stream(table)
    assert b"basic" in body
    broken = body.replace(b"basic", b"\xff\xfe\xfd\xfc\xfb", 1)
    with pytest.raises(ValueError, match="UTF8"):
        RequestRows(model, 1000).from_arrow(broken)


def test_rows_of_an_array_have_numbered_columns():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = NRSRegressor(preset="fast", epochs=2, random_state=0).fit(X, X[:, 0])
    rows = RequestRows(model, 10)
    assert list(rows.schema()["properties"]["rows"]["items"]["properties"]) == ["x0", "x1"]
    assert rows.from_json(b'{"rows": [{"x1": 2, "x0": 1}]}').to_pylist() == [{"x0": 1, "x1": 2}]


def test_the_schema_names_columns_and_types(model):
    schema = RequestRows(model, 10).schema()["properties"]["rows"]
    assert schema["maxItems"] == 10
    row = schema["items"]
    assert set(row["required"]) == set(row["properties"])
    assert {"format": "date-time", "type": "string"} in row["properties"]["since"]["anyOf"]
    assert [one["type"] for one in row["properties"]["an age"]["anyOf"]] == ["number", "null"]
