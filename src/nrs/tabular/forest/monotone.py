"""Members whose answers never move against a column: directions of inputs and of units.

A column is constrained to let answers rise (1) or fall (-1). Each input then has a direction: 1
where it grows with what lets answers rise, -1 where it falls with that, 0 where it has nothing to
do with it. So has each unit of a member: rising units never fall with such inputs, falling ones
never rise, and free units (0) do not read them at all; an output that no constraint binds (0) reads
all units. A weight between two that have a direction
gets the sign which these ask for; a weight from what is free stays as it is. Whatever is trained,
the law holds.

Rising units alone would be convex functions of what they read, as their ReLU is. Falling units,
which enter rising ones with a negative sign, are the mirror images that make concave ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nrs.tabular.forest.folded import layer_weights, subspace_weight

# If all that members read were free, so large a share of the subspaces and units would be too.
FREE_SHARE = 0.5


class Directions(nn.Module):
    """The directions of what members read and of their units.

    **Shape** inputs ``(K, G, F)``, subspaces ``(K, G)``, one ``(K, units)`` of each hidden layer,
    outputs ``(K, C)``. Those of inputs are multiplied by how many their subspace reads.

    Examples
    --------
    >>> index = torch.tensor([[[0, 1], [1, 2], [0, 3]]])  # the last of four inputs is always 0
    >>> rising, free = torch.tensor([1.0, 0, 0, 0]), torch.tensor([1.0])
    >>> found = Directions.draw(index, rising, [8], free)
    >>> found.subspaces.tolist(), found.hidden[0].tolist()
    ([[1.0, 0.0, -1.0]], [[1.0, -1.0, 1.0, 0.0, -1.0, 1.0, 0.0, -1.0]])
    """

    inputs: Tensor
    subspaces: Tensor
    outputs: Tensor

    def __init__(
        self, inputs: Tensor, subspaces: Tensor, hidden: Sequence[Tensor], outputs: Tensor
    ) -> None:
        super().__init__()
        self.n_hidden = len(hidden)
        self.register_buffer("inputs", inputs)
        self.register_buffer("subspaces", subspaces)
        for number, units in enumerate(hidden):
            self.register_buffer(f"hidden{number}", units)
        self.register_buffer("outputs", outputs)

    @classmethod
    def draw(
        cls, index: Tensor, of_inputs: Tensor, hidden: Sequence[int], outputs: Tensor
    ) -> Directions:
        """Give units directions, by what the subspaces of members read.

        Parameters
        ----------
        index : (K, G, F), the inputs of each subspace, of which the last is always 0.
        of_inputs, outputs : directions of all inputs and of the outputs.
        hidden : widths of the hidden layers.
        """
        inputs, read = of_inputs[index], index != len(of_inputs) - 1
        bound, without = (inputs != 0).any(2), (inputs == 0) & read
        share = FREE_SHARE * float(without.sum() / read.sum().clamp(min=1))
        units = [_in_turns(bound & ~_some(bound & without.any(2), share))]
        for width in hidden:
            below, every = units[-1], torch.ones(len(index), width, dtype=torch.bool)
            free = _some(every, share) & (below == 0).any(1, keepdim=True)
            units.append(_in_turns(every & (below != 0).any(1, keepdim=True) & ~free))
        inputs = inputs * read.sum(2, keepdim=True)
        return cls(inputs, units[0], units[1:], outputs.repeat(len(index), 1))

    @classmethod
    def blank(cls, index: Tensor, hidden: Sequence[int], n_outputs: int) -> Directions:
        """Directions of those shapes whose values a state dict will fill in."""
        members, subspaces, _ = index.shape
        shapes = [index.shape, *((members, width) for width in (subspaces, *hidden, n_outputs))]
        inputs, first, *rest = (torch.zeros(shape, dtype=torch.float32) for shape in shapes)
        return cls(inputs, first, rest[:-1], rest[-1])

    @property
    def hidden(self) -> list[Tensor]:
        """Directions of the units of each hidden layer."""
        return [self.get_buffer(f"hidden{number}") for number in range(self.n_hidden)]

    def keep(self, members: Tensor) -> Directions:
        """Those of the members of these numbers only."""
        inputs, subspaces, outputs = (
            part[members] for part in (self.inputs, self.subspaces, self.outputs)
        )
        return Directions(inputs, subspaces, [units[members] for units in self.hidden], outputs)

    def subspace_weight(self, weight: Tensor, scale: Tensor) -> Tensor:
        """The (K, G, 1, F) weights of subspaces whose normalisation multiplies by `scale`."""
        return subspace_weight(weight, scale, self.subspaces, self.inputs)

    def layer_weights(self, weights: Sequence[Tensor], scales: Sequence[Tensor]) -> list[Tensor]:
        """The (K, units, inputs) weights of hidden layers, with their scales, and of outputs."""
        return layer_weights(weights, scales, [self.subspaces, *self.hidden], self.outputs)


def _some(chosen: Tensor, share: float) -> Tensor:
    """A share of those chosen along the last dimension, spread evenly among them."""
    count = chosen.cumsum(-1)
    return chosen & ((count * share).floor() > ((count - 1) * share).floor())


def _in_turns(bound: Tensor) -> Tensor:
    """1 and -1 in turns along the last dimension where units are bound, else 0."""
    return bound * (2.0 * (bound.cumsum(-1) % 2) - 1)
