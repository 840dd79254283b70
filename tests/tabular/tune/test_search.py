"""A search of settings: never worse than the default, the same again, taken up after a kill."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

import nrs
from nrs import NRSClassifier, NRSRanker, NRSRegressor
from nrs.training import Callback
from tests.forked import Forked

optuna = pytest.importorskip("optuna")
X, Y = load_iris(return_X_y=True)


def small(**settings):
    return NRSClassifier(**{"preset": "fast", "epochs": 3, "random_state": 0} | settings)


@pytest.fixture(scope="module")
def found():
    return nrs.tune(small(), X, Y, n_trials=5)


def test_the_default_is_first_and_nothing_worse_is_chosen(found):
    first = found.trials_[0]
    plain = small().fit(X, Y)
    assert (first["params"], first["state"]) == ({}, "complete")
    assert first["score"] == found.default_score_ == max(plain.history_["score"])
    done = [trial["score"] for trial in found.trials_ if trial["state"] == "complete"]
    assert found.best_score_ == max(done)
    assert len(found.trials_) == 5
    assert all(trial["params"] for trial in found.trials_[1:])


def test_the_best_estimator_is_the_best_trial_s_own(found):
    model = found.best_estimator_
    assert max(model.history_["score"]) == found.best_score_
    again = small(**found.best_params_).fit(X, Y)
    np.testing.assert_array_equal(again.oob_decision_function_, model.oob_decision_function_)
    # Nothing of the search stays on it.
    assert (model.callbacks, model.verbose) == (None, 1)
    assert len(found.to_pandas()) == 5
    assert found.plot_history().get_xlabel() == "trial"


def test_one_seed_is_one_search(found):
    again = nrs.tune(small(), X, Y, n_trials=5)
    assert _without_time(again) == _without_time(found)
    other = nrs.tune(small(), X, Y, n_trials=2, random_state=1)
    assert other.trials_[0]["score"] == found.trials_[0]["score"]
    assert other.trials_[1]["params"] != found.trials_[1]["params"]


def _without_time(result):
    return [trial | {"seconds": 0} for trial in result.trials_]


def test_what_the_user_set_stays(found):
    assert all("epochs" not in trial["params"] for trial in found.trials_)
    own = {"lr": 1e-2, "dropout": 0.0, "hidden": 8, "n_mul": 1}
    everything = own | {"batch_size": 64, "n_h": 2, "weight_decay": 0.0}
    with pytest.raises(ValueError, match="Nothing is left to search"):
        nrs.tune(small(**everything), X, Y, n_trials=2)


def test_bad_settings_are_pruned_and_diverging_ones_fail():
    # 1e-9 learns nothing.
    space = {"lr": [1e-9, 0.01], "batch_size": (16, 32)}
    found = nrs.tune(small(epochs=20), X, Y, n_trials=8, space=space)
    states = {(trial["state"], trial["params"].get("lr")) for trial in found.trials_[5:]}
    assert ("pruned", 1e-9) in states
    assert ("complete", 0.01) in states
    found = nrs.tune(small(), X, Y, n_trials=3, space={"lr": [1e30]})
    assert [trial["state"] for trial in found.trials_] == ["complete", "failed", "failed"]
    assert "diverged" in found.trials_[1]["error"]
    assert found.best_params_ == {}


def test_time_ends_a_search_in_the_middle_of_a_trial():
    found = nrs.tune(small(epochs=10**6), X, Y, budget=0.5)
    assert len(found.trials_) == 1
    assert found.best_estimator_.history_.stopped_early


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (NRSRegressor(preset="fast", epochs=3, random_state=0), load_diabetes(return_X_y=True)),
        (NRSClassifier(preset="single", epochs=3, random_state=0, metric="log_loss"), (X, Y)),
    ],
    ids=["numbers", "a held-out part"],
)
def test_other_estimators_are_tuned_too(estimator, data):
    found = nrs.tune(estimator, *data, n_trials=2)
    assert found.best_score_ == max(found.best_estimator_.history_["score"])


def test_a_ranker_is_tuned_by_held_out_queries():
    table = np.random.default_rng(0).normal(size=(200, 3))
    grades, qid = np.digitize(table[:, 0], [0.5, 1.0]), np.repeat(np.arange(20), 10)
    model = NRSRanker(epochs=3, random_state=0)
    found = nrs.tune(model, table, grades, qid=qid, n_trials=2)
    assert found.best_score_ == max(found.best_estimator_.history_["val_ndcg@10"])


def test_groups_and_weights_reach_the_fit():
    given = {"groups": np.arange(150) // 10, "sample_weight": np.r_[np.ones(100), np.zeros(50)]}
    found = nrs.tune(small(), X, Y, n_trials=1, **given)
    plain = small().fit(X, Y, **given)
    assert found.best_estimator_.history_ == plain.history_


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": "50 trials"}, "use n_trials"),
        ({"budget": 0}, "above 0"),
        ({"n_trials": 0}, "at least 1"),
        ({"space": {"lr": 0.1}}, "must be a list of choices"),
        ({"space": {"n_h": [0]}}, "n_h must be an integer"),
        ({"qid": Y}, "does not take"),
        ({"storage": "missing/trials.log"}, "create it first"),
    ],
)
def test_refusals(given, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        nrs.tune(small(epochs=1), X, Y, **{"n_trials": 2} | given)


def test_refused_estimators():
    with pytest.raises(ValueError, match="NRSRanker; got DataFrame"):
        nrs.tune(pd.DataFrame(), X, Y)
    with pytest.raises(ValueError, match="give tune a storage"):
        nrs.tune(small(checkpoint="folder"), X, Y)
    with pytest.raises(ValueError, match="Give the estimator validation_fraction"):
        nrs.tune(NRSClassifier(preset="paper"), X, Y)


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"neural-random-subspace\[tune\]"):
        nrs.tune(small(), X, Y)


SEARCH = """
import sys
import nrs
from sklearn.datasets import load_iris
from nrs.training import Callback
from tests.forked import Forked

