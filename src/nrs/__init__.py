"""Neural Random Subspace: ensembles of one-level oblique trees as a neural network layer."""

from nrs._version import __version__
from nrs.core import NRS

__all__ = ["NRS", "__version__"]
