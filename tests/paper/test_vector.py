"""The protocol of the vector-data tables: settings, searches, folds, and what a trial gives."""

import numpy as np
import pytest

from nrs.core import FullyConnectedExpansion
from nrs.datasets import Dataset
from nrs.paper import vector
from nrs.paper.accuracy import PLAN
from nrs.paper.methods import SCHEMES, estimator
from nrs.paper.speed import PLAN as SPEED
from nrs.paper.table import Cell, NotHereError, Subject
from nrs.paper.trial import load_or_reason
from nrs.paper.vector import Plan


def _subject(dataset, method, **setting):
    return Subject("accuracy", dataset, method, tuple(setting.items()))


def test_the_paper_settings_of_a_dataset():
    assert PLAN._settings(_subject("letter", "NRS"), {}) == {"n_mul": 100, "epochs": 100}
    assert PLAN._settings(_subject("satimage", "NRS"), {}) == {"n_mul": 20, "epochs": 50}
    assert SPEED._settings(_subject("letter", "NRS"), {})["n_mul"] == 50
    # A study has the last word on what it studies.
    assert PLAN._settings(_subject("letter", "NRS", n_mul=5), {})["n_mul"] == 5
    (search,) = PLAN.searches(_subject("glass-merged", "NRS"))
    found = {search: {"chosen": {"epochs": 30}}}
    assert PLAN._settings(_subject("glass-merged", "NRS"), found) == {"n_mul": 50, "epochs": 30}


def test_what_needs_a_search():
    assert PLAN.searches(_subject("letter", "NRS")) == ()
    assert PLAN.searches(_subject("heart", "NDF")) == ()
    assert len(PLAN.searches(_subject("MNIST", "NRS"))) == 1
    assert PLAN.searches(_subject("SARCOS", "ANT")) == ()
    assert PLAN.searches(_subject("letter", "MLP"))[0].path == "searches/accuracy/letter/MLP.json"
    assert SPEED.searches(_subject("letter", "RF"))[0].path == "searches/speed/letter/RF.json"
    # The ablation trains for as long as NRS does, and shares its search.
    assert PLAN.searches(_subject("heart", "scheme a")) == PLAN.searches(_subject("heart", "NRS"))


def test_epochs_are_read_from_one_longer_run():
    plan = Plan(epoch_choices=(1, 2, 4), tenths=3)
    (search,) = plan.searches(_subject("sklearn-wine", "NRS"))
    found = plan.search(search)
    tried = [entry["settings"] for entry in found["tried"]]
    assert tried == [
        {"hidden": hidden, "epochs": epochs}
        for hidden in ([256, 256], [512, 512])
        for epochs in (1, 2, 4)
    ]
    best = max(found["tried"], key=lambda entry: entry["score"])
    assert found["chosen"] == best["settings"]
    # Tenths of the training part, nothing of the test part.
    assert found["splits"] == {"n": 3, "rows_train": 111, "rows_test": 13}


def test_grids_are_cross_validated_on_the_training_part():
    plan = Plan(search_overrides={"RF": {"n_estimators": 3}}, search_folds=4, search_rows=80)
    (search,) = plan.searches(_subject("sklearn-wine", "RF"))
    found = plan.search(search)
    assert found["chosen"] in [entry["settings"] for entry in found["tried"]]
    assert found["splits"] == {"n": 4, "rows_train": 60, "rows_test": 20}


def test_folds_take_the_place_of_trials(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)).astype(np.float32), np.arange(60) % 10
    data = Dataset("yeast", X, y, n_classes=10)
    monkeypatch.setattr(vector, "load_or_reason", lambda name: data)
    plan = Plan(epochs={"yeast": 1}, n_folds=3)
    measured = plan.measure(Cell(_subject("yeast", "NRS"), 0), {})
    assert len(measured.parts["accuracy"]) == measured.data["folds"] == 3
    assert measured.metrics["accuracy"] == pytest.approx(np.mean(measured.parts["accuracy"]))
    assert measured.data["n_train"] == 40


def test_the_same_seed_gives_the_same_numbers():
    plan = Plan(epochs={"sklearn-wine": 2})
    first, again, other = (
        plan.measure(Cell(_subject("sklearn-wine", "NRS"), seed), {}) for seed in (0, 0, 1)
    )
    assert first.metrics == again.metrics
    assert first.settings["used"]["epochs"] == 2
    assert first.model_bytes == again.model_bytes == other.model_bytes
    assert set(first.times) == {"fit_cpu_s", "fit_wall_s", "predict_cpu_s", "predict_wall_s"}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_ablation_trains_what_it_should(scheme):
    X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    settings = {"n_mul": 2, "epochs": 2}
    model = estimator(f"scheme {scheme}", "classification", 0, "accuracy", settings).fit(X, y)
    layer = model.network_.layers[0]
    assert isinstance(layer, FullyConnectedExpansion)
    fresh = FullyConnectedExpansion(
        5, 2, sparse_init=layer.sparse_init, frozen=layer.frozen, seed=layer.aggregation.seed
    )
    sparse, frozen = SCHEMES[scheme]
    assert (layer.expansion == fresh.expansion).all().item() == frozen
    assert (fresh.expansion.count_nonzero(1) == 1).all().item() == sparse
    assert model.predict(X).shape == (40,)


def test_depth_two_has_two_convolutions():
    X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    settings = {"n_mul": 1, "depth": 2, "epochs": 1}
    model = estimator("NRS", "classification", 0, "accuracy", settings).fit(X, np.arange(40) % 2)
    assert model.network_.subspaces.depth == 2


def test_absent_data_and_packages_are_told(monkeypatch, tmp_path):
    load_or_reason.cache_clear()
    monkeypatch.setattr("nrs.paper.trial.load", _nothing_here)
    with pytest.raises(NotHereError, match="put it there"):
        PLAN.measure(Cell(_subject("letter", "NRS"), 0), {})
    load_or_reason.cache_clear()
    monkeypatch.setattr("nrs.paper.methods.available", lambda name: (False, "no GPU"))
    with pytest.raises(NotHereError, match="GBDT cannot run here: no GPU"):
        estimator("GBDT", "classification", 0, "accuracy", {})


def _nothing_here(name, fold):
    from nrs.datasets import DatasetNotFoundError

    raise DatasetNotFoundError("put it there")
