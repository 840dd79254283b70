"""One line of the catalog: where a dataset comes from, how large it is, how the paper splits it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from nrs.datasets.errors import EntryError
from nrs.datasets.paper_table import PaperRow, paper_table

Task = Literal["classification", "regression", "ranking", "multilabel"]
Kind = Literal["table", "images", "points"]
Part = Literal["train", "val", "test", "all"]
SplitRule = Literal["official", "random", "folds"]
Preprocess = Literal["none", "standardise", "minmax", "unit", "pixels"]

# A number of a text file takes at most so many characters with its index and separator.
_BYTES_PER_VALUE = 24
_BYTES_PER_ROW = 256
_BYTES_PER_FILE = 1 << 20


def check_count(name: str, value: object) -> None:
    """Refuse what is no count, such as NaN and infinity, which JSON from elsewhere may hold.

    Raises
    ------
    EntryError
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise EntryError(f"{name} must be a whole number of at least 0; got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file at a dataset's official address.

    Attributes
    ----------
    file : str
        The file's name on the disk.
    part : {"train", "val", "test", "all"}
        Which rows it holds.
    format : str
        A reader of `nrs.datasets.readers`, or ``"files"`` for images and meshes.
    url : str or None
        Where to fetch it; None if the owner offers no direct address.
    members : tuple of str
        For an archive: the files to read in it, in order.
    options : mapping
        Further arguments of the reader.
    size : int or None
        Size in bytes where known; a download of another size is refused.
    checksum : str or None
        ``"sha256:…"`` or ``"md5:…"`` where known; an altered download is refused.
    limit : int or None
        Most bytes to accept, as downloaded and decompressed; None derives it from the entry's rows.

    Raises
    ------
    EntryError
        If the size or the limit is not a count.
    """

    file: str
    part: Part
    format: str
    url: str | None = None
    members: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = None
    checksum: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("size", "limit"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the catalog knows about a dataset.

    Attributes
    ----------
    name, title : str
        The name to load it by, as the paper writes it, and what it is.
    files : tuple of str
        Local files without ``.npz``: its own first, then others whose arrays serve as well.
    rows : mapping of part to int
        Expected rows of ``train``, ``val`` and ``test``, or of ``all`` without an official split.
    shape : tuple of int
        Shape of one row of X: ``(36,)`` for 36 features, ``(1024, 3)`` for a cloud of points.
    n_classes : int or None
        Classes, labels or relevance grades; None for regression.
    task, kind : str
        What is predicted, and from what.
    page : str
        The owner's page.
    sources : tuple of Source
        The files at the official address; empty if it can only be had by hand.
    other_forms : tuple of tuples of Source
        The same data in other official files, which are read where they lie and never fetched.
    split : {"official", "random", "folds"}
        The paper's rule; a random split takes ``test_size`` of the rows for the test.
    preprocess : str
        What the paper does to the inputs; see `nrs.datasets.paper_preprocess`.
    licence, notes : str
        Terms of use, and what one should know before comparing numbers.
    variant_of : str or None
        The full dataset of which this is a part or another reading.
    aliases : tuple of str
        Further names to load it by.
    arrays : mapping of str to tuple of str
        Where an array has another name in the local file: the names to try, in order.
    columns : tuple (start, stop, stored) or None
        Which columns to keep of a file that stores ``stored`` of them.
    target : int or None
        Which column of a y with several; None keeps all.
    merge_labels : bool
        Whether labels become ``(y + 1) // 2``, as the authors' loader did.
    layout : {"arrays", "files"}
        Whether `load` gives arrays, or `get` a folder of images or meshes.
    n_folds : int
        Folds that the owner prepared, chosen by ``load(..., fold=k)``; 0 if none.
    package : str or None
        The installed Python package that holds the data, in place of a file.
    paper : str or None
        The row of the paper's dataset table, where it has one.

    Raises
    ------
    EntryError
        If a number is none that it can be, such as NaN or infinity.
    """

    name: str
    title: str
    files: tuple[str, ...]
    rows: Mapping[str, int]
    shape: tuple[int, ...]
    n_classes: int | None
    page: str
    licence: str
    task: Task = "classification"
    kind: Kind = "table"
    sources: tuple[Source, ...] = ()
    other_forms: tuple[tuple[Source, ...], ...] = ()
    split: SplitRule = "official"
    test_size: float = 0.3
    preprocess: Preprocess = "none"
    notes: str = ""
    variant_of: str | None = None
    aliases: tuple[str, ...] = ()
    arrays: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[int, int, int] | None = None
    target: int | None = None
    merge_labels: bool = False
    layout: Literal["arrays", "files"] = "arrays"
    n_folds: int = 0
    package: str | None = None
    paper: str | None = None

    def __post_init__(self) -> None:
        counts = {f"rows[{part!r}]": n for part, n in self.rows.items()}
        counts |= {f"shape[{place}]": n for place, n in enumerate(self.shape)}
        counts |= {"n_folds": self.n_folds}
        optional = {"n_classes": self.n_classes, "target": self.target}
        counts |= {name: n for name, n in optional.items() if n is not None}
        for name, value in counts.items():
            check_count(name, value)
        if not 0 <= self.test_size <= 1:
            raise EntryError(f"test_size must be between 0 and 1; got {self.test_size!r}")

    @property
    def file(self) -> str:
        """The local file's name without ``.npz``."""
        return self.files[0]

    @property
    def n_features(self) -> int:
        """Numbers in one row of X."""
        return math.prod(self.shape)

    @property
    def n_features_source(self) -> int:
        """Numbers in one row of the source files, before columns are chosen."""
        # MNIST's files at LIBSVM stop where the paper does; those of breast-cancer have the id.
        if self.columns is None or self.columns[0] == 0:
            return self.n_features
        return self.columns[2]

    @property
    def n_train(self) -> int:
        """Training rows under the paper's split (all of them for cross-validation)."""
        if self.split == "random":
            return sum(self.rows.values()) - self.n_test
        return self.rows["train"] if "train" in self.rows else self.rows["all"]

    @property
    def n_val(self) -> int:
        """Validation rows of the official split, else 0."""
        return self.rows.get("val", 0)

    @property
    def n_test(self) -> int:
        """Test rows under the paper's split (0 for cross-validation)."""
        if self.split == "random":
            return math.ceil(self.test_size * sum(self.rows.values()))
        return self.rows.get("test", 0)

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats of the source files."""
        return tuple(dict.fromkeys(source.format for source in self.sources))

    @property
    def paper_row(self) -> PaperRow | None:
        """The paper's own numbers for this dataset, which may differ from the true ones."""
        return None if self.paper is None else paper_table()[self.paper]

    def limit(self, source: Source) -> int:
        """Most bytes that a file of this dataset can need, downloaded or decompressed.

        Parameters
        ----------
        source : Source
            One of the entry's sources; its own limit counts if it has one.
        """
        if source.limit is not None:
            return source.limit
        stored = self.columns[2] if self.columns else self.n_features
        # A prepared fold holds all rows, so an archive of n folds holds them n times.
        rows = sum(self.rows.values()) * max(self.n_folds, 1)
        return _BYTES_PER_FILE + rows * (_BYTES_PER_ROW + _BYTES_PER_VALUE * (stored + 8))
