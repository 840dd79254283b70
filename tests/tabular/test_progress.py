import numpy as np
import torch

import nrs
from nrs.tabular.progress import MAX_RECENT

SETTINGS = {"preset": "fast", "random_state": 0, "verbose": 0}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def test_it_goes_on_where_it_was():
    model = nrs.NRSClassifier(**SETTINGS)
    for seed in range(3):
        model.partial_fit(*rows(60, seed), classes=[0, 1] if seed == 0 else None)
    progress = model._progress
    assert (progress.passes, progress.n_seen) == (3, 180)
    steps = {int(kept["step"]) for kept in progress.optimizer.state.values()}
    assert len(steps) == 1
    assert steps.pop() >= 3
    assert len(progress.recent) == 180 <= MAX_RECENT


def test_a_loaded_model_is_trained_further_from_the_network_of_its_file(tmp_path):
    nrs.NRSClassifier(**SETTINGS, epochs=1).fit(*rows(80)).save(tmp_path / "model")
    one, other = (nrs.NRSClassifier.load(tmp_path / "model") for _ in range(2))
    X, y = rows(40, 5)
    before, weights = one.predict_proba(X), one.network_.weight.clone()
    for model in (one, other):
        model.set_params(random_state=0).partial_fit(X, y)
    assert not torch.equal(one.network_.weight, weights)
    assert not np.array_equal(one.predict_proba(X), before)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
