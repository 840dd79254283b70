"""Which cells a run takes, and how shares divide them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrs.paper import find_table, tables
from nrs.paper.select import cells_of, shard_of


@given(n=st.integers(1, 40), trials=st.integers(1, 4), name=st.sampled_from(sorted(tables())))
def test_shares_are_a_partition(n, trials, name):
    cells = cells_of(find_table(name), trials=trials)
    shares = [shard_of(cells, (number, n)) for number in range(1, n + 1)]
    together = [cell for share in shares for cell in share]
    assert len(together) == len(set(together)) == len(cells)
    assert set(together) == set(cells)
    # The trials of one subject share a search, so they stay together.
    for share in shares:
        others = set(together) - set(share)
        assert not {cell.subject for cell in share} & {cell.subject for cell in others}


def test_datasets_methods_and_trials_narrow_the_work():
    cells = cells_of(
        find_table("accuracy"), datasets=["Letter", "yeast"], methods=["nrs", "RF"], trials=5
    )
    counts = {}
    for cell in cells:
        key = cell.subject.dataset, cell.subject.method
        counts[key] = counts.get(key, 0) + 1
    # Ten folds take the place of trials.
    assert counts == {
        ("letter", "NRS"): 5, ("letter", "RF"): 5, ("yeast", "NRS"): 1, ("yeast", "RF"): 1,
    }  # fmt: skip


def test_what_the_paper_does_not_have_runs_only_when_named():
    table = find_table("accuracy")
    usual = {(c.subject.dataset, c.subject.method) for c in cells_of(table, trials=1)}
    assert len(usual) == 210
    assert ("glass", "NRS") in usual
    assert ("glass-merged", "NRS") not in usual
    merged = cells_of(table, datasets=["glass-merged"], trials=1)
    assert {c.subject.method for c in merged} == {"NRS", "MLP", "NDF", "RS", "RF", "GBDT"}
    assert cells_of(table, datasets=["letter"], methods=["NDF-paper"], trials=1)
    sarcos = cells_of(table, datasets=["SARCOS-test"], trials=1)
    assert {c.subject.method for c in sarcos} == {"NRS", "MLP", "ANT", "RS", "RF", "GBDT"}


def test_a_short_name_stands_for_all_that_begin_with_it():
    cells = cells_of(find_table("mlp_variants"), datasets=["satimage"], methods=["MLP-D"])
    assert {cell.subject.method for cell in cells} == {"MLP-D"}
    cells = cells_of(find_table("speed"), datasets=["letter"], methods=["ThunderGBM"], trials=1)
    assert {cell.subject.method for cell in cells} == {"ThunderGBM RF", "ThunderGBM GBDT"}


@pytest.mark.parametrize("name", sorted(tables()))
def test_every_cell_has_a_file_of_its_own(name):
    cells = cells_of(find_table(name))
    assert len({cell.path.lower() for cell in cells}) == len(cells)
