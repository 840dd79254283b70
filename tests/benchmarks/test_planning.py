"""What a row costs is measured, and the page shows what the simulation makes of it."""

import importlib.util
import sys
from pathlib import Path

import pytest

from benchmarks import planning

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def simulation():
    pytest.importorskip("matplotlib")
    path = ROOT / "docs" / "figures" / "planning.py"
    spec = importlib.util.spec_from_file_location("planning_figure", path)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for its module by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_small_measurement_is_complete(monkeypatch):
    monkeypatch.setattr(planning, "FORESTS", ((2, 16), (2, 32)))
    monkeypatch.setattr(planning, "BATCH", 64)
    forests = planning.training(seconds=0.01)
    assert [one["width"] for one in forests] == [16, 32]
    assert forests[0]["parameters"] < forests[1]["parameters"]
    assert all(one["seconds_by_row"] > 0 for one in forests)
    reading = planning.reading(rows=3000)
    assert reading["bytes_by_row"] > 100
    assert reading["seconds_by_row"] > 0
    report = {
        "forests": forests, "reading": reading, "talking": [{"bytes": 256, "seconds": 1e-4}],
        "seconds_by_row": 1e-6, "seconds_by_row_and_parameter": 1e-12,
    }  # fmt: skip
    assert "2 × 32" in planning.show(report)


def test_the_page_shows_the_tables_of_the_simulation(simulation):
    forest = next(one for one in simulation.MEASURED["forests"] if one["channels"] == 3072)
    page = (ROOT / "docs" / "planning.md").read_text("utf-8")
    assert simulation.tables(simulation.Cluster(), forest) in page
    _, gradients = simulation.bytes_of_a_step(forest)
    assert f"{gradients / 1000:,.0f} kB" in page


def test_more_workers_wait_and_talk_more(simulation):
    forest = {"members": 8, "parameters": 3e5, "channels": 3072, "seconds_by_row": 5e-5}
    cluster = simulation.Cluster()
    steps = [simulation.step(cluster, workers, forest) for workers in (1, 8, 64)]
    assert steps[0]["gradients"] == steps[0]["waiting for the slowest"] == 0
    shares = [parts["computing"] / sum(parts.values()) for parts in steps]
    assert shares == sorted(shares, reverse=True)
    # Eight times the workers compute an eighth of the rows each.
    assert steps[1]["computing"] == pytest.approx(steps[0]["computing"] / 8)
    latency, transfer = simulation.all_reduce(cluster, 2, 1.25e9)
    assert (latency, transfer) == (pytest.approx(1e-4), pytest.approx(1.0))
