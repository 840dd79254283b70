"""A forest's training steps by the compiled engine, :mod:`nrs.engine`.

Everything that a fit keeps stays where it was: parameters, running statistics, moments and averages
are torch's tensors, which the engine updates in place. So evaluation, checkpoints, callbacks and
processes that divide the members do not know which engine trains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nrs.engine import (
    MAX_LAYERS,
    Directions,
    Norm,
    Parameter,
    Settings,
    Shape,
    Step,
    Training,
    instructions,
)
from nrs.tabular.targets import Target
from nrs.training.processes import ALONE, Processes

if TYPE_CHECKING:
    from nrs.tabular.forest.network import ForestNetwork
    from nrs.training import TrainSettings
    from nrs.training.state import TrainState

# Losses that the engine computes by itself.
KNOWN_LOSSES: dict[Callable[..., Tensor] | None, str] = {
    F.cross_entropy: "softmax",
    F.binary_cross_entropy_with_logits: "logistic",
    F.mse_loss: "squared",
}
# Batches that members take one after the other while they stay in cache, and their numbers.
MAX_AT_ONCE, MAX_CELLS = 8, 1 << 20


def why_not(
    network: ForestNetwork, settings: TrainSettings, group: Processes = ALONE
) -> str | None:
    """Why torch has to train a forest with these settings; None if the engine can."""
    name, reason = instructions()
    decays = settings.optimizer == "adam" and settings.weight_decay > 0
    reasons = {
        reason: name is None,
        "the engine is for the CPU": network.index.device.type != "cpu",
        "precision is 'bf16'": settings.precision == "bf16",
        "clip_norm is set": settings.clip_norm is not None,
        "the optimizer is not AdamW": settings.optimizer == "sgd" or decays,
        "processes share the rows of a batch": group.divides_rows,
        f"there are more than {MAX_LAYERS} layers": len(network.hidden) >= MAX_LAYERS,
    }
    found = next((reason for reason, holds in reasons.items() if holds), None)
    # All processes or none: members that are trained apart must not round differently.
    if group.size > 1 and group.any(found is not None) and found is None:
        return "another process has no engine"
    return found


def known_loss(target: Target | None) -> str | None:
    """The engine's name for the loss of a target; None if it knows none."""
    if target is None or type(target).losses is not Target.losses:
        return None
    return KNOWN_LOSSES.get(getattr(target, "criterion", None))


def shape_of(network: ForestNetwork) -> Shape:
    """What the engine must know of a forest's layers."""
    bins = network.bins
    return Shape(
        index=network.index.numpy(),
        features=network.n_inputs - bins.n_bins - 1,
        source=bins.source.numpy(),
        low=bins.low.numpy(),
        rate=bins.rate.numpy(),
        levels=bins.n_levels,
        hidden=tuple(len(weight[0]) for weight in network.hidden),
        outputs=network.out_weight.shape[1],
        whole=None if network.whole_index is None else network.whole_index.numpy(),
    )


