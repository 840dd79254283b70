"""Neural Random Subspace: ensembles of one-level oblique trees as a neural network layer."""

import importlib
from typing import TYPE_CHECKING, Any

from nrs._version import __version__

if TYPE_CHECKING:
    from nrs import explain
    from nrs.core import NRS
    from nrs.datasets.large_table import Table
    from nrs.datasets.table_files import read_table_file as read_table
    from nrs.engine import show_config
    from nrs.ranking import NRSRanker
    from nrs.tabular import ColumnWarning, NRSClassifier, NRSRegressor
    from nrs.tabular.targets import Huber, Tweedie
    from nrs.tabular.tune.search import tune

__all__ = [
    "NRS", "ColumnWarning", "Huber", "NRSClassifier", "NRSRanker", "NRSRegressor", "Table",
    "Tweedie", "__version__", "explain", "read_table", "show_config", "tune",
]  # fmt: skip

_HOMES = {
    "ColumnWarning": "nrs.tabular",
    "Huber": "nrs.tabular.targets",
    "NRS": "nrs.core",
    "NRSClassifier": "nrs.tabular",
    "NRSRanker": "nrs.ranking",
    "NRSRegressor": "nrs.tabular",
    "Table": "nrs.datasets.large_table",
    "Tweedie": "nrs.tabular.targets",
    "read_table": "nrs.datasets.table_files",
    "show_config": "nrs.engine",
    "tune": "nrs.tabular.tune.search",
}

# Names that are others at home.
_NAMES = {"read_table": "read_table_file"}


def __getattr__(name: str) -> Any:
    if name == "explain":
        return importlib.import_module("nrs.explain")
    # Someone who needs only the layer does not wait for scikit-learn, nor the command line's help
    # for torch.
    if name in _HOMES:
        home = importlib.import_module(_HOMES[name])
        return getattr(home, _NAMES.get(name, name))
    raise AttributeError(f"module 'nrs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
