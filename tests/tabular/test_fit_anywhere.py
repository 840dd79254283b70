"""The same seed gives the same model in any thread and under any setting of torch."""

import contextlib
import random
import threading

import numpy as np
import pytest
import torch
from sklearn.model_selection import cross_val_score

from nrs import NRSClassifier, NRSRanker, NRSRegressor
from nrs.baselines.ant import ANTClassifier
from nrs.baselines.ndf import NDFClassifier
from nrs.training import Callback
from tests.threads import in_threads

_rng = np.random.default_rng(0)
X = _rng.normal(size=(160, 5))
Y = np.digitize(X[:, 0] + 0.3 * X[:, 1] ** 2, [-0.3, 0.5])
QID = np.repeat(np.arange(16), 10)
SMALL = {"epochs": 2, "verbose": 0}
QUICK = SMALL | {"dropout": 0.2}


def _classifier(seed, **settings):
    return NRSClassifier(random_state=seed, **QUICK | settings).fit(X, Y)


def _in_parts(seed):
    model = NRSClassifier(random_state=seed, **QUICK)
    for rows in np.split(np.arange(len(X)), 2):
        model.partial_fit(X[rows], Y[rows], classes=[0, 1, 2])
    return model


def _saved(seed, tmp_path):
    path = tmp_path / f"{threading.get_ident()}.nrs"
    _classifier(seed).save(path)
    return NRSClassifier.load(path)


FITS = {
    "classifier": _classifier,
    "single": lambda seed: _classifier(seed, preset="single"),
    "regressor": lambda seed: NRSRegressor(random_state=seed, **QUICK).fit(X, X[:, 0]),
    "ranker": lambda seed: NRSRanker(random_state=seed, **QUICK).fit(X, Y, qid=QID),
    "partial_fit": _in_parts,
    "wass_rank": lambda seed: NRSRanker(random_state=seed, loss="wass_rank", **QUICK).fit(
        X, Y, qid=QID
    ),
    "adaptive tree": lambda seed: ANTClassifier(random_state=seed, **SMALL, max_depth=1).fit(X, Y),
    "decision forest": lambda seed: NDFClassifier(random_state=seed, **SMALL).fit(X, Y),
}


def _numbers(model):
    """Weights and predictions."""
    answers = getattr(model, "predict_proba", model.predict)(X)
    weights = {name: value.numpy() for name, value in model.network_.state_dict().items()}
    return weights | {"answers": answers, "importances": model.feature_importances_}


def _assert_same_bits(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert np.array_equal(found[name], value), name


@contextlib.contextmanager
def _float64():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def _meta():
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


SETTINGS = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "default dtype": _float64,
    "default device": _meta,
    "device context": lambda: torch.device("meta"),
}


def _state():
    """Everything global that a fit could change."""
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": [part.tolist() for part in np.random.get_state()[1:2]],  # noqa: NPY002
        "random": random.getstate(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
    }


@pytest.mark.parametrize("kind", ["classifier", "single", "ranker", "partial_fit"])
def test_fits_in_threads_are_fits(kind):
    fit, seeds = FITS[kind], (0, 1, 2, 0)
    expected = [_numbers(fit(seed)) for seed in seeds]
    before = torch.get_rng_state()
    found = in_threads(len(seeds), lambda number: _numbers(fit(seeds[number])))
    assert torch.equal(torch.get_rng_state(), before)
    for pair in zip(found, expected, strict=True):
        _assert_same_bits(*pair)


def test_cross_validation_in_threads_scores_the_same():
    import joblib

    model = NRSClassifier(random_state=0, preset="fast", **QUICK)
    alone = cross_val_score(model, X, Y, cv=4, scoring="neg_log_loss")
    with joblib.parallel_backend("threading", n_jobs=4):
        together = cross_val_score(model, X, Y, cv=4, scoring="neg_log_loss", n_jobs=4)
    assert alone.tolist() == together.tolist()


@pytest.mark.parametrize("kind", FITS)
def test_the_settings_of_the_caller_do_not_count_and_stay(kind):
    expected = _numbers(FITS[kind](3))
    for name, setting in SETTINGS.items():
        with setting():
            before = _state()
            found = _numbers(FITS[kind](3))
            assert _state() == before, name
        _assert_same_bits(found, expected)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_model_is_loaded_under_any_setting(setting, tmp_path):
    expected = _numbers(_saved(0, tmp_path))
    with SETTINGS[setting]():
        found = _numbers(_saved(0, tmp_path))
    _assert_same_bits(found, expected)


class _Refuse(Callback):
    def on_epoch_end(self, state):
        raise KeyError("refused")


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_fit_that_fails_leaves_everything_as_it_was(setting):
    with SETTINGS[setting]():
        before = _state()
        for preset in ("default", "single"):
            with pytest.raises(KeyError, match="refused"):
                _classifier(0, preset=preset, callbacks=[_Refuse()])
            with pytest.raises(ValueError, match="time_limit"):
                _classifier(0, preset=preset, time_limit=-1)
        assert _state() == before
