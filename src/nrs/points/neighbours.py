"""Which points are near: k nearest neighbours and ball queries, with bounded memory."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nrs.points.checks import check_clouds, check_count
from nrs.training.precision import no_autocast

# Distances held at a time: 4 MB of float32, which a level-2 cache nearly holds.
CHUNK = 1 << 20


def knn(x: Tensor, k: int, queries: Tensor | None = None, *, chunk: int = CHUNK) -> Tensor:
    """Find the k nearest points of every query, nearest first.

    Distances are computed at least in float32, under autocast too.

    **Shape** x ``(B, N, D)``, queries ``(B, M, D)``, output ``(B, M, k)`` int64.

    Parameters
    ----------
    x : Tensor
        The clouds, in any number of dimensions.
    k : int
        How many, from 1 to N. A point is its own nearest neighbour.
    queries : Tensor, optional
        Where to look from; by default every point of the cloud.
    chunk : int
        At most so many distances are held at once (at least a row of N).

    Returns
    -------
    Tensor
        Row numbers of x.

    Raises
    ------
    ValueError
        If a shape or k does not fit.

    Examples
    --------
    >>> line = torch.tensor([[[0.0], [1.0], [3.0], [7.0]]])
    >>> knn(line, 2).tolist()
    [[[0, 1], [1, 0], [2, 1], [3, 2]]]
    """
    return _search(x, _checked(x, queries, "k", k, chunk), k, None, chunk)


def ball_query(x: Tensor, k: int, radius: float, queries: Tensor, *, chunk: int = CHUNK) -> Tensor:
    """Find the nearest points of every query within a radius, at most k, nearest first.

    Where fewer than k are that near, the nearest point fills the rest, even if it is itself
    farther than the radius.

    **Shape** x ``(B, N, D)``, queries ``(B, M, D)``, output ``(B, M, k)`` int64.

    Parameters
    ----------
    x : Tensor
        The clouds.
    k : int
        How many, from 1 to N.
    radius : float
        How far a neighbour may be, more than 0.
    queries : Tensor
        Where to look from.
    chunk : int
        At most so many distances are held at once (at least a row of N).

    Returns
    -------
    Tensor
        Row numbers of x.

    Raises
    ------
    ValueError
        If a shape, k or the radius does not fit.

    Examples
    --------
    >>> line = torch.tensor([[[0.0], [1.0], [1.5], [7.0]]])
    >>> ball_query(line, 3, 1.2, line[:, 1:2]).tolist()
    [[[1, 2, 0]]]
    >>> ball_query(line, 3, 0.6, line[:, 1:2]).tolist()
    [[[1, 2, 1]]]
    """
    if not radius > 0:
        raise ValueError(f"radius must be more than 0, however: radius={radius}")
    return _search(x, _checked(x, queries, "k", k, chunk), k, radius, chunk)


def squared_distances(x: Tensor, queries: Tensor) -> Tensor:
    """Squared distances from every query to every point, all at once, at least in float32.

    **Shape** x ``(B, N, D)``, queries ``(B, M, D)``, output ``(B, M, N)``, at least 0.

    Examples
    --------
    >>> squared_distances(torch.tensor([[[0.0], [3.0]]]), torch.tensor([[[1.0]]])).tolist()
    [[[1.0, 4.0]]]
    """
    x, queries = raised(x), raised(queries)
    norms = queries.square().sum(-1, keepdim=True)
    return (_without_query(x, queries) + norms).clamp_min_(0)


def _smallest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest numbers of every row, smallest first, and their places.

    The k smallest lie in the k groups whose minima are smallest: most of a long row is never
    looked at but for its minima, which is several times as fast as topk of the whole row.
    """
    n = x.shape[-1]
    size = 2 ** max(0, round(math.log2(math.sqrt(n / k))))
    groups = n // size
    if size == 1 or groups <= k or torch.compiler.is_compiling():
        return x.topk(k, dim=-1, largest=False)
    # Group g has the places g, g + groups, g + 2·groups, …: minima of whole rows at a time.
    minima = x[..., : groups * size].unflatten(-1, (size, groups)).amin(-2)
    best = minima.topk(k, dim=-1, largest=False, sorted=False).indices
    steps = torch.arange(size, device=x.device) * groups
    places = (best.unsqueeze(-2) + steps.unsqueeze(-1)).flatten(-2)
    if groups * size < n:
        rest = torch.arange(groups * size, n, device=x.device).expand(*x.shape[:-1], -1)
        places = torch.cat([places, rest], dim=-1)
    values, order = x.gather(-1, places).topk(k, dim=-1, largest=False)
    return values, places.gather(-1, order)


def _checked(x: Tensor, queries: Tensor | None, name: str, k: int, chunk: int) -> Tensor:
    check_clouds(x, "x")
    check_count(name, k, x.shape[1])
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, however: chunk={chunk}")
    if queries is None:
        return x
    check_clouds(queries, "queries", x.shape[2])
    if queries.shape[0] != x.shape[0]:
        raise ValueError(
            f"x and queries must be of the same clouds, however: {x.shape[0]} and "
            f"{queries.shape[0]}"
        )
    return queries


def _without_query(x: Tensor, queries: Tensor) -> Tensor:
    """|x|² − 2·x·q: the squared distance but for |q|², which changes no ranking."""
    # Autocast would round the products, which nearly cancel, and points lose even themselves.
    with no_autocast(x):
        return torch.baddbmm(x.square().sum(-1).unsqueeze(1), queries, x.transpose(1, 2), alpha=-2)


def raised(x: Tensor) -> Tensor:
    """The same numbers at least in float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _search(x: Tensor, queries: Tensor, k: int, radius: float | None, chunk: int) -> Tensor:
    """The k nearest points of every query; the nearest one in place of those beyond the radius."""
    with torch.no_grad():
        x, queries = raised(x), raised(queries)
        # About the mean of the cloud, where far-off coordinates lose no digits.
        centre = x.mean(1, keepdim=True)
        x, queries = x - centre, queries - centre
        if torch.compiler.is_compiling():
            # A graph must not depend on the number of clouds, as parts of bounded size do.
            return _nearest(x, queries, k, radius)
        found = torch.empty(*queries.shape[:2], k, dtype=torch.int64, device=x.device)
        batch, n_queries = queries.shape[:2]
        rows = max(1, min(n_queries, chunk // x.shape[1]))
        clouds = max(1, chunk // (x.shape[1] * rows)) if rows == n_queries else 1
        for first in range(0, batch, clouds):
            some = slice(first, first + clouds)
            for row in range(0, n_queries, rows):
                part = slice(row, row + rows)
                found[some, part] = _nearest(x[some], queries[some, part], k, radius)
        return found


def _nearest(x: Tensor, queries: Tensor, k: int, radius: float | None) -> Tensor:
    values, index = _smallest(_without_query(x, queries), k)
    if radius is None:
        return index
    limit = radius**2 - queries.square().sum(-1, keepdim=True)
    return torch.where(values > limit, index[..., :1], index)
