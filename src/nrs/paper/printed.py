"""The paper's tables as printed, one value a cell, from the files beside this one."""

from __future__ import annotations

import csv
import functools
from importlib import resources

TABLES = (
    "accuracy", "speed", "ablation", "ranking", "fine_grained", "imagenet_head", "imagenet_se",
    "cifar_se", "modelnet40",
)  # fmt: skip


@functools.cache
def reported(name: str) -> tuple[dict[str, str], ...]:
    """Give the rows of one of the paper's tables; raises ValueError if there is no such table.

    Examples
    --------
    >>> reported("accuracy")[0]["mean"], len(reported("speed"))
    ('91.52', 28)
    """
    if name not in TABLES:
        raise ValueError(f"name must be one of {', '.join(TABLES)}, however: name={name!r}")
    text = resources.files("nrs.paper").joinpath(f"reported/{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def number(text: str) -> float | None:
    """Read a printed number; None for an empty cell or N/A.

    >>> number("97.85"), number("N/A"), number("")
    (97.85, None, None)
    """
    try:
        return float(text)
    except ValueError:
        return None
