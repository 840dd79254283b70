"""A picture of a cloud with the points that decided its class."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from torch import Tensor

from nrs._util.atomic import atomic_write
from nrs._util.optional import import_optional
from nrs.points.critical import critical_points


def draw_cloud(
    path: str | os.PathLike[str], cloud: Tensor, weights: Tensor, *, title: str = ""
) -> int:
    """Draw a cloud from two sides, its critical points in colour, and write it as PNG.

    **Shape** cloud ``(N, C)``, weights ``(N,)``.

    Parameters
    ----------
    path : path
        Where to write.
    cloud : Tensor
        Its first three channels are drawn, z up as in ModelNet's meshes.
    weights : Tensor
        See `nrs.points.critical.critical_weights`; the fewest points with half of the weight are
        highlighted, the heavier the darker.
    title : str

    Returns
    -------
    int
        How many points are highlighted.

    Raises
    ------
    ImportError
        Without matplotlib; the extra ``points`` installs it.
    """
    n_critical = len(critical_points(weights))
    note = f"{n_critical} of {len(cloud)} points carry half of the decision"
    content = cloud_png(cloud, weights, f"{title}\n{note}" if title else note)
    with atomic_write(path) as file:
        file.write(content)
    return n_critical


def cloud_png(cloud: Tensor, weights: Tensor, title: str = "") -> bytes:
    """The picture that `draw_cloud` writes, with another title."""
    user = "a picture of a cloud"
    figures = import_optional("matplotlib.figure", user, "points")
    canvases = import_optional("matplotlib.backends.backend_agg", user, "points")
    # Not pyplot: a library does not touch a program's open figures.
    figure = figures.Figure(figsize=(9, 4.8), layout="constrained")
    canvases.FigureCanvasAgg(figure)
    for place, (azimuth, elevation) in enumerate(((-60, 20), (30, 20)), start=1):
        ax: Any = figure.add_subplot(1, 2, place, projection="3d")
        scatter_cloud(ax, cloud, weights)
        ax.view_init(elev=elevation, azim=azimuth)
    if title:
        figure.suptitle(title, fontsize=11)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def scatter_cloud(ax: Any, cloud: Tensor, weights: Tensor) -> int:
    """Draw a cloud and its critical points into axes of three dimensions; gives their number.

    **Shape** cloud ``(N, C)``, weights ``(N,)``.
    """
    xyz = cloud[:, :3].detach().cpu().numpy()
    chosen = critical_points(weights.detach().cpu()).numpy()
    rest = np.setdiff1d(np.arange(len(xyz)), chosen)
    heavy = weights.detach().cpu().numpy()[chosen]
    strength = heavy / heavy.max() if len(heavy) else heavy
    for some, arguments in (
        (rest, {"c": "#b8c0c8", "s": 5, "alpha": 0.6}),
        (chosen, {"c": strength, "cmap": "autumn_r", "vmin": -0.3, "vmax": 1.1, "s": 26,
                  "edgecolors": "#5a1f10", "linewidths": 0.4, "alpha": 1.0}),
    ):  # fmt: skip
        ax.scatter(*xyz[some].T, depthshade=False, **arguments)
    ax.set_box_aspect(_extent(xyz), zoom=1.05)
    ax.set_axis_off()
    return len(chosen)


def _extent(xyz: Any) -> tuple[float, float, float]:
    size = np.maximum(np.ptp(xyz, axis=0), 1e-6)
    size = np.maximum(size / size.max(), 0.05)
    return float(size[0]), float(size[1]), float(size[2])
