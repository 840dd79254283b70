"""The table network: NRS, then fully connected layers with batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs._util.seeds import seeded
from nrs.core import NRS
from nrs.core.dropout import PooledDropout
from nrs.core.fold import FoldedNRS


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
        # Rows are float32, whatever torch's default dtype.
        dtype = torch.float32
        with seeded(seed):
            layers: list[nn.Module] = []
            if input_dropout:
                layers.append(PooledDropout(input_dropout))
            width = in_features
            if n_mul:
                subspaces = NRS(
                    in_features, n_mul, n_per, n_h, layout=layout, depth=depth, dtype=dtype
                )
                layers.append(subspaces)
                width = subspaces.out_features
                if dropout:
                    layers.append(PooledDropout(dropout))
            for units in hidden:
                layers += [
                    nn.Linear(width, units, dtype=dtype),
                    nn.BatchNorm1d(units, dtype=dtype),
                    nn.ReLU(),
                ]
                if dropout:
                    layers.append(PooledDropout(dropout))
                width = units
            layers.append(nn.Linear(width, out_features, dtype=dtype))
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


# Products with fewer outputs take kernels in which a row's numbers depend on its place in a batch.
MIN_WIDTH = 16


class RowByRowLinear(nn.Module):
    """A linear layer of few outputs, filled up with zeros: a row's answer is its own.

    **Shape** input ``(B, in_features)``, output ``(B, out_features)``.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.out_features = len(weight)
        missing = max(0, MIN_WIDTH - len(weight))
        self.register_buffer("weight", F.pad(weight.detach(), (0, 0, 0, missing)))
        self.register_buffer("bias", F.pad(bias.detach(), (0, missing)))

    def forward(self, x: Tensor) -> Tensor:
        wide = F.linear(x, self.get_buffer("weight"), self.get_buffer("bias"))
        return wide[..., : self.out_features]


def row_by_row(network: nn.Module) -> nn.Module:
    """Replace the narrow maps of a folded network by ones that answer each row alike anywhere."""
    for name, layer in network.named_children():
        if isinstance(layer, nn.Linear) and layer.out_features < MIN_WIDTH:
            setattr(network, name, RowByRowLinear(layer.weight, layer.bias))
        elif isinstance(layer, FoldedNRS) and layer.out_features < MIN_WIDTH:
            maps = [RowByRowLinear(*one) for one in layer.matrices()]
            setattr(network, name, nn.Sequential(*(m for one in maps for m in (one, nn.ReLU()))))
        else:
            row_by_row(layer)
    return network
