"""Document retrieval: rows are query-document pairs, labels are grades of relevance."""

from __future__ import annotations

from nrs.datasets.entry import Entry, Part, Source

_MSLR_PAGE = "https://www.microsoft.com/en-us/research/project/mslr/"
_LETOR_PAGE = (
    "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
)
_BY_HAND = "The owner's page gives no direct address: fetch it by hand. Five prepared folds."


def _folds(file: str, folder: str) -> tuple[Source, ...]:
    """Describe an archive whose folders Fold1 to Fold5 hold train.txt, vali.txt and test.txt."""
    parts: dict[Part, str] = {"train": "train.txt", "val": "vali.txt", "test": "test.txt"}
    return tuple(
        Source(file=file, part=part, format="letor", members=(f"{folder}Fold{{fold}}/{name}",))
        for part, name in parts.items()
    )


def _ranking(
    name: str,
    title: str,
    files: tuple[str, ...],
    rows: dict[str, int],
    n_features: int,
    n_grades: int,
    page: str,
    licence: str,
    notes: str,
    *,
    sources: tuple[Source, ...] = (),
    n_folds: int = 0,
    variant_of: str | None = None,
) -> Entry:
    return Entry(
        name=name,
        title=title,
        files=files,
        rows=rows,
        shape=(n_features,),
        n_classes=n_grades,
        task="ranking",
        page=page,
        licence=licence,
        notes=notes,
        sources=sources,
        n_folds=n_folds,
        variant_of=variant_of,
    )


RANKING: tuple[Entry, ...] = (
    _ranking(
        "MSLR-WEB10K", "Web search, 10,000 queries of Bing", ("mslr_web10k",),
        {"train": 723_412, "val": 235_259, "test": 241_521}, 136, 5,
        _MSLR_PAGE, "research use only (Microsoft)", _BY_HAND,
        sources=_folds("MSLR-WEB10K.zip", ""), n_folds=5,
    ),
    _ranking(
        "MSLR-WEB30K", "Web search, 31,531 queries of Bing", ("mslr_web30k",),
        {"train": 2_270_296, "val": 747_218, "test": 753_611}, 136, 5,
        _MSLR_PAGE, "research use only (Microsoft)", _BY_HAND,
        sources=_folds("MSLR-WEB30K.zip", ""), n_folds=5,
    ),
    _ranking(
        "MSLR-sample", "Web search, 43 queries each to train and test", ("mslr_sample",),
        {"train": 5000, "test": 5000}, 136, 5,
        _MSLR_PAGE, "research use only (Microsoft)",
        "The first rows of fold 1; too small for any claim.",
        variant_of="MSLR-WEB10K",
    ),
    _ranking(
        "MQ2008", "Million Query track 2008, LETOR 4.0", ("mq2008",),
        {"train": 9630, "val": 2707, "test": 2874}, 46, 3,
        _LETOR_PAGE, "research use only (Microsoft)",
        _BY_HAND + " The owner packs it as .rar; pack it again as .zip or unpack it.",
        sources=_folds("MQ2008.zip", "MQ2008/"), n_folds=5,
    ),
    _ranking(
        "LightGBM-rank", "LightGBM's ranking example", ("lightgbm_rank",),
        {"train": 3005, "test": 768}, 300, 5,
        "https://github.com/microsoft/LightGBM/tree/master/examples/lambdarank",
        "MIT (LightGBM)", "A small example, for tests.",
    ),
)  # fmt: skip
