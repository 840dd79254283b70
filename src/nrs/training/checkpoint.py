"""Checkpoints: a run that was killed and started again ends with the same bits.

After every epoch everything that decides the rest of the run goes to one file: weights, optimizer
state, moving average, best weights so far, history, and the states of the random generators. Two
files take turns, so that the epoch before is still there should the newest be damaged.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nrs._util.atomic import temporary_prefix
from nrs.training.files import ModelFile, ModelFileError, read_model, write_model
from nrs.training.history import History
from nrs.training.loop import live_tensors, put_weights
from nrs.training.processes import ALONE, Processes
from nrs.training.state import TrainState

logger = logging.getLogger("nrs.training")

_KIND = "checkpoint"
# States of the generators that the module draws from, by device.
_NOISE = ("random/torch", "random/cuda")
_NAMES = ("checkpoint-0.safetensors", "checkpoint-1.safetensors")


class CheckpointError(ValueError):
    """A checkpoint that belongs to another run, or that is damaged beyond use."""


class Checkpoint:
    """Save a run after every epoch; resume it when it is started again.

    Parameters
    ----------
    directory : path
        Where the checkpoint files go; created if it does not exist. A directory for a run.
    fingerprint : mapping, optional
        JSON values that tell this run from others, for instance a checksum of its data. The
        settings, what tells the best epoch, the shapes of all weights and the state of the
        generator count anyway.
    extend : bool
        Whether ``settings.epochs`` may be more than those of the checkpoint: a finished run then
        resumes, at the learning rate that the schedule of the larger number has there.

    Examples
    --------
    >>> import tempfile
    >>> from nrs.training import TrainSettings, train
    >>> def batches(epoch, generator):
    ...     yield torch.randn(8, 2, generator=generator)
    >>> def fit(directory):
    ...     module = torch.nn.Linear(2, 1)
    ...     train(module, batches, lambda module, x: module(x).square().mean(),
    ...           TrainSettings(epochs=3), generator=torch.Generator().manual_seed(0),
    ...           checkpoint=Checkpoint(directory, {"data": "example"}))
    ...     return module.weight
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     first, again = fit(directory), fit(directory)  # the second only reads
    >>> torch.equal(first, again)
    True
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        fingerprint: Mapping[str, Any] | None = None,
        *,
        extend: bool = False,
    ) -> None:
        self.directory, self.extend = Path(directory), extend
        self.fingerprint = dict(fingerprint or {})
        self._folder = self.directory
        self._identity: dict[str, Any] = {}

    def restore(self, state: TrainState, group: Processes = ALONE) -> bool:
        """Bring ``state`` to where its run was; True if that run is complete.

        Called once, before anything is drawn from the generator or trained. Processes that share
        rows go on from one checkpoint, which must be in a directory that all of them see; those
        with a part of the network each have a folder in it, and go on from the last epoch that
        all of them have.

        Parameters
        ----------
        state : TrainState
            The state of a run that has not begun; changed in place.
        group : Processes
            The processes of the run; by default there is one.

        Raises
        ------
        CheckpointError
            If the directory holds the checkpoint of another run, or only damaged files, or is a
            file.
        """
        self._identity = _identity(state, self.fingerprint)
        if group.size > 1 and not group.divides_rows:
            self._folder = self.directory / f"part-{group.rank}-of-{group.size}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise CheckpointError(
                f"checkpoint must be a folder; {self.directory} is a file. Choose another path."
            ) from None
        if group.is_writer or not group.divides_rows:
            self._remove_leftovers()
        file = self._newest_of_all(group)
        if file is None:
            return False
        theirs = file.header["identity"]
        if self.extend:
            theirs = self._extended(theirs)
        self._refuse_another_run(theirs)
        _restore(state, file)
        more = self.extend and state.epoch < state.settings.epochs and not state.stop
        return bool(file.header["complete"]) and not more

    def save(self, state: TrainState, *, complete: bool) -> None:
        """Save ``state`` after its present epoch.

        Parameters
        ----------
        state : TrainState
            The state of the run that :meth:`restore` was called with.
        complete : bool
            Whether this epoch is the last: a complete run is only read when it is started again.

        Raises
        ------
        OSError
            If the file cannot be written, for instance on a full disk. The checkpoint of the
            epoch before is as it was.
        """
        tensors, header = _capture(state)
        header["identity"] = self._identity
        header["complete"] = complete
        path = self._folder / _NAMES[state.epoch % 2]
        try:
            write_model(path, tensors, header, kind=_KIND)
        except OSError as error:
            raise OSError(
                error.errno,
                f"the checkpoint of epoch {state.epoch} could not be written ({error.strerror}); "
                "the one before is intact: make room and run again with the same arguments",
                str(path),
            ) from None

    def _newest_of_all(self, group: Processes) -> ModelFile | None:
        files = {file.header["epoch"]: file for file in self._readable()}
        newest = torch.tensor([max(files, default=-1)], device=group.device)
        common = min(int(epoch) for epoch in group.gather(newest))
        file = files.get(common)
        if common >= 0 and group.any(file is None):
            raise CheckpointError(
                f"the parts of the checkpoint in {self.directory} have no epoch in common.\n"
                "Delete the directory, or name another one, to start from the beginning."
            )
        return file

    def _readable(self) -> list[ModelFile]:
        files, damages = [], []
        for name in _NAMES:
            path = self._folder / name
            if not path.exists():
                continue
            try:
                files.append(read_model(path, kind=_KIND))
            except ModelFileError as error:
                damages.append(str(error))
        if damages and not files:
            raise CheckpointError(
                f"no file in {self._folder} can be used: {damages[0]}.\n"
                "Delete the directory, or name another one, to start from the beginning."
            )
        for damage in damages:
            logger.warning("going on from the checkpoint before, because %s", damage)
        return files

    def _refuse_another_run(self, theirs: dict[str, Any]) -> None:
        there, here = _flat(theirs), _flat(self._identity)
        names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
        if not names:
            return
        told = [
            f"{name} is {there.get(name, 'absent')!r} there, {here.get(name, 'absent')!r} here"
            for name in names[:3]
        ]
        if len(names) > 3:
            told.append(f"and {len(names) - 3} more differ")
        raise CheckpointError(
            f"the checkpoint in {self.directory} belongs to another run: {'; '.join(told)}.\n"
            "Go on with the arguments of that run, or name another directory for this one."
        )

    def _extended(self, theirs: dict[str, Any]) -> dict[str, Any]:
        """The identity of a run of fewer epochs as it is with those of this one."""
        before, now = theirs["settings"]["epochs"], self._identity["settings"]["epochs"]
        if now < before:
            raise CheckpointError(
                f"epochs must be more than those of the run in {self.directory} to extend it; got "
                f"{now}, and the run has {before}"
            )
        return theirs | {"settings": theirs["settings"] | {"epochs": now}}

    def _remove_leftovers(self) -> None:
        # A process killed while it was writing leaves its temporary file.
        for name in _NAMES:
            for path in self._folder.glob(f"{temporary_prefix(name)}*"):
                path.unlink(missing_ok=True)


