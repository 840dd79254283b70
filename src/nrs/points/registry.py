"""The encoders by name, as configuration and model files name them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nrs.points.dgcnn import DGCNN
from nrs.points.encoder import PointEncoder
from nrs.points.pointconv import PointConv
from nrs.points.pointnet import PointNet
from nrs.points.pointnet2 import PointNet2
from nrs.points.rscnn import RSCNN

ENCODERS: Mapping[str, type[PointEncoder]] = MappingProxyType(
    {
        "pointnet": PointNet,
        "pointnet2": PointNet2,
        "dgcnn": DGCNN,
        "pointconv": PointConv,
        "rscnn": RSCNN,
    }
)
# The paper's NRS layer of each; its text says n_per 32 for DGCNN, its count is that of 64.
PAPER_SUBSPACE: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "pointnet": {"n_mul": 1, "n_per": 32},
        "pointnet2": {"n_mul": 1, "n_per": 32},
        "dgcnn": {"n_mul": 1, "n_per": 64},
    }
)


def create(name: str, num_classes: int, **arguments: Any) -> PointEncoder:
    """Make an encoder by name.

    Parameters
    ----------
    name : {"pointnet", "pointnet2", "dgcnn", "pointconv", "rscnn"}
    num_classes : int
    arguments
        Of its class: subspace, normals, …

    Raises
    ------
    ValueError
        If there is no such encoder, or it has no such argument.

    Examples
    --------
    >>> create("pointnet", 10, normals=True).channels
    6
    """
    if name not in ENCODERS:
        close = difflib.get_close_matches(name, ENCODERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"name must be one of {', '.join(ENCODERS)}, however: {name!r}{hint}")
    try:
        # The classes differ in their further arguments.
        return ENCODERS[name](num_classes, **arguments)  # type: ignore[call-arg,arg-type]
    except TypeError as error:
        raise ValueError(f"the arguments must fit {name}, however: {error}") from None
