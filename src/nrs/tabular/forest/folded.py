"""A forest for inference, as arrays: every normalisation is multiplied into the product before it.

It is made of the tensors of a forest, in training or in a file, and needs no torch. The compiled
engine applies it where there is one; elsewhere :class:`nrs.tabular.forest.network.FoldedForest`
does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nrs._util.arrays import A, where
from nrs.engine import MAX_LAYERS, Predictor, Shape, instructions

if TYPE_CHECKING:
    from nrs.tabular.targets import Combine
    from nrs.tabular.types import Features

# What a normalisation adds to a variance before it takes the root.
EPSILON = 1e-5
# Numbers of the members' outputs that are joined at once: they stay in cache.
JOINED, MIN_ROWS = 1 << 18, 128


@dataclass(frozen=True, eq=False)
class Folded:
    """The arrays of a folded forest. It is immutable, and threads may share it.

    **Shape** of rows ``(B, d)``.

    Parameters
    ----------
    shape : what subspaces read, and how wide the layers are.
    weight : (K, G, F), of the subspaces.
    hidden, shifts : (K, units, units before) of each layer but the first; (K · units,) of each.
    out_weight, out_bias : (K, out_features, units), (K, out_features).
    shares, temperature : (K,), (); how much members count, and what divides their joint outputs.
    combine : joint outputs of members.
    """

    shape: Shape
    weight: np.ndarray
    hidden: list[np.ndarray]
    shifts: list[np.ndarray]
    out_weight: np.ndarray
    out_bias: np.ndarray
    shares: np.ndarray
    temperature: np.ndarray
    combine: Combine

    @classmethod
    def of(
        cls,
        state: Mapping[str, np.ndarray],
        features: int,
        n_levels: int,
        combine: Combine,
        units: np.ndarray | None = None,
        whole: np.ndarray | None = None,
    ) -> Folded:
        """Fold a forest.

        Parameters
        ----------
        state : its state dict, as arrays; none is written to.
        features, n_levels : of a row, and how many of the bins are levels.
        units : scale and level of the outputs, (2, K, out_features, 1), if they are not yet part of
            the weights.
        whole : of a part of a forest, what all members read.
        """
        index = state["index"]
        n_hidden = sum(name.endswith("running_var") for name in state) - 1
        names = ["norm", *(f"hidden_norms.{number}" for number in range(n_hidden))]
        weight, *weights = _weights(state, n_hidden)
        weight = (weight * state["gain"][:, :, None]).reshape(index.shape)
        folded, shifts = [], []
        for name, one in zip(names, [weight, *weights[:-1]], strict=True):
            root = np.sqrt(state[f"{name}.running_var"] + np.float32(EPSILON))
            scale = state[f"{name}.weight"] * (np.float32(1) / root)
            shifts.append(state[f"{name}.bias"] - state[f"{name}.running_mean"] * scale)
            folded.append(one * scale.reshape(len(index), -1, 1))
        out_weight, out_bias = weights[-1], state["out_bias"]
        if units is not None:
            out_weight, out_bias = out_weight * units[0], out_bias * units[0] + units[1]
        shape = Shape(
            index=index,
            features=features,
            source=state["bins.source"],
            low=state["bins.low"],
            rate=state["bins.rate"],
            levels=n_levels,
            hidden=tuple(one.shape[1] for one in folded[1:]),
            outputs=out_weight.shape[1],
            whole=whole,
        )
        return cls(
            shape,
            weight=folded[0],
            hidden=folded[1:],
            shifts=shifts,
            # Copies: a fit writes to these.
            out_weight=out_weight.copy(),
            out_bias=out_bias[:, :, 0].copy(),
            shares=state["shares"].copy(),
            temperature=state["temperature"].copy(),
            combine=combine,
        )

    @property
    def n_members(self) -> int:
        return len(self.shares)

    @cached_property
    def engine(self) -> Predictor | None:
        """What applies it; None where torch has to."""
        if instructions()[0] is None or len(self.shifts) > MAX_LAYERS:
            return None
        arrays = (self.weight, self.shifts, self.hidden, self.out_weight, self.out_bias)
        return Predictor(self.shape, *arrays)

    def outputs(self, features: Features, threads: int = 1, *, members: bool = False) -> np.ndarray:
        """Joint outputs of encoded rows, (n, out_features), or with `members` those of each.

        The last are (K, n, out_features).
        """
        n_rows, width = features.shape[0], self.shape.outputs
        shape = (self.n_members, n_rows, width) if members else (n_rows, width)
        found = np.empty(shape, dtype=np.float32)
        answer = self.each if members else self.joint
        step = max(MIN_ROWS, JOINED // (width * self.n_members) // MIN_ROWS * MIN_ROWS)

        def write(start: int) -> None:
            part = features[start : start + step]
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            found[..., start : start + step, :] = answer(np.ascontiguousarray(dense))

        starts = range(0, n_rows, step)
        if threads == 1 or len(starts) < 2:
            for start in starts:
                write(start)
            return found
        with ThreadPoolExecutor(min(threads, len(starts))) as pool:
            for _ in pool.map(write, starts):
                pass
        return found

    def joint(self, x: np.ndarray) -> np.ndarray:
        """Outputs of the members taken together: (B, out_features)."""
        return self._joined(self._members(x), self.shares[:, None])[: len(x)]

    def each(self, x: np.ndarray) -> np.ndarray:
        """What every member would answer alone: (K, B, out_features)."""
        outputs = self._members(x)
        # All rows of all members as rows of one.
        side_by_side = np.ascontiguousarray(outputs.swapaxes(0, 1)).reshape(1, outputs.shape[1], -1)
        alone = self._joined(side_by_side, None)
        return alone.reshape(len(outputs), -1, outputs.shape[1])[:, : len(x)]

    def _members(self, x: np.ndarray) -> np.ndarray:
        """Outputs of every member: (K, out_features, B), of at least two rows.

        NumPy adds up what lies side by side in another order, as the classes of a single row do.
        """
        assert self.engine is not None
        return self.engine.outputs(x.repeat(2, 0) if len(x) == 1 else x)

    def _joined(self, outputs: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        # What is beyond float32 is refused in words.
        with np.errstate(all="ignore"):
            joint: np.ndarray = self.combine(outputs, weights) / self.temperature
        return joint


def _weights(state: Mapping[str, np.ndarray], n_hidden: int) -> Iterator[np.ndarray]:
    """Weights of the subspaces, the hidden layers and the outputs, with what directions ask for."""
    numbers = range(n_hidden)
    weights = [state[f"hidden.{number}"] for number in numbers] + [state["out_weight"]]
    if "directions.inputs" not in state:
        yield state["weight"]
        yield from weights
        return
    toward, inputs = state["directions.subspaces"], state["directions.inputs"]
    yield subspace_weight(state["weight"], state["norm.weight"], toward, inputs)
    scales = [state[f"hidden_norms.{number}.weight"] for number in numbers]
    units = [toward, *(state[f"directions.hidden{number}"] for number in numbers)]
    yield from layer_weights(weights, scales, units, state["directions.outputs"])


def subspace_weight(weight: A, scale: A, toward: A, inputs: A) -> A:
    """The (K, G, 1, F) weights of subspaces whose normalisation multiplies by `scale`.

    Here and below arrays or tensors; see :mod:`nrs.tabular.forest.monotone`.
    """
    return _directed(weight, _turned(toward, scale)[:, :, None], inputs[:, :, None])


def layer_weights(
    weights: Sequence[A], scales: Sequence[A], units: Sequence[A], outputs: A
) -> list[A]:
    """The (K, units, inputs) weights of hidden layers, with their scales, and of outputs.

    `units` are the directions of subspaces and of the units of each hidden layer.
    """
    found = []
    for number, weight in enumerate(weights):
        hidden = number < len(scales)
        toward = _turned(units[number + 1], scales[number]) if hidden else outputs
        found.append(_directed(weight, toward, units[number][:, None] * units[number].shape[1]))
    # An output that no constraint binds reads all units as they are.
    found[-1] = where((outputs != 0)[..., None], found[-1], weights[-1])
    return found


def _directed(weight: A, toward: A, below: A) -> A:
    """Weights with the signs that directions ask for: those of free inputs stay as they are.

    The cube of what is trained, times how many inputs there are, which makes the largest as large
    as it was. Near 0 it moves slowly, where a size alone would jump across with every step; and few
    weights of a unit begin large, so that units differ although their weights have one sign.
    """
    size = abs(weight)
    # A tensor's gradient is that of the power.
    cube = size * size * size if isinstance(size, np.ndarray) else size.pow(3)
    return where(below == 0, weight, cube * (toward[..., None] * below))


def _turned(toward: A, scale: A) -> A:
    """Directions of units before they are multiplied by a scale, which may be negative."""
    known = np.sign(scale) if isinstance(scale, np.ndarray) else scale.detach().sign()
    return toward * known.reshape(toward.shape)
