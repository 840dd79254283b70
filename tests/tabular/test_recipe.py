"""What None means: presets, the documented size rule, and values out of range."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from nrs import NRSClassifier
from nrs.tabular.recipe import PRESETS, Recipe, resolve

GUIDE = Path(__file__).parents[2] / "docs" / "tables.md"


def _documented():
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| rows of the table"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("row", list(_documented()), ids=lambda row: row[0])
def test_the_guide_lists_the_sizes(row):
    rows, members, subspaces, hidden, dropout, batch, epochs = row
    recipe = resolve("default", {}, rows=int(rows), features=20)
    assert recipe.members == int(members)
    assert recipe.subspaces == int(subspaces)
    assert recipe.hidden == tuple(int(width) for width in hidden.split())
    assert recipe.dropout == float(dropout)
    assert recipe.batch_size == int(batch)
    assert recipe.epochs == int(epochs)


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.sampled_from(PRESETS))
def test_every_size_of_table_has_a_recipe(n, features, preset):
    recipe = resolve(preset, {}, n, features)
    assert recipe.n_mul >= 1
    if preset in ("default", "single"):
        assert recipe.epochs * -(-n // recipe.batch_size) >= 400
    assert (recipe.members > 0) == (preset in ("default", "fast", "best"))
    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_what_the_user_chose_wins():
    recipe = resolve("default", {"n_mul": 0, "hidden": 7, "lr": None}, 100, 5)
    assert (recipe.n_mul, recipe.hidden, recipe.lr) == (0, (7,), 2e-3)


@pytest.mark.parametrize(
    "bad", [{"n_mul": -1}, {"n_h": 1.5}, {"dropout": 1.0}, {"scale": "robust"}, {"batch_size": 1}]
)
def test_a_value_out_of_range(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        resolve("default", bad, 100, 5)


def test_presets_are_ordered_by_size():
    X, y = load_iris(return_X_y=True)
    sizes = [
        NRSClassifier(preset=preset, epochs=1, verbose=0).fit(X, y).members_
        for preset in ("fast", "default", "best")
    ]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
