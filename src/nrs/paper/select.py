"""Which cells of a table to run: by dataset, method and number of trials, and by shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nrs.paper.table import Cell, Subject, Table


def cells_of(
    table: Table,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    trials: int | None = None,
) -> list[Cell]:
    """Give the cells of a table, or some of them.

    Parameters
    ----------
    datasets, methods : only these; case does not matter. ``"MLP-D"`` also stands for
        ``"MLP-D drop 80%"``. Other readings of a dataset (``"glass-merged"``) are among the cells
        only when named.
    trials : seeds of each; the table's own number by default.

    Raises
    ------
    ValueError
        If the table has no such dataset or method.
    """
    if trials is not None and trials < 1:
        raise ValueError(f"trials must be at least 1, however: trials={trials}")
    subjects = table.subjects()
    wanted_datasets = _known("datasets", datasets, [subject.dataset for subject in subjects], table)
    wanted_methods = _known("methods", methods, [subject.method for subject in subjects], table)
    return [
        Cell(subject, seed)
        for subject, extra in subjects.items()
        if _chosen(subject.dataset, wanted_datasets, "dataset" in extra)
        and _chosen(subject.method, wanted_methods, "method" in extra)
        for seed in table.seeds(subject, trials)
    ]


def shard_of(cells: Iterable[Cell], shard: tuple[int, int]) -> list[Cell]:
    """Give one of n shares of the cells; together the shares are all cells, each once.

    The trials of a subject stay together, so that its search is made on one machine. Raises
    ValueError if there is no such share.

    Examples
    --------
    >>> cells = [Cell(Subject("t", "d", method), 0) for method in "abc"]
    >>> [cell.subject.method for cell in shard_of(cells, (1, 2))]
    ['a', 'c']
    """
    number, of = shard
    if of < 1 or not 1 <= number <= of:
        raise ValueError(f"shard must be i/n with 1 ≤ i ≤ n, however: {number}/{of}")
    order: dict[Subject, int] = {}
    places = ((cell, order.setdefault(cell.subject, len(order))) for cell in cells)
    return [cell for cell, place in places if place % of == number - 1]


def _known(
    kind: str, wanted: Sequence[str] | None, known: Sequence[str], table: Table
) -> set[str] | None:
    if wanted is None:
        return None
    found: set[str] = set()
    for name in wanted:
        exact = {entry for entry in known if _same(entry, name)}
        matches = exact or {entry for entry in known if _same(entry.split(" ")[0], name)}
        if not matches:
            raise ValueError(
                f"{kind} of {table.name!r} must be among {', '.join(dict.fromkeys(known))}, "
                f"however: {name!r}"
            )
        found |= matches
    return found


def _chosen(name: str, wanted: set[str] | None, extra: bool) -> bool:
    return not extra if wanted is None else name in wanted


def _same(entry: str, name: str) -> bool:
    return entry.lower().replace("_", "-") == name.strip().lower().replace("_", "-")
