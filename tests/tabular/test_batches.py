import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.rows.memory import spread_rows


@given(st.integers(1, 3_000_000_000), st.integers(2, 10_000))
def test_spread_rows_run_evenly_from_the_first_to_the_last(n, k):
    rows = spread_rows(n, k)
    assert rows.shape == (k,)
    assert rows.dtype == torch.int64
    assert (rows[0], rows[-1]) == (0, n - 1)
    steps = rows.diff()
    assert steps.min() >= (k <= n)
    assert steps.max() - steps.min() <= 1


def test_spread_rows_stay_within_tables_beyond_the_precision_of_float32():
    rows = spread_rows(3_000_000_000, 10_000)
    assert rows.unique().equal(rows)
    assert (rows[0], rows[-1]) == (0, 2_999_999_999)


@given(st.integers(1, 500))
def test_spread_rows_are_all_rows_if_as_many_are_asked_for(n):
    assert spread_rows(n, n).equal(torch.arange(n))
    assert spread_rows(n, 1).tolist() == [0]
