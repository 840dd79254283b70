"""Every dataset this package knows, by name."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from types import MappingProxyType

from nrs.datasets.catalog.images import IMAGES
from nrs.datasets.catalog.packages import PACKAGES
from nrs.datasets.catalog.points import POINTS
from nrs.datasets.catalog.ranking import RANKING
from nrs.datasets.catalog.tables import TABLES
from nrs.datasets.catalog.variants import VARIANTS
from nrs.datasets.entry import Entry

CATALOG: Mapping[str, Entry] = MappingProxyType(
    {entry.name: entry for entry in (*TABLES, *VARIANTS, *RANKING, *IMAGES, *POINTS, *PACKAGES)}
)


def names(*, variants: bool = True) -> list[str]:
    """Name the datasets of the catalog: the paper's tables first, in the paper's order.

    Parameters
    ----------
    variants : bool, default=True
        Whether to include parts and other readings of a dataset.

    Examples
    --------
    >>> names()[:3], "letter" in names(), "glass-merged" in names(variants=False)
    (['satimage', 'GISETTE', 'MNIST'], True, False)
    """
    return [name for name, entry in CATALOG.items() if variants or entry.variant_of is None]


def info(name: str) -> Entry:
    """Give the catalog's entry of a dataset.

    Parameters
    ----------
    name : str
        Its name; case does not matter, nor whether ``-`` or ``_`` stands between words.

    Raises
    ------
    ValueError
        If the catalog has no such name.

    Examples
    --------
    >>> entry = info("mnist")
    >>> entry.name, entry.n_train, entry.n_test, entry.n_features, entry.n_classes
    ('MNIST', 60000, 10000, 780, 10)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, however: type(name)={type(name).__name__}")
    found = _by_plain_name().get(_plain(name))
    if found is None:
        close = difflib.get_close_matches(_plain(name), _by_plain_name(), n=3)
        hint = ", ".join(repr(_by_plain_name()[plain].name) for plain in close)
        raise ValueError(
            f"name must be a dataset of the catalog, however: name={name!r}; "
            + (
                f"did you mean {hint}?"
                if hint
                else "`nrs datasets list` or nrs.datasets.names() lists them"
            )
        )
    return found


def variants_of(name: str) -> list[Entry]:
    """Give the entries that are parts or other readings of a dataset.

    Parameters
    ----------
    name : str
        The name of the dataset as :func:`names` writes it.

    Examples
    --------
    >>> [entry.name for entry in variants_of("glass")]
    ['glass-merged', 'common-glass', 'common-glass-merged']
    """
    return [entry for entry in CATALOG.values() if entry.variant_of == name]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


@functools.cache
def _by_plain_name() -> Mapping[str, Entry]:
    entries = CATALOG.values()
    aliases = {_plain(alias): entry for entry in entries for alias in entry.aliases}
    return aliases | {_plain(entry.name): entry for entry in entries}
