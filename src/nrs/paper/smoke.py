"""Every table in small: the same code on the sets that ship with scikit-learn, in a minute or two.

nrs paper run smoke
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nrs.datasets import Dataset
from nrs.datasets.readers import Rows, read_letor, write_letor
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
    """A few synthetic queries by way of LETOR files: no ranking set ships with scikit-learn."""
    generator = np.random.default_rng(fold)
    qid = np.repeat(np.arange(30), 8)
    X = generator.normal(size=(len(qid), 6)).astype(np.float32)
    y = np.digitize(X[:, 0] + np.abs(X[:, 1]), [1.0, 2.0])
    parts = {}
    with tempfile.TemporaryDirectory() as scratch:
        for part, rows in (("train", qid < 20), ("test", qid >= 20)):
            path = Path(scratch) / f"{part}.txt"
            write_letor(path, Rows(X[rows], y[rows], qid[rows]))
            parts[part] = read_letor(path, n_features=X.shape[1])
    train, test = parts["train"], parts["test"]
    return hold_out(
        Dataset(
            name, train.X, train.y, X_test=test.X, y_test=test.y,
            qid_train=train.qid, qid_test=test.qid, task="ranking",
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


def _plan(table: str) -> Plan | RankPlan:
    plans: dict[str, Plan | RankPlan] = {"speed": _SPEED, "ranking": _RANKING}
    return plans.get(table, _ACCURACY)


def _inner(subject: Subject) -> Subject:
    """The subject of the table that it stands for."""
    setting = dict(subject.setting)
    return replace(subject, table=str(setting.pop("of")), setting=tuple(setting.items()))


def _measure(cell: Cell, found: Found) -> Measured:
    inner = replace(cell, subject=_inner(cell.subject))
    tiny = _tiny_of(inner.subject)
    return _plan(inner.subject.table).measure(inner, found) if tiny is None else tiny(inner)


def _searches(subject: Subject) -> tuple[Search, ...]:
    inner = _inner(subject)
    return _plan(inner.table).searches(inner) if _tiny_of(inner) is None else ()


def _tiny_of(inner: Subject) -> Callable[[Cell], Measured] | None:
    from nrs.paper.registry import tables  # which makes this table too

    return tables()[inner.table].tiny


def _search(search: Search) -> dict[str, Any]:
    return _plan(search.plan.removeprefix("smoke-")).search(search)


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


def _some(table: Table) -> set[Subject]:
    """All subjects; of tables with a small form of their own, two of each dataset."""
    kept: dict[str, list[Subject]] = {}
    for subject in table.subjects():
        if table.tiny is None or len(kept.get(subject.dataset, ())) < 2:
            kept.setdefault(subject.dataset, []).append(subject)
    return {subject for subjects in kept.values() for subject in subjects}


def smoke_of(tables: Sequence[Table]) -> Table:
    """Make the table that runs a small form of every method and setting of others."""
    cells: dict[tuple[Subject, str], Printed] = {}
    for table in tables:
        some = _some(table)
        for printed in table.printed:
            # A rerun of one table's cells by another would test nothing new.
            rerun = printed.subject.table != table.name
            if printed.extra or rerun or printed.subject not in some:
                continue
            subject, metric = _small(table, printed), printed.metric
            row = f"{table.name}: {subject.dataset}"
            setting = ", ".join(f"{name}={value}" for name, value in subject.setting[1:])
            column = f"{subject.method} {setting} {'' if metric == 'accuracy' else metric}"
            cell = Printed(row, column.strip(), subject, metric=metric)
            cells.setdefault((subject, metric), cell)
    return Table(
        name="smoke",
        title="Every table in small",
        finding="None: it shows that every table runs.",
        protocol=(
            "Every method and kind of setting of every table on the wine and diabetes sets of "
            "scikit-learn and on synthetic queries, with 1 or 2 epochs and 5 trees; networks for "
            "pictures and clouds on made-up ones, which are written in the official form of each "
            "set and read as the real ones are."
        ),
        printed=tuple(cells.values()),
        measure=_measure,
        searches=_searches,
        search=_search,
        trials=2,
    )
