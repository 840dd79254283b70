"""Estimators fitted to tables in files: like a fit in memory, resumable, and bounded."""

import errno
import logging
import os

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

import nrs
from nrs import NRSClassifier, NRSRegressor
from nrs._util import atomic
from nrs.datasets.table_file_errors import TableFileError
from nrs.tabular.rows import stream
from nrs.training import Callback
from nrs.training.checkpoint import CheckpointError
from tests.tabular.mixed import mixed_table

QUICK = {"preset": "fast", "epochs": 4, "random_state": 0, "verbose": 0, "n_mul": 1}


def _write(frame, folder, n_files=3, group=150):
    folder.mkdir(exist_ok=True)
    rows = pyarrow.Table.from_pandas(frame, preserve_index=False)
    size = -(-len(frame) // n_files)
    for k in range(n_files):
        parquet.write_table(
            rows.slice(k * size, size), folder / f"{k}.parquet", row_group_size=group
        )
    return rows


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    frame, target = mixed_table(1200)
    frame["target"] = np.where(target, "yes", "no")
    frame["price"] = frame["year"] * 1.5 + target * 9
    folder = tmp_path_factory.mktemp("table") / "rows"
    return folder, _write(frame, folder)


@pytest.fixture(scope="module")
def columns(labelled):
    return [name for name in labelled[1].column_names if name not in ("target", "price")]


@pytest.fixture(scope="module")
def fitted(labelled, columns):
    table = nrs.Table(labelled[0], "target", columns=columns)
    return NRSClassifier(**QUICK).set_params(epochs=12).fit(table)


def test_a_streamed_fit_is_as_good_as_one_in_memory(fitted, labelled, columns):
    truth = labelled[1]["target"].to_numpy(zero_copy_only=False)
    memory = NRSClassifier(**QUICK).set_params(epochs=12).fit(labelled[1].select(columns), truth)
    assert abs(fitted.oob_score_ - memory.oob_score_) < 0.06
    assert fitted.oob_score_ > 0.7
    assert fitted.recipe_ == memory.recipe_
    assert fitted.classes_.tolist() == memory.classes_.tolist()
    assert fitted.encoder_.kinds_ == memory.encoder_.kinds_
    assert 0 <= fitted.data_wait_ <= 1
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    # The bins are laid by the quantiles of all rows, here as in memory.
    assert fitted.network_.bins.n_bins == memory.network_.bins.n_bins
    assert len(fitted.oob_decision_function_) == len(fitted.oob_rows_) == 1200


def test_predictions_of_a_table_are_those_of_its_rows(fitted, labelled, columns, tmp_path):
    table = nrs.Table(labelled[0])
    rows = labelled[1].select(columns)
    chances = fitted.predict_proba(rows)
    assert np.array_equal(fitted.predict_proba(table), chances)
    assert np.array_equal(fitted.predict(nrs.Table(labelled[0], "target")), fitted.predict(rows))
    written = fitted.predict_file(
        table, tmp_path / "out.parquet", probabilities=True, keep=["price"]
    )
    out = parquet.read_table(tmp_path / "out.parquet")
    assert written == out.num_rows == 1200
    assert out.column_names == ["price", "prediction", "probability_no", "probability_yes"]
    assert np.array_equal(out["probability_yes"].to_numpy(), chances[:, 1])
    assert out["price"].equals(labelled[1]["price"])
    assert fitted.predict_file(f"{labelled[0]}/*.parquet", tmp_path / "again.csv") == 1200


def test_saved_and_loaded(fitted, labelled, tmp_path):
    fitted.save(tmp_path / "model")
    again = NRSClassifier.load(tmp_path / "model")
    table = nrs.Table(labelled[0])
    assert np.array_equal(again.predict_proba(table), fitted.predict_proba(table))
    with pytest.raises(ValueError, match="must have the column"):
        fitted.predict(table.drop(["age"]))


def test_numbers_are_predicted_too(labelled, columns, monkeypatch):
    # So few rows would be held in memory; a smaller buffer streams them.
    monkeypatch.setattr(stream, "BUFFER_CELLS", 20_000)
    table = nrs.Table(labelled[0], "price", columns=columns)
    model = NRSRegressor(**QUICK).set_params(epochs=10).fit(table)
    truth = labelled[1]["price"].to_numpy()
    assert model.target_.mean[0] == pytest.approx(truth.mean(), rel=1e-12)
    assert model.target_.std[0] == pytest.approx(truth.std(), rel=1e-9)
    assert model.oob_score_ > 0.5
    members = model.member_outputs(table)
    np.testing.assert_array_equal(members, model.member_outputs(labelled[1].select(columns)))
    assert model.predict(table, return_std=True)[1].shape == (1200,)
    low, high = model.predict_interval(table, 0.9)
    assert ((low <= truth) & (truth <= high)).mean() > 0.8
    assert model.predict(table).shape == (1200,)


def test_classes_may_weigh(labelled, columns):
    rows = labelled[1].filter(pyarrow.compute.field("year") < 2000)
    rare = np.where(rows["year"].to_numpy() == 1990, "rare", "usual")
    folder = labelled[0].parent / "rare"
    frame = rows.select(columns).to_pandas().assign(kind=rare)
    _write(frame, folder)
    table = nrs.Table(folder, "kind")
    model = NRSClassifier(class_weight="balanced", **QUICK).fit(table)
    plain = NRSClassifier(**QUICK).fit(table)
    chosen = [np.mean(one.predict_proba(table)[:, 0]) for one in (model, plain)]
    assert chosen[0] > chosen[1]


class _KilledError(Exception):
    pass


class _Kill(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_begin(self, state):
        if state.epoch == self.epoch:
            raise _KilledError


def _same(one, other):
    states = one.network_.state_dict(), other.network_.state_dict()
    return all(np.array_equal(states[0][k].numpy(), states[1][k].numpy()) for k in states[0])


def test_a_killed_fit_goes_on_with_the_same_bits(labelled, columns, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "BUFFER_CELLS", 20_000)
    table = nrs.Table(labelled[0], "target", columns=columns)
    unbroken = NRSClassifier(**QUICK).fit(table)
    with pytest.raises(_KilledError):
        NRSClassifier(**QUICK, checkpoint=tmp_path, callbacks=[_Kill(2)]).fit(table)
    resumed = NRSClassifier(**QUICK, checkpoint=tmp_path).fit(table)
    assert _same(unbroken, resumed)
    assert unbroken.history_ == resumed.history_
    other = nrs.Table(labelled[0], "target", columns=columns[:-1])
    with pytest.raises(CheckpointError, match="data"):
        NRSClassifier(**QUICK, checkpoint=tmp_path).fit(other)


def test_a_checkpoint_of_other_labels_or_class_weights_is_refused(tmp_path):
    x = np.random.default_rng(0).normal(size=300)
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": x, "y": x > 0}), path)
    model = NRSClassifier(**QUICK, checkpoint=tmp_path / "checkpoint")
    model.fit(nrs.Table(path, "y"))
    with pytest.raises(CheckpointError, match="data"):
        nrs.NRSClassifier(
            **QUICK, checkpoint=tmp_path / "checkpoint", class_weight={False: 1, True: 9}
        ).fit(nrs.Table(path, "y"))
    size = path.stat().st_size
    parquet.write_table(pyarrow.table({"x": x, "y": x < 0}), path)
    assert path.stat().st_size == size
    with pytest.raises(CheckpointError, match="data"):
        model.fit(nrs.Table(path, "y"))


def test_a_full_disk_leaves_the_last_checkpoint_and_model(labelled, columns, tmp_path, monkeypatch):
    table = nrs.Table(labelled[0], "target", columns=columns)
    model = NRSClassifier(**QUICK, checkpoint=tmp_path / "checkpoint")
    synced = os.fsync
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        # A file and its folder are synced for every checkpoint: the third finds no room.
        if len(calls) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match=r"epoch 2 could not be written.*make room and run again"):
        model.fit(table)
    monkeypatch.setattr(atomic.os, "fsync", synced)
    assert not list((tmp_path / "checkpoint").glob("*.tmp-*"))
    assert len(list((tmp_path / "checkpoint").iterdir())) == 2
    model.fit(table)
    assert _same(model, NRSClassifier(**QUICK).fit(table))

    path = tmp_path / "model.safetensors"
    model.save(path)
    before = path.read_bytes()

    def no_room(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", no_room)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_what_does_not_go_with_a_table(labelled, columns, caplog):
    table = nrs.Table(labelled[0], "target", columns=columns)
    model = NRSClassifier(**QUICK)
    with pytest.raises(ValueError, match=r"y must be left out.*'target'"):
        model.fit(table, np.zeros(1200))
    with pytest.raises(ValueError, match=r"sample_weight must have one entry per row.*\(7,\)"):
        model.fit(table, sample_weight=np.ones(7))
    with pytest.raises(TableFileError, match="nowhere"):
        model.fit(table, sample_weight="nowhere")
    with pytest.raises(ValueError, match=r"weights must be finite and at least 0; got -1"):
        model.fit(table, sample_weight=-np.ones(1200))
    with pytest.raises(ValueError, match="at least 2 different groups"):
        model.fit(table, groups=np.ones(1200))
    with pytest.raises(ValueError, match=r"Table needs a forest.*Use preset='default'"):
        NRSClassifier(preset="single").fit(table)
    with pytest.raises(ValueError, match="Use NRSClassifier"):
        NRSRegressor().fit(table)
    with pytest.raises(ValueError, match=r"nrs.Table where rows in memory"):
        model.partial_fit(table, np.zeros(1200))
    with pytest.raises(ValueError, match="y is None"):
        model.fit(labelled[1].select(columns))


def test_rows_without_a_target_are_told(tmp_path, caplog):
    frame = pd.DataFrame({"x": np.arange(60.0), "y": ["a", "b", None] * 20})
    _write(frame, tmp_path / "rows")
    with caplog.at_level(logging.WARNING, "nrs.tabular"):
        model = NRSClassifier(**QUICK).fit(nrs.Table(tmp_path / "rows", "y"))
    assert "left out 20 rows" in caplog.text
    assert model.classes_.tolist() == ["a", "b"]
    assert len(model.oob_rows_) == 40
