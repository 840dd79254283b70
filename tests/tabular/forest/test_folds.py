"""Which rows each member is not trained on."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.tabular.forest.folds import MIN_ROWS, Folds, count_folds, draw_folds, read_groups


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


@given(st.integers(1, 8), st.integers(1, 48))
def test_a_member_sees_every_fold_but_its_own(n_folds, n_members):
    folds = Folds(n_folds)
    sees, own = folds.sees(n_members).numpy(), folds.members(n_members)
    assert sees.shape == (n_members, n_folds)
    if n_folds == 1:
        assert sees.all()
        return
    assert not sees[np.arange(n_members), own].any()
    assert sees.sum() == n_members * (n_folds - 1)
    # Each row is scored by equally many members, but for one.
    scored = (~sees).sum(0)
    assert scored.max() - scored.min() <= 1
    assert (scored > 0).all() == (n_members >= n_folds)


@given(st.integers(1, 60), st.integers(1, 16), st.integers(0, 99), st.none() | st.integers(2, 12))
def test_there_are_as_many_folds_as_rows_members_and_groups_allow(n_rows, members, seed, n_groups):
    groups = None
    if n_groups is not None:
        names = np.random.default_rng(seed).integers(n_groups, size=n_rows)
        groups = np.unique(names, return_inverse=True)[1]
    folds = Folds.draw(np.zeros(n_rows), members, seed, groups)
    most = n_rows if groups is None else groups.max() + 1
    assert folds.n_folds == min(count_folds(n_rows), members, most)
    numbers = folds.of(np.arange(n_rows))
    assert set(numbers) == set(range(folds.n_folds))
    assert np.array_equal(Folds.draw(np.zeros(n_rows), members, seed, groups).drawn, numbers)
    if groups is not None:
        assert all(len(set(numbers[groups == group])) == 1 for group in groups)


@given(st.sets(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=40), st.integers(2, 8))
def test_few_groups_of_files_fill_all_folds_evenly(hashes, n_folds):
    keys = np.array(sorted(hashes), dtype=np.int64)
    folds = Folds(min(n_folds, len(keys)), 3, keys=keys)
    numbers = folds.of(keys)
    counts = np.bincount(numbers, minlength=folds.n_folds)
    assert counts.max() - counts.min() <= 1
    # A fold is the group's, whichever rows are asked for.
    rows = np.random.default_rng(0).integers(len(keys), size=30)
    assert np.array_equal(folds.of(keys[rows]), numbers[rows])


@given(
    st.lists(st.sampled_from("abcde"), min_size=2, max_size=20).filter(lambda g: len(set(g)) > 1)
)
def test_groups_are_numbered_by_name_in_any_container(names):
    numbers = read_groups(names, len(names))
    assert set(numbers) == set(range(len(set(names))))
    for first, second in itertools.pairwise(range(len(names))):
        assert (names[first] == names[second]) == (numbers[first] == numbers[second])
    for given_ in (
        np.array(names),
        np.array(names, dtype=object),
        pd.Series(names, dtype="category"),
    ):
        assert np.array_equal(read_groups(given_, len(names)), numbers)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a", "a"], "at least 2 different"),
        (["a", None], "row 1 has none"),
        (["a"], "inconsistent"),
    ],
)
def test_groups_of_rows_that_cannot_be_folds(groups, message):
    with pytest.raises(ValueError, match=message):
        read_groups(groups, 2)


@given(
    st.lists(st.integers(-5, 40), min_size=2, max_size=90),
    st.integers(1, 48),
    st.randoms(use_true_random=False),
)
def test_blocks_follow_each_other_in_time(times, n_members, random):
    times = np.array(times, dtype=float)
    if len(np.unique(times)) == 1:
        with pytest.raises(ValueError, match="at least 2 different times"):
            Folds.in_order(times, n_members, 0)
        return
    folds = Folds.in_order(times, n_members, 0)
    blocks, order = folds.drawn, np.argsort(times, kind="stable")
    assert (np.diff(blocks[order]) >= 0).all()
    assert np.unique(blocks).tolist() == list(range(folds.n_folds))
    # Rows of equal time are in one block.
    assert len(np.unique(np.column_stack([times, blocks]), axis=0)) == len(np.unique(times))
    if len(times) < MIN_ROWS:
        assert folds.n_folds == 1
        return
    # Neither the unit of time nor the order of the rows matters.
    shuffled = list(range(len(times)))
    random.shuffle(shuffled)
    other = Folds.in_order(times[shuffled] * 3 - 7, n_members, 0)
    assert np.array_equal(other.drawn, blocks[shuffled])
    variants = folds.members(n_members)
    sees, scores = (one.numpy() for one in folds.tables(len(variants)))
    predicts = variants == 0
    assert predicts.sum() == n_members
    assert sees[predicts].all()
    assert not scores[predicts].any()
    # Each block but the first is scored by equally many, none of which saw it or a later one.
    assert scores.sum(0).tolist() == [0] + [folds.scorers] * (folds.n_folds - 1)
    for member, block in zip(*scores.nonzero(), strict=True):
        assert sees[member].tolist() == [fold < block for fold in range(folds.n_folds)]


def test_rows_without_weight_decide_no_block():
    times, weights = np.arange(40.0), np.ones(40)
    weights[10:] = 0
    folds = Folds.in_order(times, 8, 0, weights)
    assert set(folds.drawn[:10]) == set(range(folds.n_folds))
    with pytest.raises(ValueError, match="in rows that have a weight"):
        Folds.in_order(times, 8, 0, (times == 3).astype(float))
