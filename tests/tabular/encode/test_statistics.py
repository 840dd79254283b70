"""What is counted of a table does not depend on how its rows are cut."""

import itertools

import numpy as np
import pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st

from nrs.tabular.encode.statistics import TableStatistics
from nrs.tabular.encode.table import read_table


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 1e-300]),
            st.none() | st.sampled_from(["a", "b", "ü"]),
            st.integers(-3, 3),
        ),
        min_size=1,
        max_size=60,
    ),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_however_rows_are_cut_the_merged_statistics_are_the_same(rows, cuts):
    def counted(start, stop):
        statistics = TableStatistics(["x", "c", "y"], ["number", "category", "number"])
        if stop > start:
            statistics.add(
                read_table(
                    pyarrow.table(
                        [list(column) for column in zip(*rows[start:stop], strict=True)],
                        schema=pyarrow.schema([("x", "float64"), ("c", "string"), ("y", "int64")]),
                    )
                )
            )
        return statistics

    one = counted(0, len(rows))
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    merged = counted(0, 0)
    for start, stop in itertools.pairwise(edges):
        merged.merge(TableStatistics.from_state(counted(start, stop).state()))
    assert merged.n_rows == one.n_rows
    assert merged.columns[1][1].counts == one.columns[1][1].counts
    assert merged.columns[1][1].missing == one.columns[1][1].missing
    found, known = merged.columns[0][1].moments, one.columns[0][1].moments
    assert found.seen.tolist() == known.seen.tolist()
    for name in ("mean", "std", "low", "high"):
        close = {"rtol": 1e-9, "atol": 1e-9 * _size(rows)}
        assert np.allclose(getattr(found, name), getattr(known, name), **close)
    assert (found.std == 0).tolist() == (known.std == 0).tolist()


def _size(rows):
    return max([abs(row[0]) for row in rows if row[0] is not None], default=0.0)
