"""The method: which features each learner reads, the map, the layer, folding it, counting."""

from nrs.core.ablation import FullyConnectedExpansion
from nrs.core.counting import Counts, count, count_parameters
from nrs.core.fold import FoldedNRS, fold
from nrs.core.layer import NRS
from nrs.core.permutations import draw_index
from nrs.core.subspace_map import FORMULATIONS, dense_weight, subspace_map

__all__ = [
    "FORMULATIONS",
    "NRS",
    "Counts",
    "FoldedNRS",
    "FullyConnectedExpansion",
    "count",
    "count_parameters",
    "dense_weight",
    "draw_index",
    "fold",
    "subspace_map",
]
