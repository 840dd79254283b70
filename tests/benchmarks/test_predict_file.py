"""Predicting a large file, scaled down: bounded memory, and about the time of doing it at once."""

from benchmarks import predict_file


def test_a_small_run(tmp_path):
    report = predict_file.run(12_000_000, 1, tmp_path)
    assert "stream / memory" in predict_file.tables(report)
    # Both hold torch and the model; the stream holds a few chunks, the other all rows.
    assert report["stream"]["peak_mb"] < report["memory"]["peak_mb"] + 150
    assert report["cpu_ratio"] < predict_file.RATIO_TARGET
    assert not list(tmp_path.glob("*.csv"))
