"""A forest among several processes: they share the rows of every batch, or the members.

Sharing rows, every process has all members; statistics of a batch and gradients are those of all
its rows. Sharing members, a process trains some of them on all rows as one process would train
all: seeds, batches and masks are the same, and the numbers of a member do not depend on which
others stand beside it. Only the scores of out-of-bag rows are put together.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.recipe import Recipe
from nrs.tabular.run import Run
from nrs.training import TrainSettings
from nrs.training.loop import build_optimizer
from nrs.training.processes import Processes


def check_division(recipe: Recipe, run: Run) -> None:
    """Refuse settings that several processes cannot train."""
    if not recipe.members:
        raise ValueError(
            "several processes train a forest, and these settings are a single network. Use "
            "preset='default', or n_workers=1 without a launcher."
        )
    if run.divide == "members" and recipe.clip_norm is not None:
        raise ValueError(
            "divide='members' cannot clip the norm of all gradients "
            f"(clip_norm={recipe.clip_norm}). Use divide='rows'."
        )


def division(recipe: Recipe, divide: str, size: int) -> str:
    """What `size` processes share of a forest: ``"rows"`` or ``"parts"``.

    With ``divide="auto"`` the members, where each process can have one: then nobody waits for
    another.
    """
    if divide == "auto":
        divide = "members" if recipe.members >= size and recipe.clip_norm is None else "rows"
    return "parts" if divide == "members" else "rows"


@contextlib.contextmanager
def divided(
    network: ForestNetwork, group: Processes, *, keeps_lanes: bool = True
) -> Iterator[ForestNetwork]:
    """Give what this process trains within the block; afterwards `network` is whole again.

    With ``group.divided="rows"`` that is all of it, with ``"parts"`` some of its members;
    `keeps_lanes` as of :func:`take_members`.
    """
    if group.divides_rows:
        network.group = group
        try:
            yield network
        finally:
            del network.group
        return
    if network.n_members < group.size:
        raise ValueError(
            f"divide='members' needs a member for every process; got {network.n_members} members "
            f"for {group.size} processes. Use fewer processes, or of a classifier or regressor "
            "divide='rows'."
        )
    part = take_members(network, *bounds(network.n_members, group), keeps_lanes=keeps_lanes)
    yield part
    _put_together(network, part, group)


def bounds(n_members: int, group: Processes) -> tuple[int, int]:
    """First member of this process, and the first of the next.

    >>> [bounds(16, Processes(rank, 3)) for rank in range(3)]
    [(0, 5), (5, 10), (10, 16)]
    """
    return n_members * group.rank // group.size, n_members * (group.rank + 1) // group.size


def take_members(
    network: ForestNetwork, first: int, stop: int, *, keeps_lanes: bool = True
) -> ForestNetwork:
    """The members from `first` to before `stop` as a forest that trains as the whole would.

    `keeps_lanes` is for torch's optimizers, whose numbers depend on those next to them.

    Examples
    --------
    >>> from nrs.tabular.forest.bins import PiecewiseLinear
    >>> index = torch.randint(4, (6, 8, 2))
    >>> forest = ForestNetwork(3, 2, index, PiecewiseLinear.between([]), hidden=(16,)).eval()
    >>> part, x = take_members(forest, 2, 5), torch.randn(16, 3)
    >>> torch.equal(part.members(x), forest.members(x)[2:5])
    True
    """
    part = network.keep(torch.arange(first, stop))
    share = (first, stop - first, network.n_members)
    part.first_member, part.all_members = first, network.n_members
    part.whole_index = network.index
    part.drop.part = share
    for name, parameter in list(part.named_parameters()) if keeps_lanes else ():
        _keep_lanes(part, name, parameter, share)
    part.train(network.training)
    return part


@functools.cache
def lanes() -> int:
    """How many numbers an optimizer updates at once here, and the rest one by one.

    Measured, as it is a matter of how torch was compiled and not of the processor alone: the least
    power of two whose numbers come out as they do within many.

    >>> lanes() in (4, 8, 16, 32)
    True
    """
    generator = torch.Generator().manual_seed(0)
    # One number in a few hundred updates differs.
    values, *gradients = torch.randn(41, 128, 64, generator=generator, dtype=torch.float32)

    def updated(n: int) -> Tensor:
        parameters = [nn.Parameter(row[:n].clone()) for row in values]
        optimizer = build_optimizer(parameters, TrainSettings())
        for gradient in gradients:
            for parameter, row in zip(parameters, gradient, strict=True):
                parameter.grad = row[:n].clone()
            optimizer.step()
        return torch.stack([parameter.detach() for parameter in parameters])

    among_many = updated(64)
    fits = (n for n in (4, 8, 16) if torch.equal(updated(n), among_many[:, :n]))
    return next(fits, 32)


class _Crop(nn.Module):
    """A tensor without what was put before and after it."""

    def __init__(self, before: int, shape: torch.Size) -> None:
        super().__init__()
        self.before, self.shape = before, shape

    def forward(self, padded: Tensor) -> Tensor:
        return padded[self.before : self.before + self.shape.numel()].view(self.shape)


def _keep_lanes(part: nn.Module, name: str, parameter: Tensor, share: tuple[int, int, int]) -> None:
    """Pad a parameter so that each number is updated as in the whole.

    An optimizer updates several numbers at once (:func:`lanes`), then what is left one by one,
    which may round differently. So numbers that are not left over in the whole must not be here,
    and vice versa.
    """
    first, own, whole = share
    unit = parameter.numel() // own
    begin, end = unit * first, unit * (first + own)
    at_once = lanes()
    rest = unit * whole // at_once * at_once
    vectors = max(0, min(end, rest) - begin)
    before = -vectors % at_once if end > rest else 0
    after = -(end - begin) % at_once if end <= rest else 0
    if not before and not after:
        return
    padded = nn.functional.pad(parameter.detach().flatten(), (before, after))
    owner, _, leaf = name.rpartition(".")
    module = part.get_submodule(owner)
    setattr(module, leaf, nn.Parameter(padded))
    crop = _Crop(before, parameter.shape)
    parametrize.register_parametrization(module, leaf, crop, unsafe=True)


def _put_together(network: ForestNetwork, part: ForestNetwork, group: Processes) -> None:
    """Write the members of all processes into the whole forest."""
    whole = network.state_dict()
    with torch.no_grad():
        for name, tensor in whole.items():
            owner, _, leaf = name.rpartition(".")
            own = getattr(part.get_submodule(owner), leaf)
            if tensor.dim() == 0 or name.startswith("bins."):
                tensor.copy_(own)
            else:
                tensor.copy_(torch.cat(group.gather(own)))
    network.train(part.training)


class Gathered(nn.Module):
    """A part of a forest that answers for the whole: the members of all processes.

    Every process must ask for the same rows.
    """

    first_member = 0

    def __init__(self, part: ForestNetwork, group: Processes) -> None:
        super().__init__()
        self.part, self.together = part, group
        self.combine, self.n_members = part.combine, part.all_members
        self.n_outputs = part.n_outputs
        # The engine answers in all processes or in none: each asks the others as often.
        here = None if part.training else part.compiled()
        self.engine = None if group.any(here is None) else here

    def compiled(self) -> Gathered | None:
        """Itself, if the compiled engine answers."""
        return None if self.engine is None else self

    def members(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Outputs of every member of the whole, or of those chosen: (K, out_features, B)."""
        of_part = self.part if self.engine is None else self.engine
        outputs = torch.cat(self.together.gather(of_part.members(x)))
        return outputs if chosen is None else outputs[chosen]

    def forward(self, x: Tensor) -> Tensor:
        shares = torch.cat(self.together.gather(self.part.shares)).unsqueeze(1)
        return self.combine(self.members(x), shares) / self.part.temperature


def answering(network: ForestNetwork, group: Processes) -> ForestNetwork | Gathered:
    """The whole forest, as far as outputs go, of which `network` is what this process trains."""
    return network if group.divides_rows else Gathered(network, group)
