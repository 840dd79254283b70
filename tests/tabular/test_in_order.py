"""``fit(…, time=…)``: rows are scored by members that saw earlier rows only."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from nrs import NRSClassifier, NRSRegressor, Table
from nrs.tabular.model import ForestModel

QUICK = {"preset": "fast", "epochs": 2, "random_state": 0, "verbose": 0}
KINDS = ["classes", "three classes", "numbers", "two numbers", "labels"]


def drifting(n=480, seed=0):
    """Rows whose target drifts, with a column of many levels; not in order of time."""
    rng = np.random.default_rng(seed)
    day, level = rng.integers(0, 90, n), rng.integers(0, 70, n)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["store"] = [f"s{k}" for k in level]
    effect = np.random.default_rng(7).normal(0, 2, 70)
    y = frame["a"] + effect[level] + day / 20 + rng.normal(size=n)
    return frame, y.to_numpy(), day


def target(y, kind):
    """An estimator, and the drifting numbers as its labels."""
    if kind == "classes":
        return NRSClassifier(**QUICK), (y > np.median(y)).astype(int)
    if kind == "three classes":
        return NRSClassifier(**QUICK), np.digitize(y, np.quantile(y, [0.3, 0.8]))
    if kind == "labels":
        return NRSClassifier(**QUICK), np.column_stack([y > 0, y > 2]).astype(int)
    return NRSRegressor(**QUICK), y if kind == "numbers" else np.column_stack([y, -3 * y + 1])


def out_of_bag(model):
    found = getattr(model, model.target_.oob_name)
    return found.reshape(len(found), -1)


def changed(labels, late):
    """Other labels in the late rows, of the same classes."""
    other = labels.copy()
    other[late] = other[late][::-1] * (1 if labels.dtype.kind == "i" else -5)
    return other


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_later_targets_change_no_earlier_prediction(kind, weighted):
    frame, y, day = drifting()
    model, labels = target(y, kind)
    weights = np.random.default_rng(1).integers(0, 3, len(y)) if weighted else None
    # In the middle of a block, which is scored by members that saw none of it.
    late = day >= 57
    other = changed(labels, late)
    assert (other != labels).any()
    one = out_of_bag(model.fit(frame, labels, weights, time=day))
    names = model.encoder_.feature_names_out_
    assert any("target mean" in name for name in names)
    two = out_of_bag(model.fit(frame, other, weights, time=day))
    assert np.array_equal(one[~late], two[~late], equal_nan=True)
    assert np.isfinite(one[~late]).any()
    assert not np.array_equal(one[late], two[late])


def test_only_the_first_block_has_no_score():
    frame, y, day = drifting()
    model = NRSRegressor(**QUICK).fit(frame, y, time=day)
    scored = np.isfinite(model.oob_prediction_)
    assert day[~scored].max() < day[scored].min()
    assert 0.3 < 1 - scored.mean() < 0.37
    assert np.isfinite(model.oob_score_)
    low, high = model.predict_interval(frame)
    assert (high > low).all()


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_predict_have_seen_all_rows(kind, monkeypatch):
    frame, y, day = drifting()
    model, labels = target(y, kind)
    grown, finish = [], ForestModel.finish

    def watched(self, task):
        grown.append((self.sees, self.scoring, self.network.shares.clone(), task.recipe.members))
        return finish(self, task)

    monkeypatch.setattr(ForestModel, "finish", watched)
    model.fit(frame, labels, time=day)
    sees, scoring, shares, n_predicting = grown[0]
    predicts = shares > 0
    assert int(predicts.sum()) == n_predicting == model.network_.n_members
    assert sees[predicts].all()
    assert not scoring[predicts].any()
    # Members that score a block see all blocks before it, and no other.
    for own, seen in zip(scoring[~predicts], sees[~predicts], strict=True):
        (block,) = own.nonzero().flatten().tolist()
        assert seen.tolist() == [fold < block for fold in range(len(seen))]
    assert scoring.any(0).tolist() == [False] + [True] * (scoring.shape[1] - 1)


def test_a_fit_does_not_depend_on_the_order_or_unit_of_the_rows_time():
    frame, y, day = drifting()
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")
    forms = [day, day / 7 - 3, dates, pd.Series(dates), dates.strftime("%Y-%m-%d").tolist()]
    forms.append(pa.array(dates))
    first, *others = (NRSRegressor(**QUICK).fit(frame, y, time=form) for form in forms)
    for other in others:
        assert np.array_equal(first.oob_prediction_, other.oob_prediction_, equal_nan=True)
        assert np.array_equal(first.predict(frame), other.predict(frame))


def test_saved_and_loaded(tmp_path):
    frame, y, day = drifting()
    model, labels = target(y, "classes")
    model.fit(frame, labels, time=day).save(tmp_path / "model.safetensors")
    loaded = NRSClassifier.load(tmp_path / "model.safetensors")
    assert loaded.oob_score_ == model.oob_score_
    assert np.array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    # No trace of the units in which members learned.
    assert model.network_.units is None


def test_a_target_far_from_that_of_the_first_block_is_learned():
    rng = np.random.default_rng(0)
    n = 600
    x, day = rng.normal(size=(n, 3)), np.arange(n)
    x[:, 2] = day >= 100
    y = np.where(day < 100, 0.0, 500 + 100 * x[:, 0])
    settings = {"preset": "fast", "random_state": 0, "verbose": 0}
    model = NRSRegressor(**settings).fit(x, y, time=day)
    plain = NRSRegressor(**settings).fit(x, y)
    errors = [np.abs(one.predict(x[100:]) - y[100:]).mean() for one in (model, plain)]
    assert errors[0] < 1.5 * errors[1] < 60


@pytest.fixture
def stream(tmp_path):
    frame, _, day = drifting()
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")

    def write(labels):
        whole = pa.Table.from_pandas(frame.assign(day=dates, y=labels))
        pq.write_table(whole, tmp_path / "rows.parquet", row_group_size=100)
        return Table(tmp_path / "rows.parquet", target="y")

    return write


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_later_targets_change_no_earlier_prediction_of_a_stream(stream, kind):
    _, y, day = drifting()
    model, labels = target(y, kind)
    late = day >= 50
    one = out_of_bag(model.fit(stream(labels), time="day"))
    assert "day" not in model.feature_names_in_
    assert np.isnan(one).any()
    assert any("target mean" in name for name in model.encoder_.feature_names_out_)
    two = out_of_bag(model.fit(stream(changed(labels, late)), time="day"))
    rows = model.oob_rows_
    assert np.array_equal(one[~late[rows]], two[~late[rows]], equal_nan=True)
    assert not np.array_equal(one[late[rows]], two[late[rows]])


def test_a_stream_takes_times_as_an_array(stream):
    _, y, day = drifting()
    model, labels = target(y, "numbers")
    one = out_of_bag(model.fit(stream(labels), time=day))
    assert "day" in model.feature_names_in_
    assert 0.25 < np.isnan(one).mean() < 0.4


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("divide", ["members", "rows"])
def test_two_processes(divide):
    frame, y, day = drifting()
    # Processes that share rows draw other units to drop.
    settings = {**QUICK, "dropout": 0.0}
    alone = NRSRegressor(**settings).fit(frame, y, time=day)
    together = NRSRegressor(**settings, n_workers=2, divide=divide).fit(frame, y, time=day)
    close = {"rtol": 0, "atol": 0} if divide == "members" else {"rtol": 1e-2, "atol": 1e-2}
    np.testing.assert_allclose(together.oob_prediction_, alone.oob_prediction_, **close)
    np.testing.assert_allclose(together.predict(frame), alone.predict(frame), **close)


def test_rows_held_out_decide_when_to_stop():
    frame, y, day = drifting()
    model = NRSRegressor(preset="fast", epochs=6, patience=1, random_state=0, verbose=0)
    model.fit(frame, y, eval_set=(frame, -y), time=day)
    assert model.history_.best_epoch is not None
    model.fit(frame, y, time=day)
    assert model.history_.best_epoch is None
    assert "val_loss" in model.history_.rows[0]


def test_a_single_network_holds_out_the_latest_rows(monkeypatch):
    frame, y, day = drifting()
    from nrs.tabular.model import SingleModel

    seen, learn = [], SingleModel.learn

    def watched(self, task):
        seen.append((task.rows.index.numpy(), task.held_out.index.numpy()))
        return learn(self, task)

    monkeypatch.setattr(SingleModel, "learn", watched)
    settings = {"epochs": 1, "random_state": 0, "verbose": 0}
    NRSRegressor(preset="single", **settings).fit(frame, y, time=day)
    trained, held_out = seen[0]
    assert day[trained].max() < day[held_out].min()
    assert len(trained) + len(held_out) == len(y)
    with pytest.raises(ValueError, match="time needs a forest, or a single network that holds"):
        NRSRegressor(preset="paper", **settings).fit(frame, y, time=day)


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ([1.0] * 479 + [np.nan], "row 479 has none"),
        ([None] + ["2024-01-01"] * 479, "row 0 has none"),
        (["01/12/2017"] * 480, "time must hold numbers, dates or texts such as"),
        (np.zeros(480), "at least 2 different times"),
        (np.full(480, np.inf), "time must be finite; row 0 is not"),
        (np.zeros((480, 2)), "one entry per row"),
        (np.arange(479), "inconsistent numbers"),
    ],
)
def test_what_is_no_time_is_refused(time, message):
    frame, y, _ = drifting()
    with pytest.raises(ValueError, match=message):
        NRSRegressor(**QUICK).fit(frame, y, time=time)


def test_groups_and_time_are_refused_together(stream):
    frame, y, day = drifting()
    message = "groups and time cannot both decide"
    with pytest.raises(ValueError, match=message):
        NRSRegressor(**QUICK).fit(frame, y, groups=day, time=day)
    with pytest.raises(ValueError, match=message):
        NRSRegressor(**QUICK).fit(stream(y), groups=day, time=day)


def test_a_column_of_time_with_gaps_is_refused(tmp_path):
    frame = pd.DataFrame({"a": range(20), "when": [None, *range(19)], "y": range(20)})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="the column of time 'when' must have a value"):
        NRSRegressor(**QUICK).fit(Table(tmp_path / "rows.parquet", target="y"), time="when")


def test_an_interrupted_fit_resumes(tmp_path):
    from nrs.training import Callback

    class Break(Callback):
        def on_epoch_end(self, state):
            if state.epoch == 0:
                raise KeyboardInterrupt

    frame, y, day = drifting()
    whole = NRSRegressor(**QUICK).fit(frame, y, time=day)
    model = NRSRegressor(**QUICK, checkpoint=tmp_path / "point", callbacks=[Break()])
    with pytest.raises(KeyboardInterrupt):
        model.fit(frame, y, time=day)
    model.set_params(callbacks=None).fit(frame, y, time=day)
    assert np.array_equal(model.predict(frame), whole.predict(frame))
    assert np.array_equal(model.oob_prediction_, whole.oob_prediction_, equal_nan=True)


def test_units_are_part_of_the_weights_after_a_fit():
    frame, y, day = drifting()
    model = NRSRegressor(**QUICK).fit(frame, y, time=day)
    network = model.network_
    x = torch.from_numpy(model.encoder_.transform(frame))
    with torch.no_grad():
        torch.testing.assert_close(network(x), network.fold()(x), rtol=1e-4, atol=1e-4)
