"""Constrained columns: the law holds for any weights, and after every kind of fit."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nrs
from nrs import NRSClassifier, NRSRegressor
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.grow import as_index, draw_subspaces
from nrs.tabular.forest.monotone import Directions
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.targets import mean_values

SIGNS = {"age": 1, "price": -1, "seen": 1, "open": -1}


@given(st.integers(0, 2**31), st.lists(st.integers(1, 9), max_size=2), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_weights_break_the_law(seed, hidden, settled):
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    n_features = int(rng.integers(1, 6))
    bins = PiecewiseLinear.between([(j, [-1.0, 0.0, 0.5]) for j in range(n_features)])
    parts = [np.array([j, n_features + 2 * j, n_features + 2 * j + 1]) for j in range(n_features)]
    drawn = [draw_subspaces(parts, 7, 2, rng) for _ in range(3)]
    index = torch.from_numpy(as_index(drawn, n_features + bins.n_bins))
    of_features = torch.from_numpy(rng.integers(-1, 2, n_features)).float()
    toward = torch.cat([of_features, of_features[bins.source], torch.zeros(1)])
    # The last may move either way.
    outputs = torch.tensor([1.0, -1.0, 0.0])
    directions = Directions.draw(index, toward, hidden, outputs) if toward.any() else None
    network = ForestNetwork(
        n_features, 3, index, bins, hidden=hidden, combine=mean_values, directions=directions
    )
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if "norm" in name and not name.endswith(("mean", "bias", "weight")):
                continue
            if name.endswith(("weight", "bias", "mean")) or "hidden." in name:
                value.copy_(2 * torch.randn(value.shape, generator=generator))
    if settled:
        network.units = torch.rand(2, 3, 3, 1, generator=generator) + 0.5
        network.settle()
    network.eval()
    x = torch.randn(64, n_features, generator=generator)
    for some in (network, network.keep(torch.tensor([2, 0])), network.fold()):
        before = some(x)
        for feature, sign in enumerate(of_features.tolist()):
            moved = x.clone()
            moved[:, feature] += torch.rand(64, generator=generator) * 3
            change = (some(moved) - before) * outputs * sign
            # Other products round otherwise where they are padded.
            assert (change >= -1e-5 * before.abs().max()).all()


def _table(n, seed=0):
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(),
            "price": rng.lognormal(size=n),
            "seen": days,
            "open": rng.random(n) < 0.5,
            "rooms": rng.integers(1, 5, n),
            "district": rng.choice(["north", "south", "east"], n),
        }
    )


def _truth(table, seed=0):
    rng = np.random.default_rng(seed)
    # The other way round than the constraints, which so are needed.
    return (
        table["price"].to_numpy()
        - table["age"].to_numpy() / 10
        + (table["district"] == "south") * table["rooms"]
        + rng.normal(size=len(table))
    ).to_numpy()


def _other(column, n, seed):
    return _table(n, seed + 1)[column].to_numpy()


def _against(predict, n, seed=5):
    """The largest move against a constraint, over pairs of rows that differ in one column."""
    table, worst = _table(n, seed), 0.0
    before = predict(table)
    for column, sign in SIGNS.items():
        changed = table.assign(**{column: _other(column, n, seed)})
        grows = changed[column].to_numpy() > table[column].to_numpy()
        same = changed[column].to_numpy() == table[column].to_numpy()
        moved = (predict(changed) - before) * np.where(grows, sign, -sign)
        worst = max(worst, float(-moved[~same].min()))
    return worst


@pytest.fixture(scope="module")
def fits():
    table = _table(400)
    y = _truth(table)
    table.loc[::11, "age"] = None
    table.loc[::7, "seen"] = pd.NaT
    common = {"preset": "fast", "monotone": SIGNS, "random_state": 0, "verbose": 0, "epochs": 4}
    number = NRSRegressor(**common).fit(table, y)
    chance = NRSClassifier(**common).fit(table, np.where(y > 0, "yes", "no"))
    return table, y, number, chance


def test_numbers_and_chances_never_move_against_a_constraint(fits):
    # 1e5 pairs in all.
    _, _, number, chance = fits
    free = NRSRegressor(**{**number.get_params(), "monotone": None}).fit(*fits[:2])
    assert _against(free.predict, 500) > 0.01
    assert _against(number.predict, 15_000) == 0
    # Logarithms round.
    assert _against(lambda X: chance.predict_proba(X)[:, 1], 10_000) < 1e-6


def test_the_law_survives_a_file_and_an_export(fits, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    from nrs.tabular.export import onnx_inputs

    number = fits[2]
    number.save(tmp_path / "m.safetensors")
    loaded, rows = NRSRegressor.load(tmp_path / "m.safetensors"), _table(50, 3)
    assert loaded.monotone == SIGNS
    np.testing.assert_array_equal(loaded.predict(rows), number.predict(rows))
    number.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (exported,) = session.run(None, onnx_inputs(number, rows))
    np.testing.assert_allclose(exported, number.predict(rows), rtol=1e-5)
    again = copy.deepcopy(loaded).partial_fit(*fits[:2])
    assert (again.predict(rows) != number.predict(rows)).any()
    assert _against(again.predict, 500) == 0
    # A level more is an input more.
    for district in ("west", "centre"):
        again.partial_fit(fits[0].assign(district=district), fits[1])
    assert _against(again.predict, 500) == 0


def test_streams_workers_and_order_of_time_obey(fits, tmp_path):
    table, y, number, _ = fits
    table.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    streamed = NRSRegressor(**number.get_params()).fit(nrs.Table(tmp_path / "rows.parquet", "y"))
    assert _against(streamed.predict, 500) == 0
    two = NRSRegressor(**{**number.get_params(), "n_workers": 2}).fit(table, y)
    np.testing.assert_array_equal(two.predict(table), number.predict(table))
    later = NRSRegressor(**number.get_params()).fit(table, y, time=np.arange(len(y)) // 50)
    assert _against(later.predict, 500) == 0


def test_several_targets_and_sparse_rows_obey():
    from scipy.sparse import random as random_matrix

    X = random_matrix(200, 30, 0.3, random_state=0, format="csr")
    y = np.column_stack([-X[:, 0].toarray()[:, 0], X[:, 1].toarray()[:, 0]])
    model = NRSRegressor(preset="fast", epochs=2, random_state=0, verbose=0, monotone={0: 1, 1: -1})
    model.fit(X, y)
    more = X.tolil()
    more[:, 0], more[:, 1] = more[:, 0].toarray() + 0.5, more[:, 1].toarray() - 0.5
    assert (model.predict(more.tocsr()) >= model.predict(X)).all()


def test_only_the_outputs_that_an_answer_follows_are_bound():
    weights = [torch.randn(2, 5, 4), torch.randn(2, 2, 5)]
    index = torch.tensor([[[0, 1], [1, 2], [0, 1], [0, 2]]] * 2)
    rising = torch.tensor([1.0, -1.0, 0.0])
    directions = Directions.draw(index, rising, [5], torch.tensor([1.0, 0.0]))
    *_, outputs = directions.layer_weights(weights, [torch.ones(2, 5, 1)])
    assert torch.equal(outputs[:, 1], weights[-1][:, 1])
    assert not torch.equal(outputs[:, 0], weights[-1][:, 0])


def test_times_obey_and_how_sure_they_are_is_free():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 400)
    # The spread falls and rises with x, against the constraint or with it.
    times = np.exp(x + (0.1 + 2 * np.abs(x)) * rng.logistic(size=400))
    model = NRSRegressor(loss="aft", preset="fast", random_state=0, monotone={0: 1})
    model.fit(x[:, None], np.column_stack([times, times]))
    outputs = model.outputs(np.linspace(-1, 1, 101)[:, None])
    assert (np.diff(outputs[:, 0]) >= 0).all()
    assert outputs[[0, -1], 1].min() > outputs[50, 1] + 0.5


@pytest.mark.parametrize(
    ("monotone", "said"),
    [
        ({"district": 1}, "needs columns with an order"),
        ({"age": 2}, r"such as .*; got 2 for 'age'"),
        ({"nobody": 1}, "monotone names 'nobody'"),
        (["age"], "must say"),
        ({"age": 1, 0: -1}, "two signs"),
    ],
)
def test_bad_constraints_are_refused(fits, monotone, said):
    with pytest.raises(ValueError, match=said):
        NRSRegressor(preset="fast", monotone=monotone).fit(fits[0], fits[1])


def test_what_cannot_rise_is_refused(fits):
    with pytest.raises(ValueError, match="two classes"):
        NRSClassifier(preset="fast", monotone={"age": 1}).fit(fits[0], fits[0]["rooms"])
    for other in ({"preset": "paper"}, {"preset": "single"}, {"n_mul": 0}):
        with pytest.raises(ValueError, match="monotone needs a forest"):
            NRSRegressor(monotone={"age": 1}, **other).fit(fits[0], fits[1])
    # No constraint needs none.
    NRSRegressor(monotone={"rooms": 0}, preset="paper", epochs=1, verbose=0).fit(
        fits[0][["rooms"]], fits[1]
    )
