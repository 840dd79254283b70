"""Fine-grained evidence in small: 100 species of birds, an ImageNet-trained EfficientNet-Lite0.

nrs paper run cub100 --datasets CUB-100
nrs paper run cub100 --datasets "CUB-100 fine-tuned" --methods GAP+Linear,GAP+NRS --trials 1
nrs paper run cub100 --datasets "CUB-100 fine-tuned own rate" --trials 1

First on frozen features (the backbone's last feature map, computed once), then end to end.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nrs.core.layer import largest_divisor
from nrs.datasets import DatasetNotFoundError, cache_folder, get
from nrs.paper.pictures import (
    TINY_CLASSES,
    curve_figure,
    curves,
    data_file,
    measure_recipe,
    scores,
    tiny_recipe,
)
from nrs.paper.table import Cell, Found, Measured, NotHereError, Printed, Search, Subject, Table
from nrs.training import TrainSettings, train
from nrs.training.history import History

FROZEN, TUNED = "CUB-100", "CUB-100 fine-tuned"
# Fine-tuned with the learning rate of the frozen search for what follows the backbone.
OWN_RATE = "CUB-100 fine-tuned own rate"
BACKBONE, RECIPE = "efficientnet_lite0", "birds-efficientnet-lite0"
CHANNELS, N_CLASSES, SIZE, BATCH = 1280, 100, 224, 32
# The same for every method: epochs of frozen and of fine-tuned training.
FROZEN_EPOCHS, TUNED_EPOCHS = 12, 4
REDUCED, SKETCH = 256, 8192
SEARCH_SEED = 42


@dataclass(frozen=True)
class Method:
    """A head: what pools the feature map, and what the recipe calls it.

    `trains_before` tells whether something before the vector has weights: otherwise the vectors
    of all pictures are computed once. `epochs` of a search, of the candidates `lrs` × `decays`.
    """

    recipe: tuple[str, ...]
    pool: Callable[[int, int], nn.Module]
    trains_before: bool = False
    head: Callable[[int, int, int], nn.Module] = lambda features, classes, seed: nn.Linear(
        features, classes
    )
    lrs: tuple[float, ...] = (0.01, 0.03, 0.1)
    decays: tuple[float, ...] = (1e-4, 1e-3, 5e-3, 2e-2)
    search_epochs: int = FROZEN_EPOCHS


def _nrs_head(features: int, classes: int, seed: int) -> nn.Module:
    from nrs.vision import NRSHead
    from nrs.vision.head import DEFAULT_N_MUL, MOST_N_PER

    n_per = largest_divisor(DEFAULT_N_MUL * features, MOST_N_PER)
    return NRSHead(features, classes, DEFAULT_N_MUL, n_per, seed=seed)


def _gap(channels: int, seed: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _bilinear(channels: int, seed: int) -> nn.Module:
    from nrs.vision import BilinearPool

    return BilinearPool(channels, min(REDUCED, channels))


def _isqrt(channels: int, seed: int) -> nn.Module:
    from nrs.vision import ISqrtCovPool

    return ISqrtCovPool(channels, min(REDUCED, channels))


def _compact(channels: int, seed: int) -> nn.Module:
    from nrs.vision import CompactBilinearPool

    return CompactBilinearPool(channels, SKETCH, seed=seed)


# Second-order poolings with weights before them cost minutes an epoch: they are searched by their
# learning rate, over fewer epochs.
METHODS = {
    "GAP+Linear": Method(("model.head=linear",), _gap),
    "GAP+NRS": Method(("model.head=nrs",), _gap, head=_nrs_head),
    "CBP": Method(
        ("model.head=compact", f"model.sketch={SKETCH}"), _compact,
        lrs=(0.1, 1.0, 10.0), decays=(0.0, 1e-5, 1e-4),
    ),
    "B-CNN": Method(
        ("model.head=bilinear", f"model.reduce={REDUCED}"), _bilinear, trains_before=True,
        lrs=(0.1, 0.3, 1.0, 3.0), decays=(1e-4,), search_epochs=5,
    ),
    "iSQRT": Method(
        ("model.head=isqrt", f"model.reduce={REDUCED}"), _isqrt, trains_before=True,
        lrs=(0.003, 0.01), decays=(1e-4,), search_epochs=3,
    ),
}  # fmt: skip


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

    Raises
    ------
    NotHereError
        If pictures or weights are not on this machine.
    """
    from safetensors.torch import load_file, save_file

    from nrs.core.atomic import atomic_write
    from nrs.vision._torchvision import timm
    from nrs.vision.data import DataSettings, Preparation, read_data
    from nrs.vision.models import load_weights

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
        load_weights(network, str(weights))
        network.eval()
        tensors = {}
        for name, part in (("train", data.train), ("test", data.test)):
            tensors[name] = torch.cat(list(_forward(network, part)))
            tensors[f"{name}_labels"] = torch.tensor(part.labels)
        kept.parent.mkdir(parents=True, exist_ok=True)
        scratch = kept.with_suffix(".tmp")
        save_file(tensors, scratch)
        with atomic_write(kept) as file:
            file.write(scratch.read_bytes())
        scratch.unlink()
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
class _Trained:
    history: History
    network: nn.Module
    fit_cpu_s: float
    fit_wall_s: float


