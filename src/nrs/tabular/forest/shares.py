"""How much each view of a forest counts, by what its members predict out of bag."""

from __future__ import annotations

import torch
from torch import Tensor

from nrs.tabular.forest.network import combine
from nrs.tabular.targets import Target

# Views are drawn so many times, the one that helps most each time; shares are how often.
DRAWS = 20
# Learned shares must beat equal ones by so many standard errors, or equal ones stay.
ERRORS = 2.0


def learn_shares(
    outputs: Tensor, truth: Tensor, target: Target, weights: Tensor | None = None
) -> Tensor:
    """Choose shares of views by the loss of their joint out-of-bag outputs.

    Greedy selection with replacement (Caruana et al., 2004). Equal shares are kept unless the
    learned ones are better by more than chance: a small table cannot tell views apart.

    **Shape** outputs ``(V, C, n)``, truth ``(n,)`` or ``(n, C)``, result ``(V,)``, which sums to V.

    Examples
    --------
    >>> from nrs.tabular.targets import ClassTarget
    >>> import numpy as np
    >>> truth = torch.arange(100) % 2
    >>> right = torch.stack([1.0 - truth, 1.0 * truth]) * 4
    >>> target = ClassTarget(np.arange(2))
    >>> learn_shares(torch.stack([right, -right]), truth, target).tolist()
    [2.0, 0.0]
    >>> learn_shares(torch.stack([right, right]), truth, target).tolist()
    [1.0, 1.0]
    """
    n_views = len(outputs)
    equal = torch.ones(n_views)
    counts = torch.zeros(n_views)
    weight = torch.ones(outputs.shape[2]) if weights is None else weights

    def losses(shares: Tensor) -> Tensor:
        used = shares > 0
        joint = combine(outputs[used], target.kind, shares[used].unsqueeze(1))
        return target.member_losses(joint.t().unsqueeze(0), truth)[0] * weight

    for _ in range(DRAWS):
        tried = [losses(counts + one).mean() for one in torch.eye(n_views)]
        counts[int(torch.stack(tried).argmin())] += 1
    learned = counts * (n_views / DRAWS)
    return learned if beyond_chance((losses(equal) - losses(learned)).double()) else equal


def beyond_chance(gained: Tensor) -> bool:
    """Whether the mean of what single rows gain is above 0 by more than their spread explains."""
    return bool(gained.mean() > ERRORS * gained.std() / len(gained) ** 0.5)
