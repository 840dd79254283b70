"""Drift: what is spread otherwise in new rows is found, and chance is not taken for it."""

import copy
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from nrs.tabular.encode.column_encoder import ColumnWarning, Watch
from nrs.tabular.encode.drift import PART_ROWS, DriftCount, Profile
from nrs.tabular.encode.encoder import TableEncoder


def _rows(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 12, n).round(),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.exponential(5, n)),
            "plan": rng.choice(["basic", "gold", "pro"], n, p=[0.6, 0.1, 0.3]),
            "sex": rng.choice(["f", "m"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "sold": rng.random(n) < 0.3,
            "name": rng.permutation([f"customer {k} of many" for k in range(n)]),
        }
    )


@pytest.fixture(scope="module")
def encoder():
    rows = _rows(1000, 0)
    found = TableEncoder().fit(rows)
    found.learn_profile(rows)
    return found


def _moved(encoder, rows, parts=1):
    watch = Watch(drift=True)
    for part in np.array_split(np.arange(len(rows)), parts):
        encoder.transform(rows.iloc[part], watch)
    return encoder.moved(watch)


CHANGES = {
    "age": lambda rows: rows["age"] + 15,
    "size": lambda rows: rows["size"] * 1000,
    "plan": lambda rows: np.where(np.arange(len(rows)) % 2, "gold", rows["plan"]),
    "sex": lambda rows: "f",
    "sold": lambda rows: ~rows["sold"],
}


@pytest.mark.parametrize("column", CHANGES)
@pytest.mark.parametrize("n", [150, 5000])
def test_a_column_that_moved_is_named(encoder, column, n):
    rows = _rows(n, 1)
    assert list(_moved(encoder, rows.assign(**{column: CHANGES[column](rows)}))) == [column]


def test_more_missing_cells_are_a_move(encoder):
    rows = _rows(400, 1)
    said = _moved(encoder, rows.assign(size=np.where(np.arange(400) % 2, np.nan, rows["size"])))
    assert "'size (missing)' in 5" in said["size"]
    assert re.search(r"\(1\d% in training\)", said["size"])


@pytest.mark.parametrize("n", [5, 40, 300, 5000])
def test_rows_of_the_same_kind_are_not_a_move(encoder, n):
    for seed in range(5):
        assert _moved(encoder, _rows(n, seed + 1)) == {}


def test_dates_move_by_themselves(encoder):
    rows = _rows(400, 1)
    assert _moved(encoder, rows.assign(day=rows["day"] + pd.Timedelta(days=900))) == {}


def test_parts_are_counted_together(encoder):
    rows = _rows(900, 1).assign(sex="m")
    assert _moved(encoder, rows, parts=9) == _moved(encoder, rows)
    count = DriftCount()
    count.add(encoder.profile, np.zeros((5 * PART_ROWS, encoder.n_features_out_)))
    assert count.n_rows <= PART_ROWS


def test_a_profile_is_kept_in_the_state(encoder):
    state = json.loads(json.dumps(encoder.to_state()))
    again = TableEncoder.from_state(state)
    assert again.profile == encoder.profile
    assert "profile" not in TableEncoder().fit(_rows(50, 0)).to_state()


def test_a_warning_names_what_moved(encoder):
    watch = Watch(drift=True)
    encoder.transform(_rows(300, 1).assign(sex="m"), watch)
    with pytest.warns(ColumnWarning, match=r"'sex=m' in 100% of them \(\d+% in training\)"):
        encoder.warn(watch)
    watch = Watch()
    encoder.transform(_rows(300, 1).assign(sex="m"), watch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.warn(watch)


def test_further_levels_forget_the_profile(encoder):
    wider = encoder.with_levels(_table(_rows(50, 1).assign(plan="new")))
    assert wider.profile is None
    assert copy.copy(encoder).profile is not None


def _table(rows):
    from nrs.tabular.encode.table import read_table

    return read_table(rows)


def test_a_wide_table_has_no_profile():
    x = np.random.default_rng(0).normal(size=(30, 2001))
    encoder = TableEncoder().fit(x)
    encoder.learn_profile(x)
    assert encoder.profile is None


def test_dates_alone_have_no_profile():
    rows = _rows(50, 0)[["day"]]
    encoder = TableEncoder().fit(rows)
    encoder.learn_profile(rows)
    assert encoder.profile is None


def test_a_rare_flag_is_seen():
    x = np.zeros((1000, 1))
    x[:20] = 1
    profile = Profile.of(x, [0])
    assert profile.points == [[0.0]]
    assert profile.below == [[0.98]]
    (moved,) = profile.moved(profile.count(np.ones((300, 1))), 300)
    assert (moved.before, moved.now) == (0.98, 0.0)
