"""Models: what a time limit leaves them, and which views they keep."""

import math
import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_classification

from nrs import NRSClassifier
from nrs.tabular.model import Pace
from nrs.training import TimeLimit


@pytest.fixture(scope="module")
def noisy():
    return make_classification(300, 8, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)


def test_a_time_limit_is_kept(noisy):
    model = NRSClassifier(epochs=100_000, patience=100_000, time_limit=1.0, random_state=0)
    began = time.monotonic()
    model.fit(*noisy)
    # A busy machine may hold up the last step.
    assert time.monotonic() - began < 3.0
    assert model.history_.stopped_early


def test_a_slow_forest_keeps_time_for_what_follows_training(noisy, monkeypatch):
    # As if a row took a millisecond: 300 rows are scored, 512 of them forth and thrice back.
    X, y = noisy
    slow = Pace(0.001, 10.0)
    monkeypatch.setattr(Pace, "measure", lambda *_: slow)
    seen = []
    monkeypatch.setattr(
        "nrs.tabular.run.TimeLimit",
        lambda seconds, **more: seen.append((seconds, more["evaluation"])) or TimeLimit(seconds),
    )
    NRSClassifier(time_limit=10.0, epochs=2, random_state=0).fit(X, y)
    assert seen == [(pytest.approx(10 - 0.001 * (300 + 512 * 7)), pytest.approx(0.3))]


def test_few_rows_are_scored_where_time_is_short():
    assert Pace(0.01, 10.0).affordable(0.02, 20_000) == 512
    assert Pace(1e-6, 10.0).affordable(0.02, 20_000) == 20_000
    assert Pace(1e-4, 10.0).affordable(0.02, 20_000) == 2_000
    assert Pace(1e-4, math.inf).affordable(0.02, 20_000) == 20_000


def test_the_best_preset_weighs_six_views_and_saves_what_it_kept(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = NRSClassifier(preset="best", epochs=4, random_state=0, verbose=0).fit(X, y)
    assert len(model.recipe_.views) == 6
    weights = model.network_.shares
    assert (weights > 0).all()
    assert len(weights) % 8 == 0
    model.save(tmp_path / "model.safetensors")
    loaded = NRSClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
