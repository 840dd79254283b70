"""Categories."""

import datetime as dt
import json
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.encode.category import CategoryEncoder, CategoryStatistics
from nrs.tabular.encode.column_encoder import ColumnWarning, Watch
from nrs.tabular.encode.columns import Column, level_text
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.encode.table import read_table
from tests.tabular.encode.tables import NAN, column, encode


def test_categories_are_one_hot_in_sorted_order():
    encoder = TableEncoder().fit(column("b", "c", "a", "b"))
    assert encoder.feature_names_out_.tolist() == ["x0=a", "x0=b", "x0=c"]
    assert encoder.transform(column("c", "new", None)).tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_two_levels_take_one_feature():
    assert encode(column("b", "a"), column("a", "b", "new", None)) == column(0, 1, 0.5, 0.5)
    assert encode(column("a", None), column("a", None, "new")) == column(0, 1, 0.5)


def test_missing_is_a_level_if_training_had_it():
    encoder = TableEncoder().fit(column("a", "b", None))
    assert encoder.feature_names_out_.tolist() == ["x0=a", "x0=b", "x0=(missing)"]
    assert encoder.transform(column(None, "new")).tolist() == [[0, 0, 1], [0, 0, 0]]


def test_integers_declared_categories_are_known_as_floats_and_texts():
    train = np.array([[1], [2], [10]])
    for test in (np.array([[10.0], [NAN]]), column("10", None), column(10, None)):
        assert encode(train, test, categorical_features=[0]) == [[0, 1, 0], [0, 0, 0]]


def test_many_levels_share_a_feature_and_show_their_frequency():
    train = column(*["a"] * 8, *["b"] * 4, *["c"] * 2, *["d"] * 2, "e", None)
    encoder = TableEncoder(max_levels=3).fit(train)
    assert encoder.feature_names_out_.tolist() == [
        *("x0=a", "x0=b", "x0=c", "x0=(other)", "x0=(missing)", "x0 (log frequency)")
    ]
    Z = encoder.transform(column("a", "c", "d", "e", None, "new"))
    hot = [
        [1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0],
        [0] * 4 + [1],
        [0] * 5,
    ]
    assert Z[:, :5].tolist() == hot
    logs = np.log1p([8] * 8 + [4] * 4 + [2] * 4 + [1])
    expected = (np.log1p([8, 2, 2, 1]) - logs.mean()) / logs.std()
    np.testing.assert_allclose(Z[:4, 5], expected, rtol=1e-6)
    assert Z[4, 5] == 0
    assert Z[5, 5] == pytest.approx(-logs.mean() / logs.std())


def test_an_identifier_gives_no_features():
    train = [[f"id{row}", row] for row in range(100)]
    assert TableEncoder(max_levels=20).fit(train).feature_names_out_.tolist() == ["x1"]


def test_the_order_of_training_rows_does_not_change_the_levels():
    cells = [f"level {i % 17}" for i in range(200)]
    one = TableEncoder(max_levels=5).fit(column(*cells)).to_state()
    assert one == TableEncoder(max_levels=5).fit(column(*cells[::-1])).to_state()


def test_strings_are_quick():
    words = np.array([f"word {i}" for i in range(50)], dtype=object)
    X = words[np.random.default_rng(0).integers(0, 50, size=(100_000, 5))]
    start = time.process_time()
    TableEncoder().fit_transform(X)
    # Ten times what it takes: a loop with a function call for each cell is what this is for.
    assert time.process_time() - start < 3


def test_words_and_a_row_that_says_nothing():
    counted = CategoryStatistics(counts=Counter(a=2, b=3))
    encoder = counted.encoder("standard", 64, Column("category", np.zeros(0, int)))
    assert (encoder.features, encoder.neutral) == (["=b"], [0.5])
    assert encoder.original(0, 1.0) == "1"
    counted.missing = 1
    assert counted.encoder("standard", 64, Column("category", np.zeros(0, int))).neutral == [
        0,
        0,
        0,
    ]
    assert CategoryEncoder().features == []
    assert CategoryEncoder().onnx_schema() == {"type": "string", "missing": "", "levels": []}


