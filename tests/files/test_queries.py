"""Scores of a ranker: those of its metrics, next to documents in random order."""

import numpy as np
import pytest

from nrs.files.queries import ScoredQueries, check_grades
from nrs.ranking import measure


@pytest.mark.parametrize("distinct", [3, 1000])
def test_the_first_line_is_the_metric_and_random_order_what_shuffles_give(distinct):
    generator = np.random.default_rng(0)
    qid = generator.integers(0, 25, 300)
    truth = generator.choice([0, 0, 0, 1, 2], 300).astype(float)
    scores = generator.integers(0, distinct, 300) + truth * distinct / 3
    scored = ScoredQueries("file", np.arange(300), truth, scores, qid)
    words = scored.headline().split()
    assert float(words[1]) == pytest.approx(scored.scores()["ndcg@10"], abs=1e-4)
    shuffled = [float(measure(generator.random(300), truth, qid)) for _ in range(200)]
    assert float(words[-1]) == pytest.approx(np.mean(shuffled), abs=0.01)
    noise = ScoredQueries("file", np.arange(300), truth, generator.random(300), qid)
    assert noise.headline().endswith(": no better than random")


def test_queries_without_relevant_documents_and_grades_that_are_none():
    nothing = ScoredQueries("file", np.arange(2), np.zeros(2), np.ones(2), np.zeros(2))
    assert nothing.headline() == "no query has a relevant document"
    check_grades(np.array([0.0, 3.0]), "grade")
    with pytest.raises(ValueError, match="'grade' holds -1"):
        check_grades(np.array([0.0, -1.0]), "grade")