class CompiledSteps:
    """Steps of the training loop, see :class:`nrs.training.loop.Steps`, by the compiled engine.

    Parameters
    ----------
    network : ForestNetwork
        What is trained, the whole or a part.
    batch_size : usual rows of a batch.
    sees : (members of the whole forest, folds) bool, the folds that each member may see.
    target : whose losses are those of :func:`nrs.tabular.forest.network.forest_loss`; None for any
        other loss, of whose outputs torch finds the gradients.
    """

    def __init__(
        self,
        network: ForestNetwork,
        batch_size: int,
        sees: Tensor,
        target: Target | None,
    ) -> None:
        # The scale and level of outputs are torch's.
        self.loss = known_loss(target) if network.units is None else None
        self.network, self.shape = network, shape_of(network)
        self.widths = [network.index.shape[1], *[len(weight[0]) for weight in network.hidden]]
        own = sees[network.first_member : network.first_member + network.n_members]
        # Another loss decides itself what a member sees.
        self.sees = np.ones((len(own), 1), dtype=bool) if self.loss is None else own.numpy()
        cells = network.n_inputs * batch_size
        self.at_once = 1 if self.loss is None else max(1, min(MAX_AT_ONCE, MAX_CELLS // cells))

    def _bind(self, state: TrainState) -> None:
        """Find the tensors of the run, which a checkpoint may have filled."""
        network, settings = self.network, state.settings
        tensors = {} if state.average is None else state.average.tensors
        # Of the optimizer and the normalisations, which count steps.
        self.counts: list[Tensor] = []

        def parameter(name: str, *shape: int) -> Parameter:
            trained = network.get_parameter(name)
            kept = state.optimizer.state[trained]
            if not kept:
                kept["step"] = torch.zeros((), dtype=torch.float32)
                kept["exp_avg"], kept["exp_avg_sq"] = (torch.zeros_like(trained) for _ in range(2))
            self.counts.append(kept["step"])
            own = (trained, kept["exp_avg"], kept["exp_avg_sq"])
            size = shape or tuple(trained.shape)
            average = tensors.get(name)
            value, moment, square = (_array(one, *size) for one in own)
            of_average = None if average is None else _array(average, *size)
            return Parameter(value, moment, square, of_average)

        def norm(name: str) -> Norm:
            statistics = [f"{name}.running_mean", f"{name}.running_var"]
            known = [network.get_buffer(one) for one in statistics]
            self.counts.append(network.get_buffer(f"{name}.num_batches_tracked"))
            known += [tensors[one] for one in statistics if one in tensors]
            pair = parameter(f"{name}.weight"), parameter(f"{name}.bias")
            return Norm(*pair, *[one.numpy() for one in known])

        numbers = range(len(network.hidden))
        self.engine = Training(
            self.shape,
            Settings(
                loss=self.loss,
                sees=self.sees,
                share=1 / network.all_members,
                decay=settings.weight_decay,
                drop=network.drop.p,
                epsilon=network.norm.eps,
                momentum=float(network.norm.momentum or 0),
            ),
            network.gain.numpy(),
            parameter("weight", *network.index.shape),
            [norm("norm"), *[norm(f"hidden_norms.{number}") for number in numbers]],
            [parameter(f"hidden.{number}") for number in numbers],
            parameter("out_weight"),
            parameter("out_bias", *network.out_bias.shape[:2]),
            torch.get_num_threads(),
            _directions(network),
        )
        self.taken = int(self.counts[0])

    def take(
        self,
        state: TrainState,
        loss_of: Callable[[object], Tensor],
        batches: Sequence[Sequence[Tensor | None]],
        rates: Sequence[float],
    ) -> list[Tensor]:
        """Take a step for each batch."""
        if state.step_in_epoch == 0:
            self._bind(state)
        known = zip(batches, rates, strict=True)
        if self.loss is None:
            losses = [self._through_torch(state, loss_of, *one) for one in known]
        else:
            found = self.engine.take([self._step(state, *one) for one in known])
            losses = list(torch.from_numpy(found.sum(1)).float().unbind())
        for count in self.counts:
            count += len(batches)
        return losses

    def _through_torch(
        self,
        state: TrainState,
        loss_of: Callable[[object], Tensor],
        batch: Sequence[Tensor | None],
        lr: float,
    ) -> Tensor:
        """A step with a loss that torch computes from the outputs."""
        taken: list[Tensor] = []

        def members(x: Tensor) -> Tensor:
            outputs = self.engine.forward(self._step(state, (x, None, None, None), lr))
            taken.append(torch.from_numpy(outputs).requires_grad_())
            return self.network.in_units(taken[0])

        self.network.__dict__["members"] = members
        try:
            loss = loss_of(batch)
        finally:
            del self.network.__dict__["members"]
        loss.backward()
        gradients = taken[0].grad
        assert gradients is not None
        self.engine.backward(gradients.contiguous().numpy())
        return loss.detach()

    def _step(self, state: TrainState, batch: Sequence[Tensor | None], lr: float) -> Step:
        """A batch as the engine takes it; counts the step, and draws its dropout."""
        x, y, weights, *rest = batch
        fold = rest[0] if rest else None
        assert x is not None
        drop, units = self.network.drop, len(x) * self.network.n_members
        widths, average = self.widths if drop.p > 0 else (), state.average
        state.step += 1
        self.taken += 1
        # As torch's average follows: see nrs.training.loop.WeightAverage.
        share = 1 - min(average.decay, (1 + state.step) / (10 + state.step)) if average else 0.0
        return Step(
            x.contiguous().numpy(),
            None if y is None else y.numpy(),
            None if weights is None else weights.numpy(),
            None if fold is None else fold.numpy(),
            masks=[drop.bits(width * units) for width in widths],
            rate=lr,
            count=self.taken,
            averaging=share,
        )


def steps_for(
    network: ForestNetwork,
    settings: TrainSettings,
    batch_size: int,
    sees: Tensor,
    target: Target | None,
    group: Processes = ALONE,
) -> tuple[CompiledSteps | None, str]:
    """What takes the steps of a forest, None for torch; and the name of the engine, with why."""
    reason = why_not(network, settings, group)
    if reason is not None:
        return None, f"torch: {reason}"
    return CompiledSteps(network, batch_size, sees, target), "compiled"


def _directions(network: ForestNetwork) -> Directions | None:
    """The directions of a forest's inputs and units, where columns are constrained."""
    known = network.directions
    if known is None:
        return None
    units = [one.numpy() for one in (known.subspaces, *known.hidden)]
    return Directions(known.inputs.numpy(), units, known.outputs.numpy())


def _array(tensor: Tensor, *shape: int) -> np.ndarray:
    """A tensor's own memory as an array of this shape."""
    return tensor.detach().view(shape).numpy()
