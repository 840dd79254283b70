"""The rule by which a measured value agrees with a reported one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.pages import Agreement, Tolerance

VALUES = st.floats(-1e4, 1e4)
STDS = st.none() | st.floats(0, 50)
TOLERANCES = st.builds(Tolerance, st.floats(0.01, 10), st.floats(0, 5))
MIRROR = {
    Agreement.AGREES: Agreement.AGREES,
    Agreement.BETTER: Agreement.WORSE,
    Agreement.WORSE: Agreement.BETTER,
    Agreement.FAR_BETTER: Agreement.FAR_WORSE,
    Agreement.FAR_WORSE: Agreement.FAR_BETTER,
}


@given(TOLERANCES, VALUES, VALUES, STDS, STDS)
def test_the_rule_is_the_one_the_page_states(tolerance, reported, measured, std, other_std):
    combined = math.sqrt((std or 0) ** 2 + (other_std or 0) ** 2)
    allowed = max(tolerance.points, tolerance.deviations * combined)
    difference = abs(measured - reported)
    if not math.isclose(difference, allowed, rel_tol=1e-6):
        agrees = tolerance.judge(reported, measured, std, other_std) is Agreement.AGREES
        assert agrees == (difference <= allowed)


@given(TOLERANCES, VALUES, VALUES, STDS, STDS)
def test_turning_the_scale_over_turns_the_judgement_over(tolerance, a, b, std, other_std):
    one = tolerance.judge(a, b, std, other_std)
    assert tolerance.judge(a, b, std, other_std, higher_is_better=False) is MIRROR[one]
    assert tolerance.judge(b, a, other_std, std) is MIRROR[one]


@given(TOLERANCES, VALUES, VALUES, st.floats(0, 10), st.floats(0, 10))
def test_a_wider_spread_never_ends_an_agreement(tolerance, a, b, std, more):
    if tolerance.judge(a, b, std) is Agreement.AGREES:
        assert tolerance.judge(a, b, std + more) is Agreement.AGREES


def test_differences_count_as_they_are_printed():
    assert Tolerance(1.5).judge(91.52, 90.02) is Agreement.AGREES
    assert Tolerance(1.5).judge(91.52, 90.01) is Agreement.WORSE
    assert Tolerance(1.5).judge(91.52, 88.5) is Agreement.FAR_WORSE
    assert Tolerance(0, 0).judge(1.0, 1.0) is Agreement.AGREES
    assert Tolerance(0, 0).judge(1.0, 1.1) is Agreement.FAR_BETTER


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_a_tolerance_is_a_number_of_at_least_zero(value):
    with pytest.raises(ValueError, match=r"points must be .* however: points="):
        Tolerance(points=value)


def test_every_judgement_but_no_judgement_has_its_own_symbol():
    symbols = [one.symbol for one in Agreement if one is not Agreement.UNCOMPARED]
    assert all(symbols)
    assert len(set(symbols)) == len(symbols)
