"""Why a row gets its answer."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSClassifier, NRSRegressor, explain
from nrs.tabular.explain.reasons import MAX_COLUMNS, OTHERS


@pytest.fixture(scope="module")
def flats():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.uniform(20, 120, 300),
            "district": rng.choice(["north", "south", None], 300),
            "noise": rng.normal(size=300),
            "same": 3,
        }
    )
    return X, X["size"] * 10 + 300 * (X["district"] == "north")


def test_parts_add_up_and_are_those_of_an_additive_function(flats):
    X, y = flats
    model = NRSRegressor(preset="fast", random_state=0, verbose=0).fit(X, y)
    for why in explain.reasons(model, X, [5, 250]):
        assert why.usual + why.parts.sum() == pytest.approx(why.answer)
        assert why.answer == pytest.approx(model.predict(X)[why.row], rel=1e-4)
        assert why.usual == pytest.approx(model.predict(X).mean(), rel=0.1)
        parts = dict(zip(why.columns, why.parts, strict=True))
        # A column that never changes has no features.
        assert set(parts) == {"size", "district", "noise"}
        gained = 10 * (X["size"][why.row] - X["size"].mean())
        assert parts["size"] == pytest.approx(gained, abs=90)
        assert abs(parts["noise"]) < 40
        assert why.columns[-1] == "noise"


def test_text_names_cells_as_the_table_has_them(flats):
    X, y = flats
    model = NRSClassifier(preset="fast", random_state=0, verbose=0)
    model.fit(X, np.where(y > y.median(), "dear", "cheap"))
    row = int(np.flatnonzero(X["district"].isna())[0])
    (why,) = explain.reasons(model, X, [row], training_rows=np.arange(300))
    assert why.label == "dear"
    assert why.answer == pytest.approx(model.oob_decision_function_[row, 1], abs=1e-5)
    lines = str(why).splitlines()
    assert lines[0].startswith(f"probability of dear: {100 * why.answer:.1f} %, for usual rows ")
    assert any(line.strip().startswith("district = missing") for line in lines[1:])
    assert len(lines) == 4


def test_many_columns_count_together():
    X = np.random.default_rng(0).normal(size=(60, MAX_COLUMNS + 5))
    model = NRSRegressor(preset="fast", epochs=3, random_state=0, verbose=0).fit(X, X[:, 0])
    (why,) = explain.reasons(model, X, [0], n_draws=4)
    assert len(why.columns) == MAX_COLUMNS + 1
    assert OTHERS in why.columns
    assert why.usual + why.parts.sum() == pytest.approx(float(model.predict(X[:1])[0]), abs=1e-4)


def test_rows_must_be_there(flats):
    X, y = flats
    model = NRSRegressor(preset="fast", epochs=1, random_state=0, verbose=0).fit(X, y)
    with pytest.raises(ValueError, match=r"rows must be among the 300 rows of X.*got 300"):
        explain.reasons(model, X, [2, 300])
    with pytest.raises(ValueError, match="at least 2 rows"):
        explain.reasons(model, X[:1], [0])
