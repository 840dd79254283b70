"""Neural Random Subspace: ensembles of one-level oblique trees as a neural network layer."""

from typing import Any

from nrs._version import __version__
from nrs.core import NRS

__all__ = ["NRS", "NRSClassifier", "NRSRegressor", "__version__"]

_ESTIMATORS = ("NRSClassifier", "NRSRegressor")


def __getattr__(name: str) -> Any:
    # Someone who needs only the layer does not wait for scikit-learn.
    if name in _ESTIMATORS:
        import nrs.tabular

        return getattr(nrs.tabular, name)
    raise AttributeError(f"module 'nrs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
