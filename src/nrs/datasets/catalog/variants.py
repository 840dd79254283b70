"""Parts and other readings of the tables, each with its own size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nrs.datasets.catalog.libsvm_page import LIBSVM_LICENCE, libsvm_page, libsvm_sources
from nrs.datasets.catalog.tables import SARCOS_NOTES, TABLES
from nrs.datasets.entry import Entry

_FULL = {entry.name: entry for entry in TABLES}


def _variant(of: str, name: str, title: str, notes: str, **changes: Any) -> Entry:
    """Change an entry into a variant, which is not a row of the paper's table."""
    fixed = {"aliases": (), "paper": None, "variant_of": of}
    return replace(_FULL[of], name=name, title=title, notes=notes, **(fixed | changes))


_TRAIN_ONLY = {
    "X": ("X_train_raw", "X_train"),
    "y": ("y_train",),
}

VARIANTS: tuple[Entry, ...] = (
    _variant(
        "MNIST", "MNIST-784", "Handwritten digits, all 784 pixels",
        "All pixels of the image; the paper leaves out the last four.",
        shape=(784,), columns=None, sources=(),
    ),
    _variant(
        "MNIST", "MNIST-tenth", "Handwritten digits, trained on a tenth of the images",
        "7,000 images to train on and 63,000 to test on, of both official parts: what one core "
        "trains in minutes.",
        split="random", test_size=0.9,
    ),
    Entry(
        name="yeast-multilabel",
        title="Functions of yeast genes, fourteen labels",
        files=("yeast_multilabel",),
        rows={"train": 1500, "test": 917},
        shape=(103,),
        n_classes=14,
        task="multilabel",
        page=libsvm_page("multilabel"),
        licence=LIBSVM_LICENCE,
        sources=tuple(
            replace(source, options={"n_labels": 14})
            for source in libsvm_sources(
                "multilabel", train="yeast_train.svm.bz2", test="yeast_test.svm.bz2"
            )
        ),
        variant_of="yeast",
        notes="The set whose rows and classes the paper prints for yeast.",
    ),
    _variant(
        "ijcnn1", "ijcnn1-val", "Engine misfires, tested on the validation part",
        "The training part against the official validation part; the test part is not used.",
        files=("ijcnn1-val", "ijcnn1"),
        rows={"train": 35000, "test": 14990},
        arrays={"X_test": ("X_val",), "y_test": ("y_val",)},
        sources=_FULL["ijcnn1"].sources[:2],
    ),
    _variant(
        "poker", "poker-merged", "Hands of five cards, labels merged",
        "Labels are (y + 1) // 2, as the authors' loader made them: six classes.",
        merge_labels=True, n_classes=6,
    ),
    _variant(
        "poker", "poker-train", "Hands of five cards, the training file only",
        "The official training part alone, split 70/30.",
        files=("poker-train", "poker"),
        rows={"all": 25010}, split="random", arrays=_TRAIN_ONLY,
        sources=libsvm_sources("multiclass", whole="poker.bz2"),
    ),
    _variant(
        "poker", "poker-train-merged", "Hands of five cards, the training file, labels merged",
        "The official training part alone, split 70/30; labels are (y + 1) // 2: six classes.",
        files=("poker-train", "poker"),
        rows={"all": 25010}, split="random", arrays=_TRAIN_ONLY,
        sources=libsvm_sources("multiclass", whole="poker.bz2"),
        merge_labels=True, n_classes=6,
    ),
    _variant(
        "protein", "protein-val", "Secondary structure of proteins, the validation file only",
        "The official validation part alone, split 70/30.",
        files=("protein_val",),
        rows={"all": 2871}, split="random",
        sources=libsvm_sources("multiclass", whole="protein.val.bz2"),
    ),
    _variant(
        "connect-4", "connect-4-raw", "Connect Four, the 42 cells of the board",
        "One column a cell, values 0, 1, 2 (categories, not amounts).",
        files=("connect-4-raw", "connect-4"),
        shape=(42,), arrays={"X": ("X_raw42",)}, sources=(),
    ),
    _variant(
        "cod-rna", "cod-rna-train", "Non-coding RNA, the training file only",
        "The official training part alone, split 70/30.",
        files=("cod-rna-train", "cod-rna"),
        rows={"all": 59535}, split="random", arrays=_TRAIN_ONLY,
        sources=libsvm_sources("binary", whole="cod-rna"),
    ),
    _variant(
        "covtype", "covtype-7", "Forest cover, seven kinds",
        "The seven classes of the source in place of the paper's two.",
        files=("covtype-7", "covtype"),
        n_classes=7, arrays={"y": ("y7",)},
        page=libsvm_page("multiclass"),
        sources=libsvm_sources("multiclass", whole="covtype.scale.bz2"),
    ),
    _variant(
        "covtype", "covtype-tenth", "Forest cover, trained on a tenth of the rows",
        "58,101 rows to train on and 522,911 to test on: what one core trains in minutes.",
        test_size=0.9,
    ),
    _variant(
        "SUSY", "SUSY-30k", "Supersymmetric particles, 30,000 collisions",
        "A small part of the real set, split 70/30.",
        files=("susy_30k",), rows={"all": 30000}, sources=(),
    ),
    _variant(
        "breast-cancer", "breast-cancer-noid", "Breast tumours of Wisconsin, without the id",
        "Without column 0, the sample's id, which the paper keeps.",
        shape=(9,), columns=(1, 10, 10),
    ),
    _variant(
        "glass", "glass-merged", "Kinds of glass, labels merged",
        "Labels are (y + 1) // 2, as the authors' loader made them: four classes.",
        merge_labels=True, n_classes=4,
    ),
    _variant(
        "SARCOS", "SARCOS-7", "Inverse dynamics of a robot arm, all seven torques",
        "All seven targets. Rows of the test file also occur in the training file.",
        target=None,
    ),
    _variant(
        "SARCOS", "SARCOS-test", "Inverse dynamics of a robot arm, the test file only",
        SARCOS_NOTES + " Only the test file, split 80/20.",
        files=("sarcos_test",),
        rows={"all": 4449}, split="random", test_size=0.2,
        sources=(replace(_FULL["SARCOS"].sources[1], part="all"),),
    ),
    _variant(
        "SARCOS", "SARCOS-test-7", "Inverse dynamics, the test file only, all seven torques",
        "All seven targets of the test file, split 80/20.",
        files=("sarcos_test",), target=None,
        rows={"all": 4449}, split="random", test_size=0.2,
        sources=(replace(_FULL["SARCOS"].sources[1], part="all"),),
    ),
)  # fmt: skip
