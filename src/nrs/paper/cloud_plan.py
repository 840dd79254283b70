"""How a cell of the point-cloud table is measured (paper, Section 4.3.4).

Accuracy: train on the whole training part with fixed settings, and give the last epoch's accuracy
on the test part. Cost: parameters, FLOPs and the time of one cloud, which need no data.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from nrs.core import count
from nrs.datasets import Dataset
from nrs.paper.gpu import gpu_ms
from nrs.paper.table import Cell, Found, Measured, NotHereError
from nrs.paper.trial import Clock, device, load_or_reason
from nrs.points import Augmentation, CloudSamples, create
from nrs.points.registry import PAPER_SUBSPACE
from nrs.points.train import network_loss
from nrs.training import RunSettings, TrainSettings, train_network
from nrs.training.network import evaluate_network

# Points kept of each cloud with normals: twice those that training draws.
STORED_POINTS = 2048
# The paper's methods: our encoder, and whether NRS stands before its classifier.
METHODS: Mapping[str, tuple[str, bool]] = {
    "PointNet": ("pointnet", False),
    "PointNet+NRS": ("pointnet", True),
    "PointNet++": ("pointnet2", False),
    "PointNet+++NRS": ("pointnet2", True),
    "DGCNN": ("dgcnn", False),
    "DGCNN+NRS": ("dgcnn", True),
    "PointConv": ("pointconv", False),
    "RSCNN": ("rscnn", False),
}


@dataclass(frozen=True)
class CloudRecipe:
    """How an encoder is trained, the same with NRS and without.

    Attributes
    ----------
    normals : whether it reads the normals of the points too.
    arguments : of the encoder.
    """

    train: TrainSettings
    batch_size: int
    points: int
    label_smoothing: float = 0.0
    normals: bool = False
    augmentation: Augmentation = field(default_factory=Augmentation)
    arguments: Mapping[str, Any] = field(default_factory=dict)


def load_clouds(name: str, normals: bool) -> Dataset | str:
    """Clouds of the catalog as arrays, or why they are not here.

    Normals are in another file than the coordinates alone, ``<name>-normals``.
    """
    if not normals:
        return load_or_reason(name)
    from nrs.datasets import DatasetNotFoundError
    from nrs.points.sources import load_clouds as load_folder

    try:
        # The first of a text's 10,000 points cover the object.
        found = load_folder(f"{name}-normals", stored=STORED_POINTS, normals=True)
    except DatasetNotFoundError as error:
        return str(error)
    return Dataset(
        name, found.X_train, found.y_train, X_test=found.X_test, y_test=found.y_test,
        n_classes=len(found.classes), kind="points",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CloudPlan:
    """The choices of the point-cloud table.

    Attributes
    ----------
    recipes : by dataset and encoder.
    load : gives a dataset by its name, with normals or without, or why it is not here.
    cost_points, cost_repeats : points of the cloud whose time is measured, and how often.
    """

    recipes: Mapping[str, Mapping[str, CloudRecipe]]
    load: Callable[[str, bool], Dataset | str] = load_clouds
    cost_points: int = 1024
    cost_repeats: int = 15

    def measure(self, cell: Cell, found: Found) -> Measured:
        """Run one trial."""
        if dict(cell.subject.setting).get("what") == "cost":
            return self._cost(cell)
        return self._accuracy(cell)

    def _cost(self, cell: Cell) -> Measured:
        """Parameters, FLOPs, and the time of a batch of one cloud in evaluation mode.

        The network without NRS takes turns with it, so that the machine's other work hits both.
        """
        name, nrs = METHODS[cell.subject.method]
        networks = {}
        for side, subspace in (("base", None), ("model", PAPER_SUBSPACE[name] if nrs else None)):
            torch.manual_seed(cell.seed)
            networks[side] = create(name, 40, subspace=subspace).eval()
        generator = torch.Generator().manual_seed(cell.seed)
        channels = networks["model"].channels
        x = torch.rand(1, self.cost_points, channels, generator=generator) * 2 - 1
        counts = count(networks["model"], x)
        times: dict[str, list[float]] = {side: [] for side in networks}
        with torch.inference_mode():
            for turn in range(self.cost_repeats + 2):
                for side, network in networks.items():
                    begin = time.process_time()
                    network(x)
                    if turn >= 2:  # The first ones warm up.
                        times[side].append(time.process_time() - begin)
        ratios = [m / b for m, b in zip(times["model"], times["base"], strict=True)]
        metrics = {
            "params_m": counts.parameters / 1e6,
            "flops_m": counts.paper_flops / 1e6,
            "macs_m": counts.macs / 1e6,
            "cpu_ms": 1e3 * statistics.median(times["model"]),
        }
        metrics |= gpu_ms(networks["model"], x)
        if nrs:
            metrics["ratio"] = statistics.median(ratios)
        return Measured(
            metrics,
            settings={
                "points": self.cost_points,
                "turns": self.cost_repeats,
                "threads": torch.get_num_threads(),
            },
        )

    def _accuracy(self, cell: Cell) -> Measured:
        subject = cell.subject
        name, nrs = METHODS[subject.method]
        recipe = self.recipes.get(subject.dataset, {}).get(name)
        if recipe is None:
            raise NotHereError(f"no settings were chosen for {name} on {subject.dataset}")
        data = self.load(subject.dataset, recipe.normals)
        if isinstance(data, str):
            raise NotHereError(data)
        assert data.X_test is not None
        assert data.y_test is not None
        assert data.n_classes is not None
        torch.manual_seed(cell.seed)
        subspace = PAPER_SUBSPACE[name] if nrs else None
        model = create(
            name, data.n_classes, subspace=subspace, normals=recipe.normals, **recipe.arguments
        )
        run = RunSettings(
            batch_size=recipe.batch_size, label_smoothing=recipe.label_smoothing,
            seed=cell.seed, device=device(),
        )  # fmt: skip
        train = CloudSamples(
            data.X_train, data.y_train.tolist(), points=recipe.points,
            augmentation=recipe.augmentation, normals=recipe.normals,
        )  # fmt: skip
        test = CloudSamples(
            data.X_test, data.y_test.tolist(), points=recipe.points, normals=recipe.normals
        )
        times: dict[str, float] = {}
        loss = network_loss(model, recipe.label_smoothing)
        with Clock("fit", times):
            history = train_network(model, train, None, recipe.train, run, loss=loss, verbose=0)
        with Clock("predict", times):
            scores = evaluate_network(model, test, run)
        return Measured(
            metrics={"accuracy": scores["top1"], "class_accuracy": scores["class_mean"]},
            times=times,
            model_bytes=sum(t.numel() * t.element_size() for t in model.state_dict().values()),
            settings={
                "encoder": name,
                "subspace": None if subspace is None else dict(subspace),
                **asdict(recipe),
                "last_loss": history["train_loss"][-1],
            },
            data={
                "n_train": len(train),
                "n_test": len(test),
                "points": recipe.points,
                "n_classes": data.n_classes,
            },
        )
