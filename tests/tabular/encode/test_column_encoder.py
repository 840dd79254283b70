"""What every kind of column answers alike."""

import json

import numpy as np
import pytest

from nrs.tabular.encode.columns import read_array, read_cells
from nrs.tabular.encode.encoder import KINDS, STATISTICS

DATES = np.array(["2020-01-31", "2021-06-01", "NaT", "2022-03-04T05:06"], dtype="datetime64[us]")
COLUMNS = {
    "number": read_array(np.array([1.5, -2.0, np.nan, 7.0])),
    "boolean": read_cells([True, False, None, True]),
    "duration": read_array(DATES - DATES[0]),
    "date": read_array(DATES),
    "category": read_cells(["a", "b", None, "c"]),
    "text": read_cells(["a red one", "a red two", None, "a blue one"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_learned_survives_its_state(kind):
    column = COLUMNS[kind]
    assert column.kind == ("category" if kind == "text" else kind)
    counted = STATISTICS[kind](kind)
    counted.add(column)
    encoder = counted.encoder("standard", 64, COLUMNS[kind])
    again = KINDS[kind](**json.loads(json.dumps(encoder.state())))
    written = []
    for one in (encoder, again):
        out = np.zeros((4, len(one.features)), dtype=np.float32)
        one.write(column, out)
        written.append(out)
    np.testing.assert_array_equal(*written)
    assert encoder.features == again.features
    assert np.isfinite(written[0]).all()
    assert len(encoder.neutral) == len(encoder.features)
    assert all(isinstance(encoder.original(k, 0.5), str) for k in range(len(encoder.features)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_without_features_writes_nothing(kind):
    empty = STATISTICS[kind](kind).encoder("standard", 64, COLUMNS[kind])
    assert empty.features == []
    empty.write(COLUMNS[kind], np.zeros((4, 0), dtype=np.float32))
