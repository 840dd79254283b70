"""The documented rule for the size of a forest is the one in force."""

from pathlib import Path

import pytest

from nrs.tabular.recipe import resolve

GUIDE = Path(__file__).parents[2] / "docs" / "tables.md"


def _documented():
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| rows of the table"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("row", list(_documented()), ids=lambda row: row[0])
def test_the_guide_tells_the_sizes(row):
    rows, members, subspaces, hidden, dropout, batch, epochs = row
    recipe = resolve("default", {}, rows=int(rows), features=20)
    assert recipe.members == int(members)
    assert recipe.subspaces == int(subspaces)
    assert recipe.hidden == tuple(int(width) for width in hidden.split())
    assert recipe.dropout == float(dropout)
    assert recipe.batch_size == int(batch)
    assert recipe.epochs == int(epochs)
