"""Which rows each member is not trained on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.forest.folds import Folds, count_folds, draw_folds


@given(st.integers(4, 60), st.integers(0, 50))
def test_folds_are_equally_large_and_spread_the_classes(n_rows, seed):
    labels = np.random.default_rng(seed).integers(3, size=n_rows)
    n_folds = count_folds(n_rows)
    folds = draw_folds(labels, n_folds, seed)
    sizes = np.bincount(folds, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    for label in range(3):
        held = np.bincount(folds[labels == label], minlength=n_folds)
        assert held.max() - held.min() <= 1


def test_rows_of_a_group_share_a_fold():
    groups = np.random.default_rng(0).integers(30, size=200)
    folds = draw_folds(np.zeros(200), 8, 0, groups)
    for group in np.unique(groups):
        assert len(set(folds[groups == group])) == 1
    assert np.bincount(folds, minlength=8).min() > 10
    with pytest.raises(ValueError, match="at least 8 different groups"):
        draw_folds(np.zeros(20), 8, 0, np.arange(20) % 3)


def test_folds_are_even_and_belong_to_the_row():
    places = np.arange(16_000)
    folds = Folds(8, seed=3).of(places)
    assert np.bincount(folds).min() > 1800
    assert np.array_equal(Folds(8, seed=3).of(places[777:900]), folds[777:900])
    assert not np.array_equal(Folds(8, seed=4).of(places), folds)
