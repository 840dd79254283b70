"""Dates."""

import datetime as dt

import numpy as np

from nrs.tabular.encode.date import DateEncoder
from nrs.tabular.encode.encoder import TableEncoder
from tests.tabular.encode.tables import column


def test_dates_are_time_and_turning_parts():
    start = dt.datetime(2024, 1, 1)
    encoder = TableEncoder().fit(column(start, start + dt.timedelta(days=1), None))
    names = ["x0", "x0 (weekday sin)", "x0 (weekday cos)", "x0 (missing)"]
    assert encoder.feature_names_out_.tolist() == names
    Z = encoder.transform(column(start, start + dt.timedelta(days=7.5), None))
    # 1 January 2024 was a Monday, where the week starts.
    np.testing.assert_allclose(Z, [[-1, 0, 1, 0], [2, 0, 1, 0], [0, 0, 0, 1]], atol=1e-6)
    months = TableEncoder().fit_transform(column(dt.date(2024, 1, 1), dt.date(2024, 4, 1)))
    np.testing.assert_allclose(months[:, 1:3], [[0, 1], [1, 0]], atol=1e-6)
    hours = TableEncoder().fit_transform(column(start, start + dt.timedelta(hours=6)))
    np.testing.assert_allclose(hours, [[-1, 0, 1], [1, 1, 0]], atol=1e-6)


def test_a_time_is_shown_as_a_day():
    start = dt.datetime(2024, 1, 1)
    encoder = TableEncoder().fit(column(start, start + dt.timedelta(days=2), None))
    assert [encoder.original(0, value) for value in (-1.0, 1.0)] == ["2024-01-01", "2024-01-03"]
    assert encoder.original(0, 1e18) == "1e+18"
    assert encoder.original(1, 0.25) == "0.25"
    # A single day has no time that varies: the only feature shows what is missing.
    assert TableEncoder().fit(column(start, None)).original(0, 1.0) == "1"
    assert DateEncoder().features == []
