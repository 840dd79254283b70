"""Document retrieval: five losses with and without NRS, uRank, uMart and LambdaMART.

nrs paper run ranking --datasets MQ2008,MSLR-sample
"""

from __future__ import annotations

from nrs.paper.printed import number, reported
from nrs.paper.rankers import BOOSTED, LOSSES, RankPlan
from nrs.paper.table import Printed, Subject, Table

PLAN = RankPlan()
# Small sets that stand beside the paper's, which are to be fetched by hand.
SMALL = ("MQ2008", "MQ2008-5fold", "MSLR-sample")
# Shown columns, and the metric of each; the paper's numbers are by its own discount.
COLUMNS = {
    "NDCG@1": "ndcg@1",
    "NDCG@5 paper": "ndcg@5 paper",
    "NDCG@10 paper": "ndcg@10 paper",
    "NDCG@5 log2": "ndcg@5",
    "NDCG@10 log2": "ndcg@10",
}
_EMPTY = {
    "MQ2008": "fold 1; 51 of its 156 test queries have no relevant document and are skipped",
    "MQ2008-5fold": "LETOR's rotation of the five parts of fold 1; mean of five folds",
    "MSLR-sample": "43 test queries, of which each has a relevant document",
}


def _methods() -> tuple[str, ...]:
    """With and without NRS side by side, then boosted trees."""
    neural = [f"{loss}{nrs}" for loss in LOSSES for nrs in ("", "+NRS")]
    return (*neural, *sorted(BOOSTED))


def _printed() -> tuple[Printed, ...]:
    values = {
        (row["dataset"], row["method"], row["metric"]): number(row["value"])
        for row in reported("ranking")
    }
    cells = []
    for dataset in (*dict.fromkeys(dataset for dataset, _, _ in values), *SMALL):
        for method in _methods():
            in_paper = any(key[:2] == (dataset, method) for key in values)
            extra = {"dataset"} if dataset in SMALL else set() if in_paper else {"method"}
            for column, metric in COLUMNS.items():
                value = values.get((dataset, method, column.removesuffix(" paper")))
                cells.append(
                    Printed(
                        f"{dataset} / {method}",
                        column,
                        Subject("ranking", dataset, method),
                        metric=metric,
                        reported=None if value is None else round(100 * value, 1),
                        note=_EMPTY.get(dataset, ""),
                        extra=frozenset(extra),
                    )
                )
    return tuple(cells)


RANKING = Table(
    name="ranking",
    title="NDCG (%) of document retrieval",
    finding=(
        "NRS improves every one of the five losses on both sets; uRank and uMart are better still."
    ),
    protocol=(
        "The paper's ranking function: one layer with a sigmoid output and a dropout of 0.01, "
        "after NRS (n_mul 2, n_per 1, n_h 3) or not; Adam with L2 regularisation of 1e-3. Learning "
        "rates 1e-3, 3e-3 and 1e-2 are searched for each loss with and without NRS alike, and the "
        "epoch chosen, by NDCG@10 on validation queries (a fifth of the training queries where the "
        "owner gives none). Up to 16 queries of like length make a step where the paper takes one. "
        "LambdaMART and uMart: LightGBM at its defaults, stopped by the same queries. Mean of 5 "
        "trials, on MSLR-WEB10K and 30K of 5 folds, on MQ2008-5fold of both. Discounts: 'paper' is "
        "1 at rank 1 and 1/log2(rank) after, 'log2' is 1/log2(1 + rank); they agree at rank 1. "
        "Queries without a relevant document are skipped; documents of equal score share their "
        "gains."
    ),
    printed=_printed(),
    measure=PLAN.measure,
    searches=PLAN.searches,
    search=PLAN.search,
    single_trial=frozenset({"MSLR-WEB10K", "MSLR-WEB30K"}),
)
