"""From a mesh to points: uniform over its surface, with normals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nrs.datasets.readers.mesh import Mesh

# A cloud farther from the origin than so many times its extent is moved before it is rounded.
FAR = 1000


def sample_surface(
    mesh: Mesh, n: int, *, normals: bool = True, seed: int | np.random.Generator = 0
) -> NDArray[np.float32]:
    """Draw points uniformly from the surface of a mesh.

    A triangle is drawn with a probability proportional to its area, then a point in it. A mesh
    far from the origin, more than 1,000 times its extent, is moved to it: see `to_float32`.

    Parameters
    ----------
    mesh : Mesh
        Triangles, at least one with an area.
    n : int
        How many points, at least 1.
    normals : bool
        Whether the normal of the triangle follows the coordinates.
    seed : int or Generator
        The same number gives the same points.

    Returns
    -------
    points : array, float32
        (n, 6), or (n, 3) without normals.

    Raises
    ------
    ValueError
        If n is below 1 or the mesh has no surface.

    Examples
    --------
    >>> square = Mesh(
    ...     np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]),
    ...     np.array([[0, 1, 2], [0, 2, 3]]),
    ... )
    >>> cloud = sample_surface(square, 100)
    >>> cloud.shape, cloud[0, 3:].tolist(), bool((cloud[:, :2] <= 1).all())
    ((100, 6), [0.0, 0.0, 1.0], True)
    """
    if n < 1:
        raise ValueError(f"n must be at least 1; got {n}")
    areas = mesh.areas()
    if not areas.sum() > 0:
        raise ValueError("the mesh must have a surface; its faces have no area")
    generator = np.random.default_rng(seed)
    ends = np.cumsum(areas)
    # The first triangle whose end lies beyond; those without area never do.
    chosen = np.searchsorted(ends, generator.random(n) * ends[-1], side="right")
    chosen = np.minimum(chosen, np.flatnonzero(areas)[-1])
    a, b, c = (mesh.vertices[mesh.faces[chosen, i]] for i in range(3))
    # Uniform in a triangle: the square root pushes points away from the corner a.
    first, second = np.sqrt(generator.random((n, 1))), generator.random((n, 1))
    xyz = (1 - first) * a + first * (1 - second) * b + first * second * c
    xyz -= _far_centre(mesh.vertices)
    parts = [xyz, mesh.normals()[chosen]] if normals else [xyz]
    return np.concatenate(parts, axis=1).astype(np.float32)


def to_float32(cloud: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round a cloud, its first three columns the coordinates, without losing its shape.

    In coordinates of a map, such as 5,500,000 m, float32 counts in half metres. A cloud farther
    from the origin than 1,000 times its extent is therefore moved to the origin first.

    Examples
    --------
    >>> to_float32(np.array([[5_500_000.0, 0, 0], [5_500_000.25, 0, 0]]))[:, 0].tolist()
    [-0.125, 0.125]
    >>> to_float32(np.array([[5.0, 0, 0], [6.0, 0, 0]]))[:, 0].tolist()
    [5.0, 6.0]
    """
    moved = cloud.copy()
    moved[:, :3] -= _far_centre(cloud[:, :3])
    return moved.astype(np.float32)


def _far_centre(xyz: NDArray[np.float64]) -> NDArray[np.float64]:
    """The middle of a cloud that lies far off, else 0."""
    low, high = xyz.min(axis=0), xyz.max(axis=0)
    centre = low / 2 + high / 2
    extent = (high - low).max()
    # Of a single point nothing can be lost.
    far = 0 < extent * FAR < np.abs(centre).max()
    return centre if far else np.zeros(3)
