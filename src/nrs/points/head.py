"""From the global feature of a cloud to its class, with random subspaces on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from nrs.core import NRS
from nrs.core.layer import largest_divisor

if TYPE_CHECKING:
    from nrs.points.encoder import PointEncoder

# The paper's n_per after a global feature of 1,024 numbers.
MOST_N_PER = 32


class PointHead(nn.Module):
    """[NRS →] (Linear → BN → activation → dropout) × hidden → Linear.

    NRS stands after the global feature and before the first fully connected layer (paper,
    Section 4.3.4).

    **Shape** input ``(B, num_features)``, output ``(B, num_classes)``.

    Parameters
    ----------
    num_features, num_classes : widths of input and output.
    subspace : arguments of :class:`nrs.NRS`, such as ``dict(n_mul=1, n_per=32)``; None leaves
        the layer out.
    hidden : widths of the hidden layers.
    dropout : of each hidden layer.
    slope : of the activation below zero.
    bias : whether each hidden layer has a bias.

    Examples
    --------
    >>> head = PointHead(64, 10, subspace=dict(n_per=16), hidden=(32,))
    >>> head(torch.randn(4, 64)).shape
    torch.Size([4, 10])
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        subspace: Mapping[str, Any] | None = None,
        hidden: Sequence[int] = (512, 256),
        dropout: float | Sequence[float] = 0.4,
        slope: float = 0.0,
        bias: bool | Sequence[bool] = True,
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, however: num_classes={num_classes}")
        self.num_features, self.num_classes = num_features, num_classes
        self.subspace = make_subspace(num_features, subspace)
        width = num_features if self.subspace is None else self.subspace.out_features
        rates = [dropout] * len(hidden) if isinstance(dropout, (int, float)) else list(dropout)
        biases = [bias] * len(hidden) if isinstance(bias, bool) else list(bias)
        layers: list[nn.Module] = []
        for out, rate, with_bias in zip(hidden, rates, biases, strict=True):
            layers += [nn.Linear(width, out, bias=with_bias), nn.BatchNorm1d(out)]
            layers += [nn.ReLU() if slope == 0 else nn.LeakyReLU(slope)]
            layers += [nn.Dropout(rate)] if rate else []
            width = out
        self.hidden = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        if self.subspace is not None:
            x = self.subspace(x)
        x = self.hidden(x)
        return x if pre_logits else self.classifier(x)

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the last layer by a fresh one for so many classes."""
        old = self.classifier
        self.num_classes = num_classes
        self.classifier = nn.Linear(
            old.in_features, num_classes, device=old.weight.device, dtype=old.weight.dtype
        )


def make_subspace(num_features: int, subspace: Mapping[str, Any] | None) -> NRS | None:
    """Make the NRS layer of a ``subspace=`` argument.

    Raises
    ------
    TypeError
        If it is neither None nor a mapping of arguments of NRS.
    """
    if subspace is None:
        return None
    if not isinstance(subspace, Mapping):
        raise TypeError(
            "subspace must be None or a mapping such as dict(n_mul=1, n_per=32), however: "
            f"subspace={subspace!r}"
        )
    return NRS(num_features, **subspace)


class WithHead(nn.Module):
    """An encoder of clouds and a head; made by `add_head`."""

    def __init__(self, encoder: nn.Module, head: PointHead) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.num_features = head.num_features

    @property
    def num_classes(self) -> int:
        """Width of the output."""
        return self.head.num_classes

    @property
    def auxiliary_loss(self) -> Callable[[], Tensor]:
        """What the encoder adds to the loss, such as PointNet's penalty, if it adds anything."""
        return cast("Callable[[], Tensor]", self.encoder.auxiliary_loss)

    def forward_features(self, x: Tensor) -> Tensor:
        """The global feature of every cloud."""
        own = getattr(self.encoder, "forward_features", self.encoder)
        features: Tensor = own(x)
        return features

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Scores of the classes from global features."""
        scores: Tensor = self.head(x, pre_logits)
        return scores

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the last layer by a fresh one for so many classes."""
        self.head.reset_classifier(num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))


def add_head(
    model: nn.Module,
    num_classes: int,
    *,
    subspace: Mapping[str, Any] | None = None,
    num_features: int | None = None,
    **head: Any,
) -> WithHead | PointEncoder:
    """Put a head with random subspaces on any encoder of clouds.

    The head has the device and dtype of the encoder. One of `nrs.points` that has a head already
    gets the new one in its place, and is returned itself.

    Parameters
    ----------
    model : nn.Module
        Maps clouds to global features ``(B, num_features)``, by its ``forward_features`` if it
        has one, else by calling it.
    num_classes : int
    subspace : mapping, optional
        Arguments of :class:`nrs.NRS`; by default n_mul is 1, and n_per the largest divisor of the
        width that is at most 32.
    num_features : int, optional
        Width of the global feature; ``model.num_features`` by default.
    head
        Further arguments of `PointHead`: hidden, dropout, slope, bias.

    Raises
    ------
    ValueError
        If the width is neither given nor told by the model.

    Examples
    --------
    >>> class Mean(nn.Module):
    ...     def forward(self, x):
    ...         return x.mean(1)
    >>> model = add_head(Mean(), 10, num_features=3, subspace=dict(n_mul=4, n_per=1))
    >>> model(torch.randn(2, 50, 3)).shape
    torch.Size([2, 10])
    """
    width = getattr(model, "num_features", None) if num_features is None else num_features
    if not isinstance(width, int):
        raise ValueError(
            "num_features must be the width of the encoder's global feature, however: it was not "
            f"given and {type(model).__name__} has no num_features; pass num_features=…"
        )
    if subspace is None:
        subspace = dict(n_mul=1, n_per=largest_divisor(width, MOST_N_PER))
    made = PointHead(width, num_classes, subspace=subspace, **head)
    like = next((p for p in model.parameters() if p.is_floating_point()), None)
    made = made if like is None else made.to(like.device, like.dtype)
    # Not at the top: the encoders are made of heads.
    from nrs.points.encoder import PointEncoder

    if isinstance(model, (PointEncoder, WithHead)):
        model.head = made.train(model.training)
        return model
    return WithHead(model, made)


def check_features(x: Tensor, num_features: int) -> None:
    """Refuse anything but global features (B, num_features)."""
    if not isinstance(x, torch.Tensor) or x.dim() != 2 or x.shape[1] != num_features:
        shape = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(
            f"global features must have the shape (clouds, {num_features}), however: {shape}"
        )
