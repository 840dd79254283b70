"""Which inputs each subspace of a forest reads: whole columns, every one by every member."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def draw_subspaces(
    parts: Sequence[np.ndarray],
    n_subspaces: int,
    n_columns: int,
    rng: np.random.Generator,
    *,
    most_inputs: int = 128,
) -> list[np.ndarray]:
    """Draw the subspaces of one member.

    Random permutations of the columns are laid end to end and cut into pieces, as in the paper's
    layer, so that every column is read about equally often.

    Parameters
    ----------
    parts : for each column, the inputs that stand for it.
    n_subspaces : how many to draw.
    n_columns : columns of a subspace; more where the subspaces would not cover all columns.
    most_inputs : a subspace that would read more inputs reads that many of them, drawn at random;
        more only where some would otherwise be read by no subspace.

    Returns
    -------
    list of `n_subspaces` arrays of inputs, at least one each.

    Examples
    --------
    >>> parts = [np.array([0]), np.array([1, 2]), np.array([3])]
    >>> drawn = draw_subspaces(parts, 4, 2, np.random.default_rng(0))
    >>> sorted(set(np.concatenate(drawn).tolist()))
    [0, 1, 2, 3]
    """
    size = min(max(n_columns, math.ceil(len(parts) / n_subspaces)), len(parts))
    needed = n_subspaces * size
    order = np.concatenate(
        [rng.permutation(len(parts)) for _ in range(math.ceil(needed / len(parts)))]
    )[:needed]
    # Where columns outnumber what the subspaces may read, covering them all goes first.
    most_inputs = max(most_inputs, size)
    whole, drawn = [], []
    for columns in order.reshape(n_subspaces, size):
        inputs = np.unique(np.concatenate([parts[column] for column in columns]))
        whole.append(inputs)
        if len(inputs) > most_inputs:
            inputs = np.sort(rng.choice(inputs, most_inputs, replace=False))
        drawn.append(inputs)
    return _cover(whole, drawn)


def _cover(whole: list[np.ndarray], drawn: list[np.ndarray]) -> list[np.ndarray]:
    """Let subspaces read every input of their columns between them.

    Inputs that none reads take the places of those that others read too; what finds no place in
    this way makes subspaces larger.

    Parameters
    ----------
    whole : all inputs of the columns of each subspace.
    drawn : those that it reads.
    """
    times = np.bincount(np.concatenate(drawn), minlength=1 + max(map(np.max, whole)))
    for larger in (False, True):
        for number, inputs in enumerate(whole):
            unread = inputs[times[inputs] == 0]
            if len(unread) == 0:
                continue
            read = drawn[number]
            # Those that are read most often first.
            often = read[np.argsort(-times[read], kind="stable")]
            spare = often[times[often] > 1][: len(unread)]
            if not larger:
                unread = unread[: len(spare)]
            times[spare] -= 1
            times[unread] += 1
            drawn[number] = np.union1d(np.setdiff1d(read, spare), unread)
    return drawn


def as_index(members: Sequence[Sequence[np.ndarray]], blank: int) -> np.ndarray:
    """Give subspaces of members as one (K, G, F) array, filled up with the input `blank`.

    Examples
    --------
    >>> as_index([[np.array([0, 2]), np.array([1])]], blank=3).tolist()
    [[[0, 2], [1, 3]]]
    """
    longest = max(len(inputs) for member in members for inputs in member)
    index = np.full((len(members), len(members[0]), longest), blank, dtype=np.int64)
    for k, member in enumerate(members):
        for g, inputs in enumerate(member):
            index[k, g, : len(inputs)] = inputs
    return index
