"""Losses of the user's own: functions and classes, in memory and from a file."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.base import clone

from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.targets import (
    AbsoluteTarget,
    LossTarget,
    OwnClasses,
    OwnLabels,
    OwnNumbers,
    RegressionTarget,
    Target,
)
from nrs.training import ModelFileError

QUICK = {"preset": "fast", "epochs": 3, "random_state": 0, "verbose": 0}
X = np.random.default_rng(0).normal(size=(120, 3))
Y = 5 + 3 * X[:, 0] + np.random.default_rng(1).normal(size=120)


def squared(outputs, y):
    return (outputs - y).square().mean(1)


def entropy(outputs, y):
    return F.cross_entropy(outputs, y, reduction="none")


def entropies(outputs, y):
    return F.binary_cross_entropy_with_logits(outputs, y, reduction="none").mean(1)


def test_a_function_equal_to_a_built_in_loss_has_its_gradients():
    y = np.column_stack([Y, -Y])
    own, built_in = OwnNumbers.made_of(squared).learned(y), RegressionTarget.of(y)
    truth, outputs = torch.from_numpy(built_in.encode(y)).double(), torch.randn(4, 2, 120).double()
    # In the units of the target: the variance is a constant factor of the loss.
    unit = torch.from_numpy(built_in.std**2)[:, None]
    torch.testing.assert_close(
        own.gradient(outputs, truth) / unit,
        built_in.gradient(outputs, truth),
        rtol=1e-6, atol=1e-6,
    )  # fmt: skip
    absolute = AbsoluteTarget().learned(Y)
    own = OwnNumbers.made_of(lambda o, y: (o - y).abs()[:, 0])
    own = own.learned(Y)
    own.mean, own.std = absolute.mean, absolute.std
    truth, outputs = torch.from_numpy(absolute.encode(Y)).double(), torch.randn(4, 1, 120).double()
    torch.testing.assert_close(
        own.gradient(outputs, truth) / absolute.std[0],
        absolute.gradient(outputs, truth),
        rtol=1e-6, atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "function", "y"),
    [
        (OwnClasses(), entropy, np.arange(120) % 3),
        (OwnLabels(), entropies, (X > 0).astype(int)),
    ],
)
def test_a_function_of_classes_has_the_gradients_of_the_cross_entropy(own, function, y):
    own = own.use(function).learned(y)
    plain = type(own).__mro__[2]
    built_in = plain(own.classes) if y.ndim == 1 else plain(3)
    truth, outputs = torch.from_numpy(own.encode(y)), torch.randn(4, 3, 120).double()
    truth = truth if y.ndim == 1 else truth.double()
    expected = Target.gradient(built_in, outputs, truth)
    torch.testing.assert_close(own.gradient(outputs, truth), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(built_in.gradient(outputs, truth), expected, rtol=1e-6, atol=1e-6)


def test_a_fit_to_a_function_is_that_of_the_loss_it_computes():
    own = NRSRegressor(loss=squared, **QUICK).fit(X, (Y - Y.mean()) / Y.std())
    plain = NRSRegressor(**QUICK).fit(X, (Y - Y.mean()) / Y.std())
    np.testing.assert_allclose(own.predict(X), plain.predict(X), atol=1e-3)
    own = NRSClassifier(loss=entropy, **QUICK).fit(X, Y > 5)
    plain = NRSClassifier(**QUICK).fit(X, Y > 5)
    np.testing.assert_allclose(own.predict_proba(X), plain.predict_proba(X), atol=1e-3)


def test_a_function_sees_the_units_of_the_target():
    seen = []

    def watched(outputs, y):
        seen.append((outputs.detach().mean().item(), y.mean().item(), y.shape[1]))
        return (outputs - y).abs().mean(1)

    NRSRegressor(loss=watched, **QUICK).fit(X, 1000 + Y)
    outputs, labels, columns = seen[0]
    assert 990 < outputs < 1020
    assert 1000 < labels < 1010
    assert columns == 1


def test_a_function_must_give_one_loss_per_row():
    for wrong in (lambda o, y: (o - y).abs(), lambda o, y: (o - y).abs().mean(), lambda o, y: 1.0):
        with pytest.raises(ValueError, match="must return one loss per row, a tensor of shape"):
            NRSRegressor(loss=wrong, **QUICK).fit(X, Y)


def test_an_asymmetric_loss_moves_predictions():
    def costly(outputs, y):
        short = (y - outputs)[:, 0]
        return torch.where(short > 0, 9 * short, -short)

    model = NRSRegressor(loss=costly, preset="fast", epochs=20, random_state=0, verbose=0)
    high = model.fit(X, Y).predict(X)
    assert (high > Y).mean() > 0.75


def test_a_file_asks_for_a_function_again(tmp_path):
    model = NRSRegressor(loss=squared, **QUICK).fit(X, Y)
    model.save(tmp_path / "m")
    with pytest.warns(UserWarning, match=r"a loss of your own, 'squared', .*load\(path, loss=squ"):
        loaded = NRSRegressor.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"Load it with load\(path, loss=…\)"):
        loaded.partial_fit(X, Y)
    loaded = NRSRegressor.load(tmp_path / "m", loss=squared)
    assert loaded.loss is squared
    loaded.partial_fit(X, Y)
    clone(loaded).fit(X, Y)
    NRSRegressor(**QUICK).fit(X, Y).save(tmp_path / "plain")
    with pytest.raises(ModelFileError, match="loss must be left out: the model was fitted with"):
        NRSRegressor.load(tmp_path / "plain", loss=squared)


class Doubled(LossTarget):
    """A target that is no part of nrs."""

    kind = "doubled"

    def each(self, outputs, y):
        return 2 * (outputs - y).abs()

    def best(self, y, weights):
        return np.median(y, axis=1)


def test_a_file_asks_for_a_class_again(tmp_path):
    model = NRSRegressor(loss=Doubled, **QUICK).fit(X, Y)
    model.save(tmp_path / "m")
    message = r"a loss of your own, 'Doubled', .*load\(path, loss=Doubled\(\)\)"
    with pytest.raises(ModelFileError, match=message):
        NRSRegressor.load(tmp_path / "m")
    loaded = NRSRegressor.load(tmp_path / "m", loss=Doubled())
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    with pytest.raises(ValueError, match=r"loss must be 'log_loss', a function or a Target"):
        NRSClassifier(loss="hinge", **QUICK).fit(X, Y > 5)


def test_a_function_is_not_sent_to_workers():
    model = NRSRegressor(loss=squared, n_workers=2, **QUICK)
    with pytest.raises(ValueError, match=r"n_workers needs a loss that is part of nrs; 'squared'"):
        model.fit(X, Y)
