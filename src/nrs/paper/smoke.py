"""Every table in small: the same code on the sets that ship with scikit-learn, in a minute or two.

nrs paper run smoke
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nrs.datasets import Dataset
from nrs.paper.accuracy import PLAN as ACCURACY_PLAN
from nrs.paper.rankers import RankPlan, hold_out
from nrs.paper.speed import PLAN as SPEED_PLAN
from nrs.paper.table import Cell, Found, Measured, Printed, Search, Subject, Table
from nrs.paper.vector import Plan, task_of

_FOREST = {"n_estimators": 5}
_BOOSTED = {"n_estimators": 5, "max_depth": 3}
TINY: Mapping[str, Mapping[str, Any]] = {
    "NDF": {"n_trees": 2, "tree_depth": 3, "n_features": 32, "epochs": 2},
    "NDF-paper": {"n_trees": 2, "tree_depth": 3, "n_features": 32},
    "ANT": {"width": 8, "max_nodes": 3, "grow_epochs": 1, "epochs": 1},
    "RS": _FOREST,
    "RF": _FOREST,
    "GBDT": _BOOSTED,
    "ThunderGBM RF": _BOOSTED,
    "ThunderGBM GBDT": _BOOSTED,
}
CLASSES, NUMBERS, QUERIES = "sklearn-wine", "sklearn-diabetes", "synthetic"


def _tiny(plan: Plan) -> Plan:
    return replace(
        plan,
        epochs={},
        epoch_choices=(1, 2),
        search_folds=2,
        max_candidates=2,
        tenths=2,
        overrides=TINY,
        prefix="smoke-",
    )


def tiny_queries(name: str, fold: int) -> Dataset:
    """A few synthetic queries: no ranking set ships with scikit-learn."""
    generator = np.random.default_rng(fold)
    qid = np.repeat(np.arange(30), 8)
    X = generator.normal(size=(len(qid), 6)).astype(np.float32)
    y = np.digitize(X[:, 0] + np.abs(X[:, 1]), [1.0, 2.0])
    train, test = qid < 20, qid >= 20
    return hold_out(
        Dataset(
            name, X[train], y[train], X_test=X[test], y_test=y[test],
            qid_train=qid[train], qid_test=qid[test], task="ranking",
        )
    )  # fmt: skip


_ACCURACY, _SPEED = _tiny(ACCURACY_PLAN), _tiny(SPEED_PLAN)
_RANKING = RankPlan(
    grid=({"lr": 1e-3}, {"lr": 1e-2}),
    fixed={"epochs": 1},
    rounds=3,
    prefix="smoke-",
    data=tiny_queries,
)


def _plan(subject: Subject) -> Plan | RankPlan:
    of = dict(subject.setting)["of"]
    return _RANKING if of == "ranking" else _SPEED if of == "speed" else _ACCURACY


def _inner(subject: Subject) -> Subject:
    """The subject of the table that it stands for."""
    setting = dict(subject.setting)
    return replace(subject, table=str(setting.pop("of")), setting=tuple(setting.items()))


def _measure(cell: Cell, found: Found) -> Measured:
    tiny = _tiny_of(cell.subject)
    if tiny is not None:
        return tiny(replace(cell, subject=_inner(cell.subject)))
    return _plan(cell.subject).measure(replace(cell, subject=_inner(cell.subject)), found)


def _searches(subject: Subject) -> tuple[Search, ...]:
    if _tiny_of(subject) is not None:
        return ()
    return _plan(subject).searches(_inner(subject))


def _tiny_of(subject: Subject) -> Callable[[Cell], Measured] | None:
    from nrs.paper.registry import tables  # which makes this table too

    return tables()[str(dict(subject.setting)["of"])].tiny


def _search(search: Search) -> dict[str, Any]:
    plans: dict[str, Plan | RankPlan] = {"smoke-speed": _SPEED, "smoke-ranking": _RANKING}
    return plans.get(search.plan, _ACCURACY).search(search)


def _small(table: Table, printed: Printed) -> Subject:
    """A subject of a table with its dataset exchanged and its n_mul small."""
    subject = printed.subject
    if table.tiny is not None:
        return replace(subject, table="smoke", setting=(("of", table.name), *subject.setting))
    if table.name == "ranking":
        return Subject("smoke", QUERIES, subject.method, (("of", "ranking"),))
    dataset = NUMBERS if task_of(subject.dataset) == "regression" else CLASSES
    setting: dict[str, Any] = {"of": table.name, **dict(subject.setting)}
    if "n_mul" in setting:
        setting["n_mul"] = min(2, setting["n_mul"])
    if "n_per" in setting:
        # The wine set has 13 features; both of these divide them.
        setting["n_per"] = 1 if setting["n_per"] == 1 else 13
    return Subject("smoke", dataset, subject.method, tuple(setting.items()))


def smoke_of(tables: Sequence[Table]) -> Table:
    """Make the table that runs a small form of every method and setting of others."""
    cells: dict[tuple[Subject, str], Printed] = {}
    for table in tables:
        for printed in table.printed:
            # A rerun of one table's cells by another would test nothing new.
            if printed.extra or printed.subject.table != table.name:
                continue
            subject = _small(table, printed)
            setting = ", ".join(f"{name}={value}" for name, value in subject.setting[1:])
            metric = printed.metric
            cells.setdefault(
                (subject, metric),
                Printed(
                    f"{table.name}: {subject.dataset}",
                    " ".join(
                        [subject.method, setting, "" if metric == "accuracy" else metric]
                    ).strip(),
                    subject,
                    metric=metric,
                ),
            )
    return Table(
        name="smoke",
        title="Every table in small",
        finding="None: it shows that every table runs.",
        protocol=(
            "Every method and kind of setting of every table on the wine and diabetes sets of "
            "scikit-learn and on synthetic queries, with 1 or 2 epochs and 5 trees; networks for "
            "pictures and clouds on made-up ones."
        ),
        printed=tuple(cells.values()),
        measure=_measure,
        searches=_searches,
        search=_search,
        trials=2,
    )
