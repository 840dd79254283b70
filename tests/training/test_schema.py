"""Schemas accept what they describe, and name the place of what they do not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.training.schema import (
    ModelFileError,
    anything,
    check_header,
    choice,
    either,
    flag,
    hex_number,
    integer,
    list_of,
    mapping,
    number,
    optional,
    record,
    tagged,
    text,
)

# As the header of a table says what its target is, and what it learned of its columns.
TABLE = record(
    {
        "estimator": choice("NRSClassifier", "NRSRegressor"),
        "target": tagged(
            "kind",
            {
                "classes": record({"kind": text(), "classes": list_of(text(), 2)}),
                "regression": record(
                    {
                        "kind": text(),
                        "mean": list_of(hex_number(), 1, 10_000),
                        "std": list_of(hex_number(0), 1, 10_000),
                        "single": flag,
                    }
                ),
            },
        ),
        "forest": optional(
            record(
                {
                    "index": list_of(integer(1, 1 << 31), 3, 3),
                    "views": mapping(number(0, 1), 100),
                }
            )
        ),
        "about": anything,
    },
    defaults={"forest": None, "about": None},
)
HEADER = {
    "estimator": "NRSRegressor",
    "target": {
        "kind": "regression",
        "mean": [(0.1).hex()],
        "std": [(1.5).hex()],
        "single": True,
    },
    "forest": {"index": [16, 128, 9], "views": {"a": 0.5, "b": 1}},
    "about": {"rows": 3},
}


def test_a_header_comes_back_with_defaults():
    assert check_header(HEADER, TABLE) == HEADER
    older = {name: HEADER[name] for name in ("estimator", "target")}
    assert check_header(older, TABLE) == {**older, "forest": None, "about": None}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["estimator"], "NRSRanker", "header.estimator must be one of 'NRSClassifier', "),
        (["target", "kind"], "ranks", "header.target.kind must be one of 'classes', 'regression'"),
        (["target", "mean"], [], "header.target.mean must be a list of 1 to 10000 items"),
        (["target", "mean"], ["inf"], r"header.target.mean\[0\] must be the text of a finite"),
        (["target", "mean"], ["0x1p99999"], "the text of a finite number"),
        (["target", "std"], [(-1.0).hex()], "the text of a finite number"),
        (["target", "single"], 1, "header.target.single must be true or false; got 1"),
        (["target"], None, "header.target must be an object; got None"),
        (["forest", "index"], [1, 2, True], r"header.forest.index\[2\] must be an integer from 1"),
        (["forest", "index"], [1, 2, 10**5000], "got an integer of 16610 bits"),
        (["forest", "index"], [1] * 1000, "3 to 3 items; got a list of 1000 items"),
        (["forest", "views"], {"a" * 99: 2}, "a text of 99 characters must be a finite number"),
        (["forest", "views", "a"], 10**400, "header.forest.views.a must be a finite number"),
        (["forest", "other"], 1, "header.forest has an unknown key 'other'"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(place, value, message):
    header = json.loads(json.dumps(HEADER))
    inside = header
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    with pytest.raises(ModelFileError, match=message) as caught:
        check_header(header, TABLE)
    assert len(str(caught.value)) < 300


def test_a_missing_key_is_named():
    with pytest.raises(ModelFileError, match="header must have the key 'target'"):
        check_header({"estimator": "NRSRegressor"}, TABLE)


def test_one_of_several_schemas():
    schema = either(integer(0, 5), list_of(integer(0, 5), 2, 2))
    assert [check_header(value, schema) for value in (3, [1, 2])] == [3, [1, 2]]
    with pytest.raises(ModelFileError, match=r"integer from 0 to 5.* or .*list of 2 to 2"):
        check_header("x", schema)


def test_true_is_not_one():
    with pytest.raises(ModelFileError):
        check_header(True, choice(1, 2))
    with pytest.raises(ModelFileError):
        check_header(True, number())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.sampled_from(["estimator", "target", "forest"]))
def test_any_value_is_accepted_or_refused(value, key):
    for header in (value, {**HEADER, key: value}):
        try:
            found = check_header(header, TABLE)
        except ModelFileError:
            continue
        assert check_header(found, TABLE) == found