class Tell(Callback):
    def on_train_begin(self, state):
        print("begin", flush=True)

model = nrs.NRSClassifier(preset="fast", epochs=3, random_state=0, callbacks=[Tell()])
nrs.tune(model, *load_iris(return_X_y=True), n_trials=5, storage=sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_search_goes_on_as_if_it_had_not_been(found, tmp_path):
    path = tmp_path / "trials.log"
    process = Forked(SEARCH, path)
    for _ in range(3):
        assert process.stdout.readline() == "begin\n"
    process.kill()
    # As if it had been killed in the middle of a line, and while it held Optuna's lock.
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    path.with_name(path.name + ".lock").symlink_to(path)
    fits = Count()
    resumed = nrs.tune(small(callbacks=[fits]), X, Y, n_trials=5, storage=path)
    assert _without_time(resumed) == _without_time(found)
    assert Count.begun <= 4
    model, expected = resumed.best_estimator_, found.best_estimator_
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


class Count(Callback):
    """Copies of it, one a fit, count together."""

    begun = 0

    def on_train_begin(self, state):
        Count.begun += 1


@pytest.mark.slow
def test_processes_share_the_trials(tmp_path):
    path = tmp_path / "trials.log"
    found = nrs.tune(small(), X, Y, n_trials=4, n_jobs=2, storage=path)
    assert len(found.trials_) == 4
    assert found.default_score_ == max(small().fit(X, Y).history_["score"])
    assert max(found.best_estimator_.history_["score"]) == found.best_score_
    study = optuna.load_study(
        study_name=None,
        storage=optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(path))
        ),
    )
    assert len({str(trial.params) for trial in study.trials}) == len(study.trials)


@pytest.mark.filterwarnings("error")
def test_an_error_of_the_first_trial_starts_no_processes():
    with pytest.raises(ValueError, match="validation_fraction"):
        nrs.tune(NRSClassifier(preset="paper", epochs=1), X, Y, n_trials=3, n_jobs=2)