def _identity(state: TrainState, fingerprint: dict[str, Any]) -> dict[str, Any]:
    seed = hashlib.sha256(state.generator.get_state().numpy().tobytes()).hexdigest()[:16]
    shapes = {
        name: f"{tensor.dtype} {list(tensor.shape)}"
        for name, tensor in live_tensors(state.module).items()
    }
    identity = {
        "fingerprint": fingerprint,
        "settings": asdict(state.settings),
        "monitor": state.monitor,
        "weights": shapes,
        "generator": seed,
    }
    try:
        # As it will be read back: JSON knows neither tuples nor NumPy's numbers.
        plain: dict[str, Any] = json.loads(json.dumps(identity, default=_item, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the fingerprint must hold JSON values only: {error}. "
            "Turn arrays into lists or checksums."
        ) from None
    return plain


def _item(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is not one")


def _flat(content: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{name}."))
        else:
            flat[before + name] = value
    return flat


def _capture(state: TrainState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors = {f"module/{name}": tensor for name, tensor in live_tensors(state.module).items()}
    if state.average is not None:
        tensors |= {f"average/{name}": tensor for name, tensor in state.average.tensors.items()}
    if state.best_weights is not None:
        tensors |= {f"best/{name}": tensor for name, tensor in state.best_weights.items()}
    for index, values in state.optimizer.state_dict()["state"].items():
        for key, value in values.items():
            if value is not None:
                tensors[f"optimizer/{index}/{key}"] = torch.as_tensor(value)
    tensors["random/order"] = state.generator.get_state()
    for name, own in zip(_NOISE, state.noise, strict=False):
        tensors[name] = own.get_state()
    header = {
        "epoch": state.epoch,
        "step": state.step,
        "steps_per_epoch": state.steps_per_epoch,
        "best_score": None if math.isnan(state.best_score) else str(state.best_score),
        "metrics": {name: str(value) for name, value in state.metrics.items()},
        "stop": state.stop,
        "scaler": None if state.scaler is None else state.scaler.state_dict(),
        "history": state.history.to_dict(),
    }
    return tensors, header


def _restore(state: TrainState, file: ModelFile) -> None:
    header, tensors = file.header, file.tensors
    put_weights(state.module, _under("module", tensors))
    if state.average is not None:
        for name, tensor in _under("average", tensors).items():
            state.average.tensors[name].copy_(tensor)
    best = _under("best", tensors)
    state.best_weights = {n: t.to(state.device) for n, t in best.items()} or None
    optimizer_state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under("optimizer", tensors).items():
        index, key = name.split("/")
        optimizer_state.setdefault(int(index), {})[key] = tensor
    groups = state.optimizer.state_dict()["param_groups"]
    state.optimizer.load_state_dict({"state": optimizer_state, "param_groups": groups})
    state.generator.set_state(tensors["random/order"])
    for name, own in zip(_NOISE, state.noise, strict=False):
        if name in tensors:
            own.set_state(tensors[name])
    state.epoch = header["epoch"] + 1
    state.step = header["step"]
    state.steps_per_epoch = header["steps_per_epoch"]
    state.best_score = math.nan if header["best_score"] is None else float(header["best_score"])
    state.metrics = {name: float(value) for name, value in header["metrics"].items()}
    state.stop = header["stop"]
    if state.scaler is not None:
        state.scaler.load_state_dict(header["scaler"])
    state.history = History.from_dict(header["history"])


def _under(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{part}/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
