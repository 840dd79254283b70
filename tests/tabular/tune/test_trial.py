"""One trial: its checks, and how it ends."""

from types import SimpleNamespace

import pytest
from sklearn.datasets import load_iris

from nrs import NRSClassifier

pytest.importorskip("optuna")
import optuna

from nrs.tabular.tune.study import STEPS
from nrs.tabular.tune.trial import Report

X, Y = load_iris(return_X_y=True)


def test_a_pruned_fit_ends_at_once():
    ended = Report(SimpleNamespace(report=lambda score, step: None, should_prune=lambda: True))
    with pytest.raises(optuna.TrialPruned):
        NRSClassifier(preset="fast", epochs=3, callbacks=[ended]).fit(X, Y)
    assert len(ended.checks) == 1
    # What is compared is the part of the way, whatever the number of epochs.
    whole = Report()
    NRSClassifier(preset="single", epochs=40, patience=40, callbacks=[whole]).fit(X, Y)
    assert list(whole.checks) == list(range(STEPS + 1))
