"""The table network: NRS, then fully connected layers with batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.core import NRS
from nrs.core.dropout import PooledDropout


class TableNetwork(nn.Module):
    """NRS → (Linear → BN → ReLU) × len(hidden) → Linear (paper, Section 4.2).

    **Shape** input ``(B, in_features)``, output ``(B, out_features)``.

    Parameters
    ----------
    in_features, out_features : widths of input and output.
    n_mul, n_per, n_h, layout, depth : of the layer; ``n_mul=0`` leaves it out: a plain MLP.
    hidden : widths of the fully connected layers.
    dropout : probability of dropping a unit after each ReLU in training.
    input_dropout : the same for the input features (the paper's MLP-D).
    seed : the same seed gives the same network.

    Examples
    --------
    >>> import torch
    >>> network = TableNetwork(16, 26, n_mul=100, hidden=(256, 256), seed=0)
    >>> network(torch.randn(8, 16)).shape
    torch.Size([8, 26])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        n_mul: int = 1,
        n_per: int = 1,
        n_h: int = 3,
        layout: str = "code",
        depth: int = 1,
        hidden: Sequence[int] = (256, 256),
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        with seeded(seed):
            layers: list[nn.Module] = []
            if input_dropout:
                layers.append(PooledDropout(input_dropout))
            width = in_features
            if n_mul:
                subspaces = NRS(in_features, n_mul, n_per, n_h, layout=layout, depth=depth)
                layers.append(subspaces)
                width = subspaces.out_features
                if dropout:
                    layers.append(PooledDropout(dropout))
            for units in hidden:
                layers += [nn.Linear(width, units), nn.BatchNorm1d(units), nn.ReLU()]
                if dropout:
                    layers.append(PooledDropout(dropout))
                width = units
            layers.append(nn.Linear(width, out_features))
            self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output

    @property
    def subspaces(self) -> NRS | None:
        """The NRS layer, or None for a plain MLP."""
        for layer in self.layers:
            if isinstance(layer, NRS):
                return layer
        return None
