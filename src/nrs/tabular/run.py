"""Where one fit runs: seed, device, threads, clock, processes, progress and checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn

from nrs._util.launch import FEW, check_count
from nrs.engine import count_threads
from nrs.tabular.recipe import Recipe, is_number
from nrs.tabular.rows.memory import Batches, Rows, checksum
from nrs.training import (
    Callback,
    Checkpoint,
    History,
    Progress,
    TimeLimit,
    TrainSettings,
    train,
)
from nrs.training.loop import Steps
from nrs.training.precision import plain_modes
from nrs.training.processes import ALONE, Processes, find_device, present

if TYPE_CHECKING:
    from nrs.tabular.estimator import TableEstimator
    from nrs.tabular.types import Json


# What processes may share.
DIVISIONS = ("auto", "rows", "members")


@dataclass(frozen=True)
class Run:
    """Seed, device, clock and files of one fit.

    Attributes
    ----------
    seed : int
        The same in all processes of a launcher.
    begin : float
        When the fit began, by ``time.monotonic()``.
    group : Processes
        Those that train together: of :func:`nrs.training.processes`, or of a process group that
        the caller has initialised.
    """

    seed: int
    device: torch.device
    begin: float
    n_jobs: int | None = None
    time_limit: float | None = None
    precision: str = "float32"
    n_workers: int = 1
    divide: str = "auto"
    verbose: int = 0
    callbacks: Sequence[Callback] = ()
    checkpoint: str | os.PathLike[str] | None = None
    repeatable: bool = True
    group: Processes = ALONE

    @classmethod
    @contextmanager
    def of(cls, estimator: TableEstimator, *, alone: bool = False) -> Iterator[Run]:
        """The run of an estimator's fit, which has its threads within the block.

        The grad mode and the default device of the calling thread do not matter there.

        Parameters
        ----------
        alone : bool
            No other process takes part, and no seed is drawn.
        """
        begin = time.monotonic()
        limit = estimator.time_limit
        if limit is not None and not (is_number(limit) and limit > 0):
            raise ValueError(f"time_limit must be a number of seconds above 0; got {limit!r}")
        _check_workers(estimator.n_workers, estimator.divide)
        group = ALONE if alone else present()
        with plain_modes(), threads(estimator.n_jobs):
            yield cls(
                seed=0 if alone else group.of_writer(draw_seed(estimator.random_state)),
                device=pick_device(estimator.device, group),
                begin=begin,
                n_jobs=estimator.n_jobs,
                time_limit=limit,
                precision=estimator.precision,
                n_workers=estimator.n_workers,
                divide=estimator.divide,
                verbose=estimator.verbose,
                callbacks=estimator.callbacks or (),
                checkpoint=estimator.checkpoint,
                repeatable=isinstance(estimator.random_state, (int, np.integer)),
                group=group,
            )

    def train(
        self,
        network: nn.Module,
        batches: Batches,
        loss: Callable[[nn.Module, Any], Tensor],
        settings: TrainSettings,
        evaluate: Callable[[nn.Module], dict[str, float]] | None,
        group: Processes,
        reserve: tuple[float, float],
        identity: tuple[Rows, Rows | None, Recipe],
        *,
        choose: bool = True,
        steps: Steps | None = None,
    ) -> History:
        """Train a network within the time limit, with callbacks, progress and checkpoints.

        Parameters
        ----------
        reserve : seconds that an evaluation, and what follows training, will take.
        identity : training rows, held-out rows and recipe, which a checkpoint must match.
        choose : whether the network ends with the weights that `evaluate` scored best.
        steps : what takes the steps; torch by default.
        """
        return train(
            network,
            batches,
            loss,
            settings,
            steps_per_epoch=len(batches),
            generator=torch.Generator().manual_seed(self.seed),
            evaluate=evaluate,
            monitor="score" if choose else None,
            callbacks=self.callbacks_of(*reserve),
            checkpoint=self._checkpoint(*identity, group, compiled=steps is not None),
            group=group,
            global_draws=False,
            steps=steps,
        )

    def callbacks_of(self, evaluation: float = 0.0, after: float = 0.0) -> list[Callback]:
        """The user's callbacks, the time limit and the progress bar."""
        chosen = list(self.callbacks)
        if self.time_limit is not None:
            limit = max(self.time_limit - after, 1e-3)
            # Encoding the table took some of it.
            chosen.append(TimeLimit(limit, begun=self.begin, evaluation=evaluation))
        return [*chosen, Progress(self.verbose)] if self.verbose else chosen

    def _checkpoint(
        self,
        rows: Rows,
        held_out: Rows | None,
        recipe: Recipe,
        group: Processes,
        *,
        compiled: bool,
    ) -> Checkpoint | None:
        """The checkpoint of this fit, if one is asked for."""
        if self.checkpoint is None:
            return None
        if not self.repeatable:
            raise ValueError(
                "checkpoint needs an integer random_state, so that a restarted fit is the same fit"
            )
        identity: Json = {
            "data": rows.checksum(),
            "held_out": None if held_out is None else held_out.checksum(),
            # The writer may know a metric that could not be sent to the others.
            "recipe": group.of_writer(recipe.to_dict()),
        }
        if compiled:
            # Another engine would end with other bits.
            identity["engine"] = "compiled"
        if rows.folds is not None:
            identity["folds"] = checksum(rows.folds.numpy())
        return Checkpoint(self.checkpoint, identity)


def _check_workers(n_workers: Any, divide: str) -> None:
    if isinstance(n_workers, bool) or not hasattr(n_workers, "__index__") or n_workers < 1:
        raise ValueError(f"n_workers must be an integer of at least 1; got {n_workers!r}")
    if n_workers > FEW:
        check_count(n_workers, "n_workers")
    if divide not in DIVISIONS:
        raise ValueError(f"divide must be one of {DIVISIONS}; got {divide!r}")


def pick_device(device: str | torch.device, group: Processes = ALONE) -> torch.device:
    """``"auto"`` is the GPU where there is one; anything else is torch's own name for a device.

    One of several processes on GPUs takes the one that is its own.
    """
    if group.device.type == "cuda" and str(device) in ("auto", "cuda"):
        return group.device
    return find_device(device)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let this thread's torch operations use `n_jobs` threads: None is one, -1 all cores.

    OpenMP keeps the number for each calling thread, so nothing else in the process changes;
    torch's own setting would. One thread is the default because several fits at once, each with a
    thread per core, slow each other to a crawl.
    """
    wanted = count_threads(n_jobs)
    if wanted == torch.get_num_threads():
        yield
        return
    with _controller().limit(limits=wanted, user_api="openmp"):
        yield


def draw_seed(random_state: Any) -> int:
    """A seed from an int, None or a NumPy random state, as scikit-learn understands them."""
    return int(check_random_state(random_state).randint(2**31 - 1))
