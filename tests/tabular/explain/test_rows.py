"""Who answers for which rows."""

import numpy as np
import pandas as pd
import pytest

from nrs import NRSRanker, NRSRegressor, explain


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = NRSRegressor(preset="fast", epochs=3, random_state=0, verbose=0)
    return model.fit(X, X[:, 0]), X


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.arange(79), "one row number for each of the 80 rows of X"),
        (np.arange(80) / 2, "one row number for each"),
        (np.arange(80) + 1, "from 0 to 79, the rows of the fit; got 1 to 80"),
    ],
)
def test_training_rows_must_be_rows_of_the_fit(fitted, rows, said):
    model, X = fitted
    with pytest.raises(ValueError, match=said):
        explain.permutation(model, X, X[:, 0], training_rows=rows)


def test_only_a_fit_in_memory_knows_its_rows(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model.safetensors")
    loaded = NRSRegressor.load(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="Leave training_rows out"):
        explain.effect(loaded, X, 0, training_rows=np.arange(80))
    assert explain.effect(loaded, X, 0, n_points=3).mean.shape == (3, 1)


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_rankers_are_scored_by_query(scale):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    X["query"] = np.repeat(np.arange(8), 5)
    model = NRSRanker(preset="fast", query_scale=scale, epochs=1, random_state=0, verbose=0)
    grades = (X["a"] > 0).astype(int)
    model.fit(X, grades, qid="query")
    with pytest.raises(ValueError, match="Use feature_importances_"):
        explain.permutation(model, X, grades)
    if scale == "standard":
        with pytest.raises(ValueError, match="scales features within queries"):
            explain.reasons(model, X, [0])
    else:
        assert explain.effect(model, X, "a").answers is None
