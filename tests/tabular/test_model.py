"""Models: what a time limit leaves them, and which views they keep."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, make_classification

from nrs import NRSClassifier
from nrs.tabular.encode.encoder import TableEncoder
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.folds import Folds
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.model import CHECKS, ForestModel, Pace
from nrs.tabular.recipe import MAX_FOLDS, resolve
from nrs.tabular.rows.memory import Rows
from nrs.tabular.run import Run
from nrs.tabular.targets import ClassTarget
from nrs.tabular.task import Task
from nrs.training import TimeLimit
from nrs.training.processes import ALONE


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
    # As if a row took a millisecond: 300 rows are scored twice, 512 of them forth and thrice back.
    X, y = noisy
    slow = Pace(0.001, 10.0, calibration=0.002)
    monkeypatch.setattr(Pace, "measure", lambda *_: slow)
    seen = []
    monkeypatch.setattr(
        "nrs.tabular.run.TimeLimit",
        lambda seconds, **more: seen.append((seconds, more["evaluation"])) or TimeLimit(seconds),
    )
    NRSClassifier(time_limit=10.0, epochs=2, random_state=0).fit(X, y)
    assert seen == [
        (pytest.approx(10 - 0.001 * (300 + 300 + 512 * 7) - 0.002 * 300), pytest.approx(0.3))
    ]


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


def _forest(**chosen):
    recipe = resolve("fast", {"n_mul": 1, "hidden": 4} | chosen, 100, 2)
    index = torch.zeros(recipe.members, 2, 1, dtype=torch.int64)
    network = ForestNetwork(2, 2, index, PiecewiseLinear.between([]), hidden=(4,))
    return ForestModel(network, ClassTarget(np.arange(2)), recipe, Folds(4))


@given(st.integers(1, 500), st.none() | st.integers(1, 300))
@settings(max_examples=20)
def test_a_forest_is_checked_a_few_times_and_trained_as_long_as_asked(epochs, patience):
    model = _forest(epochs=epochs, patience=patience)
    chosen = model.settings(stops=True)
    assert chosen.epochs <= CHECKS
    assert epochs <= chosen.epochs * model.round_epochs < epochs + model.round_epochs
    if patience is not None:
        assert patience <= chosen.patience * model.round_epochs < patience + model.round_epochs
    assert model.settings().patience is None


def test_a_model_without_rows_to_score_has_nothing_to_stop_it():
    rows = Rows(np.zeros((8, 2), np.float32), np.arange(8) % 2, folds=np.zeros(8, dtype=np.int64))
    model = _forest()
    model.use_folds(Folds(1))
    assert model.evaluator(rows, None, ALONE) is None
    run = Run(seed=0, device=torch.device("cpu"), begin=0.0)
    task = Task(rows, None, TableEncoder(), model.target, model.recipe, Folds(1), run)
    assert model.finish(task) is None
    model.use_folds(Folds(4))
    for held_out in (None, rows):
        with torch.no_grad():
            measured = model.evaluator(rows, held_out, ALONE)(model.network)
        assert measured.keys() >= {"val_loss", "score"}


def test_rows_that_come_later_go_round_the_folds():
    rows = Rows(np.zeros((10, 2), np.float32), np.arange(10) % 2)
    model = _forest()
    model.pass_batches(rows, n_seen=5)
    assert rows.folds.tolist() == [(5 + k) % MAX_FOLDS for k in range(10)]
    assert model.sees.shape == (8, MAX_FOLDS)
