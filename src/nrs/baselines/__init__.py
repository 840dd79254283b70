"""What the paper compares with, behind the same estimator interface.

`make` gives any method by its name in the paper's tables; the classes of a method are in the
module that carries its idea (`mlp`, `ndf`, `ant`, `trees`, `boosting`, `modern`).
"""

from nrs.baselines.mlp import MLPClassifier, MLPRegressor
from nrs.baselines.ndf import NDFClassifier, NDFRegressor
from nrs.baselines.peers import MissingPeerError
from nrs.baselines.rankers import LambdaMARTRanker, UMartRanker
from nrs.baselines.registry import available, describe, grid, make, model_size, names

__all__ = [
    "LambdaMARTRanker",
    "MLPClassifier",
    "MLPRegressor",
    "MissingPeerError",
    "NDFClassifier",
    "NDFRegressor",
    "UMartRanker",
    "available",
    "describe",
    "grid",
    "make",
    "model_size",
    "names",
]
