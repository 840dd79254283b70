"""The benchmark of one long query, in small."""

from benchmarks import ranking_long
from nrs.ranking.losses import LOSSES


def test_every_loss_is_planned_and_shown():
    planned = list(ranking_long.plan(300, list(LOSSES)))
    assert len(planned) == 14
    name, function, arguments = planned[1]
    found = function(**arguments)
    assert 0 < found["before_mb"] <= found["fit_mb"] <= found["predict_mb"]
    assert "largest peak: " in ranking_long.summary([name | found])
