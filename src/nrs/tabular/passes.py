"""Learning in passes over chunks of rows: what `partial_fit` keeps from call to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nrs.tabular.rows.memory import ShuffledBatches


class Passes:
    """An optimizer that goes on where it stopped, with an order of rows of its own a pass."""

    def __init__(self, optimizer: torch.optim.Optimizer, seed: int) -> None:
        self.optimizer = optimizer
        self.seed = seed
        self.done = 0

    def run(
        self,
        network: nn.Module,
        batches: ShuffledBatches,
        step: Callable[[nn.Module, Any], Tensor],
    ) -> None:
        """Take one optimizer step a batch, leaving torch's global generator as it was."""
        generator = torch.Generator().manual_seed(self.seed + self.done)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + self.done)
            network.train()
            for batch in batches(self.done, generator):
                self.optimizer.zero_grad(set_to_none=True)
                step(network, batch).backward()
                self.optimizer.step()
        self.done += 1
