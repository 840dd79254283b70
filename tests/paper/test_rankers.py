"""The ranking table: one grid for all, validation queries choose, folds stand for trials."""

import numpy as np
import pytest

from nrs.paper import rankers
from nrs.paper.rankers import RankPlan, hold_out, rotated
from nrs.paper.ranking import PLAN, RANKING, SMALL
from nrs.paper.select import cells_of
from nrs.paper.smoke import tiny_queries
from nrs.paper.table import Cell, NotHereError, Subject
from nrs.paper.trial import load_or_reason

TINY = RankPlan(grid=({"lr": 1e-3}, {"lr": 1e-2}), fixed={"epochs": 2}, rounds=5, data=tiny_queries)


def _subject(method, dataset="MQ2008"):
    return Subject("ranking", dataset, method)


def test_the_table_has_the_values_of_the_paper():
    cells = {(cell.row, cell.column): cell for cell in RANKING.printed}
    assert cells["MSLR-WEB10K / RankNet+NRS", "NDCG@10 paper"].reported == 40.2
    assert cells["MSLR-WEB30K / uMart", "NDCG@1"].reported == 50.5
    assert cells["MSLR-WEB10K / RankNet", "NDCG@10 log2"].reported is None
    assert cells["MQ2008 / LambdaMART", "NDCG@10 log2"].extra == {"dataset"}
    assert sum(cell.reported is not None for cell in RANKING.printed) == 72


def test_the_small_sets_are_measured_when_they_are_named():
    assert {cell.subject.dataset for cell in cells_of(RANKING)} == {"MSLR-WEB10K", "MSLR-WEB30K"}
    cells = cells_of(RANKING, datasets=SMALL)
    assert len(cells) == 3 * 16 * 5
    assert len(cells_of(RANKING, datasets=["MSLR-WEB10K"], methods=["RankNet"])) == 1


def test_plain_and_nrs_scorers_differ_by_one_argument():
    data = tiny_queries("tiny", 1)
    plain, nrs = (
        PLAN._estimator(method, 0, data, {"lr": 1e-2}).get_params()
        for method in ("ApxNDCG", "ApxNDCG+NRS")
    )
    assert {name for name in plain if plain[name] != nrs[name]} == {"n_mul"}
    assert (plain["n_mul"], nrs["n_mul"]) == (0, 2)


@pytest.mark.parametrize("method", ["ListNet", "uRank+NRS", "uMart", "LambdaMART"])
def test_a_trial(method):
    subject = _subject(method)
    found = {search: TINY.search(search) for search in TINY.searches(subject)}
    for search, record in found.items():
        best = max(record["tried"], key=lambda entry: entry["score"])
        assert record["chosen"] == best["settings"]
        assert search.path == f"searches/ranking/MQ2008/{method}.json"
    result = TINY.measure(Cell(subject, 0), found)
    assert result.metrics.keys() == rankers.METRICS.keys()
    assert all(0 <= value <= 100 for value in result.metrics.values())
    assert result.data["empty"] == "skip"
    assert not result.parts


def test_folds_take_the_place_of_trials():
    result = TINY.measure(Cell(_subject("LambdaMART", "MSLR-WEB10K"), 0), {})
    assert len(result.parts["ndcg@10"]) == 5
    assert result.metrics["ndcg@10"] == pytest.approx(np.mean(result.parts["ndcg@10"]))
    assert "MSLR-WEB10K" in RANKING.single_trial


def test_every_fold_has_settings_of_its_own():
    subject = _subject("ListNet+NRS", "MSLR-WEB10K")
    found = {search: TINY.search(search) for search in TINY.searches(subject)}
    (record,) = found.values()
    assert len(record["chosen"]) == len(record["tried"]) == 5
    result = TINY.measure(Cell(subject, 0), found)
    assert result.settings["arguments"] == record["chosen"]


def test_folds_are_rotated_as_letor_rotates_them():
    data = tiny_queries("tiny", 1)
    everything = {*data.qid_train, *data.qid_val, *data.qid_test}
    tested = []
    for fold in range(1, 6):
        turned = rotated(data, fold)
        parts = [set(turned.part(part)[2]) for part in ("train", "val", "test")]
        assert set.union(*parts) == everything
        assert sum(map(len, parts)) == len(everything)
        assert len(turned.X_train) == len(turned.qid_train)
        tested += parts[2]
    assert sorted(tested) == sorted(everything)
    first = rotated(data, 1)
    assert set(first.qid_test) == set(data.qid_test)
    assert set(first.qid_val) == set(data.qid_val)


def test_a_fifth_of_the_training_queries_is_held_out_always_the_same():
    data = tiny_queries("tiny", 1)
    assert len(np.unique(data.qid_val)) == 4
    assert not set(data.qid_val) & set(data.qid_train)
    assert not (set(data.qid_val) | set(data.qid_train)) & set(data.qid_test)
    again = hold_out(tiny_queries("tiny", 1), fraction=0.5)
    assert len(np.unique(again.qid_val)) == 8


def test_the_search_never_reads_the_test_part(monkeypatch):
    def without_test(name, fold):
        from dataclasses import replace

        return replace(tiny_queries(name, fold), X_test=None, y_test=None, qid_test=None)

    plan = RankPlan(grid=TINY.grid, fixed=TINY.fixed, data=without_test)
    (search,) = plan.searches(_subject("RankCosine+NRS"))
    assert plan.search(search)["chosen"] in [dict(choice) for choice in TINY.grid]


def test_absent_data_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("NRS_DATA", str(tmp_path))
    monkeypatch.setenv("NRS_CACHE", str(tmp_path / "cache"))
    load_or_reason.cache_clear()
    with pytest.raises(NotHereError, match="MSLR-WEB10K"):
        PLAN.measure(Cell(_subject("LambdaMART", "MSLR-WEB10K"), 0), {})
    load_or_reason.cache_clear()
