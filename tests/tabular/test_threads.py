"""One fitted model, many threads: every call gives what it gives alone."""

import threading

import numpy as np
import pytest
import torch

from nrs import NRSClassifier, NRSRanker, NRSRegressor
from tests.threads import in_threads

N_THREADS, N_CALLS = 8, 12
QUICK = {"preset": "fast", "n_mul": 2, "hidden": 16, "epochs": 1, "random_state": 0, "verbose": 0}


def _calls():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(300, 6)), np.repeat(np.arange(30), 10)
    number = NRSRegressor(**QUICK).fit(X, X[:, 0])
    label = NRSClassifier(**QUICK).fit(X, X[:, 0] > 0)
    rank = NRSRanker(**QUICK).fit(X, np.digitize(X[:, 0], [0, 1]), qid=qid)
    return {
        "predict": lambda: number.predict(X),
        "predict(return_std=True)": lambda: np.stack(number.predict(X, return_std=True)),
        "predict_interval": lambda: np.stack(number.predict_interval(X[:50])),
        "member_outputs": lambda: number.member_outputs(X),
        "predict_proba": lambda: label.predict_proba(X),
        "member_outputs of classes": lambda: label.member_outputs(X),
        "predict of a ranker": lambda: rank.predict(X),
        "return_std of a ranker": lambda: np.stack(rank.predict(X, return_std=True)),
    }


def test_eight_threads_get_what_one_gets():
    calls = _calls()
    expected = {name: call() for name, call in calls.items()}
    wrong = []

    def ask(number):
        names = list(calls)[number:] + list(calls)[:number]
        for _ in range(N_CALLS):
            for name in names:
                try:
                    found = calls[name]()
                    if not np.array_equal(found, expected[name]):
                        wrong.append(f"{name} differs")
                except Exception as error:
                    wrong.append(f"{name}: {error!r}")

    in_threads(N_THREADS, ask)
    assert not wrong


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_no_call_changes_the_threads_of_others(n_jobs, monkeypatch):
    def refuse(n):
        raise AssertionError(f"torch.set_num_threads({n})")

    before = torch.get_num_threads()
    monkeypatch.setattr(torch, "set_num_threads", refuse)
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = NRSRegressor(n_jobs=n_jobs, **QUICK).fit(X, X[:, 0])
    model.predict(X, return_std=True)
    assert torch.get_num_threads() == before
    seen = []
    other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert seen == [before]
