"""A ranker under a launcher: out-of-bag scores stay honest."""

import json

import numpy as np
import pytest

from nrs.ranking.metrics import measure
from tests.forked import run_ranks

SCRIPT = """
import json, sys
import numpy as np
from nrs import NRSRanker
from nrs.training import processes

rng = np.random.default_rng(0)
X, y = rng.normal(size=(400, 5)), rng.integers(0, 3, 400)
qid = np.repeat(np.arange(40), 10)
with processes("cpu") as group:
    # Without a seed of its own every process would draw other folds.
    np.random.seed(group.rank)
    model = NRSRanker(preset="fast", epochs=40, verbose=0).fit(X, y, qid=qid)
    found = {"score": model.oob_score_, "scores": model.oob_prediction_.tolist()}
    with open(f"{sys.argv[1]}/{group.rank}.json", "w") as file:
        json.dump(found, file)
"""


@pytest.mark.slow
def test_noise_scores_as_noise_under_a_launcher(tmp_path):
    run_ranks(SCRIPT, 2, tmp_path)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    rng = np.random.default_rng(0)
    rng.normal(size=(400, 5))
    y, qid = rng.integers(0, 3, 400), np.repeat(np.arange(40), 10)
    by_chance = [float(measure(rng.normal(size=400), y, qid)) for _ in range(200)]
    assert first["score"] < np.mean(by_chance) + 3 * np.std(by_chance)
