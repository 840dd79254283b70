"""What the page of a fit says of its columns and of single rows, by rows it did not learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nrs.files.scores import Scored, ScoredTargets
from nrs.tabular.explain import Effect, Permutation, Reasons, permutation, reasons
from nrs.tabular.explain.effects import effect_on
from nrs.tabular.explain.rows import Rows

if TYPE_CHECKING:
    import pyarrow

    from nrs.files.fit import FittedFile
    from nrs.tabular.types import TableModel

# Columns that are shuffled, how often, and those whose effect is drawn.
MAX_COLUMNS, REPEATS, EFFECTS = 60, 5, 6
# Rows that are shuffled: fewer where it would take more products than these.
MIN_ROWS, MAX_ROWS, MAX_PRODUCTS = 300, 5_000, 3e10
# Rows whose cells are tried for an effect, and those that it is averaged over.
EFFECT_ROWS, AVERAGED = 2_000, 200
# Rows among which those are that a row is compared with, and the worst ones, which are explained.
OTHERS, WORST = 1_000, 8
Tick = Callable[[float, str], object]


@dataclass(frozen=True)
class Explained:
    """Columns by how much they matter, how they act, and why the worst rows got their answers.

    Attributes
    ----------
    source : the rows that it was measured on; "out-of-bag" or "held-out rows".
    why_not : why there is nothing of all this, if so.
    reasons : by the place of the row among those that were scored.
    """

    source: str = ""
    why_not: str = ""
    permutation: Permutation | None = None
    effects: list[Effect] = field(default_factory=list)
    reasons: dict[int, Reasons] = field(default_factory=dict)


def explain_fitted(fitted: FittedFile, tick: Tick | None = None) -> Explained:
    """Explain a fit by the rows that scored it, each by members that were not trained on it.

    `tick` is called with the share that is done and what comes next.
    """
    model, table, scored = fitted.model, fitted.table, fitted.scored
    if table.streamed is not None:
        return Explained(why_not="Rows of a stream are not kept after the fit.")
    if table.task == "ranking":
        return Explained(why_not="A ranker is scored by query, not row by row.")
    if not isinstance(scored, (Scored, ScoredTargets)):
        return Explained(why_not="There are no rows that could score the model.")
    unseen = scored.source == "out-of-bag"
    if unseen and model.model_.unseen is None:
        return Explained(why_not="The fit does not know which rows its members have not seen.")
    say = tick or (lambda done, words: None)
    known = np.arange(len(scored))
    if isinstance(scored, Scored) and scored.classes is not None:
        known = np.flatnonzero(np.isin(scored.truth, scored.classes))
    if len(known) < 2:
        return Explained(why_not="There are too few rows to score the model on.")

    def some(places: np.ndarray) -> tuple[pyarrow.Table, np.ndarray | None]:
        rows = scored.rows[places]
        return table.features.take(rows), rows if unseen else None

    say(0.0, "which columns matter")
    columns = np.argsort(-model.feature_importances_, kind="stable")[:MAX_COLUMNS].tolist()
    spread = known[_spread(len(known), affordable_rows(model, len(columns), unseen=unseen))]
    X, seen = some(spread)
    rows = scored.rows[spread]
    roles = {"offset", "sample_weight"} & table.given.keys()
    added: dict[str, Any] = {role: table.given[role][rows] for role in roles}
    shuffled = permutation(
        model, X, table.truth[rows], training_rows=seen, columns=columns, n_repeats=REPEATS,
        max_rows=None, **added,
    )  # fmt: skip
    X, seen = some(known[_spread(len(known), EFFECT_ROWS)])
    leading = [
        column
        for column in shuffled.order().tolist()
        if model.encoder_.kinds_[column] != "text"
        and shuffled.increase[column] > shuffled.error[column]
    ]
    say(0.7, "how they act")
    averaged = Rows.of(model, X, seen, AVERAGED)
    effects = [effect_on(averaged, column) for column in leading[:EFFECTS]]
    found: dict[int, Reasons] = {}
    worst = scored.worst()[:WORST] if isinstance(scored, Scored) else np.empty(0, dtype=int)
    if len(worst) and len(known) > WORST:
        say(0.85, "why the worst rows")
        places = np.concatenate([known[_spread(len(known), OTHERS)], worst])
        X, seen = some(places)
        last = np.arange(len(places) - len(worst), len(places))
        why = reasons(model, X, last, training_rows=seen)
        found = dict(zip(worst.tolist(), why, strict=True))
    say(1.0, "done")
    return Explained(scored.source, "", shuffled, effects, found)


def affordable_rows(model: TableModel, n_columns: int, *, unseen: bool) -> int:
    """Rows whose columns can be shuffled in a few seconds.

    Counted by the products it takes, not by the clock, so that the same fit has the same page.
    """
    weights = sum(parameter.numel() for parameter in model.network_.parameters())
    answering = weights / (8 if unseen else 1)
    return int(np.clip(MAX_PRODUCTS / (answering * REPEATS * n_columns), MIN_ROWS, MAX_ROWS))


def _spread(n: int, most: int) -> np.ndarray:
    return np.linspace(0, n - 1, min(n, most)).astype(int)
