"""Laws of the expansion step."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nrs.core import draw_index
from tests.core.shapes import seeded

SIZES = (st.integers(1, 60), st.integers(1, 6), st.integers(1, 4))


@given(*SIZES, st.sampled_from(["code", "paper"]))
def test_every_feature_occurs_m_times(d, n_mul, n_h, layout):
    index = draw_index(d, n_mul, n_h, layout=layout, generator=seeded(0))
    assert index.dtype == torch.int64
    assert torch.bincount(index, minlength=d).tolist() == [n_mul * n_h * n_h] * d


@given(*SIZES)
def test_code_layout_concatenates_permutations(d, n_mul, n_h):
    index = draw_index(d, n_mul, n_h, layout="code", generator=seeded(1))
    rows = index.view(-1, d).sort(1).values
    assert torch.equal(rows, torch.arange(d).expand_as(rows))


@given(*SIZES)
def test_paper_layout_follows_equation_3(d, n_mul, n_h):
    """Cell (i, j) of channel k reads entry k mod d of permutation ⌊k/d⌋·n_h² + i·n_h + j."""
    index = draw_index(d, n_mul, n_h, layout="paper", generator=seeded(2))
    permutations = draw_index(d, n_mul, n_h, layout="code", generator=seeded(2)).view(-1, d)
    cells = index.view(n_mul * d, n_h, n_h)
    for k in range(n_mul * d):
        for i in range(n_h):
            for j in range(n_h):
                t = (k // d) * n_h * n_h + i * n_h + j
                assert cells[k, i, j] == permutations[t, k % d]


@pytest.mark.parametrize("d", [10, 16, 781])
def test_mean_number_of_distinct_features(d):
    """How often a depthwise 3×3 filter reads a feature twice, against the exact expectation."""
    # Independent permutations: the expected number of distinct values among nine draws.
    paper = d * (1 - (1 - 1 / d) ** 9)
    # Consecutive entries: a of one permutation and 9 - a of the next share a·(9 - a)/d features.
    straddling = sum(a * (9 - a) / d for a in range(1, 9))
    code = 9 - straddling / d
    for layout, expected in (("code", code), ("paper", paper)):
        index = draw_index(d, max(1, 40_000 // d), 3, layout=layout, generator=seeded(3))
        distinct = [len(set(row)) for row in index.view(-1, 9).tolist()]
        assert sum(distinct) / len(distinct) == pytest.approx(expected, abs=0.03)


def test_unknown_layout():
    with pytest.raises(ValueError, match=r"layout must be .* got 'rows'"):
        draw_index(4, 1, 3, layout="rows")
