"""Small static charts."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.pages.svg import Axis, Chart, bar_list, nice_ticks, short, tick_labels

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


@given(NUMBERS, st.floats(1e-6, 1e9), st.integers(1, 9))
def test_ticks_are_few_different_and_inside(low, span, most):
    high = low + span
    ticks = nice_ticks(low, high, most)
    assert len(ticks) <= most + 1
    # As exact as float64 is at this height.
    room = 1e-6 * span + 1e-12 * abs(low)
    assert all(low - room <= tick <= high + room for tick in ticks)
    if span > 1e-9 * abs(low):
        labels = tick_labels(ticks)
        assert len(set(labels)) == len(ticks)


def test_a_line_has_gaps_where_there_is_nothing_and_names_are_escaped():
    chart = Chart("<b>loss & co</b>", Axis(0, 3, "round"), Axis(0, 1, "loss"))
    chart.line([0, 1, 2, 3], [0.1, np.nan, 0.3, 0.4], "red", "a <i>")
    drawn = chart.draw()
    (line,) = re.findall(r'd="([^"]*)" fill="none" stroke="red"', drawn)
    assert line.count("M") == 2
    assert "<b>loss" not in drawn
    assert "<i>" not in drawn
    assert "a &lt;i&gt;" in drawn


def test_marks_stand_where_their_values_are():
    chart = Chart("", Axis(0, 10), Axis(0, 10))
    chart.dots([0, 10], [0, 10], "blue", ["first", "last"])
    places = [
        tuple(map(float, one)) for one in re.findall(r'cx="([^"]*)" cy="([^"]*)"', chart.draw())
    ]
    (x0, y0), (x1, y1) = places
    assert x0 == pytest.approx(chart.left, abs=0.1)
    assert y0 == pytest.approx(chart.height - chart.bottom)
    assert x1 == pytest.approx(chart.width - chart.right)
    assert y1 == chart.top


def test_bars_hold_their_error_and_their_sign():
    rows = [("up", 2.0, 0.5, "+2", "said"), ("down", -1.0, 0.0, "−1", "told")]
    drawn = bar_list(rows, "blue", "title", "words")
    assert drawn.count("<rect") == 2
    assert drawn.count("whisker") == 1
    (up, down) = [float(one) for one in re.findall(r'<rect x="([^"]*)"', drawn)]
    assert down < up


def test_constant_and_empty_values_have_an_axis():
    assert Axis.around([3.0, 3.0]).low < 3 < Axis.around([3.0, 3.0]).high
    axis = Axis.around([np.nan, np.inf])
    assert (axis.low, axis.high) == (-0.04, 1.04)
    assert short("  many\n words", 20) == "many words"