@pytest.mark.parametrize(
    "cell",
    [7, 2.5, True, dt.date(2020, 1, 2), dt.timedelta(hours=1)],
    ids=lambda c: type(c).__name__,
)
def test_another_kind_of_cell_is_refused_unless_it_is_a_level(cell):
    with pytest.raises(ValueError, match=r"column 0: it held cells of kind text .*row 1"):
        encode(column("a", "b", "01"), column("a", cell))
    known = TableEncoder().fit(column("a", "b", level_text(cell)))
    assert known.transform(column(cell)).sum() == 1


def test_codes_that_lost_their_zeros_are_refused():
    with pytest.raises(ValueError, match="number"):
        encode(column("01", "02"), column(1, 2))
    # New codes of the kind that training had are unseen, as ever.
    assert encode(np.array([[1], [2], [3]]), [[9]], categorical_features=[0]) == [[0, 0, 0]]


def test_new_codes_are_unseen_whether_numbers_or_texts():
    """A CSV file holds codes as texts, a Parquet file as numbers."""
    numbers, texts = np.array([[1], [2], [3]]), column("1", "2", "3")
    assert encode(numbers, column("9", "2"), categorical_features=[0]) == [[0, 0, 0], [0, 1, 0]]
    assert encode(texts, [[9], [2]]) == [[0, 0, 0], [0, 1, 0]]
    for wrong in ("red", "02", "2.0", " 2"):
        with pytest.raises(ValueError, match="kind number"):
            encode(numbers, column(wrong), categorical_features=[0])
    long = "9" * 25
    assert encode(column("1", "2", long), [[int(long)], [7]]) == [[0, 0, 1], [0, 0, 0]]


def test_texts_in_another_case_are_noticed():
    encoder, watch = TableEncoder().fit(column("a", "b", "c")), Watch()
    encoder.transform(column(*"ABC" * 10), watch)
    with pytest.warns(ColumnWarning, match=r"unseen in training.*30 in 'x0'"):
        encoder.warn(watch)


LEVELS = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=12)


@given(LEVELS, LEVELS, LEVELS, st.sampled_from([2, 3, 64]))
def test_later_levels_get_features_and_change_no_others(first, second, third, most):
    encoder = TableEncoder(max_levels=most).fit(column(*first))
    known = {text for text in set(first) if 0 in encoder.encoders}
    more = encoder.with_levels(read_table(column(*second))).with_levels(read_table(column(*third)))
    assert (more is encoder) == (encoder.groups_.shape == more.groups_.shape and more == encoder)
    if 0 not in encoder.encoders:
        # Nothing is known of a column that was constant.
        return
    places, every = encoder.places_in(more), column(*"abcdefgh", None)
    old, new = encoder.transform(every), more.transform(every)
    own = np.setdiff1d(np.arange(new.shape[1]), places)
    later = np.setdiff1d(np.arange(8), ["abcdefgh".index(text) for text in known])
    np.testing.assert_array_equal(
        np.delete(new, later, axis=0)[:, places], np.delete(old, later, axis=0)
    )
    assert (new[:, own].sum(0) == 1).all()
    assert not np.delete(new, later, axis=0)[:, own].any()
    one = more.encoders[0]
    assert sum(end.startswith("=") for end in one.features) <= max(most, 2) + 2
    # Where no feature is left, later levels are among those that share one.
    if one.other:
        assert set(one.later) == set(second + third) - known
        shared = one.features.index("=(other)")
        rest = ["abcdefgh".index(text) for text in one.later[one.n_later_own :]]
        assert (new[rest, shared] == 1).all()
    again = TableEncoder.from_state(json.loads(json.dumps(more.to_state())))
    np.testing.assert_array_equal(again.transform(every), new)


def test_a_constant_column_gets_features_once_it_has_two_levels():
    rows = [["a", 1.0], ["a", 2.0]]
    encoder = TableEncoder().fit(rows)
    assert encoder.with_levels(read_table([["b", 1.0], ["b", 3.0]])) is encoder
    more = encoder.with_levels(read_table([["b", 1.0], ["a", 3.0]]))
    assert more.feature_names_out_.tolist() == ["x0=a", "x0=b", "x1"]
    assert more.groups_.tolist() == [0, 0, 1]
    assert encoder.feature_names_out_.tolist() == ["x1"]


def test_later_levels_are_refused_where_they_are_of_another_kind():
    encoder = TableEncoder().fit(column("a", "b", "c"))
    other = column(dt.date(2020, 1, 1), dt.date(2020, 1, 2))
    wrong = np.array(other, dtype=object)
    assert encoder.with_levels(read_table(wrong)) is encoder
