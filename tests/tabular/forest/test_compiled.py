"""The compiled engine trains and predicts as torch does."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import nrs
from nrs.engine import MAX_LAYERS, instructions
from nrs.tabular import model as model_module
from nrs.tabular.forest import compiled, network
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.compiled import CompiledSteps, steps_for
from nrs.tabular.forest.monotone import Directions
from nrs.tabular.forest.network import FoldedForest, ForestNetwork, forest_loss
from nrs.tabular.targets import ClassTarget, MultilabelTarget, RegressionTarget, loss_names
from nrs.training import Callback, TrainSettings, train

needs_engine = pytest.mark.skipif(instructions()[0] is None, reason=instructions()[1])

TARGETS = {
    "classes": lambda n: ClassTarget(np.arange(n)),
    "labels": MultilabelTarget,
    "numbers": lambda n: RegressionTarget(np.zeros(n), np.ones(n), single=False),
}


class Absolute(RegressionTarget):
    """A loss that the engine does not know."""

    criterion = staticmethod(F.l1_loss)


def forest(rng, members, subspaces, size, features, hidden, outputs, dropout=0.0, bound=False):
    """A random forest with bins, levels, gains and members that read fewer inputs.

    With `bound` many inputs have a direction, as of monotone columns, and so have some outputs.
    """
    edges = [(0, np.linspace(-1, 2, rng.integers(3, 20)))]
    levels = [(features - 1, np.linspace(-1, 1, rng.integers(2, 10)))]
    bins = PiecewiseLinear.between(edges, levels)
    blank = features + bins.n_bins
    index = rng.integers(0, blank, (members, subspaces, size))
    if rng.random() < 0.5:
        # Inputs side by side, as those of a column are, with few gaps.
        steps = np.cumsum(rng.random(index.shape) < 0.9, axis=2)
        index = np.minimum(rng.integers(0, blank, (members, subspaces, 1)) + steps, blank)
    # Of bins alone a subspace may be the same for all rows: then normalising amplifies rounding.
    index[:, :, 0] = rng.integers(0, features, (members, subspaces))
    # Some subspaces are filled up.
    index[:, 0, size // 2 + 1 :] = blank
    gain = torch.from_numpy(rng.uniform(0.1, 1, (members, blank + 1)).astype(np.float32))
    index, directions = torch.from_numpy(index), None
    if bound:
        signs = torch.from_numpy(np.append(rng.integers(-1, 2, blank), 0)).float()
        of_outputs = torch.from_numpy(rng.integers(-1, 2, outputs)).float()
        directions = Directions.draw(index, signs, hidden, of_outputs)
    network = ForestNetwork(
        features, outputs, index, bins, gain=gain, hidden=hidden, dropout=dropout,
        seed=int(rng.integers(100)), directions=directions,
    )  # fmt: skip
    with torch.no_grad():
        for name, value in network.named_parameters():
            if "norm" in name or name == "out_bias":
                value.add_(torch.from_numpy(rng.normal(0, 0.3, value.shape).astype(np.float32)))
    return network


def labels(rng, kind, rows, outputs):
    if kind == "classes":
        return rng.integers(0, outputs, rows)
    y = rng.normal(size=(rows, outputs)).astype(np.float32)
    return (y > 0).astype(np.float32) if kind == "labels" else y


def trained(network, target, batches, sees, compiled, **chosen):
    """A copy of the network after an epoch of these batches, the optimizer's moments, the loss."""
    network, kept = copy.deepcopy(network), {}

    def step(module, batch):
        return forest_loss(module, batch, target, sees)

    how = TrainSettings(epochs=1, lr=1e-2, **chosen)
    steps = None
    if compiled:
        steps = CompiledSteps(network, len(batches[0][0]), sees, target)

    class Moments(Callback):
        def on_epoch_end(self, state):
            for name, value in network.named_parameters():
                kept[name] = state.optimizer.state[value]["exp_avg"].clone()

    history = train(
        network, lambda epoch, generator: list(batches), step, how, callbacks=[Moments()],
        generator=torch.Generator().manual_seed(0), global_draws=False, steps=steps,
    )  # fmt: skip
    return network, kept, history["train_loss"][0]


