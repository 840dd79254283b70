"""The paper's marks, and today's rank statistics, against values computed by hand."""

import math

import pytest
from scipy import stats

from nrs.paper import statistics
from nrs.paper.printed import number, reported
from nrs.paper.statistics import Sample, compare, holm, ranks, sample, wilcoxon_holm


def test_the_marks_of_the_paper():
    rows = reported("accuracy")
    samples = {}
    for row in rows:
        n = 10 if row["dataset"] == "yeast" else 5
        if (mean := number(row["mean"])) is not None:
            samples[row["dataset"], row["method"]] = Sample(mean, number(row["std"]), n)
    differing = []
    checked = [row for row in rows if row["nrs_vs_method"]]
    for row in checked:
        first, second = samples[row["dataset"], "NRS"], samples[row["dataset"], row["method"]]
        if compare(first, second).outcome != row["nrs_vs_method"]:
            differing.append((row["dataset"], row["method"]))
    assert len(checked) == 168
    # yeast: one of two cells seems to be marked in place of the other.
    assert differing == [("yeast", "NDF"), ("yeast", "RS"), ("protein", "NDF")]


def test_a_t_test_by_hand():
    # Pooled variance 1, difference 2: t = 2 / sqrt(2 / 5) = 3.1623 with 8 degrees, p = 0.01335.
    result = compare(Sample(12.0, 1.0, 5), Sample(10.0, 1.0, 5))
    assert result.outcome == "win"
    assert result.p == pytest.approx(0.01335, abs=1e-5)
    assert compare(Sample(10.0, 1.0, 5), Sample(12.0, 1.0, 5)).mark == "○"
    lower = compare(Sample(10.0, 1.0, 5), Sample(12.0, 1.0, 5), lower_is_better=True)
    assert lower.mark == "●"


def test_trials_that_do_not_vary():
    assert compare(Sample(9.0, 0.0, 5), Sample(9.0, 0.0, 5)).outcome == "tie"
    assert compare(Sample(9.1, 0.0, 5), Sample(9.0, 0.0, 5)).outcome == "win"
    assert compare(Sample(9.1, None, 1), Sample(9.0, 0.0, 5)) is None


def test_mean_and_deviation_of_a_sample():
    assert sample([90.0, 92.0, 94.0, 96.0]) == Sample(93.0, pytest.approx(math.sqrt(20 / 3)), 4)
    assert sample([90.0]) == Sample(90.0, None, 1)


def test_ranks_share_ties_and_skip_incomplete_datasets():
    scores = {
        "a": {"x": 3.0, "y": 2.0, "z": 9.0},
        "b": {"x": 2.0, "y": 2.0},
        "c": {"x": 1.0, "y": 1.0, "z": 1.0},
    }
    assert ranks(scores) == {"a": 1.25, "b": 1.75, "c": 3.0}
    assert ranks({}) == {}
    assert statistics.rank_statistics({}) is None


def test_friedman_by_hand():
    # Four datasets, each ranked a, b, c: 12·4/(3·4)·(1 + 4 + 9 − 3·16/4) = 8.
    scores = {m: {d: s for d in "wxyz"} for m, s in (("a", 3.0), ("b", 2.0), ("c", 1.0))}
    result = statistics.friedman(scores)
    assert result["statistic"] == pytest.approx(8.0)
    assert result["p"] == pytest.approx(math.exp(-4.0))
    assert statistics.friedman({"a": {"x": 1.0}, "b": {"x": 2.0}}) is None


def test_holm_is_monotone_and_capped():
    assert holm([0.5, 0.01, 0.02]) == pytest.approx([0.5, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_wilcoxon_by_hand():
    # Five differences of one sign: two-sided p = 2 / 2**5.
    scores = {
        "a": {str(i): 10.0 + i for i in range(5)},
        "b": {str(i): 9.0 - i for i in range(5)},
        "c": {str(i): 10.0 + i for i in range(5)},
    }
    found = {(r["first"], r["second"]): r for r in statistics.wilcoxon_holm(scores)}
    assert found["a", "b"]["p"] == pytest.approx(2 / 32)
    assert found["a", "c"]["p"] == 1.0
    assert found["a", "b"]["p_holm"] == pytest.approx(6 / 32)


def test_the_diagram_is_a_picture(tmp_path):
    pytest.importorskip("scikit_posthocs")
    scores = {
        m: {str(i): 80.0 + k * 2 + i % 3 for i in range(8)} for k, m in enumerate(("a", "b", "c"))
    }
    statistics.draw_critical_differences(scores, tmp_path / "cd.png")
    assert (tmp_path / "cd.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="at least 3 methods"):
        statistics.draw_critical_differences({"a": {"x": 1.0}}, tmp_path / "no.png")


def test_scores_that_differ_by_rounding_are_ties():
    # 0.1 + 0.2 is not 0.3, and 90.1 − 90 is not 85.1 − 85.
    scores = {"a": {"x": 0.1 + 0.2, "y": 1.0}, "b": {"x": 0.3, "y": 0.0}, "c": {"x": 0.0, "y": 2.0}}
    assert ranks(scores) == {"a": 1.75, "b": 2.25, "c": 2.0}
    base = [90.0, 85.0, 70.0, 60.3, 55.7, 44.9, 32.1, 20.2]
    steps = [0.1, 0.1, 0.1, -0.1, 0.2, 0.2, 0.2, -0.4]
    rows = {
        "a": {str(k): b + s for k, (b, s) in enumerate(zip(base, steps, strict=True))},
        "b": {str(k): b for k, b in enumerate(base)},
    }
    (pair,) = wilcoxon_holm(rows)
    assert pair["p"] == pytest.approx(stats.wilcoxon(steps).pvalue)
