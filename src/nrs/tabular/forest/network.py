"""The neural random-subspace forest: many small NRS networks trained side by side.

A member is the paper's network in small: random subspaces → BN → ReLU → a fully connected layer
or two → outputs. All members read the same rows, but each is trained without one fold of them, so
every row is scored by members that never saw it. Activations are laid out feature by feature,
(features, rows), so that one batched product serves all members and statistics are sums along
contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs.core.dropout import PooledDropout
from nrs.core.norm import normalise, normalise_together
from nrs.core.subspace_map import DENSE_RATIO_FOREST, dense_weight, subspace_map
from nrs.engine import instructions
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.folded import Folded
from nrs.tabular.forest.monotone import Directions
from nrs.tabular.network import MIN_WIDTH
from nrs.tabular.rows.memory import Rows
from nrs.tabular.targets import Combine, Target, mean_probabilities
from nrs.training.processes import ALONE, Processes

# With more outputs than this, random combinations of them stand for all in importances.
MAX_OUTPUTS = 8
# Rows times bins that importances look at together.
BLOCK_CELLS = 1 << 20


class ForestNetwork(nn.Module):
    """Members side by side, each with subspaces, hidden layers and outputs of its own.

    **Shape** input ``(B, d)``; :meth:`members` gives ``(K, out_features, B)``, and ``forward`` the
    members taken together, ``(B, out_features)``.

    Parameters
    ----------
    in_features, out_features : features of a row, outputs of each member.
    index : (K, G, F) int64, the inputs of each member's subspaces, among the d features, then the
        bins of `bins`, then a last input that is always 0.
    bins : the piecewise-linear encoding of some of the features.
    hidden : widths of the fully connected layers of a member.
    gain : (K, d + bins + 1), the scale at which each member reads each input; 1 by default. See
        :mod:`nrs.tabular.forest.grow`.
    dropout : probability of dropping a unit after each ReLU in training.
    combine : joint outputs of members, as a target defines them; see
        :func:`nrs.tabular.targets.mean_values`.
    seed : the same seed gives the same weights.
    directions : of inputs and units, where columns are constrained; see
        :mod:`nrs.tabular.forest.monotone`.

    Examples
    --------
    >>> index = torch.tensor([[[0, 1], [2, 3]], [[1, 3], [0, 2]]])  # two members, d = 3
    >>> forest = ForestNetwork(3, 4, index, PiecewiseLinear.between([])).eval()
    >>> forest.members(torch.randn(5, 3)).shape, forest(torch.randn(5, 3)).shape
    (torch.Size([2, 4, 5]), torch.Size([5, 4]))
    """

    index: Tensor
    gain: Tensor
    shares: Tensor
    temperature: Tensor
    units: Tensor | None
    training_forward = "members"
    # The processes that share the rows of a batch, while they train.
    group: Processes = ALONE
    # Of a part of a forest: the number of its first member, and what all members read.
    first_member = 0
    whole_index: Tensor | None = None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        index: Tensor,
        bins: PiecewiseLinear,
        *,
        gain: Tensor | None = None,
        hidden: Sequence[int] = (128,),
        dropout: float = 0.0,
        combine: Combine = mean_probabilities,
        seed: int = 0,
        directions: Directions | None = None,
    ) -> None:
        super().__init__()
        members, subspaces, size = index.shape
        self.combine, self.n_members, self.n_outputs = combine, members, out_features
        # Of the whole forest, should this be a part of one.
        self.all_members = members
        self.bins, self.directions = bins, directions
        self.register_buffer("index", index)
        # How much each member counts, 1 on average: set from out-of-bag predictions, as is what
        # divides the joint outputs.
        self.register_buffer("shares", torch.ones(members, dtype=torch.float32))
        self.register_buffer("temperature", torch.ones((), dtype=torch.float32))
        generator = torch.Generator().manual_seed(seed)

        def uniform(*shape: int, fan_in: int | Tensor) -> nn.Parameter:
            if index.is_meta:
                return nn.Parameter(torch.empty(shape, dtype=torch.float32))
            # torch's own initialisation of a Linear.
            bound = 1 / torch.as_tensor(fan_in, dtype=torch.float32).sqrt()
            drawn = torch.rand(shape, generator=generator, dtype=torch.float32)
            return nn.Parameter((drawn * 2 - 1) * bound)

        self.n_inputs = in_features + bins.n_bins + 1
        # By subspace, as the weights are.
        even = torch.ones(index.shape, dtype=torch.float32)
        of_inputs = even if gain is None else gain.gather(1, index.flatten(1)).view(index.shape)
        self.register_buffer("gain", of_inputs)
        # Without memory nothing is drawn, and a comparison would import torch's compiler.
        blank = self.n_inputs - 1
        read = 1 if index.is_meta else (index != blank).sum(2).clamp(min=1)[..., None, None]
        self.weight = uniform(members, subspaces, 1, size, fan_in=read)
        self.norm = nn.BatchNorm1d(members * subspaces, dtype=torch.float32)
        self.hidden, self.hidden_norms = nn.ParameterList(), nn.ModuleList()
        width = subspaces
        for units in hidden:
            self.hidden.append(uniform(members, units, width, fan_in=width))
            self.hidden_norms.append(nn.BatchNorm1d(members * units, dtype=torch.float32))
            width = units
        self.out_weight = uniform(members, out_features, width, fan_in=width)
        self.out_bias = nn.Parameter(torch.zeros(members, out_features, 1, dtype=torch.float32))
        self.drop = PooledDropout(dropout)
        # Scale and level of each member's outputs, (2, K, out_features, 1), until `settle`.
        self.register_buffer("units", None, persistent=False)

    def reindex(
        self, in_features: int, bins: PiecewiseLinear, index: Tensor, weight: Tensor, gain: Tensor
    ) -> None:
        """Read other inputs: the same places in each subspace, then more, which are free."""
        if self.directions is not None:
            more = index.shape[2] - self.index.shape[2]
            self.directions.inputs = F.pad(self.directions.inputs, (0, more))
        self.n_inputs = in_features + bins.n_bins + 1
        self.bins, self.index, self.gain = bins, index, gain
        self.weight = nn.Parameter(weight)

    def settle(self) -> None:
        """Make the scale and level of the outputs part of the weights."""
        with torch.no_grad():
            weight, bias = self.out_layer()
            self.out_weight.copy_(weight)
            self.out_bias.copy_(bias)
        self.units = None

    def out_layer(self) -> tuple[Tensor, Tensor]:
        """Weights and biases of the outputs, with their scale and level."""
        weight = self.layer_weights()[-1]
        if self.units is None:
            return weight, self.out_bias
        scale, level = self.units
        return weight * scale, self.out_bias * scale + level

    def layer_weights(self) -> list[Tensor]:
        """Weights of the hidden layers and of the outputs, (K, units, inputs) each."""
        weights: list[Tensor] = [*self.hidden, self.out_weight]
        if self.directions is None:
            return weights
        scales = [norm.get_parameter("weight") for norm in self.hidden_norms]
        return self.directions.layer_weights(weights, scales)

    def members(self, x: Tensor) -> Tensor:
        """Outputs of every member: (K, out_features, B)."""
        return self.members_from(self.inputs(x))

    def members_from(self, inputs: Tensor) -> Tensor:
        """:meth:`members` from what :meth:`inputs` made of a row."""
        batch = inputs.shape[0]
        mapped = subspace_map(inputs, self.index, self.scaled_weight())
        h = self._activate(mapped.permute(1, 2, 0).reshape(-1, batch), self.norm)
        *hidden, last = self.layer_weights()
        for weight, norm in zip(hidden, self.hidden_norms, strict=True):
            h = torch.bmm(weight, self._by_member(h))[..., :batch]
            h = self._activate(h.flatten(0, 1).contiguous(), norm)  # type: ignore[arg-type]
        outputs = torch.baddbmm(self.out_bias, last, self._by_member(h))[..., :batch]
        return self.in_units(outputs)

    def in_units(self, outputs: Tensor) -> Tensor:
        """Outputs at the scale and level of each member."""
        if self.units is None:
            return outputs
        scale, level = self.units
        return torch.addcmul(level, outputs, scale)

    def scaled_weight(self) -> Tensor:
        """The subspaces' weights times the scales of their inputs, (K, G, 1, F)."""
        weight: Tensor = self.weight
        if self.directions is not None:
            weight = self.directions.subspace_weight(weight, self.norm.weight)
        return weight * self.gain.unsqueeze(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_from(self.inputs(x))

    def forward_from(self, inputs: Tensor) -> Tensor:
        """The members taken together, from what :meth:`inputs` made of a row."""
        outputs = self.members_from(inputs)
        return _together(self, outputs, self.shares.unsqueeze(1)) / self.temperature

    def _by_member(self, h: Tensor) -> Tensor:
        """(K·C, B) activations as (K, C, B), B filled up with zeros to a multiple of 16.

        Products on memory that does not begin at a multiple of 64 bytes may round differently: a
        member's numbers would depend on how many stand before it.
        """
        by_member = h.view(self.n_members, -1, h.shape[1])
        missing = -h.shape[1] % 16
        return F.pad(by_member, (0, missing)) if missing else by_member

    def inputs(self, x: Tensor) -> Tensor:
        """What subspaces read: the features, their bins, and a zero."""
        parts = [x, self.bins(x)] if self.bins.n_bins else [x]
        return torch.cat([*parts, x.new_zeros(x.shape[0], 1)], 1)

    def _activate(self, h: Tensor, norm: nn.BatchNorm1d) -> Tensor:
        """Normalise and cut off (C, B) activations, then drop some."""
        if self.training and self.group.divides_rows:
            h = normalise_together(h, norm, self.group.total)
        elif self.training:
            h = normalise(h.t(), None, norm, relu=True).t()
        else:
            # Feature by feature: torch's own would go across the memory.
            scale, shift = affine(norm)
            h = torch.addcmul(shift, h, scale).relu_()
        activated: Tensor = self.drop(h)
        return activated

    def keep(self, members: Tensor) -> ForestNetwork:
        """Copy with the members of these numbers only; itself if they are all.

        Examples
        --------
        >>> index = torch.tensor([[[0, 1]], [[1, 2]], [[0, 2]]])
        >>> forest = ForestNetwork(3, 4, index, PiecewiseLinear.between([]), dropout=0.1)
        >>> forest.keep(torch.tensor([0, 2])).index.tolist()
        [[[0, 1]], [[0, 2]]]
        """
        if len(members) == self.n_members:
            return self
        kept = ForestNetwork(
            self.n_inputs - self.bins.n_bins - 1,
            self.out_weight.shape[1],
            self.index[members],
            self.bins,
            hidden=[len(weight[0]) for weight in self.hidden],
            dropout=self.drop.p,
            combine=self.combine,
            directions=self.directions and self.directions.keep(members),
        ).to(self.index.device)
        state = {}
        for name, value in self.state_dict().items():
            if name.startswith("bins.") or value.ndim == 0:
                state[name] = value
            else:
                # Statistics of all members lie end to end.
                by_member = value.unflatten(0, (self.n_members, -1))[members]
                state[name] = by_member.flatten(0, 1)
        kept.load_state_dict(state)
        kept.units = None if self.units is None else self.units[:, members]
        return kept.train(self.training)

    def folded(self) -> Folded:
        """Arrays for inference, with every normalisation folded into the product before it."""
        state: dict[str, Tensor] = {
            name: getattr(self, name)
            for name in (
                "index",
                "gain",
                "weight",
                "out_weight",
                "out_bias",
                "shares",
                "temperature",
            )
        }
        for name in ("source", "low", "rate"):
            state[f"bins.{name}"] = getattr(self.bins, name)
        norms = {"norm": self.norm}
        for number, (weight, norm) in enumerate(zip(self.hidden, self.hidden_norms, strict=True)):
            state[f"hidden.{number}"] = weight
            norms[f"hidden_norms.{number}"] = norm  # type: ignore[assignment]
        for name, norm in norms.items():
            for leaf in ("weight", "bias", "running_mean", "running_var"):
                state[f"{name}.{leaf}"] = getattr(norm, leaf)
        if self.directions is not None:
            state |= {f"directions.{name}": one for name, one in self.directions.named_buffers()}
        # On the meta device only shapes count.
        plain = (
            torch.zeros_like(one, device="cpu") if one.is_meta else one.detach().cpu()
            for one in state.values()
        )
        arrays = dict(zip(state, (one.numpy() for one in plain), strict=True))
        units = None if self.units is None else self.units.cpu().numpy()
        features = self.n_inputs - self.bins.n_bins - 1
        whole = None if self.whole_index is None else self.whole_index.numpy()
        return Folded.of(arrays, features, self.bins.n_levels, self.combine, units, whole)

    def fold(self) -> FoldedForest:
        """Copy for inference by torch."""
        return FoldedForest(self.folded()).to(self.index.device)

    def compiled(self) -> CompiledForest | None:
        """Copy for inference by the compiled engine, where there is one."""
        if instructions()[0] is None or self.index.device.type != "cpu":
            return None
        folded = self.folded()
        return None if folded.engine is None else CompiledForest(folded)


class CompiledForest:
    """A folded forest that the compiled engine applies to tensors on the CPU.

    **Shape** as of :class:`ForestNetwork`.
    """

    training = False

    def __init__(self, arrays: Folded) -> None:
        self.arrays, self.combine, self.n_outputs = arrays, arrays.combine, arrays.shape.outputs
        self.shares = torch.from_numpy(arrays.shares)
        self.temperature = torch.from_numpy(arrays.temperature)

    def compiled(self) -> CompiledForest:
        """Itself."""
        return self

    def members(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Outputs of every member, or of those of these numbers: (K, out_features, B)."""
        assert self.arrays.engine is not None
        numbers = None if chosen is None else chosen.numpy()
        rows = x.contiguous().numpy()
        return torch.from_numpy(self.arrays.engine.outputs(rows, numbers, torch.get_num_threads()))

    def each(self, x: Tensor) -> Tensor:
        """What every member would answer alone: (K, B, out_features)."""
        return torch.from_numpy(self.arrays.each(x.contiguous().numpy()))

    def slopes(self, x: Tensor, gradients: Tensor) -> Tensor:
        """:meth:`nrs.engine.Predictor.slopes` with rows before inputs: (directions, B, inputs)."""
        assert self.arrays.engine is not None
        found = self.arrays.engine.slopes(x.contiguous().numpy(), gradients.numpy())
        return torch.from_numpy(found).transpose(1, 2)


class FoldedForest(nn.Module):
    """A forest for inference by torch: three products a member, no normalisation.

    Made by :meth:`ForestNetwork.fold`. Gives the numbers of the forest in eval mode.

    **Shape** as of :class:`ForestNetwork`.
    """

    index: Tensor
    weight: Tensor
    shift: Tensor
    out_weight: Tensor
    out_bias: Tensor
    shares: Tensor
    temperature: Tensor
    first_member = 0

    def __init__(self, forest: Folded) -> None:
        super().__init__()
        shape = forest.shape
        self.combine, self.n_members = forest.combine, forest.n_members
        self.n_outputs = shape.outputs
        edges = (shape.source, shape.low, shape.rate)
        source, low, rate = (torch.from_numpy(one.copy()) for one in edges)
        self.bins = PiecewiseLinear(source, low, rate, shape.levels)
        self.n_inputs, self.n_hidden = shape.inputs, len(forest.hidden)
        self.wide = shape.inputs > DENSE_RATIO_FOREST * shape.index.shape[2]

        def keep(name: str, array: np.ndarray) -> None:
            self.register_buffer(name, torch.from_numpy(array.copy()))

        keep("shares", forest.shares)
        keep("temperature", forest.temperature)
        keep("shift", forest.shifts[0][:, None])
        index, mapped = torch.from_numpy(shape.index), torch.from_numpy(forest.weight)[:, :, None]
        if self.wide:
            keep("index", shape.index)
            keep("weight", forest.weight[:, :, None])
        else:
            matrix = dense_weight(index, mapped, shape.inputs).flatten(0, 1)
            self.register_buffer("weight", matrix)
        # Zeros fill up narrow layers.
        spare = 0
        for number, (weight, shift) in enumerate(
            zip(forest.hidden, forest.shifts[1:], strict=True)
        ):
            members, units, _ = weight.shape
            missing = max(0, MIN_WIDTH - units)
            keep(f"weight{number}", np.pad(weight, ((0, 0), (0, missing), (0, spare))))
            by_member = shift.reshape(members, units, 1)
            keep(f"shift{number}", np.pad(by_member, ((0, 0), (0, missing), (0, 0))))
            spare = missing
        keep("out_weight", np.pad(forest.out_weight, ((0, 0), (0, 0), (0, spare))))
        keep("out_bias", forest.out_bias[:, :, None])
        self.eval()

    def members(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Outputs of every member, or of those of these numbers: (K, out_features, B)."""
        outputs = self._members(x)
        return outputs if chosen is None else outputs[chosen]

    def compiled(self) -> None:
        """What the compiled engine would answer with: it is torch that does."""

    def _members(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        inputs = ForestNetwork.inputs(self, x)  # type: ignore[arg-type]
        if self.wide:
            mapped = subspace_map(inputs, self.index, self.weight)
            h = mapped.permute(1, 2, 0).reshape(-1, batch).add(self.shift)
        else:
            h = torch.addmm(self.shift, self.weight, inputs.t())
        for number in range(self.n_hidden):
            by_member = h.relu_().view(self.n_members, -1, batch)
            weight, shift = getattr(self, f"weight{number}"), getattr(self, f"shift{number}")
            h = torch.baddbmm(shift, weight, by_member)
        by_member = h.relu_().view(self.n_members, -1, batch)
        return torch.baddbmm(self.out_bias, self.out_weight, by_member)

    def forward(self, x: Tensor) -> Tensor:
        return self.combine(self.members(x), self.shares.unsqueeze(1)) / self.temperature

    def each(self, x: Tensor) -> Tensor:
        """What every member would answer alone: (K, B, out_features)."""
        alone = [self.combine(member[None], None) for member in self.members(x)]
        return torch.stack(alone) / self.temperature


def _together(
    forest: ForestNetwork | FoldedForest | CompiledForest, outputs: Tensor, weights: Tensor | None
) -> Tensor:
    """Joint (B, C) outputs of members."""
    joint: Tensor = forest.combine(outputs, weights)
    return joint


def _is_plain(x: Tensor) -> bool:
    """Whether a tensor is numbers on the CPU, of which nobody asks for gradients or a graph."""
    return (
        type(x) is Tensor
        and x.dtype is torch.float32
        and x.device.type == "cpu"
        and not (torch.is_grad_enabled() and x.requires_grad)
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch._C._are_functorch_transforms_active()
    )


def affine(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """A normalisation in eval mode as a scale and a shift, (C, 1) each."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return scale.unsqueeze(1), (norm.bias - norm.running_mean * scale).unsqueeze(1)


def joint_slope(
    forest: FoldedForest | CompiledForest, x: Tensor, scores: Tensor, target: Target
) -> float:
    """How much sharper all members may answer than those that score a row out of bag, at least 1.

    The temperature is learned from rows of which a few members have not seen each, and members
    that agree have more reason to be sure, the more they are. What one more member would say is
    known without labels: the slope with which all others predict a member, divided by the slope
    with which those of one fold do. Members that have nothing in common make this the ratio of
    their numbers; more is chance.

    Parameters
    ----------
    scores : (members, folds), which members score a fold together.
    """
    used = forest.shares > 0
    each, shares = forest.members(x)[used], forest.shares[used].unsqueeze(1)

    def joint(members: Tensor) -> Tensor:
        return apart(target.combine(each[members], shares[members]), target.choices)

    single = torch.eye(len(each), dtype=torch.bool, device=x.device)
    said = torch.stack([joint(member) for member in single])

    def slope(groups: Tensor) -> Tensor:
        along = square = x.new_zeros(())
        for members in groups:
            if 0 < members.sum() < len(each):
                answer = joint(members)
                along = along + (answer * said[~members].sum(0)).sum()
                square = square + (~members).sum() * answer.square().sum()
        return along / square

    of_fold = scores.to(x.device)[used].t()
    gained, before = float(slope(~single)), float(slope(of_fold))
    # NaN is not above 0 either.
    if not (gained > 0 and before > 0):
        return 1.0
    most = (len(each) - 1) / float(of_fold.sum(1).clamp(min=1).float().mean())
    return min(max(1.0, gained / before), max(1.0, most))


def passes(n_outputs: int) -> int:
    """Forward passes that take as long as :func:`response`: one, and two for each way back."""
    return 1 + 2 * min(n_outputs, MAX_OUTPUTS)


def apart(outputs: Tensor, choices: Sequence[int]) -> Tensor:
    """(B, C) outputs up to what changes no answer: those of a choice relative to their mean.

    Examples
    --------
    >>> apart(torch.tensor([[1.0, 3.0, 5.0]]), [2, 1])
    tensor([[-1.,  1.,  0.]])
    """
    if not choices:
        return outputs
    parts = outputs.split(list(choices), 1)
    return torch.cat([part - part.mean(1, keepdim=True) for part in parts], 1)


def response(network: nn.Module, x: Tensor, choices: Sequence[int] = ()) -> Tensor:
    """Average change of the outputs for a typical change of each feature.

    That is the norm of the gradient of the outputs with respect to a feature, averaged over rows,
    times the feature's standard deviation. A feature that a forest reads in bins moves them all at
    once: there the gradient is taken with respect to the bins, and their covariance says how far
    they move. The slope within a bin does not count: many rows may share a value at the edge of a
    narrow bin, as those without a value do, and its slope would drown all others.

    Of outputs of a choice, such as classes, only differences count; `choices` are their numbers.
    Many outputs are replaced by random combinations with signs ±1, whose squared gradients have the
    sum of all squared gradients as their mean.

    **Shape** x ``(B, d)``, result ``(d,)``.

    Examples
    --------
    >>> linear, x = nn.Linear(2, 1), torch.tensor([[0.0, 1.0], [3.0, 2.0], [3.0, 0.0]])
    >>> bool(torch.allclose(response(linear, x), linear.weight[0].abs() * x.std(0)))
    True
    """
    (n_rows, d), blocks = x.shape, []
    forest = network if isinstance(network, ForestNetwork) else None
    with torch.no_grad():
        inputs = x.clone() if forest is None else forest.inputs(x)
    spread = inputs.std(0)[:d]
    if forest is not None:
        binned, places = bins_by_feature(forest.bins, d)
        usual = inputs - inputs.mean(0)
        # A block at a time: of a wide table, all bins of all rows would take a lot of memory.
        some = max(1, BLOCK_CELLS // (n_rows * places.shape[1]))
        for features, own in zip(binned.split(some), places.split(some), strict=True):
            bins = usual[:, own]
            covariance = torch.einsum("bfi,bfj->fij", bins, bins) / (n_rows - 1)
            blocks.append((features, own, covariance))
    squares = torch.zeros_like(x)
    for gradient in _slopes(network, x, inputs, choices):
        moved = (gradient[:, :d] * spread).square()
        for features, own, covariance in blocks:
            slopes = gradient[:, own]
            moved[:, features] = torch.einsum("bfi,fij,bfj->bf", slopes, covariance, slopes)
        squares += moved
    return squares.clamp(min=0).sqrt().mean(0)


def _slopes(
    network: nn.Module, x: Tensor, inputs: Tensor, choices: Sequence[int]
) -> Iterator[Tensor]:
    """Gradients (B, inputs) of the outputs, or of combinations of many, by what a network reads."""
    forest = network if isinstance(network, ForestNetwork) else None
    plain = forest is not None and not forest.training and _is_plain(x)
    folded = forest.compiled() if forest is not None and plain else None
    with torch.enable_grad():
        if folded is not None:
            source = folded.members(x).requires_grad_()
            joint = _together(folded, source, folded.shares.unsqueeze(1)) / folded.temperature
        else:
            source = inputs.requires_grad_()
            joint = network(source) if forest is None else forest.forward_from(source)
        joint = apart(joint, choices)
    directions = torch.eye(joint.shape[1], dtype=torch.float32)
    if len(directions) > MAX_OUTPUTS:
        signs = torch.Generator().manual_seed(0)
        drawn = torch.randint(2, (MAX_OUTPUTS, len(directions)), generator=signs)
        directions = drawn.to(directions) * 2 - 1
        directions /= MAX_OUTPUTS**0.5
    # At once as many as fit in a few megabytes.
    at_once = max(1, BLOCK_CELLS // inputs.numel())
    for some in directions.to(x).split(1 if folded is None else at_once):
        found = [
            torch.autograd.grad(joint, source, one.expand_as(joint), retain_graph=True)[0]
            for one in some
        ]
        yield from found if folded is None else folded.slopes(x, torch.stack(found))


def bins_by_feature(bins: PiecewiseLinear, d: int) -> tuple[Tensor, Tensor]:
    """The features that have bins; the inputs of each, filled up with the last, which is always 0.

    Examples
    --------
    >>> bins = PiecewiseLinear.between([(1, [0.0, 1.0, 3.0]), (2, [0.0, 1.0])])
    >>> bins_by_feature(bins, 3)
    (tensor([1, 2]), tensor([[1, 3, 4],
            [2, 5, 6]]))
    """
    binned, counts = bins.source.unique(return_counts=True)
    width = 1 + (int(counts.max()) if len(counts) else 0)
    places = torch.full((len(binned), width), d + bins.n_bins, device=binned.device)
    places[:, 0] = binned
    for row, feature in enumerate(binned):
        own = torch.nonzero(bins.source == feature).flatten()
        places[row, 1 : 1 + len(own)] = d + own
    return binned, places


def forest_loss(network: ForestNetwork, batch: Any, target: Target, sees: Tensor) -> Tensor:
    """Mean over the members of each one's loss on the rows that it may see.

    Where processes share the rows, the mean of their losses is the loss of all rows. A batch is
    features, targets, weights or None, and folds; `sees` is that of the whole forest.
    """
    x, y, weights, folds = batch
    losses = target.losses(network.members(x), y)
    if network.units is not None:
        # In the unit of each member, so that gradients are as large whatever it is.
        losses = losses / network.units[0].square().mean((1, 2)).unsqueeze(1)
    own = sees[network.first_member : network.first_member + network.n_members].to(x.device)
    seen = torch.ones_like(losses) if own.shape[1] == 1 else own[:, folds].to(losses.dtype)
    if weights is not None:
        seen = seen * weights
    total = seen.sum(1)
    if network.group.divides_rows:
        total = network.group.total(total) / network.group.size
    total = total.clamp_min(torch.finfo(seen.dtype).tiny)
    # A part of a forest weighs as much as in the whole.
    return ((losses * seen).sum(1) / total).sum() / network.all_members


def out_of_bag(
    network: Any, rows: Rows, scores: Tensor, n_views: int = 1, group: Processes = ALONE
) -> Tensor:
    """Outputs of the members that score each row, joint within views: (V, C, n_rows).

    `scores` (members, folds) says which these are, see :meth:`Folds.tables`. Processes that share
    the rows score some of them each.
    """
    assert rows.folds is not None
    scores, shared = scores.to(rows.device), group.divides_rows
    found, order = [], None
    with torch.no_grad():
        folded = None if network.training else network.compiled()
        if folded is not None and not shared:
            # Fold by fold: each part of the rows asks few members, and those only once.
            order = rows.folds[rows.index].argsort(stable=True)
        turn = (group.rank, group.size) if shared else (0, 1)
        for x, folds in rows.scored(*turn, order):
            if folded is not None and _is_plain(x):
                found += _of_scorers(folded, x, folds, scores, n_views)
                continue
            scoring = scores[:, folds].to(x.dtype)
            views = zip(network.members(x).chunk(n_views), scoring.chunk(n_views), strict=True)
            for outputs, weights in views:
                found.append(network.combine(outputs, weights).t())
    joint = [torch.stack(found[at : at + n_views]) for at in range(0, len(found), n_views)]
    if not shared:
        outputs = torch.cat(joint, 2)
        return (
            outputs if order is None else torch.empty_like(outputs).index_copy_(2, order, outputs)
        )
    none = torch.empty(n_views, network.n_outputs, 0, dtype=torch.float32, device=rows.device)
    return _gathered([none, *joint], [len(part) for part in rows.parts()], group)


def _of_scorers(
    network: CompiledForest, x: Tensor, folds: Tensor, scores: Tensor, n_views: int
) -> list[Tensor]:
    """Joint outputs within each view, asking only the members that score a row: (C, B) each."""
    of_view = len(scores) // n_views
    joint = x.new_full((n_views, network.n_outputs, len(x)), torch.nan)
    for fold in folds.unique():
        rows, scorers = (folds == fold).nonzero()[:, 0], scores[:, fold].nonzero()[:, 0]
        outputs = network.members(x[rows], scorers)
        for view in (scorers // of_view).unique():
            answer = _together(network, outputs[scorers // of_view == view], None)
            joint[view][:, rows] = answer.t()
    return list(joint)


def _gathered(found: list[Tensor], sizes: list[int], group: Processes) -> Tensor:
    """Put the parts that all processes scored in the order of the rows."""
    outputs = found[0].new_empty(*found[0].shape[:2], sum(sizes))
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for rank, scored in enumerate(group.gather(torch.cat(found, 2))):
        own = range(rank, len(sizes), group.size)
        for number, values in zip(own, scored.split([sizes[n] for n in own], 2), strict=True):
            outputs[..., starts[number] : starts[number + 1]] = values
    return outputs
