"""Tables of every kind of cell, and short ways to encode them."""

import datetime as dt

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from nrs.tabular.encode.encoder import TableEncoder

NAN = float("nan")


quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def column(*cells):
    """One column, whose cells are Python objects."""
    return [[cell] for cell in cells]


def encode(train, test, **parameters):
    return TableEncoder(**parameters).fit(train).transform(test).tolist()


CELLS = {
    "number": st.floats(allow_nan=True, allow_infinity=False),
    "integer": st.integers(-(2**40), 2**40),
    "text": st.text(max_size=3),
    "few": st.sampled_from(["a", "b", "c"]),
    "boolean": st.booleans(),
    "date": st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    "duration": st.timedeltas(dt.timedelta(days=-9999), dt.timedelta(days=9999)),
    "nothing": st.none(),
}


@st.composite
def two_tables(draw, min_columns=1):
    """Kinds of the columns, and a training and a test table of them as dictionaries."""
    names = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=min_columns, max_size=4))

    def table():
        n_rows = draw(st.integers(1, 12))
        cells = [st.lists(CELLS[n] | st.none(), min_size=n_rows, max_size=n_rows) for n in names]
        return {f"c{i}": draw(column) for i, column in enumerate(cells)}

    return table(), table()


def to_objects(data):
    X = np.empty((len(next(iter(data.values()))), len(data)), dtype=object)
    for index, cells in enumerate(data.values()):
        X[:, index] = cells
    return X
