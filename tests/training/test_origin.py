"""What a file notes of the training of its model."""

from nrs.training import fingerprint, made_now


def test_the_fingerprint_changes_with_whatever_is_fitted():
    others = [
        fingerprint({"names": ["a", "b"]}, "rows"),
        fingerprint({"names": ["a", "c"]}, "rows"),
        fingerprint({"names": ["a", "b"]}, "other rows"),
        fingerprint({"names": ["a", "b"]}),
    ]
    assert len(set(others)) == len(others)
    assert all(len(one) == 64 for one in others)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_the_time_is_that_of_the_clock_or_the_environment(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "not a number")
    assert made_now()["time"] > "2024"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert made_now()["time"] == "1970-01-01T00:00:00Z"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert made_now(at=86400.0)["time"] == "1970-01-02T00:00:00Z"
