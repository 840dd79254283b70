"""Effect curves: one cell for all rows, all else as it is."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor, explain
from nrs.tabular.encode.column_encoder import ColumnWarning


@pytest.fixture(scope="module")
def flats():
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(20, 120, n).round(1)),
            "floor": rng.integers(0, 4, n),
            "district": rng.choice(["north", "south", "west", None], n, p=[0.5, 0.3, 0.1, 0.1]),
            "sold": pd.date_range("2024-01-01", periods=n),
            "lift": rng.random(n) > 0.5,
            "words": [f"a bright flat number {k} near the park and river" for k in range(n)],
        }
    )
    y = X["size"].fillna(70) * 10 + 300 * (X["district"] == "north") + rng.normal(size=n)
    model = NRSRegressor(preset="fast", text_features=["words"], random_state=0, verbose=0)
    return model.fit(X, y), X, y


def test_cells_stand_in_the_words_of_the_table(flats):
    model, X, _ = flats
    size = explain.effect(model, X, "size", n_points=6)
    assert len(size.cells) == 7
    assert size.cells[-1] == "missing"
    assert (np.diff(size.at[:-1]) > 0).all()
    assert np.isnan(size.at[-1])
    assert size.share.sum() == pytest.approx(1)
    district = explain.effect(model, X, "district")
    assert district.cells == ["north", "south", "west", "missing"]
    assert district.share == pytest.approx([(X["district"] == one).mean() for one in
                                            ("north", "south", "west")]
                                           + [X["district"].isna().mean()])  # fmt: skip
    sold = explain.effect(model, X, "sold", n_points=4)
    assert sold.cells[0].startswith("2024-01-0")
    assert explain.effect(model, X, "floor").cells == ["0", "1", "2", "3"]
    assert explain.effect(model, X, "lift").cells == ["False", "True"]
    with pytest.raises(ValueError, match="'words' is free text"):
        explain.effect(model, X, "words")


def test_curves_are_the_predictions_with_the_cell_replaced(flats):
    model, X, _ = flats
    found = explain.effect(model, X, "district", max_rows=300)
    for cell, mean, curve in zip(found.cells, found.mean[:, 0], found.curves, strict=True):
        told = pytest.warns(ColumnWarning) if cell == "missing" else nullcontext()
        with told:
            answers = model.predict(X.assign(district=None if cell == "missing" else cell))
        np.testing.assert_allclose(curve, answers, rtol=1e-4)
        assert mean == pytest.approx(answers.mean(), rel=1e-4)


def test_an_effect_out_of_bag_has_the_sign_it_should(flats):
    model, X, _ = flats
    size = explain.effect(model, X, "size", training_rows=np.arange(len(X)))
    assert size.mean[-2, 0] - size.mean[0, 0] > 500
    north = explain.effect(model, X, "district", training_rows=np.arange(len(X)))
    assert north.mean[0, 0] - north.mean[1, 0] > 100


def test_of_classes_the_one_that_moves_most_is_shown(flats):
    _, X, y = flats
    X = X[["size", "floor"]]
    labels = np.where(y > 1000, "dear", np.where(X["floor"] == 0, "a", "b"))
    model = NRSClassifier(preset="fast", random_state=0, verbose=0).fit(X, labels)
    found = explain.effect(model, X, "size")
    assert found.answers[found.shown] == "dear"
    assert found.mean.sum(1) == pytest.approx(np.ones(len(found.cells)))
    two = NRSClassifier(preset="fast", epochs=3, random_state=0, verbose=0).fit(X, labels == "dear")
    assert explain.effect(two, X, 0).shown == 1
