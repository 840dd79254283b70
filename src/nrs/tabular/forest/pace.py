"""How long a forest takes to judge rows: what must be known to keep a time limit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nrs.tabular.forest.grow import out_of_bag
from nrs.tabular.rows.memory import Rows

# Rows that are judged to see how long it takes, and the fewest that may judge the forest.
PROBED_ROWS = 512


@dataclass(frozen=True)
class Pace:
    """Seconds that a forest takes for a row, and those that a fit may take.

    Examples
    --------
    >>> Pace(a_row=0.001, limit=50.0).affordable(0.1, most=20_000)
    5000
    """

    a_row: float
    limit: float

    def affordable(self, share: float, most: int) -> int:
        """Rows that can be judged in a share of the limit, at most so many."""
        # The limit may be infinite, which is no integer.
        return int(min(most, max(PROBED_ROWS, share * self.limit / self.a_row)))


def measure_pace(network: Any, rows: Rows, folds: Tensor, n_folds: int, limit: float) -> Pace:
    """Judge a few rows and see how long it takes."""
    few = rows.some(PROBED_ROWS)
    training = network.training
    network.eval()
    for _ in range(2):  # The first time warms up.
        begin = time.monotonic()
        out_of_bag(network, few, folds, n_folds)
        seconds = time.monotonic() - begin
    network.train(training)
    return Pace(max(seconds, 1e-6) / len(few), limit)
