"""Train an image classifier from a configuration: the whole recipe on a page.

nrs train vision --config cifar-resnet20 --output run --set model.excite=nrs
torchrun --nproc-per-node 4 -m nrs train vision --config imagenet-resnet50-nrs --output run
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs.training import (
    RunSettings,
    TrainSettings,
    made_now,
    processes,
    save_network,
    train_network,
)
from nrs.training.config import ConfigError, config_values, read_config
from nrs.training.history import History
from nrs.training.network import Loss, class_balance, evaluate_network
from nrs.vision.augment import Augmentation
from nrs.vision.data import DataSettings, Parts, Preparation, read_data
from nrs.vision.models import ModelSettings, build_model, head_parameters, layer_parameters

_LOGGER = logging.getLogger(__name__)
# The sections of a configuration file.
PARTS = {
    "model": ModelSettings,
    "data": DataSettings,
    "picture": Preparation,
    "augment": Augmentation,
    "train": TrainSettings,
    "run": RunSettings,
}
# What an auxiliary classifier's loss counts (Szegedy et al., 2015).
AUXILIARY = 0.4


@dataclass(frozen=True)
class Outcome:
    """What a run gives.

    Attributes
    ----------
    path : Path
        The model file.
    history : History
    metrics : dict
        On the test pictures, of the weights in the file: ``loss``, ``top1``, ``top5``, ….
    is_writer : bool
        Whether this process wrote the file.
    split : dict or None
        How the test pictures were drawn, where they are a part of one folder; see
        `nrs.vision.data.Parts`.
    """

    path: Path
    history: History
    metrics: dict[str, float]
    is_writer: bool = True
    split: dict[str, Any] | None = None

    def summary(self) -> str:
        """The result in a line."""
        top1, top5 = self.metrics["top1"], self.metrics["top5"]
        drawn = _drawn(self.split)
        return f"top-1 {top1:.2f} %, top-5 {top5:.2f} % on the test images{drawn}; {self.path}"


def recipes() -> list[str]:
    """Names of the recipes that ship with the package.

    >>> "cifar-resnet20" in recipes()
    True
    """
    folder = resources.files("nrs.vision") / "recipes"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def describe_recipe(name: str) -> str:
    """What a recipe of the package is for: the sentence after the command on its first line.

    >>> describe_recipe("folder")
    'Images of your own: one folder of images per class.'
    """
    text = (resources.files("nrs.vision") / f"recipes/{name}.toml").read_text(encoding="utf-8")
    # The command may take several lines, which a backslash joins.
    lines = iter(text.splitlines())
    while next(lines).endswith("\\"):
        pass
    words = []
    for line in lines:
        if not line.startswith("# "):
            break
        words.append(line.removeprefix("# "))
        if "." in line:
            break
    return " ".join(words).partition(". ")[0].rstrip(".") + "."


def read_recipe(config: str | os.PathLike[str], overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Read a configuration file, or a recipe of the package by its name.

    Raises
    ------
    ConfigError
        If there is no such recipe, or it says something no part understands.

    Examples
    --------
    >>> read_recipe("cifar-resnet20", ["train.epochs=1"])["train"].epochs
    1
    """
    path = Path(config)
    if path.suffix != ".toml" and os.fspath(config) in recipes():
        with resources.as_file(resources.files("nrs.vision") / f"recipes/{config}.toml") as found:
            return read_config(found, PARTS, overrides)
    if not path.exists():
        raise ConfigError(
            f"the configuration must be a TOML file or one of {', '.join(recipes())}, "
            f"however: {os.fspath(config)!r}"
        )
    return read_config(path, PARTS, overrides)


def run(
    config: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    overrides: Iterable[str] = (),
    extend: bool = False,
    verbose: int = 1,
) -> Outcome:
    """Train what a configuration says; started again it resumes where it was.

    Parameters
    ----------
    config : path or name
        See `read_recipe`.
    out : path
        Folder for checkpoints, TensorBoard files and ``model.safetensors``.
    overrides : iterable of str
        ``"section.key=value"``.
    extend : bool
        Whether a finished run resumes where ``train.epochs`` is now more.
    verbose : int
        See `nrs.training.Progress`.

    Returns
    -------
    Outcome
    """
    parts = read_recipe(config, overrides)
    settings: RunSettings = parts["run"]
    preparation: Preparation = parts["picture"]
    folder = Path(out)
    with processes(settings.device) as group:
        data = read_data(parts["data"], preparation, settings.seed, parts["augment"])
        network = build_model(parts["model"], len(data.classes), seed=settings.seed)
        if group.is_writer:
            _LOGGER.info("%s", _counted(data))
        balance = class_balance(data.train.labels, len(data.classes))
        balanced: str = parts["data"].balance
        history = train_network(
            network,
            data.train,
            data.test if data.choose is None else data.choose,
            parts["train"],
            settings,
            select=data.choose is not None,
            loss=classification_loss(
                settings.label_smoothing,
                balance.to(group.device) if balanced == "loss" else None,
            ),
            weights=balance[data.train.labels].tolist() if balanced == "sampling" else None,
            mix=parts["augment"].of_batch(len(data.classes)),
            extend=extend,
            group=group,
            folder=folder,
            fingerprint={"config": _identity(parts), "data": _sizes(data)},
            head=head_parameters(network),
            layers=layer_parameters(network) if parts["train"].layer_decay < 1 else (),
            verbose=verbose,
        )
        metrics = evaluate_network(network, data.test, settings, group)
        path = folder / "model.safetensors"
        if group.is_writer:
            save_network(
                path,
                network,
                kind="image",
                model=asdict(parts["model"]),
                classes=data.classes,
                history=history,
                further={
                    "picture": asdict(preparation),
                    "config": config_values(parts),
                    "metrics": metrics,
                    "split": data.split,
                },
                made=made_now(
                    seed=settings.seed, pictures=len(data.train), classes=len(data.classes)
                ),
            )
        group.wait()
        return Outcome(path, history, metrics, group.is_writer, data.split)


def classification_loss(smoothing: float, weights: Tensor | None = None) -> Loss:
    """Cross-entropy, with the auxiliary classifiers of Inception where the network has them.

    Labels are whole numbers, or shares of classes ``(B, K)``; `weights` are those of the classes.
    """

    def of_scores(scores: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(scores, labels, weights, label_smoothing=smoothing)

    def loss(module: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        outputs = module(x)
        if isinstance(outputs, Tensor):
            return of_scores(outputs, labels)
        losses = [of_scores(scores, labels) for scores in outputs if scores is not None]
        return losses[0] + AUXILIARY * torch.stack(losses[1:]).sum()

    return loss


def _identity(parts: dict[str, Any]) -> dict[str, Any]:
    """What makes a run another one; settings of the loop count anyway."""
    values = config_values(parts)
    return {name: values[name] for name in ("model", "data", "picture", "augment")}


def _drawn(split: dict[str, Any] | None) -> str:
    """How the test pictures were drawn from one folder; empty where they were given."""
    if split is None:
        return ""
    share, seed = 100 * split["share"], split["seed"]
    return f" ({share:.3g} % of each class, drawn by run.seed={seed})"


def _counted(data: Parts) -> str:
    chosen = "" if data.choose is None else f", {len(data.choose):,} to choose the epoch by"
    return (
        f"{len(data.train):,} images of {len(data.classes):,} classes to train on{chosen}, "
        f"{len(data.test):,} to measure on{_drawn(data.split)}"
    )


def _sizes(data: Parts) -> dict[str, int]:
    return {"train": len(data.train), "test": len(data.test), "classes": len(data.classes)}