def assert_same(one, other, moments, others, lr=1e-2):
    """Gradients agree; so do weights, but for those whose gradient is rounding alone."""
    state, expected = one.state_dict(), other.state_dict()
    for name, value in expected.items():
        if name not in others:
            torch.testing.assert_close(state[name], value, rtol=1e-5, atol=1e-5)
            continue
        torch.testing.assert_close(moments[name], others[name], rtol=1e-5, atol=1e-6)
        # Adam's first step has the size of the learning rate, however small the gradient.
        clear = others[name].abs() > 1e-3
        torch.testing.assert_close(
            state[name][clear], value[clear], rtol=1e-5, atol=1e-5 + 1e-3 * lr
        )


def assert_no_further_off(moments, others, exact):
    """Gradients are as near to exact ones as torch's, up to a factor."""
    off, torchs = (
        max(float((known[name] - value).abs().max()) for name, value in exact.items())
        for known in (moments, others)
    )
    assert off <= 10 * torchs + 1e-6


shapes = st.fixed_dictionaries(
    {
        "members": st.integers(1, 4),
        "subspaces": st.sampled_from([1, 3, 16, 23, 40]),
        "size": st.integers(1, 21),
        "features": st.integers(2, 19),
        "hidden": st.lists(st.sampled_from([1, 5, 16, 33, 48]), max_size=3).map(tuple),
    }
)


@needs_engine
@given(
    shapes, st.sampled_from(sorted(TARGETS)), st.integers(1, 6), st.integers(4, 70),
    st.booleans(), st.booleans(), st.sampled_from([0.0, 0.1, 0.4]),
    st.sampled_from([None, 0.99]), st.sampled_from([0.0, 0.1]), st.booleans(), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=max(60, settings().max_examples))
def test_a_step_is_torchs(
    shape, kind, outputs, rows, weighted, folded, dropout, ema, weight_decay, bound, seed
):
    # Of a few rows torch lays activations out the other way round, and masks with them.
    dropout = dropout if rows >= 16 else 0.0
    rng = np.random.default_rng(seed)
    network = forest(rng, outputs=outputs, dropout=dropout, bound=bound, **shape)
    x = torch.from_numpy(rng.normal(size=(rows, shape["features"])).astype(np.float32))
    y = torch.from_numpy(labels(rng, kind, rows, outputs))
    weights = torch.rand(rows) if weighted else None
    n_folds = 3 if folded else 1
    folds = torch.from_numpy(rng.integers(0, n_folds, rows))
    sees = torch.from_numpy(rng.random((shape["members"], n_folds)) < 0.7) | (n_folds == 1)
    target = TARGETS[kind](outputs)
    given = {"ema": ema, "weight_decay": weight_decay}
    batches = [(x, y, weights, folds)]
    ours, moments, loss = trained(network, target, batches, sees, True, **given)
    theirs, others, expected = trained(network, target, batches, sees, False, **given)
    try:
        assert loss == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert_same(ours, theirs, moments, others)
    except AssertionError:
        # Where a unit is almost the same in all rows, normalising amplifies rounding, torch's too.
        x, y, weights = (
            one.double() if one is not None and one.is_floating_point() else one
            for one in (x, y, weights)
        )
        batches = [(x, y, weights, folds)]
        exact = trained(network.double(), target, batches, sees, False, **given)[1]
        assert_no_further_off(moments, others, exact)


@needs_engine
@pytest.mark.parametrize("units", [False, True])
def test_a_loss_that_the_engine_does_not_know_takes_torchs_gradients(units):
    rng = np.random.default_rng(3)
    network = forest(rng, 3, 20, 6, 5, (17,), 2, dropout=0.2)
    if units:
        network.units = torch.rand(2, 3, 2, 1) + 0.5
    target = Absolute(np.zeros(2), np.ones(2), single=False)
    x = torch.from_numpy(rng.normal(size=(40, 5)).astype(np.float32))
    y = torch.from_numpy(labels(rng, "numbers", 40, 2))
    folds, sees = torch.arange(40) % 3, ~torch.eye(3, dtype=torch.bool)
    batches = [(x, y, torch.rand(40), folds)]
    ours, moments, loss = trained(network, target, batches, sees, True, ema=0.9)
    theirs, others, expected = trained(network, target, batches, sees, False, ema=0.9)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert_same(ours, theirs, moments, others)


