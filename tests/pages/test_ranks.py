"""Who is tied with whom, and the diagram that shows it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.pages.ranks import Line, Words, critical_difference, lay_out, tied_groups, to_svg

RANKS = st.lists(st.floats(1, 8), min_size=2, max_size=8).map(
    lambda values: {f"m{i}": value for i, value in enumerate(values)}
)


@given(RANKS, st.data())
def test_no_two_methods_of_a_group_differ_and_no_group_holds_another(ranks, data):
    pairs = list(itertools.combinations(ranks, 2))
    p = [data.draw(st.sampled_from([0.01, 0.5])) for _ in pairs]
    tests = [[a, b, one] for (a, b), one in zip(pairs, p, strict=True)]
    groups = tied_groups(ranks, {"wilcoxon_holm": tests})
    significant = {frozenset((a, b)) for a, b, one in tests if one < 0.05}
    for group in groups:
        assert not [
            pair for pair in itertools.combinations(group, 2) if frozenset(pair) in significant
        ]
    for one, other in itertools.permutations(groups, 2):
        assert not set(one) <= set(other)
    # Neighbours that do not differ are joined by some bar.
    order = sorted(ranks, key=lambda name: ranks[name])
    for pair in itertools.pairwise(order):
        if frozenset(pair) not in significant:
            assert any(set(pair) <= set(group) for group in groups)


def test_the_critical_difference_is_that_of_the_literature():
    # Demšar (2006), section 3.2.2: four classifiers, 14 data sets, CD = 1.25.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)
    assert tied_groups(dict.fromkeys("abcd", 2.0), {}) == []
    ranks = {"a": 3.143, "b": 2.0, "c": 2.893, "d": 1.964}
    assert tied_groups(ranks, {"scores": {"a": [0] * 14}}) == [["d", "b", "c", "a"]]


@given(RANKS)
def test_everything_is_inside_the_picture_and_every_method_is_named_once(ranks):
    diagram = lay_out(ranks, [sorted(ranks, key=lambda name: ranks[name])])
    for shape in diagram.shapes:
        if isinstance(shape, Line):
            assert 0 <= min(shape.x1, shape.x2) <= max(shape.x1, shape.x2) <= diagram.width
            assert 0 <= min(shape.y1, shape.y2) <= max(shape.y1, shape.y2) <= diagram.height
    words = [shape.text.split() for shape in diagram.shapes if isinstance(shape, Words)]
    for name in ranks:
        assert sum(name in text for text in words) == 1
    assert to_svg(diagram, "<ranks>").count("&lt;ranks&gt;") == 1
