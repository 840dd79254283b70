import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.training import History

ROWS = [
    {"epoch": 0, "train_loss": 0.9, "score": 0.1, "lr": 0.1, "seconds": 0.5},
    {"epoch": 1, "train_loss": 0.5, "score": 0.7, "lr": 0.1, "seconds": 0.6},
]


def example():
    return History([dict(row) for row in ROWS], best_epoch=1, stopped_early=True)


def test_it_is_a_table():
    history = example()
    assert len(history) == 2
    assert history["score"] == [0.1, 0.7]
    assert list(history) == history.rows == ROWS
    assert history.columns == ["epoch", "train_loss", "score", "lr", "seconds"]
    assert "score" in history
    assert "auc" not in history


def test_an_unknown_column_names_the_known_ones():
    with pytest.raises(KeyError, match=r"'loss'.*train_loss"):
        example()["loss"]


def test_seconds_do_not_count_in_comparison_and_all_else_does():
    other = example()
    other.rows[0]["seconds"] = 99.0
    assert other == example()
    other.rows[0]["train_loss"] += 1e-12
    assert other != example()
    assert History(ROWS, best_epoch=0, stopped_early=True) != example()
    assert History(ROWS, best_epoch=1, stopped_early=False) != example()


def test_nan_equals_nan():
    assert History([{"score": math.nan}]) == History([{"score": math.nan}])


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.floats() | st.integers(0, 99), max_size=4),
        max_size=4,
    ),
    st.none() | st.integers(0, 9),
    st.booleans(),
)
def test_json_round_trip(rows, best_epoch, stopped_early):
    history = History(rows, best_epoch, stopped_early)
    text = history.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert History.from_json(text) == history


def test_repr_shows_head_tail_and_best():
    history = History([{"epoch": i, "train_loss": 1 / (i + 1)} for i in range(30)], 28, True)
    text = repr(history)
    assert len(text.splitlines()) == 12
    assert text.splitlines()[0].split() == ["epoch", "train_loss"]
    assert text.splitlines()[-2].split() == ["29", "0.03333"]
    assert text.splitlines()[-1] == "30 epochs, best 28, stopped early"
    assert repr(History()) == "History(no epochs)"


def test_to_pandas():
    pandas = pytest.importorskip("pandas")
    frame = example().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["score"].tolist() == [0.1, 0.7]


def test_to_pandas_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"neural-random-subspace\[frames\]"):
        example().to_pandas()
