"""Columns in a few words."""

import pyarrow

from nrs.files.schema import describe_columns


def test_a_column_of_distinct_texts_looks_like_an_identifier():
    texts = [f"customer {k}" for k in range(21)]
    described = describe_columns(
        pyarrow.table({"id": texts, "twice": [texts[0], *texts[:-1]], "few": ["a", "b", "c"] * 7})
    )
    assert [one.is_identifier for one in described] == [True, False, False]
    assert described[1].values == "customer 0, customer 1, customer 10, customer 11 and 16 more"
    assert described[2].values == "a, b, c"


def test_numbers_may_be_taken_as_categories():
    table = pyarrow.table({"code": [7, 7, 3, None]})
    assert describe_columns(table)[0].values == "3 … 7"
    (code,) = describe_columns(table, ["code"])
    assert (code.kind, code.values, code.missing) == ("category", "7, 3", 1)
