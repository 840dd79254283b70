"""What `partial_fit` keeps from call to call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from nrs.core.dropout import drawing_from
from nrs.training.loop import TorchSteps, build_optimizer, several
from nrs.training.processes import ALONE
from nrs.training.state import TrainState

if TYPE_CHECKING:
    from nrs.tabular.encode.encoder import TableEncoder
    from nrs.tabular.encode.table import Table
    from nrs.tabular.model import SingleModel
    from nrs.tabular.rows.memory import Rows

# Rows that `partial_fit` calibrates by: these, if the last call had fewer, and those before it.
MAX_RECENT = 2_000


class Progress:
    """What `partial_fit` keeps from call to call.

    The model it trains, the optimizer, the seed, how far it has come, and the latest rows.
    """

    recent: Rows

    def __init__(self, model: SingleModel, seed: int) -> None:
        self.model, self.seed, self.passes, self.n_seen = model, seed, 0, 0
        self.optimizer = self._optimizer()

    def _optimizer(self) -> torch.optim.Optimizer:
        parameters: list[nn.Parameter] = list(self.model.network.parameters())
        return build_optimizer(parameters, self.model.settings())

    def take_levels(self, encoder: TableEncoder, table: Table) -> TableEncoder:
        """Let the model read levels of categories that are new; returns the encoder of its rows.

        Answers stay what they are until it is trained on.
        """
        wider = encoder.with_levels(table) if self.model.takes_levels else encoder
        if wider is encoder:
            return encoder
        places = encoder.places_in(wider)
        self.model.widen(places, wider.groups_, self.seed)
        # The optimizer goes on: what is new has no momentum yet.
        kept = self.optimizer.state_dict()
        self.optimizer = self._optimizer()
        for number, parameter in enumerate(self.model.network.parameters()):
            for name, value in kept["state"].get(number, {}).items():
                if value.ndim and value.shape != parameter.shape:
                    missing = parameter.shape[-1] - value.shape[-1]
                    kept["state"][number][name] = functional.pad(value, (0, missing))
        self.optimizer.load_state_dict(kept)
        if self.passes:
            self.recent = self.recent.widened(places, wider.n_features_out_)
        return wider

    def take(self, rows: Rows) -> None:
        """Take one optimizer step per batch."""
        model = self.model
        batches = model.pass_batches(rows, self.n_seen)
        self.n_seen += rows.n_units
        seed = self.seed + self.passes
        generator, noise = (torch.Generator().manual_seed(seed) for _ in range(2))
        settings, device = model.settings(), rows.device
        state = TrainState(
            model.network, settings, self.optimizer, generator, [noise], device, epoch=self.passes
        )
        known, model.engine = model.steps(model.network, settings, ALONE)
        steps = TorchSteps() if known is None else known
        loss_of = functools.partial(model.loss, model.network)
        with drawing_from(model.network, noise):
            model.network.train()
            for some in several(batches(self.passes, generator), steps.at_once):
                steps.take(state, loss_of, some, [settings.lr] * len(some))
                state.step_in_epoch += len(some)
            self.optimizer.zero_grad(set_to_none=True)
        self.recent = self.recent.joined(rows, MAX_RECENT) if self.passes else rows
        self.passes += 1
        model.network.eval()
