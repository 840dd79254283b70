"""The paper's accuracies on pictures, by its own recipes: GPU days, where the data are.

nrs paper run fine_grained --datasets CUB-200-2011 --methods ResNet-50,ResNet-50+NRS
nrs paper run imagenet_head
nrs paper run imagenet_se
nrs paper run cifar_se --datasets CIFAR-10
"""

from __future__ import annotations

from nrs.paper.pictures import measure_recipe, tiny_recipe
from nrs.paper.printed import number, reported
from nrs.paper.table import Cell, Found, Measured, Printed, Subject, Table

_DATASETS = {"birds": "CUB-200-2011", "aircraft": "FGVC-Aircraft", "cars": "Stanford-Cars"}
_READERS = {"CUB-200-2011": "cub", "FGVC-Aircraft": "aircraft", "Stanford-Cars": "cars"}
_HEADS = {"CBP": "compact", "iSQRT": "isqrt", "B-CNN": "bilinear", "NRS": "nrs", "": "linear"}
_BACKBONES = {
    "ResNet-18": "torchvision/resnet18",
    "ResNet-50": "torchvision/resnet50",
    "VGG-16": "torchvision/vgg16",
    "MobileNetV2": "torchvision/mobilenet_v2",
}
_CIFAR = {"ResNet-20": "resnet20", "ResNet-50": "resnet50", "Inception-v3": "inception_v3"}

# Mean and deviation of the training pixels; those of CIFAR-10 are in the recipe.
_STATISTICS = {
    "CIFAR-100": (
        "picture.mean=[0.5071, 0.4865, 0.4409]",
        "picture.std=[0.2673, 0.2564, 0.2762]",
    )
}


def recipe_of(subject: Subject) -> tuple[str, list[str]]:
    """The recipe of a row and what is changed in it."""
    method, dataset = subject.method, subject.dataset
    backbone, _, addition = method.partition("+")
    if subject.table == "cifar_se":
        plain = method.removeprefix("SE-").removesuffix("+NRS")
        excite = "nrs" if addition else "se" if method != plain else "none"
        reader = dataset.lower().replace("-", "")
        return "cifar-resnet20", [
            f"model.name=cifar/{_CIFAR[plain]}", f"model.excite={excite}",
            f"data.reader={reader}", *_STATISTICS.get(dataset, ()),
        ]  # fmt: skip
    if subject.table == "imagenet_se":
        excite = "nrs" if addition else "se" if backbone.startswith("SE-") else "none"
        return "imagenet-resnet50-nrs", [
            "model.head=linear", "train.lr=0.15", f"model.excite={excite}",
        ]  # fmt: skip
    changes = [f"model.head={_HEADS[addition]}", f"model.name={_BACKBONES[backbone]}"]
    if subject.table == "imagenet_head":
        mobile = backbone == "MobileNetV2"
        return ("imagenet-mobilenetv2-nrs" if mobile else "imagenet-resnet50-nrs"), changes
    reader = _READERS[dataset]
    changes += [f"data.reader={reader}", f"data.name={dataset}"]
    return "fine-grained-resnet50-nrs", changes


def _measure(cell: Cell, found: Found) -> Measured:
    return measure_recipe(cell, *recipe_of(cell.subject))


def _tiny(cell: Cell) -> Measured:
    recipe, changes = recipe_of(cell.subject)
    kept = [change for change in changes if not change.startswith("model.name=")]
    return tiny_recipe(cell, recipe, [*kept, "model.sketch=64"])


def _errors(table: str, dataset: str) -> tuple[Printed, ...]:
    return tuple(
        Printed(
            row["method"], column, Subject(table, dataset, row["method"]), metric=column,
            reported=number(row[column]),
        )
        for row in reported(table)
        for column in ("top1_error", "top5_error")
    )  # fmt: skip


_ERRORS = frozenset({"top1_error", "top5_error"})

FINE_GRAINED = Table(
    name="fine_grained",
    title="Fine-grained recognition: accuracy (%)",
    finding=(
        "NRS after global average pooling is 2.7 to 7.8 points more accurate than without, and "
        "close to second-order poolings at a small part of their cost."
    ),
    protocol=(
        "Backbones with torchvision's first ImageNet weights (IMAGENET1K_V1), 448×448 crops, SGD "
        "0.002 divided by 10 every 20 epochs, 65 epochs, batch 32, weight decay 1e-4; test "
        "accuracy of the last epoch. Parameters, FLOPs and times are in counts and latency."
    ),
    printed=tuple(
        Printed(
            row["method"], column, Subject("fine_grained", dataset, row["method"]),
            reported=number(row[column]),
        )
        for row in reported("fine_grained")
        for column, dataset in _DATASETS.items()
    ),
    measure=_measure,
    trials=1,
    tiny=_tiny,
)  # fmt: skip
IMAGENET_HEAD = Table(
    name="imagenet_head",
    title="ImageNet with NRS after global average pooling: error (%), one crop",
    finding="NRS lowers the top-1 error of MobileNetV2, ResNet-18 and ResNet-50 by 0.7 to 1.9.",
    protocol=(
        "From scratch, 224×224 crops of pictures with a shorter side of 256. ResNets: SGD 0.1 "
        "divided by 10 every 30 epochs, 100 epochs, weight decay 1e-4; MobileNetV2: 0.05 with "
        "cosine decay, 150 epochs, 4e-5; batch 256."
    ),
    printed=_errors("imagenet_head", "ImageNet"),
    measure=_measure,
    trials=1,
    lower_is_better=_ERRORS,
    tiny=_tiny,
)
IMAGENET_SE = Table(
    name="imagenet_se",
    title="ImageNet with NRS in place of squeeze-and-excitation: error (%), one crop",
    finding="SE+NRS is nearly as accurate as SE, with fewer parameters, FLOPs and less time.",
    protocol="As imagenet_head, with SGD 0.15.",
    printed=_errors("imagenet_se", "ImageNet"),
    measure=_measure,
    trials=1,
    lower_is_better=_ERRORS,
    tiny=_tiny,
)
CIFAR_SE = Table(
    name="cifar_se",
    title="CIFAR-10 and CIFAR-100 with NRS in place of squeeze-and-excitation: accuracy (%)",
    finding="SE+NRS is as accurate as SE or more, with fewer parameters and FLOPs.",
    protocol=(
        "From scratch, SGD 0.1 with cosine decay, 350 epochs, batch 128, weight decay 5e-4; "
        "crops after padding by 4 pixels, mirroring; test accuracy of the last epoch."
    ),
    printed=tuple(
        Printed(
            row["method"], row["dataset"], Subject("cifar_se", row["dataset"], row["method"]),
            reported=number(row["accuracy"]),
        )
        for row in reported("cifar_se")
    ),
    measure=_measure,
    trials=1,
    tiny=_tiny,
)  # fmt: skip
