"""The tables and the picture of the benchmark of growth."""

from benchmarks import growth


def cell(axis, size, method, seconds):
    found = {"fit_cpu_s": seconds, "megabytes": 2 * seconds, "accuracy": 90.0}
    return {"axis": axis, **growth.BASE, axis: size, "method": method} | found


CELLS = [
    cell("rows", 1_000, "compiled", 1.0), cell("rows", 1_000, "CatBoost", 0.5),
    cell("rows", 10_000, "compiled", 4.0), cell("classes", 2, "compiled", 3.0),
]  # fmt: skip


def test_each_axis_has_a_table_for_each_measure():
    text = growth.summary(CELLS)
    assert text.count("fit_cpu_s") == 2
    small, large = (line for line in text.splitlines()[4:6])
    assert small.split() == ["|", "1,000", "rows", "|", "1", "|", "0.5", "|"]
    assert large.split() == ["|", "10,000", "rows", "|", "4", "|", "|"]


def test_the_picture_is_drawn(tmp_path):
    growth.draw(CELLS, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 10_000


def test_a_fit_is_measured():
    found = growth.measure_growth(300, 12, 2, "RF", 0)
    assert found["fit_cpu_s"] > 0
    assert found["accuracy"] > 60
