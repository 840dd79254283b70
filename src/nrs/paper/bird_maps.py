"""Heads trained on the feature maps of a frozen backbone."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs.datasets import DatasetNotFoundError, cache_folder, get
from nrs.paper.bird_heads import Method
from nrs.paper.pictures import data_file
from nrs.paper.table import NotHereError
from nrs.paper.trial import Clock
from nrs.training import TrainSettings, train
from nrs.training.history import History

BACKBONE = "efficientnet_lite0"
SIZE, BATCH = 224, 32


@dataclass(frozen=True)
class Maps:
    """Feature maps (n, C, h, w) in half precision, and labels, of the two parts."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


@functools.lru_cache(maxsize=1)
def feature_maps() -> Maps:
    """The backbone's last feature map of every picture, computed once and kept in the cache.

    Raises NotHereError if pictures or weights are not on this machine.
    """
    from safetensors.torch import load_file, save

    from nrs._util.atomic import atomic_write
    from nrs.vision._torchvision import timm
    from nrs.vision.data import DataSettings, Preparation, read_data
    from nrs.vision.weights import load_weights, read_weights

    weights = data_file(f"{BACKBONE}.safetensors")
    kept = cache_folder() / "features" / f"cub100-{BACKBONE}-{SIZE}.safetensors"
    if not kept.exists():
        try:
            folder = get("CUB-100")
        except DatasetNotFoundError as error:
            raise NotHereError(str(error)) from None
        mean, std = (127 / 255,) * 3, (128 / 255,) * 3
        preparation = Preparation(SIZE, SIZE, "none", flip=False, mean=mean, std=std)
        data = read_data(DataSettings(root=str(folder)), preparation)
        network = timm().create_model(BACKBONE)
        load_weights(network, read_weights(weights)[0], (), weights)
        network.eval()
        tensors = {}
        for name, part in (("train", data.train), ("test", data.test)):
            tensors[name] = torch.cat(list(_forward(network, part)))
            tensors[f"{name}_labels"] = torch.tensor(part.labels)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(kept) as file:
            file.write(save(tensors))
    found = load_file(kept)
    return Maps(found["train"], found["train_labels"], found["test"], found["test_labels"])


def _forward(network: Any, pictures: Any) -> Iterator[Tensor]:
    with torch.inference_mode():
        for start in range(0, len(pictures), BATCH):
            rows = range(start, min(start + BATCH, len(pictures)))
            x = torch.stack([pictures[i][0] for i in rows])
            yield network.forward_features(x).half()


class _Reader(nn.Module):
    """What is trained: pooling (unless the vectors are computed already) and classifier."""

    def __init__(self, pool: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.pool, self.head = pool, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(x.float()))


@dataclass
class Trained:
    """A head after its training, and what that took."""

    history: History
    network: nn.Module
    times: dict[str, float]


def train_frozen(
    method: Method, maps: Maps, settings: TrainSettings, seed: int, *, n_classes: int, curve: bool
) -> Trained:
    """Train a head on feature maps; with `curve`, test accuracy after every epoch."""
    torch.manual_seed(seed)
    channels = maps.train.shape[1]
    pool = method.pool(channels, seed)
    width = getattr(pool, "out_features", channels)
    head = method.head(width, n_classes, seed)
    train_x, test_x = maps.train, maps.test
    times: dict[str, float] = {}
    if not method.trains_before:
        with Clock("fit", times):
            train_x, test_x = _vectors(pool, train_x), _vectors(pool, test_x)
        pool = nn.Identity()
    network = _Reader(pool, head)

    def batches(epoch: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(train_x), generator=generator)
        size = min(BATCH, len(order))
        for rows in order[: len(order) // size * size].split(size):
            yield train_x[rows], maps.train_labels[rows]

    def step(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(module(batch[0]), batch[1])

    def evaluate(module: nn.Module) -> dict[str, float]:
        return _top(module, test_x, maps.test_labels)

    with Clock("fit", times):
        history = train(
            network, batches, step, settings,
            generator=torch.Generator().manual_seed(seed),
            evaluate=evaluate if curve else None,
            monitor=None,
            steps_per_epoch=max(1, len(train_x) // BATCH),
        )  # fmt: skip
    if not curve:
        with torch.no_grad():
            history.rows[-1] |= evaluate(network)
    return Trained(history, network, times)


def _vectors(pool: nn.Module, maps: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([pool(part.float()) for part in maps.split(BATCH)])


def _top(module: nn.Module, x: Tensor, labels: Tensor) -> dict[str, float]:
    outputs = torch.cat([module(part) for part in x.split(BATCH)])
    found = outputs.topk(min(5, outputs.shape[1]), dim=1).indices
    hits = found == labels[:, None]
    n = len(labels)
    return {"top1": 100 * hits[:, 0].sum().item() / n, "top5": 100 * hits.sum().item() / n}