@needs_engine
@given(shapes, st.integers(1, 5), st.integers(1, 200), st.integers(0, 99))
def test_predictions_are_torchs(shape, outputs, rows, seed):
    rng = np.random.default_rng(seed)
    network = forest(rng, outputs=outputs, **shape).eval()
    with torch.no_grad():
        for norm in (network.norm, *network.hidden_norms):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
    x = torch.from_numpy(rng.normal(size=(rows, shape["features"])).astype(np.float32))
    ours = network.compiled()
    assert ours is not None
    with torch.no_grad():
        torch.testing.assert_close(ours.members(x), network.members(x), rtol=1e-4, atol=1e-4)
    again = pickle.loads(pickle.dumps(ours.arrays))
    assert np.array_equal(again.outputs(x.numpy()), ours.arrays.outputs(x.numpy()))


@needs_engine
@pytest.mark.parametrize("outputs", [1, 3, 20])
@pytest.mark.parametrize("choices", [False, True])
def test_importances_are_torchs(outputs, choices, monkeypatch):
    rng = np.random.default_rng(outputs)
    grown = forest(rng, 3, 20, 9, 7, (17, 9), outputs).eval()
    with torch.no_grad():
        for norm in (grown.norm, *grown.hidden_norms):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
    x = torch.from_numpy(rng.normal(size=(300, 7)).astype(np.float32))
    known = [outputs] if choices and outputs > 1 else []
    found = network.response(grown, x, known)
    monkeypatch.setattr(network, "_is_plain", lambda x: False)
    torch.testing.assert_close(found, network.response(grown, x, known), rtol=1e-4, atol=1e-6)


def rows_of(kind, n=70):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = {
        "classes": (X[:, 0] > 0).astype(int),
        "labels": (X[:, :2] > 0).astype(int),
        "numbers": X[:, 0],
        "outputs": X[:, :3],
    }[kind]
    return X, y


@needs_engine
@pytest.mark.parametrize("kind", ["classes", "labels", "numbers", "outputs"])
@pytest.mark.parametrize(
    "how",
    [
        "plain",
        "weights",
        "groups",
        "time",
        "eval_set",
        "n_jobs",
        "fast",
        "limit",
        "callback",
        "monotone",
    ],
)
def test_no_fit_falls_back_without_saying_so(kind, how):
    X, y = rows_of(kind)
    chosen, given = {}, {}
    if how == "n_jobs":
        chosen = {"n_jobs": 2}
    elif how == "fast":
        chosen = {"preset": "fast"}
    elif how == "limit":
        chosen = {"time_limit": 60}
    elif how == "callback":
        chosen = {"callbacks": [Counting()]}
    elif how == "monotone":
        chosen = {"monotone": {0: 1, 2: -1}}
    elif how != "plain":
        given = {
            "weights": {"sample_weight": np.arange(len(X)) % 3},
            "groups": {"groups": np.arange(len(X)) % 5},
            "time": {"time": np.arange(len(X))},
            "eval_set": {"eval_set": (X[:20], y[:20])},
        }[how]
    estimator = nrs.NRSRegressor if kind in ("numbers", "outputs") else nrs.NRSClassifier
    model = estimator(epochs=2, random_state=0, verbose=0, **chosen).fit(X, y, **given)
    assert model.engine_ == "compiled"
    assert np.isfinite(model.predict(X)).all()
    if how == "callback":
        assert chosen["callbacks"][0].steps == len(model.history_) * chosen["callbacks"][0].last


LOSSES = {name: {"loss": name} for name in loss_names() if name != "quantiles"} | {
    "quantiles": {"quantiles": (0.1, 0.9)},
    "own": {"loss": lambda outputs, y: (outputs - y).abs().sum(1)},
}


