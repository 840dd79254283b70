"""PointNet (Qi et al., CVPR 2017): every point on its own, then one maximum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nrs.points.encoder import PointEncoder
from nrs.points.head import PointHead
from nrs.points.pooled import PooledLayer
from nrs.points.shared import SharedLayer, shared_layers

# The weight of the penalty on feature transforms that are not orthogonal.
PENALTY = 0.001


class TransformNet(nn.Module):
    """A small PointNet that gives every cloud a d×d matrix, near the identity at first.

    **Shape** input ``(B, N, in_features)``, output ``(B, d, d)``.

    Examples
    --------
    >>> TransformNet(3, 3)(torch.randn(2, 50, 3)).shape
    torch.Size([2, 3, 3])
    """

    def __init__(self, in_features: int, d: int) -> None:
        super().__init__()
        self.d = d
        self.points = shared_layers(in_features, 64, 128)
        self.pool = PooledLayer(128, 1024)
        self.hidden = shared_layers(1024, 512, 256)
        self.matrix = nn.Linear(256, d * d)

    def forward(self, x: Tensor) -> Tensor:
        matrices = self.matrix(self.hidden(self.pool(self.points(x)))).view(-1, self.d, self.d)
        return matrices + torch.eye(self.d, device=x.device, dtype=matrices.dtype)


class PointNet(PointEncoder):
    """PointNet with both transform networks.

    **Shape** input ``(B, N, 3)``, or ``(B, N, 6)`` with normals; output ``(B, num_classes)``.

    Parameters
    ----------
    num_classes : width of the output.
    subspace : arguments of :class:`nrs.NRS` between the global feature of 1,024 numbers and the
        classifier; the paper's are ``dict(n_mul=1, n_per=32)``. None is the plain network.
    normals : whether a point has a normal besides its coordinates.
    dropout : of the last hidden layer.

    Examples
    --------
    >>> model = PointNet(40, subspace=dict(n_mul=1, n_per=32))
    >>> sum(p.numel() for p in model.parameters())
    3769457
    >>> model.eval()(torch.randn(2, 128, 3)).shape
    torch.Size([2, 40])
    """

    num_features = 1024
    order_matters = False

    def __init__(
        self,
        num_classes: int = 40,
        subspace: Mapping[str, Any] | None = None,
        normals: bool = False,
        *,
        dropout: float = 0.4,
    ) -> None:
        super().__init__(normals=normals)
        self.input_transform = TransformNet(self.channels, 3)
        self.first = SharedLayer(self.channels, 64)
        self.feature_transform = TransformNet(64, 64)
        self.second = SharedLayer(64, 128)
        self.pool = PooledLayer(128, 1024)
        # Nothing cuts negative values off before the maximum.
        self.pool.slope = None
        self.head = PointHead(1024, num_classes, subspace=subspace, dropout=(0.0, dropout))
        self._transform: Tensor | None = None

    def auxiliary_loss(self) -> Tensor:
        """0.001 · mean ‖I − T·Tᵀ‖ of the last batch in training mode, to be added to its loss.

        Raises
        ------
        RuntimeError
            If there was no such batch.
        """
        if self._transform is None:
            raise RuntimeError("auxiliary_loss needs a forward pass in training mode before it")
        transform = self._transform
        gap = torch.eye(transform.shape[1], device=transform.device) - torch.bmm(
            transform, transform.transpose(1, 2)
        )
        return PENALTY * torch.linalg.matrix_norm(gap).mean()

    def __getstate__(self) -> dict[str, Any]:
        # A copy of the network has no last batch; a tensor within a graph cannot be copied.
        return self.__dict__ | {"_transform": None}

    def _features(self, x: Tensor) -> Tensor:
        moved = torch.bmm(x[..., :3], self.input_transform(x))
        h = self.first(torch.cat([moved, x[..., 3:]], dim=-1) if self.normals else moved)
        transform = self.feature_transform(h)
        self._transform = transform if self.training else None
        features: Tensor = self.pool(self.second(torch.bmm(h, transform)))
        return features
