"""Tables in files among several processes: surveys that merge, workers that read, faults."""

import errno
import os

import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

import nrs  # noqa: E402
from nrs import NRSClassifier  # noqa: E402
from nrs._util import atomic  # noqa: E402
from nrs.datasets.table_file_errors import TableFileError  # noqa: E402
from nrs.tabular.rows.table import TableSource  # noqa: E402

TINY = {"preset": "fast", "n_mul": 2, "hidden": 16, "epochs": 3, "random_state": 0, "verbose": 0}


pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture
def parts(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(3):
        x = rng.normal(size=(240, 7)).astype(np.float32)
        text = rng.choice(["north", "south", None], 240)
        y = np.where(x[:, 0] + (text == "south") > 0.5, "yes", "no")
        when = np.datetime64("2024-01-01") + rng.integers(0, 400, 240)
        columns = {f"x{k}": x[:, k] for k in range(7)} | {"where": text, "when": when, "y": y}
        path = folder / f"part-{number}.parquet"
        parquet.write_table(pyarrow.table(columns), path, row_group_size=80)
    return folder


def test_what_processes_have_counted_merges_into_what_one_would_count(parts):
    table = nrs.Table(parts, "y")
    whole = TableSource.of(table)
    shares = [TableSource(table) for _ in range(2)]
    for rank, share in enumerate(shares):
        share.survey(rank, 2)
    merged = TableSource(table)
    merged.merge([share.packed() for share in shares])
    assert merged.labels.state() == whole.labels.state()
    assert merged.n_rows == whole.n_rows == 720
    assert merged.sample.rows.equals(whole.sample.rows)
    encoders = [one.encoder(None, "standard") for one in (merged, whole)]
    rows = parquet.read_table(parts).select(table.columns)
    np.testing.assert_allclose(*(one.transform(rows) for one in encoders), atol=1e-6)


def test_members_of_workers_that_read_files_are_those_of_one_process(parts):
    table = nrs.Table(parts, "y")
    alone = NRSClassifier(class_weight="balanced", **TINY).fit(table)
    helped = NRSClassifier(class_weight="balanced", n_workers=2, divide="members", **TINY)
    helped.fit(table)
    np.testing.assert_array_equal(alone.predict_proba(table), helped.predict_proba(table))
    assert alone.oob_score_ == helped.oob_score_


def test_more_processes_than_row_groups_are_refused(parts):
    one = parts / "part-0.parquet"
    parquet.write_table(parquet.read_table(one), one)
    with pytest.raises(ValueError, match="1 row groups for 2 processes"):
        NRSClassifier(n_workers=2, divide="rows", **TINY).fit(nrs.Table(one, "y"))


@pytest.mark.slow
def test_faults_end_with_their_reason_and_leave_the_checkpoint_intact(parts, tmp_path, monkeypatch):
    table = nrs.Table(parts, "y")
    arguments = TINY | {"epochs": 6}
    # Members are divided, and so the bits are those of one process.
    unbroken = NRSClassifier(**arguments).fit(table)
    model = NRSClassifier(n_workers=2, checkpoint=tmp_path / "run", **arguments)
    synced, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        # A file and its folder an epoch.
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match=r"epoch 2 could not be written .*make room"):
        model.fit(table)
    monkeypatch.setattr(atomic.os, "fsync", synced)
    resumed = model.fit(table)
    np.testing.assert_array_equal(resumed.predict_proba(table), unbroken.predict_proba(table))
    # A part that is cut off after the table was opened.
    path = parts / "part-2.parquet"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(TableFileError, match=r"part-2\.parquet"):
        NRSClassifier(n_workers=2, **arguments).fit(table)
