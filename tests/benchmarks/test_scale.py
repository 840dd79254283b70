"""Fits by the size of the table, scaled down: every side runs, and nothing is measured twice."""

import json

import pytest

from benchmarks import scale

pytest.importorskip("lightgbm", reason="needs lightgbm")
pytest.importorskip("xgboost", reason="needs xgboost")


@pytest.mark.usefixtures("forked_workers")
def test_a_small_run(tmp_path, monkeypatch, here):
    monkeypatch.setattr(scale, "FILE_ROWS", 800)
    monkeypatch.setattr(scale, "TREES", 3)
    monkeypatch.setattr(scale, "DIVISIONS", ("members",))
    here(scale)
    sizes, settings = (2000,), {"preset": "fast", "n_mul": 1}
    seen = []
    found = scale.run(
        sizes,
        scale.SIDES,
        tmp_path,
        epochs=1,
        settings=settings,
        report=lambda f: seen.append(len(f)),
    )
    assert seen == [1, 2, 3, 4, 5, 6]  # both sides of ours with one and with two processes
    judged = scale.judge(found)
    assert set(judged) == {
        "speed at 2000", "waiting at 2000", "peak_mb",
        "times as fast: 2000 memory 2 members", "times as fast: 2000 streamed 2 members",
    }  # fmt: skip
    assert all(value > 0 for value in judged.values())
    assert found["2000 streamed 2 members"]["workers"] == 2
    assert found["2000 streamed 1"]["oob"] > 0.4
    assert "rows/s" in scale.tables(found, judged)
    known = json.loads(json.dumps(found))
    assert scale.run(sizes, scale.SIDES, tmp_path, known=known) == known
