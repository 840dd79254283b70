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
from nrs.paper.table import Cell, Found, Measured, NotHereError
from nrs.paper.trial import Clock, load_or_reason
from nrs.points import Augmentation, CloudSamples, create
from nrs.points.registry import PAPER_SUBSPACE
from nrs.points.train import network_loss
from nrs.training import RunSettings, TrainSettings, train_network
from nrs.training.network import evaluate_network

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
    """How an encoder is trained, the same with NRS and without; `arguments` are the encoder's."""

    train: TrainSettings
    batch_size: int
    points: int
    label_smoothing: float = 0.0
    augmentation: Augmentation = field(default_factory=Augmentation)
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CloudPlan:
    """The choices of the point-cloud table.

    Attributes
    ----------
    recipes : by dataset and encoder.
    load : gives a dataset by its name, or the reason why it is not here.
    cost_points, cost_repeats : points of the cloud whose time is measured, and how often.
    """

    recipes: Mapping[str, Mapping[str, CloudRecipe]]
    load: Callable[[str], Dataset | str] = load_or_reason
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
        data = self.load(subject.dataset)
        if isinstance(data, str):
            raise NotHereError(data)
        recipe = self.recipes.get(subject.dataset, {}).get(name)
        if recipe is None:
            raise NotHereError(f"no settings were chosen for {name} on {subject.dataset}")
        assert data.X_test is not None
        assert data.y_test is not None
        assert data.n_classes is not None
        torch.manual_seed(cell.seed)
        subspace = PAPER_SUBSPACE[name] if nrs else None
        model = create(name, data.n_classes, subspace=subspace, normals=False, **recipe.arguments)
        run = RunSettings(
            batch_size=recipe.batch_size, label_smoothing=recipe.label_smoothing,
            seed=cell.seed, device="cpu",
        )  # fmt: skip
        train = CloudSamples(
            data.X_train, data.y_train.tolist(), points=recipe.points,
            augmentation=recipe.augmentation,
        )  # fmt: skip
        test = CloudSamples(data.X_test, data.y_test.tolist(), points=recipe.points)
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
