"""Trials: how one ends, a file of them belongs to one search, time is counted once."""

import datetime
import logging
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import nrs
from nrs import NRSClassifier

pytest.importorskip("optuna")
import optuna

from nrs.tabular.tune.space import default_space
from nrs.tabular.tune.trials import STEPS, Report, counted, held, open_study, seconds_spent

X, Y = load_iris(return_X_y=True)


def small(**settings):
    return NRSClassifier(**{"preset": "fast", "epochs": 3, "random_state": 0} | settings)


def test_a_storage_is_of_one_search(tmp_path):
    path = tmp_path / "trials.log"
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        day=pd.Timestamp("2024-01-01"), kind=pd.Series(Y).map({0: "x", 1: "y", 2: None})
    )
    weighted = small(class_weight={np.int64(k): 1.0 + k for k in range(3)})
    first = nrs.tune(weighted, frame, Y, n_trials=2, storage=path)
    again = nrs.tune(weighted, frame, Y, n_trials=2, storage=path)
    assert again.trials_ == first.trials_
    assert again.best_estimator_.history_ == first.best_estimator_.history_
    for estimator, table, other, differs in (
        (weighted, frame.assign(kind="x"), {}, "data"),
        (small(), frame, {}, "settings"),
        (weighted, frame, {"space": {"n_h": [1]}}, "space"),
        (weighted, frame, {"groups": Y}, "data"),
    ):
        with pytest.raises(ValueError, match=f"differs in {differs};"):
            nrs.tune(estimator, table, Y, n_trials=2, storage=path, **other)
    with pytest.raises(ValueError, match="differs in random_state;"):
        nrs.tune(weighted, frame, Y, n_trials=2, storage=path, random_state=5)
    with held(path), pytest.raises(ValueError, match="Another search is using"):
        nrs.tune(weighted, frame, Y, n_trials=2, storage=path)


def test_locks_that_a_killed_search_left_are_removed(tmp_path):
    path = tmp_path / "trials[1].log"
    for ending in (".lock", ".lock0123.rename"):
        path.with_name(path.name + ending).symlink_to(path)
    others = tmp_path / "trials1.log.lock0123.rename", tmp_path / f"{path.name}.locked"
    for other in others:
        other.touch()
    with held(path):
        assert sorted(tmp_path.iterdir()) == sorted([path, *others])


@pytest.mark.parametrize("content", [b"my,notes\n1,2", b'{"op_code":0}\n{"op_code":"x"}\n'])
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "notes.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="has other content"):
        nrs.tune(small(), X, Y, n_trials=2, storage=path)
    assert path.read_bytes() == content


def test_time_spent_side_by_side_counts_once():
    study = optuna.create_study(direction="maximize")
    for _ in range(2):
        trial = optuna.trial.create_trial(value=0.0)
        trial.datetime_start -= datetime.timedelta(seconds=10)
        study.add_trial(trial)
    assert 10 <= seconds_spent(study) < 20


def test_a_resumed_search_without_a_seed_has_the_old_one(tmp_path):
    path = tmp_path / "trials.log"
    space = {"lr": (1e-4, 1e-2)}
    first, again = (
        nrs.tune(small(random_state=None), X, Y, n_trials=n, space=space, storage=path)
        for n in (2, 3)
    )
    assert again.trials_[:2] == first.trials_
    with pytest.raises(ValueError, match="differs in random_state;"):
        nrs.tune(small(random_state=None), X, Y, n_trials=3, space=space, storage=path,
                 random_state=1)  # fmt: skip


def test_log_lines_where_there_is_no_terminal(caplog):
    with caplog.at_level(logging.INFO, logger="nrs.tabular"):
        nrs.tune(small(), X, Y, n_trials=2, verbose=2)
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("trial ")]
    assert len(lines) == 2
    assert lines[0].startswith("trial 0 complete  score ")


def test_a_pruned_fit_ends_at_once():
    ended = Report(SimpleNamespace(report=lambda score, step: None, should_prune=lambda: True))
    with pytest.raises(optuna.TrialPruned):
        NRSClassifier(preset="fast", epochs=3, callbacks=[ended]).fit(X, Y)
    assert len(ended.checks) == 1
    # What is compared is the part of the way, whatever the number of epochs.
    whole = Report()
    NRSClassifier(preset="single", epochs=40, patience=40, callbacks=[whole]).fit(X, Y)
    assert list(whole.checks) == list(range(STEPS + 1))


def test_the_default_s_own_values_lie_in_its_space(tmp_path):
    path = tmp_path / "trials.log"
    found = nrs.tune(small(), X, Y, n_trials=1, storage=path)
    default = counted(open_study(path))[0]
    assert default.distributions == default_space(found.best_estimator_)


def test_optuna_s_own_log_level_stays(capfd):
    before = optuna.logging.get_verbosity()
    nrs.tune(small(), X, Y, n_trials=1)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr().err == ""
