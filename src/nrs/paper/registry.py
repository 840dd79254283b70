"""Every table that can be run here, by name."""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType

from nrs.paper.table import Table


@functools.cache
def tables() -> Mapping[str, Table]:
    """Give the paper's tables and figures by name, in the paper's order, and ``"smoke"``.

    Examples
    --------
    >>> list(tables())[:3]
    ['accuracy', 'mlp_variants', 'speed']
    """
    from nrs.paper.ablation import ABLATION
    from nrs.paper.accuracy import ACCURACY
    from nrs.paper.birds import CUB100, CUB100_CURVES, CUB100_LOSS, FROZEN_CURVES, FROZEN_LOSS
    from nrs.paper.cifar_small import CIFAR10_CURVES, CIFAR10_LOSS, CIFAR10_SMALL
    from nrs.paper.counts import COUNTS
    from nrs.paper.latency import LATENCY
    from nrs.paper.mlp_variants import MLP_VARIANTS
    from nrs.paper.modelnet40 import MODELNET40
    from nrs.paper.ranking import RANKING
    from nrs.paper.small_data import SMALL_DATA
    from nrs.paper.smoke import smoke_of
    from nrs.paper.sparse_text import SPARSE_TEXT
    from nrs.paper.speed import SPEED
    from nrs.paper.studies import DEPTH, N_H, N_MUL, N_PER
    from nrs.paper.vision_tables import CIFAR_SE, FINE_GRAINED, IMAGENET_HEAD, IMAGENET_SE

    found = (
        ACCURACY, MLP_VARIANTS, SPEED, N_MUL, N_PER, N_H, DEPTH, ABLATION, RANKING,
        FINE_GRAINED, IMAGENET_HEAD, CIFAR_SE, IMAGENET_SE, COUNTS, LATENCY,
        MODELNET40, CUB100, CUB100_CURVES, CUB100_LOSS, FROZEN_CURVES, FROZEN_LOSS, CIFAR10_SMALL,
        CIFAR10_CURVES, CIFAR10_LOSS, SMALL_DATA, SPARSE_TEXT,
    )  # fmt: skip
    smoke = smoke_of(found)
    return MappingProxyType({table.name: table for table in (*found, smoke)})


def find_table(name: str) -> Table:
    """Give a table by its name, or one of your own by ``"module:attribute"``.

    Raises ValueError if there is no such table.

    Examples
    --------
    >>> find_table("accuracy").kind
    'table'
    """
    if ":" in name:
        return _own_table(name)
    found = tables().get(name.replace("-", "_"))
    if found is None:
        close = difflib.get_close_matches(name, tables(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"a table must be one of {', '.join(tables())}, however: {name!r}{hint}")
    return found


@functools.cache
def _own_table(name: str) -> Table:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"a table 'module:attribute' must be importable, however: {name!r} ({error})"
        ) from None
    if not isinstance(found, Table):
        raise ValueError(f"{name!r} must be a nrs.paper.Table, however: {type(found).__name__}")
    return found
