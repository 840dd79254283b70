"""The benchmark of point-cloud operations at its smallest."""

import torch

from benchmarks import points
from nrs.points import ball_query, farthest_point_sampling, knn


def test_the_research_code_finds_what_ours_finds():
    torch.manual_seed(0)
    x = torch.rand(2, 60, 3)
    start = torch.tensor([3, 5])
    assert torch.equal(
        points.research_fps(x, 10, start), farthest_point_sampling(x, 10, start=start)
    )
    assert torch.equal(points.research_knn(x, 5), knn(x, 5))
    theirs = points.research_ball_query(x, 60, 0.3, x[:, :7])
    ours = ball_query(x, 60, 0.3, x[:, :7])
    for a, b in zip(theirs.flatten(0, 1).tolist(), ours.flatten(0, 1).tolist(), strict=True):
        assert set(a) == set(b)


def test_a_tiny_run_prints(monkeypatch, here):
    monkeypatch.setattr(points, "BATCH", 1)
    monkeypatch.setattr(points, "POINTS", 96)
    monkeypatch.setattr(points, "CENTRES", 16)
    monkeypatch.setattr(points, "CHUNKS", (1 << 10,))
    here(points)
    monkeypatch.setattr(points, "MODELS", {"pointnet": (1,), "dgcnn": (1,)})
    report = points.run(processes=1, seconds=0.01, only=["fps", "memory", "pointnet"])
    rest = [name for name in points.QUESTIONS if name not in ("fps", "memory", "pointnet")]
    report = points.joined(report, points.run(processes=1, seconds=0.01, only=rest))
    text = points.tables(report)
    assert all(name in text for name in points.TARGETS)
    assert [entry["model"] for entry in report["models"]] == ["pointnet", "dgcnn"]
    assert report["knn_memory_mb"].keys() == {"reference", "1024"}
