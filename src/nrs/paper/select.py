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
    table : Table
    datasets, methods : sequence of str, optional
        Only these; case does not matter. ``"MLP-D"`` also stands for ``"MLP-D drop 80%"``. Other
        readings of a dataset (``"glass-merged"``) are among the cells only when named.
    trials : int, optional
        Seeds of each; the table's own number by default.

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
    cells = []
    for subject, extra in subjects.items():
        if wanted_datasets is None:
            chosen = "dataset" not in extra
        else:
            chosen = subject.dataset in wanted_datasets
        if wanted_methods is None:
            chosen = chosen and "method" not in extra
        else:
            chosen = chosen and subject.method in wanted_methods
        if not chosen:
            continue
        cells += [Cell(subject, seed) for seed in table.seeds(subject, trials)]
    return cells


def shard_of(cells: Iterable[Cell], shard: tuple[int, int]) -> list[Cell]:
    """Give one of n shares of the cells; together the shares are all cells, each once.

    The trials of a subject stay together, so that its search is made on one machine.

    Parameters
    ----------
    cells : iterable of Cell
    shard : (int, int)
        ``(2, 8)`` is the second of eight.

    Raises
    ------
    ValueError
        If there is no such share.

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
    kept = []
    for cell in cells:
        place = order.setdefault(cell.subject, len(order))
        if place % of == number - 1:
            kept.append(cell)
    return kept


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


def _same(entry: str, name: str) -> bool:
    return entry.lower().replace("_", "-") == name.strip().lower().replace("_", "-")
