"""Which points decided: those that the score of the class depends on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nrs.points.checks import check_clouds


def critical_weights(model: nn.Module, cloud: Tensor, label: int | None = None) -> Tensor:
    """Length of the gradient of a class's score at every point, as shares that sum to 1.

    A maximum over points passes its gradient to the winners only, so the points with a weight
    above 0 are the critical points of PointNet (Qi et al., 2017), weighed by how much the class
    depends on them; for the other encoders they are those that reach it through neighbourhoods.

    **Shape** cloud ``(N, C)``, output ``(N,)``.

    Parameters
    ----------
    model : nn.Module
        An encoder; used in evaluation mode and left in the mode it was in.
    cloud : Tensor
    label : int, optional
        The class; by default the one that the model predicts.

    Examples
    --------
    >>> from nrs.points import PointNet
    >>> weights = critical_weights(PointNet(10), torch.randn(50, 3))
    >>> weights.shape, round(float(weights.sum()), 3)
    (torch.Size([50]), 1.0)
    """
    x = cloud.detach().clone().unsqueeze(0)
    check_clouds(x, "the cloud")
    was_training = model.training
    model.eval()
    try:
        with torch.enable_grad():
            x.requires_grad_()
            scores = model(x)[0]
            chosen = int(scores.argmax()) if label is None else label
            (gradient,) = torch.autograd.grad(scores[chosen], x)
    finally:
        model.train(was_training)
    lengths = torch.linalg.vector_norm(gradient[0, :, :3], dim=-1)
    total = lengths.sum()
    # A score that depends on no point at all depends on all alike.
    return lengths / total if total > 0 else torch.full_like(lengths, 1 / len(lengths))


def critical_points(weights: Tensor, share: float = 0.5) -> Tensor:
    """The fewest points that carry at least a share of the weight, heaviest first.

    **Shape** weights ``(N,)``, output ``(m,)`` int64.

    Examples
    --------
    >>> critical_points(torch.tensor([0.1, 0.6, 0.3]), 0.8).tolist()
    [1, 2]
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, however: share={share}")
    values, order = weights.sort(descending=True)
    needed = int((values.cumsum(0) < share * values.sum() - 1e-9).sum()) + 1
    return order[: min(needed, len(order))]
