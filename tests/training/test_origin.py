"""What a file notes of the training of its model."""

import numpy as np
import pytest

from nrs.training import fingerprint, made_now

COLUMNS = [("a", "number"), ("b", "text")]
ROWS = np.arange(12.0).reshape(4, 3)


def test_the_fingerprint_changes_with_whatever_is_fitted():
    others = [
        fingerprint(COLUMNS, ROWS),
        fingerprint([("a", "number"), ("c", "text")], ROWS),
        fingerprint([("a", "text"), ("b", "text")], ROWS),
        fingerprint(COLUMNS, ROWS.astype(np.float32)),
        fingerprint(COLUMNS, ROWS.reshape(3, 4)),
        fingerprint(COLUMNS, ROWS[::-1]),
        fingerprint(COLUMNS, ROWS, np.array(["x", "y"])),
        fingerprint(COLUMNS),
    ]
    assert len(set(others)) == len(others)
    assert all(len(one) == 64 for one in others)


def test_the_fingerprint_is_of_values_not_of_memory():
    assert fingerprint(COLUMNS, ROWS) == fingerprint(COLUMNS, np.asfortranarray(ROWS))
    assert fingerprint(COLUMNS, np.empty((0, 3)), np.array(True))


def test_objects_have_no_fingerprint():
    with pytest.raises(TypeError, match="array of objects"):
        fingerprint(COLUMNS, np.array([None]))


def test_the_time_is_that_of_the_clock_or_the_environment(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "not a number")
    assert made_now()["time"] > "2024"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert made_now()["time"] == "1970-01-01T00:00:00Z"