def train_frozen(
    method: Method, maps: Maps, settings: TrainSettings, seed: int, *, n_classes: int, curve: bool
) -> _Trained:
    """Train a head on feature maps; with `curve`, test accuracy after every epoch."""
    torch.manual_seed(seed)
    channels = maps.train.shape[1]
    pool = method.pool(channels, seed)
    width = getattr(pool, "out_features", channels)
    head = method.head(width, n_classes, seed)
    train_x, test_x = maps.train, maps.test
    begin = time.process_time(), time.perf_counter()
    if not method.trains_before:
        train_x, test_x = _vectors(pool, train_x), _vectors(pool, test_x)
    network = _Reader(nn.Identity() if not method.trains_before else pool, head)

    def batches(epoch: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(train_x), generator=generator)
        size = min(BATCH, len(order))
        for rows in order[: len(order) // size * size].split(size):
            yield train_x[rows], maps.train_labels[rows]

    def step(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(module(batch[0]), batch[1])

    def evaluate(module: nn.Module) -> dict[str, float]:
        return _top(module, test_x, maps.test_labels)

    history = train(
        network, batches, step, settings,
        generator=torch.Generator().manual_seed(seed),
        evaluate=evaluate if curve else None,
        monitor=None,
        steps_per_epoch=max(1, len(train_x) // BATCH),
    )  # fmt: skip
    cpu, wall = time.process_time() - begin[0], time.perf_counter() - begin[1]
    if not curve:
        with torch.no_grad():
            history.rows[-1] |= evaluate(network)
    return _Trained(history, network, cpu, wall)


def _vectors(pool: nn.Module, maps: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([pool(part.float()) for part in maps.split(BATCH)])


def _top(module: nn.Module, x: Tensor, labels: Tensor) -> dict[str, float]:
    found = torch.cat([_best(module(part)) for part in x.split(BATCH)])
    hits = found == labels[:, None]
    n = len(labels)
    return {"top1": 100 * hits[:, 0].sum().item() / n, "top5": 100 * hits.sum().item() / n}


def _best(outputs: Tensor) -> Tensor:
    return outputs.topk(min(5, outputs.shape[1]), dim=1).indices


def _settings(lr: float, decay: float, epochs: int) -> TrainSettings:
    return TrainSettings(
        epochs=epochs, lr=lr, weight_decay=decay, optimizer="sgd", schedule="cosine"
    )


# What the table asks for.


def _searches(subject: Subject) -> tuple[Search, ...]:
    return () if subject.dataset == TUNED else (Search("cub100", FROZEN, subject.method),)


def _search(search: Search) -> dict[str, Any]:
    """Choose learning rate and weight decay on a quarter of the training pictures."""
    from nrs.training.network import hold_out

    method, maps = METHODS[search.method], feature_maps()
    kept, held = hold_out(maps.train_labels.tolist(), 0.25, SEARCH_SEED)
    inner = Maps(
        maps.train[kept], maps.train_labels[kept], maps.train[held], maps.train_labels[held]
    )
    tried = []
    for lr in method.lrs:
        for decay in method.decays:
            settings = _settings(lr, decay, method.search_epochs)
            found = train_frozen(
                method, inner, settings, SEARCH_SEED, n_classes=N_CLASSES, curve=False
            )
            score = found.history.rows[-1]["top1"]
            tried.append({"settings": {"lr": lr, "weight_decay": decay}, "score": [score]})
    best = max(tried, key=lambda entry: tuple(entry["score"]))
    return {
        "chosen": best["settings"],
        "tried": tried,
        "score": ["accuracy"],
        "splits": {"n": 1, "rows_train": len(kept), "rows_test": len(held)},
        "epochs": method.search_epochs,
    }


def _measure(cell: Cell, found: Found) -> Measured:
    subject = cell.subject
    method = METHODS[subject.method]
    if subject.dataset != FROZEN:
        weights = data_file(f"{BACKBONE}.safetensors")
        changes = [*method.recipe, f"train.epochs={TUNED_EPOCHS}"]
        changes += [f"train.head_lr={found[s]['chosen']['lr']}" for s in _searches(subject)]
        measured = measure_recipe(cell, RECIPE, [*changes, f"model.weights='{weights}'"])
        # Where the weights lie is nobody's concern.
        measured.settings["changes"] = [
            change for change in measured.settings["changes"] if "weights" not in change
        ]
        return measured
    (search,) = _searches(subject)
    chosen = found[search]["chosen"]
    maps = feature_maps()
    settings = _settings(chosen["lr"], chosen["weight_decay"], FROZEN_EPOCHS)
    trained = train_frozen(
        method, maps, settings, cell.seed, n_classes=N_CLASSES, curve=not method.trains_before
    )
    return _measured(trained, chosen | {"epochs": FROZEN_EPOCHS, "batch_size": BATCH}, maps)


def _measured(trained: _Trained, settings: dict[str, Any], maps: Maps) -> Measured:
    last = trained.history.rows[-1]
    parameters = sum(p.numel() for p in trained.network.parameters())
    return Measured(
        metrics={
            **scores(last["top1"], last["top5"]),
            "params_m": parameters / 1e6,
            "minutes": trained.fit_cpu_s / 60,
            **curves(trained.history),
        },
        times={"fit_cpu_s": trained.fit_cpu_s, "fit_wall_s": trained.fit_wall_s},
        settings=settings,
        data={"n_train": len(maps.train), "n_test": len(maps.test)},
    )


def _tiny(cell: Cell) -> Measured:
    """The same code on made-up maps and pictures."""
    method = METHODS[cell.subject.method]
    if cell.subject.dataset != FROZEN:
        return tiny_recipe(cell, RECIPE, [*method.recipe, "model.sketch=64", "model.reduce=''"])
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(24) % TINY_CLASSES
    x = torch.randn(24, 16, 3, 3, generator=generator).half()
    maps = Maps(x, labels, x, labels)
    trained = train_frozen(
        method, maps, _settings(0.01, 1e-4, 2), cell.seed, n_classes=TINY_CLASSES, curve=True
    )
    return _measured(trained, {}, maps)


COLUMNS = ("accuracy", "top5", "params_m", "minutes")
SETTINGS: Sequence[tuple[str, str]] = (
    (FROZEN, "frozen"), (TUNED, "fine-tuned"), (OWN_RATE, "fine-tuned, own rate"),
)  # fmt: skip

CUB100 = Table(
    name="cub100",
    title="100 species of birds, EfficientNet-Lite0: accuracy (%), parameters (M), CPU minutes",
    finding=(
        "On the paper's three fine-grained sets NRS after global average pooling is 2.7 to 4.2 "
        "points more accurate than without, at a small part of the parameters and time of "
        "second-order poolings (table fine_grained)."
    ),
    protocol=(
        "Half of CUB-200-2011 (2,999 training and 2,903 test pictures of 227 pixels) and an "
        "ImageNet-trained EfficientNet-Lite0. Frozen: heads on the 7×7×1280 maps of 224-pixel "
        f"pictures, SGD with cosine decay, {FROZEN_EPOCHS} epochs, batches of {BATCH}, 5 seeds; "
        "learning rate and weight decay of each method by a held-out quarter of the training "
        "pictures; parameters are those of the head. Fine-tuned: end to end on crops of 112 of 128 "
        f"pixels with mirroring, {TUNED_EPOCHS} epochs of SGD 0.01 with cosine decay, weight decay "
        "1e-4, the same for every method; with its own rate, what follows the backbone has the "
        "learning rate of the method's frozen search. Test accuracy of the last epoch. GAP+NRS: "
        f"n_mul 2, n_per 64. B-CNN and iSQRT after a 1×1 reduction to {REDUCED} channels, CBP with "
        f"{SKETCH}."
    ),
    printed=tuple(
        Printed(
            f"{word} / {method}",
            column,
            Subject("cub100", dataset, method),
            metric=column,
        )
        for dataset, word in SETTINGS
        for method in METHODS
        for column in COLUMNS
    ),
    measure=_measure,
    searches=_searches,
    search=_search,
    trials=5,
    lower_is_better=frozenset({"params_m", "minutes"}),
    tiny=_tiny,
)
_LINES = [Subject("cub100", TUNED, method) for method in ("GAP+Linear", "GAP+NRS")]
_FINDING = "With NRS training converges faster, to a lower loss and a higher accuracy."
CUB100_CURVES = curve_figure(
    "cub100_curves", "Birds, fine-tuned: test accuracy by epoch", _FINDING,
    CUB100, _LINES, TUNED_EPOCHS, "accuracy", "test accuracy (%)",
)  # fmt: skip
CUB100_LOSS = curve_figure(
    "cub100_loss", "Birds, fine-tuned: training loss by epoch", _FINDING,
    CUB100, _LINES, TUNED_EPOCHS, "loss", "training loss",
)  # fmt: skip