@needs_engine
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("how", ["weights", "monotone", "checkpoint", "sparse", "missing"])
def test_no_loss_falls_back_without_saying_so(loss, how, tmp_path):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(50, 4)), None
    y = np.exp(X[:, 0])
    y = np.stack([y, y + 1], 1) if loss == "aft" else y
    chosen = dict(LOSSES[loss])
    if how == "weights":
        weights = np.arange(50) % 3
    elif how == "monotone":
        chosen["monotone"] = {0: 1, 2: -1}
    elif how == "checkpoint":
        chosen["checkpoint"] = tmp_path
    elif how == "missing":
        X[rng.random(X.shape) < 0.2] = np.nan
    X = scipy.sparse.csr_array(X * (X > 0)) if how == "sparse" else X
    model = nrs.NRSRegressor(preset="fast", epochs=2, random_state=0, verbose=0, **chosen)
    model.fit(X, y, sample_weight=weights)
    assert model.engine_ == "compiled"
    assert np.isfinite(model.predict(X)).all()


@needs_engine
@pytest.mark.parametrize("kind", ["classes", "labels", "numbers", "outputs"])
def test_more_rows_are_learned_by_the_engine_as_by_torch(kind, monkeypatch):
    X, y = rows_of(kind, 120)
    estimator = nrs.NRSRegressor if kind in ("numbers", "outputs") else nrs.NRSClassifier

    def learned():
        model = estimator(preset="fast", random_state=0, verbose=0)
        for part in np.split(np.arange(len(X)), 3):
            model.partial_fit(X[part], y[part])
        return model

    ours = learned()
    assert ours.engine_ == "compiled"
    monkeypatch.setattr(compiled, "instructions", lambda: (None, "switched off"))
    monkeypatch.setattr(model_module, "instructions", lambda: (None, "switched off"))
    theirs = learned()
    assert theirs.engine_ == "torch: switched off"
    one, other = ours.oob_score_, theirs.oob_score_
    assert one == pytest.approx(other, abs=0.02)
    np.testing.assert_allclose(ours.outputs(X), theirs.outputs(X), rtol=0.02, atol=0.02)


class Counting(Callback):
    """Counts steps, and the different weights that it saw after them."""

    steps, last, seen = 0, 0, 0.0

    def on_step_end(self, state):
        self.steps += 1
        self.last = state.steps_per_epoch
        now = float(state.module.out_weight.detach().abs().sum())
        # It is called after every step, and not after several.
        assert now != self.seen
        self.seen = now


@needs_engine
def test_a_ranker_is_trained_by_the_engine():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 4)), np.repeat(np.arange(10), 6)
    grades = (X[:, 0] > 0).astype(int)
    model = nrs.NRSRanker(epochs=2, random_state=0, verbose=0).fit(X, grades, qid=qid)
    assert model.engine_ == "compiled"


@needs_engine
@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_change_no_bit(n_jobs):
    X, y = rows_of("classes", 300)
    one, other = (
        nrs.NRSClassifier(epochs=3, random_state=0, verbose=0, n_jobs=n).fit(X, y)
        for n in (1, n_jobs)
    )
    assert np.array_equal(one.oob_decision_function_, other.oob_decision_function_)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


REASONS = {
    "the optimizer is not AdamW": {"optimizer": "sgd"},
    "clip_norm is set": {"clip_norm": 1.0},
    "precision is 'bf16'": {"precision": "bf16"},
}


@needs_engine
@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_for_torch_is_named(reason):
    network = forest(np.random.default_rng(0), 2, 3, 4, 5, (6,), 2)
    sees = torch.ones(2, 1, dtype=torch.bool)
    steps, name = steps_for(network, TrainSettings(**REASONS[reason]), 32, sees, None)
    assert steps is None
    assert name == f"torch: {reason}"
    deep = forest(np.random.default_rng(0), 2, 3, 4, 5, (2,) * MAX_LAYERS, 2)
    assert "layers" in steps_for(deep, TrainSettings(), 32, sees, None)[1]


@pytest.mark.usefixtures("without_engine")
def test_without_the_engine_a_fit_says_so():
    model = nrs.NRSClassifier(epochs=2, random_state=0, verbose=0).fit(*rows_of("classes"))
    assert model.engine_ == "torch: NRS_ENGINE=torch is set"
    assert isinstance(model.predictor_, FoldedForest)


@needs_engine
def test_a_file_says_what_trained_its_model(tmp_path):
    X, y = rows_of("numbers")
    model = nrs.NRSRegressor(epochs=2, random_state=0, verbose=0).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    loaded = nrs.NRSRegressor.load(tmp_path / "model.safetensors")
    assert loaded.engine_ == "compiled"
    assert np.array_equal(loaded.predict(X), model.predict(X))
