"""Where LIBSVM's collection lies, from which most of the paper's tables come."""

from __future__ import annotations

from nrs.datasets.entry import Part, Source

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
LIBSVM_LICENCE = "no licence stated by LIBSVM's page; the terms of the original source apply"
UCI_LICENCE = "CC BY 4.0 (UCI Machine Learning Repository)"
# LIBSVM publishes none; these are known from elsewhere.
_CHECKSUMS = {
    "usps.bz2": "md5:ec16c51db3855ca6c91edd34d0e9b197",
    "usps.t.bz2": "md5:8ea070ee2aca1ac39742fdd1ef5ed118",
}


def libsvm_page(group: str) -> str:
    """Give the address of a group's page: ``binary``, ``multiclass`` or ``multilabel``."""
    return f"{LIBSVM}{group}.html"


def libsvm_sources(group: str, **files: str) -> tuple[Source, ...]:
    """Describe LIBSVM files by part: ``libsvm_sources("binary", train="a9a", test="a9a.t")``."""
    parts: dict[str, Part] = {"train": "train", "val": "val", "test": "test", "whole": "all"}
    return tuple(
        Source(
            url=f"{LIBSVM}{group}/{file}",
            file=file.rsplit("/", 1)[-1],
            part=parts[part],
            format="libsvm",
            checksum=_CHECKSUMS.get(file),
        )
        for part, file in files.items()
    )
