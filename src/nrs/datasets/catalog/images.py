"""Image sets: CIFAR-100 as arrays, the rest as folders of files."""

from __future__ import annotations

from nrs.datasets.entry import Entry, Part, Source

_GIB = 1 << 30
_CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"


def _folder(
    name: str,
    title: str,
    file: str,
    rows: dict[str, int],
    n_classes: int,
    page: str,
    licence: str,
    notes: str,
    *,
    archive: Source | None = None,
    archives: tuple[Source, ...] = (),
    other_forms: tuple[tuple[Source, ...], ...] = (),
    variant_of: str | None = None,
) -> Entry:
    return Entry(
        name=name,
        title=title,
        files=(file,),
        rows=rows,
        shape=(),
        n_classes=n_classes,
        kind="images",
        page=page,
        licence=licence,
        notes=notes,
        sources=archives if archive is None else (archive,),
        other_forms=other_forms,
        layout="files",
        variant_of=variant_of,
    )


def _cifar_100(part: Part, member: str) -> Source:
    return Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        file="cifar-100-binary.tar.gz",
        part=part,
        format="cifar",
        members=(f"cifar-100-binary/{member}",),
        options={"n_labels": 2},
        size=168_513_733,
        checksum="md5:03b5dce01913d631647c71ecec9e9cb8",
        limit=400_000_000,
    )


def _cifar_100_python(part: Part) -> Source:
    return Source(
        file="cifar-100-python.tar.gz",
        part=part,
        format="cifar-pickle",
        members=(f"cifar-100-python/{part}",),
        options={"labels": "fine_labels"},
        checksum="md5:eb9058c3a382ffc7106e4002c42a8d85",
        limit=400_000_000,
    )


IMAGES: tuple[Entry, ...] = (
    Entry(
        name="CIFAR-100",
        title="Small photographs of a hundred things, 32 × 32 colour pixels",
        files=("cifar100",),
        rows={"train": 50000, "test": 10000},
        shape=(3072,),
        n_classes=100,
        kind="images",
        page=_CIFAR_PAGE,
        licence="no licence stated; cite Krizhevsky 2009",
        sources=(_cifar_100("train", "train.bin"), _cifar_100("test", "test.bin")),
        other_forms=((_cifar_100_python("train"), _cifar_100_python("test")),),
        preprocess="pixels",
        notes="Fine labels. A row is 3 × 32 × 32: red, green, blue.",
        aliases=("cifar100",),
    ),
    _folder(
        "CUB-200-2011", "Photographs of 200 species of birds", "CUB_200_2011",
        {"train": 5994, "test": 5794}, 200,
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        "non-commercial research and education only",
        "The parts are listed in train_test_split.txt.",
        archive=Source(
            url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            file="CUB_200_2011.tgz", part="all", format="files",
            checksum="md5:97eceeb196236b17998738112f37df78", limit=3 * _GIB,
        ),
    ),
    _folder(
        "CUB-100", "Photographs of 100 species of birds, 227 pixels wide", "cub100",
        {"train": 2999, "test": 2903}, 100,
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        "non-commercial research and education only",
        "Half of CUB-200-2011, scaled down: train/ and test/, a folder a species.",
        archive=Source(file="cub100.tar", part="all", format="files", limit=_GIB),
        variant_of="CUB-200-2011",
    ),
    _folder(
        "FGVC-Aircraft", "Photographs of 100 variants of aircraft", "fgvc-aircraft-2013b",
        {"train": 3334, "val": 3333, "test": 3333}, 100,
        "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
        "non-commercial research only",
        "The parts are listed in data/images_variant_*.txt; the paper trains on train and val.",
        archive=Source(
            url="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/"
            "fgvc-aircraft-2013b.tar.gz",
            file="fgvc-aircraft-2013b.tar.gz", part="all", format="files",
            checksum="md5:d4acdd33327262359767eeaa97a4f732", limit=8 * _GIB,
        ),
    ),
    _folder(
        "Stanford-Cars", "Photographs of 196 models of cars", "stanford_cars",
        {"train": 8144, "test": 8041}, 196,
        "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        "non-commercial research only",
        "The owner's files are no longer at their address: put your own copy in place. Either of "
        "its two forms will do: cars_train.tgz, cars_test.tgz, car_devkit.tgz and "
        "cars_test_annos_withlabels.mat, or car_ims.tgz and cars_annos.mat.",
        archives=tuple(
            Source(file=file, part="all", format="files", limit=4 * _GIB)
            for file in (
                "cars_train.tgz", "cars_test.tgz", "car_devkit.tgz",
                "cars_test_annos_withlabels.mat",
            )
        ),
        other_forms=(
            tuple(
                Source(file=file, part="all", format="files", limit=4 * _GIB)
                for file in ("car_ims.tgz", "cars_annos.mat")
            ),
        ),
    ),
    _folder(
        "ImageNet", "ILSVRC 2012, a thousand classes", "imagenet",
        {"train": 1_281_167, "test": 50_000}, 1000,
        "https://www.image-net.org/challenges/LSVRC/2012/",
        "non-commercial research and education only; needs an account",
        "A local folder with train/, a folder a class, and val/, sorted likewise or as published: "
        "then with ILSVRC2012_devkit_t12.tar.gz or LOC_val_solution.csv beside. The paper tests on "
        "val.",
    ),
)  # fmt: skip
