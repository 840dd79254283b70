"""A ranker's fit as workers get it: rows that belong to queries, and a ranker's forest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from nrs.ranking.batches import QueryRows
from nrs.ranking.estimator import RankForestModel
from nrs.ranking.losses import LOSSES
from nrs.ranking.queries import Queries
from nrs.ranking.recipe import RankRecipe, RankTarget
from nrs.tabular.forest import workers
from nrs.tabular.rows.memory import Rows
from nrs.tabular.task import Task, own_loss, read_arrays, read_features, write_arrays

if TYPE_CHECKING:
    from nrs.tabular.types import Json


class RankTask(Task):
    """One fit of a ranker, which a folder can hold as of other estimators."""

    worker: ClassVar[str] = __name__
    read_target = staticmethod(RankTarget.from_state)
    read_recipe = staticmethod(RankRecipe.from_dict)

    def write(self, folder: Path) -> None:
        """As of other tasks; a loss of the user's own cannot be written."""
        assert isinstance(self.target, RankTarget)
        if self.target.loss_name not in LOSSES:
            raise own_loss(self.target.loss_name)
        super().write(folder)

    @staticmethod
    def write_rows(folder: Path, rows: Rows) -> Json:
        assert isinstance(rows, QueryRows)
        arrays = {"starts": rows.queries.starts, "lengths": rows.queries.lengths}
        for name in ("query_weights", "propensity"):
            if getattr(rows, name) is not None:
                arrays[name] = getattr(rows, name)
        return write_arrays(folder, Task.write_rows(folder, rows), arrays)

    @staticmethod
    def read_rows(folder: Path, facts: Json, device: torch.device) -> QueryRows:
        arrays = read_arrays(folder, facts)
        # The rows of a fit are in the order of their queries.
        queries = Queries(arrays["index"], arrays["starts"], arrays["lengths"])
        return QueryRows(
            read_features(arrays, facts), arrays["targets"], queries, device, arrays.get("folds"),
            weights=arrays.get("query_weights"), propensity=arrays.get("propensity"),
        )  # fmt: skip


def main() -> None:
    """What a worker does: its share of a ranker's fit."""
    workers.main(RankTask.read, RankForestModel)
