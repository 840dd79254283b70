"""Every loss in memory, streamed, with workers, from a file, and as ONNX."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from pyarrow import parquet

import nrs
from nrs import Huber, NRSRegressor, Tweedie
from nrs.tabular.export import onnx_inputs

RNG = np.random.default_rng(0)
N = 240
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.uniform(size=N)})
FRAME["kind"] = np.where(RNG.random(N) < 0.3, "x", "y")
OFFSET = RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(FRAME["a"] / 2 + (FRAME["kind"] == "x"))).astype(float)
NUMBERS = 1e5 + 300 * (FRAME["a"].to_numpy() + RNG.normal(size=N))
BOUNDS = np.column_stack([COUNTS + 1, np.where(OFFSET > 0, np.inf, COUNTS + 1)])
LOSSES = {
    "squared": ({}, NUMBERS, None),
    "absolute": ({"loss": "absolute"}, NUMBERS, None),
    "huber": ({"loss": Huber(2.0)}, NUMBERS, None),
    "quantiles": ({"quantiles": (0.1, 0.5, 0.9)}, NUMBERS, None),
    "poisson": ({"loss": "poisson"}, COUNTS, None),
    "poisson with an offset": ({"loss": "poisson"}, COUNTS, OFFSET),
    "gamma": ({"loss": "gamma"}, COUNTS + 0.1, None),
    "tweedie": ({"loss": Tweedie(1.2)}, COUNTS, None),
    "aft": (
        {"loss": "aft"},
        np.column_stack([COUNTS + 1, np.where(OFFSET > 0, np.inf, COUNTS + 1)]),
        None,
    ),
}


def make(settings, **more):
    quick = {"preset": "fast", "epochs": 3, "random_state": 0, "verbose": 0}
    return NRSRegressor(**quick, **settings, **more)


def answers(model, X, offset):
    """All that a regressor says of rows."""
    found = [model.predict(X) if offset is None else model.predict(X, offset=offset)]
    if model.quantiles is not None:
        found.append(model.predict_quantiles(X).ravel())
    return np.concatenate(found)


@pytest.fixture(scope="module", params=LOSSES.values(), ids=LOSSES)
def case(request):
    settings, y, offset = request.param
    model = make(settings).fit(FRAME, y, offset=offset)
    return settings, y, offset, model


def test_a_loss_learns(case):
    _, _, offset, model = case
    assert model.oob_score_ > 0
    assert np.isfinite(answers(model, FRAME, offset)).all()
    assert model.oob_prediction_.shape == (N,)
    assert model.member_outputs(FRAME).shape == (model.network_.n_members, N)


def test_a_loss_survives_its_file(case, tmp_path):
    _, y, offset, model = case
    model.save(tmp_path / "model")
    loaded = NRSRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(answers(loaded, FRAME, offset), answers(model, FRAME, offset))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    # It can be fitted again as it was.
    again = loaded.set_params(random_state=0, verbose=0).fit(FRAME, y, offset=offset)
    np.testing.assert_array_equal(answers(again, FRAME, offset), answers(model, FRAME, offset))


def test_a_loss_is_exported(case, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    _, _, offset, model = case
    model.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    inputs = onnx_inputs(model, FRAME) if offset is None else onnx_inputs(model, FRAME, offset)
    found = dict(
        zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True)
    )
    expected = answers(model, FRAME, offset)
    np.testing.assert_allclose(found["prediction"], expected[:N], rtol=1e-5)
    if model.quantiles is not None:
        np.testing.assert_allclose(found["quantiles"].ravel(), expected[N:], rtol=1e-5)
    module = model.to_torch()
    encoded = torch.from_numpy(model.encoder_.transform(FRAME))
    if offset is None:
        wanted = expected[N:] if model.quantiles is not None else expected
        np.testing.assert_allclose(module(encoded).numpy().ravel(), wanted, rtol=1e-4)


def test_a_loss_is_streamed(case, tmp_path):
    settings, y, offset, _ = case
    # A bound that a file does not have is infinity.
    columns = np.where(np.isinf(y), np.nan, y).reshape(N, -1)
    names = [f"y{place}" for place in range(columns.shape[1])]
    rows = FRAME.assign(**dict(zip(names, columns.T, strict=True)))
    rows = rows if offset is None else rows.assign(offset=offset)
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pandas(rows), path, row_group_size=80)
    table = nrs.Table(path, target=names)
    named = None if offset is None else "offset"
    model = make(settings).fit(table, offset=named)
    assert model.oob_score_ > 0
    assert list(model.feature_names_in_) == list(FRAME.columns)
    given = answers(model, FRAME, offset)
    assert np.corrcoef(given, answers(case[3], FRAME, offset))[0, 1] > 0.7
    if offset is not None:
        by_row = make(settings).fit(table, offset=offset, groups=None)
        assert "offset" in by_row.feature_names_in_


@pytest.mark.usefixtures("forked_workers")
def test_a_loss_is_learned_with_workers(case):
    settings, y, offset, model = case
    both = make(settings, n_workers=2, divide="members").fit(FRAME, y, offset=offset)
    np.testing.assert_allclose(
        answers(both, FRAME, offset), answers(model, FRAME, offset), rtol=1e-5
    )


def test_a_loss_takes_more_rows(case):
    settings, y, offset, _ = case
    model = make(settings)
    for _ in range(3):
        model.partial_fit(FRAME, y, offset=offset)
    assert np.isfinite(answers(model, FRAME, offset)).all()
    assert np.isfinite(model.oob_score_)


@pytest.mark.parametrize("name", ["absolute", "quantiles", "poisson with an offset", "aft"])
def test_a_loss_learns_in_order_of_time_and_by_a_single_network(name):
    settings, y, offset = LOSSES[name]
    model = make(settings).fit(FRAME, y, offset=offset, time=np.arange(N))
    assert np.isfinite(answers(model, FRAME, offset)).all()
    single = NRSRegressor(**settings, preset="single", epochs=3, random_state=0, verbose=0)
    single.fit(FRAME, y, offset=offset)
    assert np.isfinite(answers(single, FRAME, offset)).all()
